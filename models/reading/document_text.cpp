#include "models/reading/document_text.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <limits>
#include <tuple>

#include "models/reading/not_modelled.hpp"

namespace trainyard {
namespace {

/// Would the scalar be read as something else without quotes?
bool needs_quotes(const Node& node) {
  const std::string& s = node.scalar;
  if (node.quoted || s.empty() || s == "~" || s == "null" || s.front() == ' ' || s.back() == ' ') return true;
  if (std::string("!&*-?|>@`%'\"#{}[],:").find(s.front()) != std::string::npos &&
      !(s.front() == '-' && s.size() > 1 && std::isdigit(static_cast<unsigned char>(s[1])) != 0))
    return true;
  return s.find_first_of("{}[],\n\"\\") != std::string::npos || s.find(": ") != std::string::npos ||
         s.find(" #") != std::string::npos || s.back() == ':';
}

std::string scalar_text(const Node& node) {
  if (!needs_quotes(node)) return node.scalar;
  std::string text = "\"";
  for (const char c : node.scalar) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text + "\"";
}

void flatten(const Node& node, const std::string& path, std::map<std::string, std::string>& fields) {
  if (node.kind != Node::Kind::map) {
    std::string text = yaml_text(node);
    text.pop_back();  // the end of the line
    fields[path] = text;
    return;
  }
  for (const auto& [key, value] : node.fields) flatten(value, path.empty() ? key : path + "." + key, fields);
}

/// Makes a text of JSON a scalar of YAML, which stays quoted only if it must.
void unquote(Node& node) {
  node.quoted = false;
  node.quoted = node.kind == Node::Kind::scalar && needs_quotes(node);
  for (Node& item : node.items) unquote(item);
  for (auto& [key, field] : node.fields) unquote(field);
}

/// Returns the path of the key or the item that begins on a line; "": none does.
std::string path_on_line(const Node& node, int line) {
  const auto inner = [line](const std::string& key, const Node& value) {
    if (value.key_place.line == line || value.place.line == line) return key;
    const std::string path = path_on_line(value, line);
    return path.empty() ? path : key + "." + path;
  };
  std::string path;
  for (std::size_t i = 0; i < node.items.size() && path.empty(); ++i) path = inner(fmt::format("{}", i), node.items[i]);
  for (auto field = node.fields.begin(); field != node.fields.end() && path.empty(); ++field)
    path = inner(field->first, field->second);
  return path;
}

/// Replaces '_' by '-' and upper case by lower case, for comparisons of names.
char plain(char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Damerau–Levenshtein distance (optimal string alignment): insert, delete, replace, swap of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> d((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i) d[i * width] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = plain(a[i - 1]) == plain(b[j - 1]) ? 0 : 1;
      std::size_t& distance = d[i * width + j];
      distance = std::min({d[(i - 1) * width + j] + 1, d[i * width + j - 1] + 1, d[(i - 1) * width + j - 1] + change});
      if (i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) && plain(a[i - 2]) == plain(b[j - 1]))
        distance = std::min(distance, d[(i - 2) * width + j - 2] + 1);
    }
  return d.back();
}

/// Is `word` a proper beginning of the name, if case and '_' for '-' do not matter?
bool begins_name(std::string_view word, std::string_view name) {
  return name.size() > word.size() &&
         std::equal(word.begin(), word.end(), name.begin(), [](char a, char b) { return plain(a) == plain(b); });
}

/// Words of a name in small letters, cut at what is neither letter nor digit. A count before a word ("8xh100") is left
/// out.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      words.emplace_back();
  for (std::string& word : words) {
    const std::size_t count = word.find_first_not_of("0123456789");
    if (count != std::string::npos && count > 0 && word.size() > count + 1 && word[count] == 'x')
      word.erase(0, count + 1);
  }
  std::erase(words, "");
  return words;
}

/// The family of chips that a word names: letters and two or more digits, such as "gb300" or "mi300" in "mi300x". The
/// result is empty if it names none.
std::string family_of(const std::string& word) {
  const std::size_t digits = word.find_first_of("0123456789");
  if (digits == 0 || digits == std::string::npos) return "";
  const std::size_t end = std::min(word.find_first_not_of("0123456789", digits), word.size());
  return end < digits + 2 ? "" : word.substr(0, end);
}

/// Likeness of two names by their words.
struct SharedWords {
  int families = 0, words = 0;  ///< numbers of families and of words that both have
  SharedWords(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    for (const std::string& word : a) {
      const std::string family = family_of(word);
      const auto same = [&family](const std::string& other) { return family_of(other) == family; };
      if (!family.empty() && std::ranges::any_of(b, same)) ++families;
      if (std::ranges::find(b, word) != b.end()) ++words;
    }
  }
};

/// Returns the item of a list whose index is written in `word`, or null if there is none.
Node* find_item(Node& list, std::string_view word) {
  std::size_t i = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), i);
  const bool is_index = error == std::errc{} && end == word.data() + word.size();
  return is_index && i < list.items.size() ? &list.items[i] : nullptr;
}

