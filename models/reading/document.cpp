#include "models/reading/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "sim/process/output.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kDeepest = 100;                    // most levels of nesting; a scenario needs about eight
constexpr std::size_t kLargest = std::size_t{64} << 20;  // most bytes of a file

/// Builds the tree from yaml-cpp's events, because yaml-cpp's own tree accepts duplicate keys and forgets key places.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string_view text, std::shared_ptr<const std::string> file, bool has_lines)
      : text_(text), file_(std::move(file)), has_lines_(has_lines) {}

  bool done() const { return root_.has_value(); }
  Node take() { return std::move(*root_); }

  Place place(const YAML::Mark& mark) const {
    if (!has_lines_) return {file_, 0, 0};
    return mark.is_null() ? Place{file_, 1, 1} : Place{file_, mark.line + 1, mark.column + 1};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (done()) fail(place(mark), "text after the end of the document (one document a file)");
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    Node node = make(Node::Kind::null, mark);
    node.is_left_empty = !writes_null(mark);
    add(std::move(node));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    check_tag(mark, tag);
    if (tag == "!") check_closed(mark);
    Node node = make(Node::Kind::scalar, mark);
    node.scalar = value;
    node.quoted = tag == "!";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::list, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::map, mark, tag, anchor);
  }
  /// Throws UserError with yaml-cpp's message. For a bracket without an end it names the place of the bracket instead
  /// (yaml-cpp names the place at which it gave up).
  [[noreturn]] void refuse(const YAML::Exception& e) const {
    for (auto level = levels_.rbegin(); e.msg.find(" flow not found") != std::string::npos && level != levels_.rend();
         ++level) {
      const auto start = static_cast<std::size_t>(level->begin.pos);
      if (start >= text_.size() || (text_[start] != '{' && text_[start] != '[')) continue;
      fail(
          place(level->begin),
          fmt::format("a \"{}\" that is never closed; \"{}\" expected{}", text_[start], text_[start] == '{' ? '}' : ']',
                      has_lines_ ? fmt::format(", or \",\" before line {}", e.mark.line + 1) : ""));
    }
    if (has_lines_ && (e.msg == "illegal map value" || e.msg.starts_with("end of map not found")))
      refuse_line(static_cast<int>(e.mark.line));
    fail(place(e.mark), e.msg == "illegal EOF in scalar" ? "a quote that is never closed" : e.msg);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Node node;
    std::optional<std::string> key;  // a key whose value is still to come
    Place key_place;
    std::unordered_map<std::string, Place> seen;
    YAML::Mark begin;
  };

  /// Is a null written at that place? yaml-cpp also reports one if nothing follows a key; the place is then that of the
  /// next token.
  bool writes_null(const YAML::Mark& mark) const {
    const auto start = static_cast<std::size_t>(mark.pos);
    if (mark.is_null() || start >= text_.size()) return false;
    const std::string_view word = text_.substr(start, text_.find_first_of(" \t\r\n,]}:#", start) - start);
    return word == "~" || word == "null" || word == "Null" || word == "NULL";
  }

  /// The line, counted from 0, without a comment and without spaces at its end.
  std::string_view line(int number) const {
    std::size_t begin = 0;
    for (int i = 0; i < number && begin != std::string_view::npos; ++i) {
      begin = text_.find('\n', begin);
      if (begin != std::string_view::npos) ++begin;
    }
    if (begin == std::string_view::npos) return {};
    std::string_view found = text_.substr(begin, text_.find('\n', begin) - begin);
    if (const std::size_t comment = found.find(" #"); comment != std::string_view::npos || found.starts_with('#'))
      found = found.substr(0, comment == std::string_view::npos ? 0 : comment);
    return found.substr(0, found.find_last_not_of(" \t\r") + 1);
  }

  /// Refuses a slip that yaml-cpp reports at the line after it: a key without its colon, a colon without a space, or a
  /// line that is indented below a value. Returns if the lines have another fault.
  void refuse_line(int number) const {
    int before = number - 1;
    while (before >= 0 && line(before).empty()) --before;
    if (before < 0) return;
    const std::string_view above = line(before), fault = line(number);
    const std::size_t indent = above.find_first_not_of(' ');
    const std::string_view words = above.substr(indent);
    const auto place_in = [this](int row, std::size_t column) {
      return Place{file_, row + 1, static_cast<int>(column) + 1};
    };
    const bool plain = words.find_first_of("\"'{}[],") == std::string_view::npos && !words.starts_with("- ");
    if (const std::size_t colon = words.find(':'); plain && colon == std::string_view::npos)
      fail(place_in(before, above.size()), fmt::format("\":\" expected after \"{}\"", words));
    else if (plain && words.find(": ") == std::string_view::npos && colon + 1 < words.size())
      fail(place_in(before, indent + colon + 1), "a space is missing after \":\"");
    else if (!fault.empty() && words.find(": ") != std::string_view::npos && fault.find_first_not_of(' ') > indent)
      fail(place_in(number, fault.find_first_not_of(' ')),
           fmt::format("indented deeper than line {}, which has a value already", before + 1));
  }

  Node make(Node::Kind kind, const YAML::Mark& mark) const {
    Node node;
    node.kind = kind;
    node.place = node.key_place = place(mark);
    return node;
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    check_tag(mark, tag);
    if (levels_.size() >= kDeepest) fail(place(mark), fmt::format("nested deeper than {} levels", kDeepest));
    if (!levels_.empty() && levels_.back().node.kind == Node::Kind::map && !levels_.back().key)
      refuse_key(place(mark), mark);
    levels_.push_back({make(kind, mark), std::nullopt, {}, {}, mark});
  }

  void close() {
    Node node = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == Node::Kind::list) {
      level.node.items.push_back(std::move(node));
    } else if (!level.key) {
      take_key(level, node);
    } else {
      node.key_place = level.key_place;
      level.node.fields.emplace_back(std::move(*level.key), std::move(node));
      level.key.reset();
    }
  }

  /// Returns true if the bracket at `start` has its end. Brackets in quotes do not count.
  bool is_closed(std::size_t start) const {
    int depth = 0;
    char quote = 0;
    for (std::size_t i = start; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == '\\' && quote == '"')
          ++i;
        else if (c == quote)
          quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        return true;
      }
    }
    return false;
  }

  /// Refuses a key that is no text. yaml-cpp also takes a bracket without an end for a key, as in a file that is cut off.
  [[noreturn]] void refuse_key(const Place& where, const YAML::Mark& mark) const {
    const auto start = static_cast<std::size_t>(mark.pos);
    if (start < text_.size() && (text_[start] == '{' || text_[start] == '[') && !is_closed(start))
      fail(where, fmt::format("a \"{}\" that is never closed; \"{}\" expected", text_[start],
                              text_[start] == '{' ? '}' : ']'));
    fail(where, "a key must be plain text");
  }

  static void take_key(Level& level, const Node& key) {
    if (key.kind != Node::Kind::scalar) fail(key.place, "a key must be plain text");
    const auto [first, fresh] = level.seen.emplace(key.scalar, key.place);
    if (!fresh)
      fail(key.place, fmt::format("duplicate key \"{}\"; first given at {}", key.scalar, first->second.text()));
    level.key = key.scalar;
    level.key_place = key.place;
  }

  // Nested aliases can make a small file a huge tree. Scenarios have `base` for the uses of aliases.
  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    fail(place(mark), "anchors and aliases (& and *) are not read; write the value out, or use a catalog entry");
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") fail(place(mark), fmt::format("tags (\"{}\") are not read", tag));
  }

  // yaml-cpp 0.7 accepts the end of the file as a closing quote.
  void check_closed(const YAML::Mark& mark) const {
    const auto start = static_cast<std::size_t>(mark.pos);
    if (start >= text_.size() || (text_[start] != '"' && text_[start] != '\'')) return;  // a block scalar
    const char quote = text_[start];
    for (std::size_t i = start + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\')
        ++i;
      else if (text_[i] == quote && quote == '\'' && i + 1 < text_.size() && text_[i + 1] == quote)
        ++i;
      else if (text_[i] == quote)
        return;
    }
    fail(place(mark), "a quote that is never closed");
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  bool has_lines_;
  std::vector<Level> levels_;
  std::optional<Node> root_;
};

