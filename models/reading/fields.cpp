#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "models/reading/asked_fields.hpp"
#include "models/reading/document.hpp"

namespace trainyard {
namespace {

const char* kind_text(const Node& node) {
  static constexpr const char* names[] = {"nothing", "one value", "a list", "a map of keys"};
  return names[static_cast<std::size_t>(node.kind)];
}

template <typename Parse>
auto parse_at(const Node& node, const std::string& path, Parse parse) {
  try {
    return parse(std::string_view(node.scalar));
  } catch (const UserError& e) {
    fail(node.place, path + ": " + e.what());
  }
}

template <class Unit>
Unit positive(const Node& node, const std::string& path, Unit (*parse)(std::string_view)) {
  const Unit quantity = parse_at(node, path, parse);
  // Bounds in SI units: nothing real lies beyond them, and products of larger or smaller values overflow or vanish.
  constexpr bool may_be_zero = std::is_same_v<Unit, Seconds>;
  constexpr double most = 1e24, least = may_be_zero ? 1e-15 : 1;
  if (!std::isfinite(quantity.value) || quantity.value > most)
    fail(node.place, fmt::format("{}: \"{}\" is too large", path, node.scalar));
  if (quantity.value < 0 || (quantity.value == 0 && !may_be_zero))
    fail(node.place,
         fmt::format("{}: \"{}\" must be {}", path, node.scalar, may_be_zero ? "0 or more" : "greater than 0"));
  if (quantity.value > 0 && quantity.value < least)
    fail(node.place, fmt::format("{}: \"{}\" is too small", path, node.scalar));
  return quantity;
}

/// Checks a figure {value, source, unverified} and returns its value.
const Node& value_of_figure(const Node& figure, const Node& value, const std::string& path) {
  static const std::vector<std::string> keys{"value", "source", "unverified", "range"};
  for (const auto& [key, node] : figure.fields) {
    if (&node == &value) continue;
    if (std::ranges::find(keys, key) == keys.end())
      fail(node.key_place, fmt::format("{}: unknown key \"{}\" of a figure{}", path, key, hint(key, keys)));
    if (key == "source" && node.kind != Node::Kind::scalar) fail(node.place, path + ": expected a source");
    const auto is_scalar = [](const Node& item) { return item.kind == Node::Kind::scalar; };
    if (key == "range" && (node.items.size() != 2 || !std::ranges::all_of(node.items, is_scalar)))
      fail(node.place, path + ": range: expected two figures, that of the slowest hardware first");
    if (key == "unverified" && node.scalar != "true" && node.scalar != "false")
      fail(node.place, path + ": unverified: expected true or false");
  }
  return value;
}

std::string choose(const Node& node, const std::string& path, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (same_name(name, node.scalar)) return name;
  fail(node.place, fmt::format("{}: unknown value \"{}\"{}", path, node.scalar, hint(node.scalar, names)));
}

constexpr const char* kNumber = "a number";
constexpr const char* kInteger = "a whole number";

double bounded_number(const Node& node, const std::string& path, double least, double most) {
  const double v = parse_at(node, path, parse_number);
  if (v >= least && v <= most) return v;
  const std::string range = std::isinf(most)    ? fmt::format("{} or more", exact(least))
                            : std::isinf(least) ? fmt::format("{} or less", exact(most))
                                                : fmt::format("from {} to {}", exact(least), exact(most));
  fail(node.place, fmt::format("{}: {} is out of range; expected {} {}", path, node.scalar, kNumber, range));
}

/// Reports a key to the innermost `AskedFields`, if there is one.
void report(const std::string& what, Key key, const char* type, bool required, const Node* node) {
  if (AskedFields* asked = AskedFields::innermost())
    asked->add(
        {what, std::string(key.name), key.words, key.condition, type, required, {}, {}, node ? node->scalar : ""});
}

void report_default(const std::string& text) {
  if (AskedFields* asked = AskedFields::innermost()) asked->add_default(text);
}
void report_default(double value, const char* unit) {
  if (AskedFields* asked = AskedFields::innermost()) asked->add_default(fmt::format("{}{}", exact(value), unit));
}
void report_choices(const std::vector<std::string>& names) {
  if (AskedFields* asked = AskedFields::innermost()) asked->add_choices(names);
}

bool is_missing(const Node& map, std::string_view path) {
  const std::size_t dot = std::min(path.find('.'), path.size());
  const Node* child = map.find(path.substr(0, dot));
  if (!child || child->kind == Node::Kind::null) return true;
  if (dot == path.size() || child->kind != Node::Kind::map)
    return false;  // a value that is no map is reported by its reader
  return is_missing(*child, path.substr(dot + 1));
}

/// Returns the place of the first value in a tree that an override from the command line has set; null: there is none.
const Place* place_of_override(const Node& node) {
  if (node.place.file && node.place.line == 0) return &node.place;
  for (const auto& [key, value] : node.fields)
    if (const Place* found = place_of_override(value)) return found;
  for (const Node& item : node.items)
    if (const Place* found = place_of_override(item)) return found;
  return nullptr;
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_')); });
}

std::int64_t whole_number(const Node& item, const std::string& what, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  try {
    number = parse_integer(item.scalar);
  } catch (const UserError&) {
    fail(item.place, fmt::format("{}: \"{}\" is no whole number, expected {} to {}", what, item.scalar, least, most));
  }
  if (number < least || number > most)
    fail(item.place, fmt::format("{}: {}, expected {} to {}", what, number, least, most));
  return number;
}

Fields::Fields(const Node& node, std::string what) : node_(&node), what_(std::move(what)), place_(node.place) {
  if (node.kind == Node::Kind::map || node.kind == Node::Kind::null) return;
  const std::string found = node.kind == Node::Kind::scalar ? fmt::format("\"{}\"", node.scalar) : kind_text(node);
  fail(place_, fmt::format("{}expected a map of keys, got {}", what_.empty() ? "" : what_ + ": ", found));
}

const Node* Fields::child(Key key) {
  const Node* node = node_->find(key);
  if (node && node->is_left_empty)
    fail(node->key_place, path(key) + ": no value; leave the key out if its default is meant");
  const bool first = !knows(key);
  if (first) read_keys_.emplace_back(key.name);
  if (first || *key.words) report(what_, key, "", false, node);
  return node;
}

const std::vector<Node>* Fields::list(Key key) {
  if (!has(key)) return nullptr;
  const Node& node = *child(key);
  if (node.kind != Node::Kind::list || node.items.empty())
    fail(node.place, fmt::format("{}: expected a list, such as [a, b], got {}", path(key),
                                 node.kind == Node::Kind::list ? "an empty one" : kind_text(node)));
  return &node.items;
}

bool Fields::has(Key key) {
  const Node* node = child(key);
  return node && node->kind != Node::Kind::null;
}

const Node& Fields::required_child(Key key) {
  if (const Node* node = child(key)) return *node;
  // A similar key is more likely a misspelling of this one than another key.
  std::vector<std::string> unread;
  for (const auto& [name, node] : node_->fields)
    if (!knows(name)) unread.push_back(name);
  const auto near = nearest(key, unread);
  if (near)
    fail(node_->find(*near)->key_place, fmt::format("unknown key \"{}\"{}; did you mean \"{}\"?", *near,
                                                    what_.empty() ? "" : " in " + what_, key.name));
  fail(place_, fmt::format("{}missing key \"{}\"", what_.empty() ? "" : what_ + ": ", key.name));
}

void Fields::require_all(const std::vector<std::string>& paths) const {
  std::vector<std::string> missing, heads, others;
  for (const std::string& path : paths) {
    heads.push_back(path.substr(0, path.find('.')));
    if (is_missing(*node_, path)) missing.push_back(path);
  }
  if (missing.size() < 2) return;
  for (const auto& [key, node] : node_->fields)
    if (std::ranges::find(heads, key) == heads.end()) others.push_back(key);
  for (const std::string& path : missing)  // a similar key is more likely a misspelling
    if (nearest(path, others)) return;
  fail(place_, fmt::format("{}missing keys \"{}\"", what_.empty() ? "" : what_ + ": ", fmt::join(missing, "\", \"")));
}

const Node* Fields::scalar(Key key, const char* expected, bool required) {
  const bool was_tested = knows(key);  // a reader that tests first whether the key is present does not require it
  const Node* node = required ? &required_child(key) : child(key);
  const Node* value = node && node->kind == Node::Kind::map ? node->find("value") : nullptr;
  if (node && !value) value = overridden_scalar(*node);
  report(what_, key, expected, required && !was_tested, value ? value : node);
  if (!node || (node->kind == Node::Kind::null && !required)) return nullptr;
  if (value) node = &value_of_figure(*node, *value, path(key));
  if (node->kind != Node::Kind::scalar)
    fail(node->place, fmt::format("{}: expected {}, got {}", path(key), expected, kind_text(*node)));
  return node;
}

std::vector<std::string> Fields::texts(Key key) {
  std::vector<std::string> all;
  if (const std::vector<Node>* items = list(key))
    for (const Node& item : *items) all.push_back(item.scalar);
  return all;
}

std::string Fields::text(Key key, std::optional<std::string> fallback) {
  const Node* node = scalar(key, "text", !fallback);
  if (fallback) report_default(*fallback);
  return node ? node->scalar : *fallback;
}

std::string Fields::formula(Key key, std::optional<std::string> fallback) {
  const Node* node = scalar(key, "a number or a formula", !fallback);
  if (fallback) report_default(*fallback);
  return node ? node->scalar : *fallback;
}

std::string Fields::choice(Key key, const std::vector<std::string>& names, std::optional<std::string> fallback) {
  const Node* node = scalar(key, "a name", !fallback);
  report_choices(names);
  if (fallback) report_default(*fallback);
  return node ? choose(*node, path(key), names) : *fallback;
}

std::vector<std::size_t> Fields::choices(Key key, const std::vector<std::string>& names) {
  std::vector<std::size_t> all;
  report(what_, key, "a list of names", false, nullptr);
  report_choices(names);
  const std::vector<Node>* items = list(key);
  if (items)
    for (const Node& item : *items) all.push_back(place_among(choose(item, path(key), names), names));
  return all;
}

bool Fields::boolean(Key key, bool fallback) {
  const Node* node = scalar(key, "true or false", false);
  report_default(fallback ? "true" : "false");
  if (!node) return fallback;
  if (node->scalar == "true" || node->scalar == "True") return true;
  if (node->scalar == "false" || node->scalar == "False") return false;
  fail(node->place, fmt::format("{}: expected true or false, got \"{}\"", path(key), node->scalar));
}

std::int64_t Fields::whole_number(Key key, std::int64_t least, std::int64_t most,
                                  std::optional<std::int64_t> fallback) {
  const Node* node = scalar(key, kInteger, !fallback);
  if (fallback && *fallback >= least && *fallback <= most) report_default(static_cast<double>(*fallback), "");
  if (!node) return *fallback;
  const std::int64_t v = parse_at(*node, path(key), parse_integer);
  if (v < least) fail(node->place, fmt::format("{}: {} is too small; the least is {}", path(key), v, least));
  if (v > most) fail(node->place, fmt::format("{}: {} is too many; the most is {}", path(key), v, most));
  return v;
}

double Fields::number(Key key, double least, double most, std::optional<double> fallback) {
  const Node* node = scalar(key, kNumber, !fallback);
  if (fallback && *fallback >= least && *fallback <= most) report_default(*fallback, "");
  return node ? bounded_number(*node, path(key), least, most) : *fallback;
}

template <class Unit>
Unit Fields::quantity(Key key, std::optional<Unit> fallback, const char* expected, const char* unit,
                      Unit (*parse)(std::string_view)) {
  const Node* node = scalar(key, expected, !fallback);
  const bool may_be_zero = std::is_same_v<Unit, Seconds>;  // for other units, 0 means that none is stated
  if (fallback && (fallback->value > 0 || (may_be_zero && fallback->value == 0))) report_default(fallback->value, unit);
  return node ? positive(*node, path(key), parse) : *fallback;
}

Seconds Fields::seconds(Key key, std::optional<Seconds> fallback) {
  return quantity(key, fallback, "a time such as 1.5 us", " s", parse_seconds);
}
Bytes Fields::bytes(Key key, std::optional<Bytes> fallback) {
  return quantity(key, fallback, "a size such as 80 GiB", " B", parse_bytes);
}
BytesPerSecond Fields::bandwidth(Key key, std::optional<BytesPerSecond> fallback) {
  return quantity(key, fallback, "a rate such as 400 Gbit/s or 25 GB/s", " B/s", parse_bandwidth);
}
FlopsPerSecond Fields::flops_rate(Key key, std::optional<FlopsPerSecond> fallback) {
  return quantity(key, fallback, "a rate such as 312 TFLOP/s", " FLOP/s", parse_flops_rate);
}
Hertz Fields::frequency(Key key, std::optional<Hertz> fallback) {
  return quantity(key, fallback, "a frequency such as 1410 MHz", " Hz", parse_frequency);
}
Watts Fields::power(Key key, std::optional<Watts> fallback) {
  return quantity(key, fallback, "a power such as 400 W", " W", parse_power);
}

bool Fields::knows(std::string_view key) const { return std::ranges::find(read_keys_, key) != read_keys_.end(); }

void Fields::finish() const {
  for (const auto& [key, node] : node_->fields)
    if (!knows(key))
      fail(node.key_place,
           fmt::format("unknown key \"{}\"{}{}", key, what_.empty() ? "" : " in " + what_, hint(key, read_keys_)));
}

std::string Fields::path(std::string_view key) const {
  if (what_.empty()) return std::string(key);
  const bool titled = what_.find(' ') != std::string::npos && what_.find(": ") == std::string::npos;
  return fmt::format("{}{}{}", what_, titled ? ": " : ".", key);
}

void Fields::refuse(std::string_view key, const std::string& why) const {
  fail(place_of(key), fmt::format("{}: {}", path(key), why));
}

void Fields::require_condition(Key key, bool fits, std::string_view condition) {
  if (has(key) && !fits) refuse(key.name, fmt::format("{} only", condition));
}

const Place& Fields::place_of(std::string_view key) const {
  const Node* node = node_->find(key);
  if (!node) return place_;
  const Place* changed = place_of_override(*node);
  return changed ? *changed : node->place;
}

}  // namespace trainyard
