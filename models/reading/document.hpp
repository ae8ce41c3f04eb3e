#pragma once
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The place in which a value was written. Overrides from the command line have the file "--set PATH" and line 0.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0, column = 0;
  std::string text() const;  ///< "file:line:column", or "--set PATH"
  /// Returns the place of a value that is in no file. `origin` is its name in errors: "--gpu".
  static Place named(std::string origin);
};

/// A YAML (or JSON) document as a plain tree that remembers places. Readers refuse duplicate keys, anchors, tags,
/// several documents, tabs that indent, bytes that are not UTF-8, nesting past 100 levels and syntax errors.
class Node {
 public:
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string scalar;  ///< the text of a scalar, unquoted
  bool quoted = false;
  bool is_left_empty = false;                        ///< a null that is not written: nothing follows the key
  std::vector<Node> items;                           ///< items of a list
  std::vector<std::pair<std::string, Node>> fields;  ///< fields of a map, in the order of the file
  Place place;
  Place key_place;  ///< place of the key that holds this node

  static Node scalar_node(std::string scalar, Place = {});
  static Node empty_map(Place = {});
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
};

/// Both throw UserError ("file:line:column: …") for the faults that are named at `Node`. `read_document` also throws it
/// for a file that is missing or unreadable. `name` is the name of the document in errors.
Node read_document(const std::filesystem::path&);
Node parse_document(std::string_view text, std::string name);
/// Reads the value of an override. Every place in it is `origin`, without a line.
Node parse_override(std::string_view text, std::string origin);

/// Implements `--set path=value`: replaces or adds the field at the dotted path (`cluster.hca.rate`). An index in the
/// path selects an item of a list. The value is read as YAML. A scalar along the path is taken as the name of a catalog
/// entry and becomes `{base: NAME, …}`.
void set_field(Node& root, std::string_view path, std::string_view value);
/// Sets the field at a path to a value that has been read already. The field gets the place of the value.
void set_field(Node& root, std::string_view path, Node value);

/// Returns `base` with `over` laid on it: maps are merged field by field, everything else is replaced. A figure
/// {value, source} is replaced as a whole. A map laid on the name of a catalog entry becomes {base: NAME, …}, the entry
/// with those changes.
Node merge_nodes(const Node& base, const Node& over);

/// Returns the text with small letters for the capitals of ASCII.
std::string lower_case(std::string);
/// Are the names equal if '-' and '_' count as the same?
bool same_name(std::string_view a, std::string_view b);
/// Returns the index of `word` in `names`, or `names.size()` if it is none of them.
std::size_t place_among(std::string_view word, const std::vector<std::string>& names);
/// Returns the index of a word in `names`. Throws UserError "unknown KIND "word"; did you mean …" if it is none of
/// them.
std::size_t place_of_word(std::string_view kind, std::string_view word, const std::vector<std::string>& names);
/// Returns the name that `word` probably means: one that names the same family of chips ("gb300") if there is any, else
/// the one with the least edit distance. No value: none is near enough to be meant.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& names);
/// Returns the file in the same folder whose name is nearest to that of a missing file. No value: none is near enough.
std::optional<std::filesystem::path> nearest_beside(const std::filesystem::path&);
/// Returns the path of a file that a value names: beside the file that holds the value, else in the working directory.
/// Throws UserError at the place of the value ("WHAT NAME: no such file; …") if it is in neither.
std::filesystem::path file_named(const std::string& name, const Place&, const std::string& what);

/// Returns the end of an error message: "; did you mean \"x\"?" or "; known: a, b, c".
std::string hint(std::string_view word, const std::vector<std::string>& names);

/// Returns the row whose `name` this is. Throws UserError "place: WHAT "name"; did you mean …" if there is none.
template <class Rows>
const auto& row_named(const Rows& rows, std::string_view name, const Place&, std::string_view what);

