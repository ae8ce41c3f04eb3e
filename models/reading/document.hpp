#pragma once
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Where a value was written. Overrides from the command line have the file "--set PATH" and line 0.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0, column = 0;
  std::string text() const;  ///< "file:line:column", or "--set PATH"
  /// Of what stands in no file, as errors are to name it: "--gpu".
  static Place of(std::string origin);
};

/// A YAML (or JSON) document as a plain tree that remembers places. Duplicate keys, anchors, tags, several documents,
/// tabs that indent, bytes that are not UTF-8, nesting past 100 levels and syntax errors are refused when it is read.
class Node {
 public:
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string scalar;  ///< the text of a scalar, unquoted
  bool quoted = false;
  std::vector<Node> items;                           ///< of a list
  std::vector<std::pair<std::string, Node>> fields;  ///< of a map, in the order of the file
  Place place;
  Place key_place;  ///< of the key that holds this node

  static Node of_text(std::string scalar, Place = {});
  static Node empty_map(Place = {});
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
};

/// Throws UserError ("file:line:column: …") for a missing or unreadable file and for every fault named above.
Node read_document(const std::filesystem::path&);
/// From then on in this process, `read_document` of that path reads this text: of a scenario that lies in no file.
void stand_in_for(const std::filesystem::path&, std::string text);
Node parse_document(std::string_view text, std::string name);
/// The value of an override: every place in it is `origin`, without a line.
Node parse_override(std::string_view text, std::shared_ptr<const std::string> origin);

/// `--set path=value`: replaces or adds the field at the dotted path (`cluster.hca.rate`); a list item by its index.
/// The value is itself read as YAML. A scalar on the way is a catalog name: it becomes `{base: NAME, …}`.
void set_field(Node& root, std::string_view path, std::string_view value);
/// The same with a value that was read elsewhere; its place stands for the field's.
void set_field(Node& root, std::string_view path, Node value);

/// `over` laid on `base`: maps field by field, anything else replaced. A figure {value, source} is replaced whole; a
/// map on a catalog name becomes {base: NAME, …}, the entry with those changes.
Node merged(const Node& base, const Node& over);

/// Names are equal where they differ by '-' and '_' alone.
bool same_name(std::string_view a, std::string_view b);
/// The nearest of `names` to `word` by edit distance, if it is near enough to be meant.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& names);
/// The file whose name is nearest to that of a file that is not there, in the same folder.
std::optional<std::filesystem::path> nearest_beside(const std::filesystem::path&);

/// Texts that are read in place of files (see `stand_in_for`).
std::map<std::filesystem::path, std::string>& stand_ins();
/// "; did you mean \"x\"?" or "; known: a, b, c".
std::string hint(std::string_view word, const std::vector<std::string>& names);

/// Throws UserError "place: what".
[[noreturn]] void fail(const Place&, const std::string& what);

/// A key of a map, with what it means in a few words, and the condition under which alone it is required ("with mechanism
/// local-sgd"), both for `trainyard help scenario`. Of several readers of a key one says them.
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

template <class Quantity>
struct QuantityWords;

/// Reads the fields of one map, each by name and type, and refuses what nobody read. Every error names the place, what
/// was expected, and the nearest known key. A figure may be plain (`2 TB/s`) or `{value: 2 TB/s, source: KEY}` with an
/// optional `unverified: true`; the readers below take both. A key whose value is null counts as absent (as in JSON),
/// but `child` returns it.
class Fields {
 public:
  /// `node` must be a map (or null, read as empty); `what` is how errors call it ("cluster", "gpu a100-sxm4-80gb").
  Fields(const Node& node, std::string what);

  bool has(Key key);           ///< counts as read
  const Node* child(Key key);  ///< null where absent
  const Node& required_child(Key key);
  /// Throws one error that names all that are missing, where these are two or more; a single one is for its reader to
  /// say. `paths`: keys, or keys of maps below ("gpu.count").
  void require_all(const std::vector<std::string>& paths) const;
  /// Null where absent. Throws for what is no list, or an empty one.
  const std::vector<Node>* list(Key key);
  std::vector<std::string> texts(Key key);  ///< the scalars of such a list; none where absent
  /// Of such a list, the place of each item among `names`; none where absent.
  std::vector<std::size_t> choices(Key key, const std::vector<std::string>& names);

  std::string text(Key key);
  std::string text(Key key, std::string fallback);
  std::string choice(Key key, const std::vector<std::string>& names);  ///< required, one of `names`
  std::string choice(Key key, const std::vector<std::string>& names, std::string fallback);
  bool boolean(Key key, bool fallback);
  /// A whole number from `least` to `most`, required or with a fallback. One that `Whole` does not hold is refused.
  template <std::integral Whole = std::int64_t>
  Whole integer(Key key, std::int64_t least) {
    return static_cast<Whole>(whole_number(key, least, most_of<Whole>(), nullptr));
  }
  template <std::integral Whole = std::int64_t>
  Whole integer(Key key, std::int64_t least, std::int64_t fallback) {
    return static_cast<Whole>(whole_number(key, least, most_of<Whole>(), &fallback));
  }
  template <std::integral Whole = std::int64_t>
  Whole integer_within(Key key, std::int64_t least, Whole most) {
    return static_cast<Whole>(whole_number(key, least, most, nullptr));
  }
  template <std::integral Whole = std::int64_t>
  Whole integer_within(Key key, std::int64_t least, Whole most, std::int64_t fallback) {
    return static_cast<Whole>(whole_number(key, least, most, &fallback));
  }
  double number(Key key, double least, double most);
  double number(Key key, double least, double most, double fallback);
  /// Quantities must be finite and > 0 (times may be 0).
  Seconds seconds(Key key);
  Seconds seconds(Key key, Seconds fallback);
  Bytes bytes(Key key);
  Bytes bytes(Key key, Bytes fallback);
  BytesPerSecond bandwidth(Key key);
  BytesPerSecond bandwidth(Key key, BytesPerSecond fallback);
  FlopsPerSecond flops_rate(Key key);
  FlopsPerSecond flops_rate(Key key, FlopsPerSecond fallback);
  Hertz frequency(Key key, Hertz fallback);
  Watts power(Key key, Watts fallback);

  bool knows(std::string_view key) const;  ///< has been asked for
  /// Throws for the first key that nobody read. Call it last.
  void finish() const;

  const Place& place() const { return place_; }
  const std::string& what() const { return what_; }
  const Place& place_of(std::string_view key) const;  ///< of the value of `key`, or of the map

 private:
  const Node* node_;
  std::string what_;
  Place place_;
  std::vector<std::string> known_;  ///< every key that was asked for
  const Node* scalar(Key key, const char* expected, bool required);
  template <class Quantity>
  Quantity quantity(Key key, const QuantityWords<Quantity>&, const Quantity* fallback = nullptr);
  std::int64_t whole_number(Key key, std::int64_t least, std::int64_t most, const std::int64_t* fallback);
  template <std::integral Whole>
  static constexpr std::int64_t most_of() {
    constexpr auto most = std::numeric_limits<Whole>::max();
    return std::in_range<std::int64_t>(most) ? static_cast<std::int64_t>(most)
                                             : std::numeric_limits<std::int64_t>::max();
  }
};

}  // namespace trainyard