[[noreturn]] void fail_without_item(const Place& place, std::string_view key, const Node& list) {
  fail(place, fmt::format("\"{}\" is no item of a list of {} (counted from 0)", key, list.items.size()));
}

/// Returns the field `key` of `node`, which is added if it is absent. A scalar becomes a map with that scalar as
/// `base`.
Node& step_into(Node& node, std::string_view key, const Place& place) {
  if (node.kind == Node::Kind::list) {
    if (Node* item = find_item(node, key)) return *item;
    fail_without_item(place, key, node);
  }
  if (node.kind == Node::Kind::scalar) {
    Node base = std::move(node);
    node = Node{};
    node.place = base.place;
    node.key_place = base.key_place;
    node.fields.emplace_back("base", std::move(base));
  }
  node.kind = Node::Kind::map;
  if (Node* field = node.find(key)) return *field;
  Node fresh;
  fresh.place = fresh.key_place = place;
  return node.fields.emplace_back(std::string(key), std::move(fresh)).second;
}

bool same_place(const Place& a, const Place& b) {
  return a.line == b.line && a.column == b.column && (a.file == b.file || (a.file && b.file && *a.file == *b.file));
}

/// Lays `over`, a map such as `{3: …}`, on a list: the keys are indices of items. No value: it is no such map, or
/// `list` is no list. Throws UserError for an index that the list does not have.
std::optional<Node> merged_items(const Node& list, const Node& over) {
  if (list.kind != Node::Kind::list || over.fields.empty()) return std::nullopt;
  Node result = list;
  for (const auto& [key, value] : over.fields) {
    Node* item = find_item(result, key);
    const bool is_index = std::ranges::all_of(key, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!item && is_index) fail_without_item(value.key_place, key, list);
    if (!item) return std::nullopt;
    *item = merge_nodes(*item, value);
  }
  return result;
}

}  // namespace

std::string flow_text(const Node& node) {
  std::string text;
  const auto join = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  switch (node.kind) {
    case Node::Kind::null:
      return "~";
    case Node::Kind::scalar:
      return scalar_text(node);
    case Node::Kind::list:
      for (const Node& item : node.items) join(flow_text(item));
      return "[" + text + "]";
    case Node::Kind::map:
      for (const auto& [key, value] : node.fields) join(scalar_text(Node::scalar_node(key)) + ": " + flow_text(value));
      return "{" + text + "}";
  }
  throw InternalError("an unknown kind of node");
}

Node parse_json_document(const std::string& json, const std::string& name) {
  Node document = parse_document(json, name);
  unquote(document);
  return document;
}