/// Reads an item of a list as a whole number from `least` to `most`. Throws UserError "place: what: 8, expected 0 to
/// 7".
std::int64_t whole_number(const Node& item, const std::string& what, std::int64_t least, std::int64_t most);

/// Throws UserError "place: what".
[[noreturn]] void fail(const Place&, const std::string& what);

template <class Rows>
const auto& row_named(const Rows& rows, std::string_view name, const Place& where, std::string_view what) {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if (same_name(row.name, name)) return row;
    names.emplace_back(row.name);
  }
  fail(where, std::string(what) + " \"" + std::string(name) + "\"" + hint(name, names));
}

/// A key of a map. Its description and the only condition under which it is required ("with mechanism local-sgd") are
/// printed by `trainyard help scenario`. If a key has several readers, one of them states these texts.
struct Key {
  Key(const char* key) : name(key) {}
  Key(const std::string& key) : name(key) {}
  Key(std::string_view key, const char* meaning = "", const char* required_when = "")
      : name(key), words(meaning), condition(required_when) {}
  operator std::string_view() const { return name; }
  std::string_view name;
  const char* words = "";
  const char* condition = "";
};

/// Reads the fields of one map, each by name and type, and refuses keys that nobody read. Every error names the place,
/// the expected value and the nearest known key. A figure may be plain (`2 TB/s`) or `{value: 2 TB/s, source: KEY}`
/// with an optional `unverified: true`; the readers below take both. A key whose value is null counts as absent (as in
/// JSON), but `child` returns it. A key after which nothing is written is refused.
class Fields {
 public:
  /// `node` must be a map (or null, read as empty). `what` is its name in errors ("cluster", "gpu a100-sxm4-80gb").
  Fields(const Node& node, std::string what);

  bool has(Key key);           ///< marks the key as read
  const Node* child(Key key);  ///< null if absent
  /// Returns the value of a key; null if the key is absent or its value is null.
  const Node* child_unless_null(Key key) { return has(key) ? child(key) : nullptr; }
  const Node& required_child(Key key);
  /// Calls `read` with the fields of the map below `key`, and refuses keys of it that nobody read. Does nothing if the
  /// key is absent or null.
  template <class Read>
  void read_map(Key key, const Read& read) {
    if (const Node* node = child_unless_null(key)) read_below(key, *node, read);
  }
  /// Reads the map below `key` as `read_map` does. Throws UserError if the key is absent.
  template <class Read>
  void read_required_map(Key key, const Read& read) {
    read_below(key, required_child(key), read);
  }
  /// Throws one error with the names of all missing keys if two or more are missing. If only one is missing, the reader
  /// of that key reports it. `paths`: keys, or keys of maps below ("gpu.count").
  void require_all(const std::vector<std::string>& paths) const;
  /// Returns the items of a list, or null if absent. Throws if the value is no list or an empty one.
  const std::vector<Node>* list(Key key);
  std::vector<std::string> texts(Key key);  ///< the scalars of such a list; empty if absent
  /// Returns for each item of such a list its index in `names`. The result is empty if the key is absent.
  std::vector<std::size_t> choices(Key key, const std::vector<std::string>& names);

