#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// One column: its head on the screen, its key in JSON.
struct ListColumn {
  const char* head;
  const char* key;
  bool right = false;
};
/// One field of an entry, for people and for programs.
struct ListCell {
  using Value = std::variant<std::nullptr_t, std::string, std::int64_t, double>;
  std::string text;
  Value value;

  ListCell(std::string shown, Value stated) : text(std::move(shown)), value(std::move(stated)) {}
  ListCell(const std::string& word) : text(word), value(word) {}
  ListCell(const char* word) : ListCell(std::string(word)) {}
  ListCell(std::int64_t number) : text(std::to_string(number)), value(number) {}
  ListCell(int number) : ListCell(static_cast<std::int64_t>(number)) {}
  /// "-" where it is not stated (0).
  template <class Quantity>
  requires requires(Quantity q) { show(q); }
  ListCell(Quantity q) : text(q.value > 0 ? show(q) : "-"), value(nullptr) {
    if (q.value > 0) value = q.value;
  }
};
/// A number that is not stated where it is 0: "-".
inline ListCell list_stated(std::int64_t number) { return number > 0 ? ListCell(number) : ListCell("-", nullptr); }

using ListRow = std::vector<ListCell>;
using ListRows = std::function<std::vector<ListRow>(const Catalog&)>;

/// What `trainyard list` shows of one kind.
struct Listing {
  const char* name;  ///< plural
  const char* what;
  std::vector<ListColumn> columns;
  ListRows rows;
};

/// A row for each entry of a kind in the catalog: its name, then what `row` tells of it.
template <class Row>
ListRows catalog_rows(const char* kind, Row row) {
  return [kind, row](const Catalog& catalog) {
    std::vector<ListRow> rows;
    for (const std::string& name : catalog.names(kind)) {
      rows.push_back({name});
      for (ListCell& cell : row(catalog.resolve(kind, Node::of_text(name)), catalog)) rows.back().push_back(cell);
    }
    return rows;
  };
}

/// Hardware of the catalog, what is made of it, and switches.
std::vector<Listing> hardware_listings();

}  // namespace trainyard