/// Returns the length of the UTF-8 sequence at the front of `text`, or 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0)) return 0;  // overlong, surrogates
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90)) return 0;  // overlong, past U+10FFFF
  return length;
}

/// Refuses input that yaml-cpp would misread: bytes that are no text, and tabs that indent (it joins such a line to the
/// value before it).
void check_text(std::string_view text, const std::shared_ptr<const std::string>& file, bool has_lines) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
  Place place{file, 1, 1};
  const auto refuse = [&](const char* what) { fail(has_lines ? place : Place{file, 0, 0}, what); };
  bool indent = true;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) refuse("not UTF-8 text");
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
      refuse("a control character; not a text file?");
    if (c == '\t' && indent && !json) refuse("a tab in the indentation; use spaces");
    indent = c == '\n' || (indent && c == ' ');
    place.column = c == '\n' ? 1 : place.column + static_cast<int>(length);  // in bytes, as yaml-cpp counts
    if (c == '\n') ++place.line;
    i += length;
  }
}

Node parse(std::string_view text, std::shared_ptr<const std::string> file, bool has_lines) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // byte order mark
  check_text(text, file, has_lines);
  Builder builder(text, file, has_lines);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& e) {
    builder.refuse(e);
  }
  if (!builder.done()) fail(builder.place(YAML::Mark::null_mark()), "empty, nothing to read");
  return builder.take();
}