  // Each of these keys is required if it has no fallback.
  std::string text(Key key, std::optional<std::string> fallback = {});
  std::string formula(Key key, std::optional<std::string> fallback = {});  ///< see `evaluate`
  /// Reads one of `names`.
  std::string choice(Key key, const std::vector<std::string>& names, std::optional<std::string> fallback = {});
  /// Reads a value of an enumeration. `names` are the names of its values, in their order.
  template <class Enum>
  Enum one_of(Key key, const std::vector<std::string>& names) {
    return static_cast<Enum>(place_among(choice(key, names), names));
  }
  template <class Enum>
  Enum one_of(Key key, const std::vector<std::string>& names, Enum fallback) {
    return static_cast<Enum>(place_among(choice(key, names, names.at(static_cast<std::size_t>(fallback))), names));
  }
  bool boolean(Key key, bool fallback);
  /// Reads a whole number that is at least `least` and fits in `Whole`.
  template <std::integral Whole = std::int64_t>
  Whole integer(Key key, std::int64_t least, std::optional<std::int64_t> fallback = {}) {
    return static_cast<Whole>(whole_number(key, least, most_of<Whole>(), fallback));
  }
  template <std::integral Whole = std::int64_t>
  Whole integer_within(Key key, std::int64_t least, Whole most, std::optional<std::int64_t> fallback = {}) {
    return static_cast<Whole>(whole_number(key, least, most, fallback));
  }
  double number(Key key, double least, double most, std::optional<double> fallback = {});
  /// Quantities must be finite and > 0 (times may be 0).
  Seconds seconds(Key key, std::optional<Seconds> fallback = {});
  Bytes bytes(Key key, std::optional<Bytes> fallback = {});
  BytesPerSecond bandwidth(Key key, std::optional<BytesPerSecond> fallback = {});
  FlopsPerSecond flops_rate(Key key, std::optional<FlopsPerSecond> fallback = {});
  Hertz frequency(Key key, std::optional<Hertz> fallback = {});
  Watts power(Key key, std::optional<Watts> fallback = {});

  // Each of these keys has the present value as its default.
  void read(Key key, bool& value) { value = boolean(key, value); }
  void read(Key key, std::string& value) { value = text(key, value); }
  void read(Key key, Bytes& value) { value = bytes(key, value); }
  void read(Key key, double& value, double least, double most) { value = number(key, least, most, value); }
  template <std::integral Whole>
  void read(Key key, Whole& value, std::int64_t least, std::type_identity_t<Whole> most) {
    value = integer_within<Whole>(key, least, most, value);
  }

  bool knows(std::string_view key) const;  ///< has the key been looked up?
  /// Throws for the first key that nobody read. Call it last.
  void finish() const;

  const Place& place() const { return place_; }
  const std::string& what() const { return what_; }
  std::string path(std::string_view key) const;       ///< name of the key in errors: "cluster.nodes", "gpu t4: pcie"
  const Place& place_of(std::string_view key) const;  ///< place of the value of `key`; of the map if absent
  /// Throws UserError at the place of `key`: "cluster.nodes: why".
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;
  /// Refuses a key that is present although it does not fit the choice of another key:
  /// "plan.data_parallel.staleness: with consistency stale only".
  void require_condition(Key key, bool fits, std::string_view condition);

 private:
  const Node* node_;
  std::string what_;
  Place place_;
  std::vector<std::string> read_keys_;  ///< every key that was looked up
  template <class Read>
  void read_below(Key key, const Node& node, const Read& read) {
    Fields fields(node, path(key));
    read(fields);
    fields.finish();
  }
  const Node* scalar(Key key, const char* expected, bool required);
  std::int64_t whole_number(Key key, std::int64_t least, std::int64_t most, std::optional<std::int64_t> fallback);
  template <class Unit>
  Unit quantity(Key key, std::optional<Unit> fallback, const char* expected, const char* unit,
                Unit (*parse)(std::string_view));
  template <std::integral Whole>
  static constexpr std::int64_t most_of() {
    constexpr auto most = std::numeric_limits<Whole>::max();
    return std::in_range<std::int64_t>(most) ? static_cast<std::int64_t>(most)
                                             : std::numeric_limits<std::int64_t>::max();
  }
};

/// Returns the scalar that an override replaced by `map`, or null if none did. After `a: 8`, the override
/// `--set a.b=c` makes `a` a map and keeps the scalar as its `base`, because most such scalars are names of the
/// catalog.
const Node* overridden_scalar(const Node& map);

/// Returns the value of a key as a map if its short form `a: 8` stands for `a: {key: 8}`, also after an override
/// replaced the short form by a map. If `key` is null, the short form has no equivalent map, and an override below it
/// replaces it. A null node becomes an empty map at `place`.
Node long_form(const Node*, const char* key, const Place& place);

}  // namespace trainyard
