#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// One column of a listing.
struct ListColumn {
  const char* head;    ///< title on the screen
  const char* key;     ///< key in the JSON
  bool right = false;  ///< right-aligned
};
/// One field of an entry, as text for people and as value for programs.
struct ListCell {
  using Value = std::variant<std::nullptr_t, std::string, std::int64_t, double>;
  std::string text;
  Value value;

  ListCell(std::string shown, Value stated) : text(std::move(shown)), value(std::move(stated)) {}
  ListCell(const std::string& word) : text(word), value(word) {}
  ListCell(const char* word) : ListCell(std::string(word)) {}
  ListCell(std::int64_t number) : text(std::to_string(number)), value(number) {}
  ListCell(int number) : ListCell(static_cast<std::int64_t>(number)) {}
  /// A quantity; 0 means that it is not stated, and shows as "-".
  template <class Quantity>
  requires requires(Quantity q) { show(q); }
  ListCell(Quantity q) : text(q.value > 0 ? show(q) : "-"), value(nullptr) {
    if (q.value > 0) value = q.value;
  }
};
/// A number; 0 means that it is not stated, and shows as "-".
inline ListCell list_stated(std::int64_t number) { return number > 0 ? ListCell(number) : ListCell("-", nullptr); }

using ListRow = std::vector<ListCell>;
using ListRows = std::function<std::vector<ListRow>(const Catalog&)>;

/// The list that `trainyard list` shows for one kind of name.
struct Listing {
  const char* name;  ///< name of the kind, in the plural
  const char* what;  ///< the key that takes these names, and the meaning of the figures
  std::vector<ListColumn> columns;
  ListRows rows;
};

/// The listing of a kind in the catalog. Each entry has its name in the first column, and in `columns` the cells that
/// `row` makes of it.
template <class Row>
Listing catalog_listing(const char* name, const char* kind, const char* what, std::vector<ListColumn> columns,
                        Row row) {
  columns.insert(columns.begin(), {"name", "name"});
  return {name, what, std::move(columns), [kind, row](const Catalog& catalog) {
            std::vector<ListRow> rows;
            for (const std::string& entry : catalog.names(kind)) {
              rows.push_back({entry});
              for (ListCell& cell : row(catalog.resolve(kind, Node::scalar_node(entry)), catalog))
                rows.back().push_back(cell);
            }
            return rows;
          }};
}

/// The listings of the catalog's hardware.
std::vector<Listing> hardware_listings();

}  // namespace trainyard