[[noreturn]] void refuse_missing_file(const std::filesystem::path& path) {
  const auto near = nearest_beside(path);
  throw UserError(fmt::format("{}: no such file{}", path.empty() ? "\"\"" : path.string(),
                              near ? fmt::format("; did you mean \"{}\"?", near->string()) : ""));
}

}  // namespace

std::string Place::text() const {
  if (!file) return {};
  return line == 0 ? *file : fmt::format("{}:{}:{}", *file, line, column);
}

void fail(const Place& place, const std::string& what) {
  const std::string where = place.text();
  // The place of an override is its path: "--set plan.x: plan.x: …" and "--set plan.x: plan.x.y: …" would repeat it.
  constexpr std::string_view set = "--set ";
  const std::string path = where.starts_with(set) ? where.substr(set.size()) : "";
  const bool repeats = !path.empty() && (what.starts_with(path + ": ") || what.starts_with(path + "."));
  throw UserError(where.empty() ? what : (repeats ? std::string(set) : where + ": ") + what);
}

Place Place::named(std::string origin) { return {std::make_shared<const std::string>(std::move(origin))}; }

Node Node::scalar_node(std::string scalar, Place place) {
  Node node;
  node.kind = Kind::scalar;
  node.scalar = std::move(scalar);
  node.place = node.key_place = std::move(place);
  return node;
}

Node Node::empty_map(Place place) {
  Node node;
  node.kind = Kind::map;
  node.place = node.key_place = std::move(place);
  return node;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, node] : fields)
    if (name == key) return &node;
  return nullptr;
}
Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Node parse_document(std::string_view text, std::string name) {
  return parse(text, std::make_shared<const std::string>(std::move(name)), true);
}

Node parse_override(std::string_view text, std::string origin) {
  return parse(text, std::make_shared<const std::string>(std::move(origin)), false);
}

std::optional<std::filesystem::path> nearest_beside(const std::filesystem::path& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    names.push_back(it->path().filename().string());
  std::ranges::sort(names);
  const auto near = nearest(path.filename().string(), names);
  if (!near) return std::nullopt;
  return path.has_parent_path() ? folder / *near : std::filesystem::path(*near);
}

std::filesystem::path file_named(const std::string& name, const Place& where, const std::string& what) {
  const std::filesystem::path file(name);
  std::vector<std::filesystem::path> candidates{file};
  if (file.is_relative() && where.file && where.line > 0)
    candidates.insert(candidates.begin(), std::filesystem::path(*where.file).parent_path() / file);
  std::error_code ignored;  // a name that no file system takes is not there
  for (const std::filesystem::path& candidate : candidates)
    if (std::filesystem::is_regular_file(candidate, ignored)) return candidate;
  const std::optional<std::filesystem::path> near = nearest_beside(candidates.front());
  fail(where, fmt::format("{} {}: no such file{}", what, name,
                          near ? fmt::format("; did you mean {}?", near->string()) : std::string()));
}

Node read_document(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse_missing_file(path);
  if (std::filesystem::is_directory(status)) throw UserError(path.string() + ": is a folder, not a file");
  check_input(path);
  std::ifstream in(path, std::ios::binary);
  if (!in && (errno == EMFILE || errno == ENFILE))
    throw MachineLimit(fmt::format("{}: cannot be read: {} (see ulimit -n)", path.string(), std::strerror(errno)));
  if (!in) throw UserError(unreadable(path));
  std::string text;
  char block[65536];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kLargest) throw UserError(path.string() + ": larger than 64 MiB");
  }
  if (in.bad()) throw UserError(unreadable(path));
  return parse_document(text, path.string());
}

}  // namespace trainyard
