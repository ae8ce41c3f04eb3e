#pragma once
#include <cmath>
#include <cstdint>
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
  std::string text;
  std::variant<std::nullptr_t, std::string, std::int64_t, double> value;
};
using ListRow = std::vector<ListCell>;

/// What `trainyard list` shows of one kind.
struct Listing {
  const char* name;  ///< plural
  const char* what;
  std::vector<ListColumn> columns;
  std::vector<ListRow> (*rows)(const Catalog&);
};

/// Hardware of the catalog, what is made of it, and switches.
std::vector<Listing> hardware_listings();

ListCell list_word(const std::string& text);
ListCell list_number(std::int64_t v);
/// "-" where it is not stated (0).
template <class Quantity>
ListCell list_quantity(Quantity q) {
  return q.value > 0 ? ListCell{show(q), q.value} : ListCell{"-", nullptr};
}

}  // namespace trainyard
