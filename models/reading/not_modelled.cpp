#include "models/reading/not_modelled.hpp"

#include <algorithm>

#include "models/reading/asked_fields.hpp"
#include "models/reading/document.hpp"
#include "models/reading/shipped_files.hpp"

namespace trainyard {

const std::vector<UnmodelledKey>& not_modelled() {
  static const std::vector<UnmodelledKey> all = [] {
    const AskedFields apart;  // keys of this file are no keys of a scenario, which another collector may ask for
    std::vector<UnmodelledKey> rows;
    for (const Node& item : read_document(shipped_file("models/catalog/not-modelled.yaml")).items) {
      Fields row(item, "not-modelled");
      rows.push_back({row.text("what"), row.text("path"), row.texts("words"), row.texts("nearest")});
    }
    return rows;
  }();
  return all;
}

std::optional<std::string> nearest_modelled(std::string_view word, const std::vector<std::string>& names) {
  const auto legal = [&names](const std::string& name) {
    return std::ranges::any_of(names, [&name](const std::string& n) { return same_name(n, name); });
  };
  for (const UnmodelledKey& row : not_modelled())
    if (std::ranges::any_of(row.words, [&](const auto& w) { return same_name(w, word); }))
      for (const std::string& name : row.nearest)
        if (legal(name)) return name;
  return std::nullopt;
}

}  // namespace trainyard