std::string places_as_keys(const std::string& text, const Node& document, const std::string& name) {
  const std::string mark = name + ":", title = name.substr(0, name.rfind('.'));
  const auto is_digit = [&text](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string changed;
  std::size_t from = 0;
  for (std::size_t begin = text.find(mark); begin != std::string::npos; begin = text.find(mark, from)) {
    std::size_t end = begin + mark.size();
    int line = 0;
    for (; is_digit(end); ++end) line = std::min(line, 1 << 24) * 10 + (text[end] - '0');
    changed += text.substr(from, begin - from);
    if (line == 0) {
      changed += mark;
    } else {
      if (text[end] == ':' && is_digit(end + 1))
        for (++end; is_digit(end);) ++end;
      const std::string path = path_on_line(document, line);
      changed += path.empty() ? title : title + ": " + path;
      // "scenario: plan.x: plan.x: …" would repeat the key.
      if (!path.empty() && text.compare(end, path.size() + 4, ": " + path + ": ") == 0) end += path.size() + 2;
    }
    from = end;
  }
  return changed + text.substr(from);
}

std::string yaml_text(const Node& node) {
  if (node.kind != Node::Kind::map) return flow_text(node) + "\n";
  std::string text;
  for (const auto& [key, value] : node.fields) {
    text += scalar_text(Node::scalar_node(key)) + ":";
    if (value.kind != Node::Kind::map || value.fields.empty()) {
      text += " " + flow_text(value) + "\n";
      continue;
    }
    text += "\n";
    for (const auto& [inner, part] : value.fields)
      text += "  " + scalar_text(Node::scalar_node(inner)) + ": " + flow_text(part) + "\n";
  }
  return text;
}

std::string yaml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

std::map<std::string, std::string> flat_fields(const Node& document) {
  std::map<std::string, std::string> fields;
  flatten(document, "", fields);
  return fields;
}

const Node* overridden_scalar(const Node& map) {
  const Node* base = map.kind == Node::Kind::map ? map.find("base") : nullptr;
  // A `base` in a file has a key place of its own; the `base` made by an override still has that of the map.
  return base && base->kind == Node::Kind::scalar && same_place(base->key_place, map.key_place) ? base : nullptr;
}

Node long_form(const Node* node, const char* key, const Place& place) {
  if (!node) return Node::empty_map(place);
  const Node* scalar = node->kind == Node::Kind::scalar ? node : overridden_scalar(*node);
  if (!scalar) return *node;
  Node map = Node::empty_map(node->place);
  map.key_place = node->key_place;
  if (key && !node->find(key)) map.fields.emplace_back(key, *scalar);
  for (const auto& field : node->fields)
    if (field.first != "base") map.fields.push_back(field);
  return map;
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& names) {
  if (word.empty() || word.size() > 64) return std::nullopt;
  const std::size_t allowed = word.size() <= 2 ? 0 : word.size() <= 4 ? 1 : word.size() <= 8 ? 2 : 3;
  const std::vector<std::string> words = words_of(word);
  const bool has_family = std::ranges::any_of(words, [](const std::string& w) { return !family_of(w).empty(); });
  const std::string* best = nullptr;
  std::tuple<int, int, std::size_t, int, std::size_t> best_score{0, 0, allowed + 1, std::numeric_limits<int>::min(), 0};
  for (const std::string& name : names) {
    if (name.size() > 64) continue;
    const std::size_t distance = edit_distance(word, name);
    std::size_t edits = distance;
    if (word.size() >= 3 && begins_name(word, name)) edits = std::min(edits, allowed);
    // Only the last character is wrong, whatever follows it in the name: "dgx-h9" is nearer to "dgx-h100" than to "dgx-1p".
    if (word.size() >= 5 && name.starts_with(word.substr(0, word.size() - 1))) edits = std::min<std::size_t>(edits, 1);
    // The family of a chip is what its name is about: "dgx-gb300" is nearer to "gb300-nvl72" than to "dgx-b300".
    // The one with more of the words is meant if names are equally near: "llama-3-405b" is "llama-3.1-405b".
    SharedWords shared(words, words_of(name));
    if (!has_family) shared.families = 0;
    const std::tuple score{-shared.families, shared.families > 0 ? -shared.words : 0, edits, -shared.words, distance};
    if (score >= best_score) continue;
    best = &name;
    best_score = score;
  }
  return best ? std::optional(*best) : std::nullopt;
}

std::size_t place_among(std::string_view word, const std::vector<std::string>& names) {
  return static_cast<std::size_t>(std::ranges::find(names, word) - names.begin());
}

std::size_t place_of_word(std::string_view kind, std::string_view word, const std::vector<std::string>& names) {
  const std::size_t place = place_among(word, names);
  if (place == names.size()) throw UserError(fmt::format("unknown {} \"{}\"{}", kind, word, hint(word, names)));
  return place;
}

std::string hint(std::string_view word, const std::vector<std::string>& names) {
  if (const auto modelled = nearest_modelled(word, names))
    return fmt::format("; not modelled yet; nearest: \"{}\" (trainyard help limits)", *modelled);
  constexpr std::size_t shown = 12;
  const auto near = nearest(word, names);
  std::vector<std::string> longer;
  std::ranges::copy_if(names, std::back_inserter(longer), [word](const auto& name) { return begins_name(word, name); });
  if (word.size() >= 3 && longer.size() > 1 && near && edit_distance(word, *near) > 1)
    return fmt::format("; {} names begin so: {}{}", longer.size(),
                       fmt::join(longer.begin(), longer.begin() + std::min(longer.size(), shown), ", "),
                       longer.size() > shown ? ", …" : "");
  if (near) return fmt::format("; did you mean \"{}\"?", *near);
  return names.empty() ? std::string{} : fmt::format("; known: {}", fmt::join(names, ", "));
}

void set_field(Node& root, std::string_view path, std::string_view value) {
  set_field(root, path, parse_override(value, fmt::format("--set {}", path)));
}

void set_field(Node& root, std::string_view path, Node fresh) {
  const Place place = fresh.place;
  Node* node = &root;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t to = std::min(path.find('.', from), path.size());
    const std::string_view key = path.substr(from, to - from);
    if (key.empty()) fail(place, "an empty name in the path");
    node = &step_into(*node, key, place);
    from = to + 1;
  }
  fresh.key_place = place;
  *node = std::move(fresh);
}

Node merge_nodes(const Node& base, const Node& over) {
  const bool figure = over.find("value") != nullptr;  // {value, source} is replaced as a whole
  if (over.kind != Node::Kind::map || figure) return over;
  if (base.kind == Node::Kind::scalar && !over.find("base")) {  // changes to a catalog entry
    Node result = over;
    result.fields.insert(result.fields.begin(), {"base", base});
    return result;
  }
  const Node* figure_list = base.find("value");  // the items of a list with its source
  if (auto items = merged_items(figure_list ? *figure_list : base, over)) return *std::move(items);
  if (base.kind != Node::Kind::map || base.find("value")) return over;
  Node result = base;
  result.place = over.place;
  result.key_place = over.key_place;
  for (const auto& [key, value] : over.fields) {
    if (Node* old = result.find(key))
      *old = merge_nodes(*old, value);
    else
      result.fields.emplace_back(key, value);
  }
  return result;
}

}  // namespace trainyard
