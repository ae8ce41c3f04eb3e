// Reads networks that are written as layers of operators.
#include "models/networks/transformers/operator_lists.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "models/networks/transformers/operator_keys.hpp"
#include "models/reading/formula.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr std::string_view kBlock = "block";  // number of a block of a group, from 0, in conditions and flags
constexpr std::size_t kMostListed = 100000;   // operators with repetition; a typing error must not fill the memory

const Key kBranch{"operators",
                  "The operators of a branch, or those that run while tables exchange vectors, for example "
                  "[rms_norm: {width: hidden}]."};

/// Is a formula of sizes other than 0? Throws UserError if it is no formula.
bool is_true(const std::string& formula, const SizeValues& sizes, const Place& place, const std::string& what) {
  return formula.empty() || any_value(formula, sizes, place, what) != 0;
}

/// Reads a flag: true, false, or a formula of sizes that is 0 or not.
bool read_flag(Fields& fields, const Key& key, const SizeValues& sizes) {
  const Node* value = fields.child(key);
  const bool is_formula = value && value->kind == Node::Kind::scalar && !value->scalar.empty() &&
                          (std::isalpha(static_cast<unsigned char>(value->scalar.front())) != 0) &&
                          lower_case(value->scalar) != "true" && lower_case(value->scalar) != "false";
  return is_formula ? is_true(fields.formula(key), sizes, value->place, fields.path(key.name))
                    : fields.boolean(key, false);
}

std::vector<ListedOperator> read_all(const std::vector<Node>& items, const SizeValues& sizes);

/// Reads `linear: {in: hidden, out: 64}`. No value: its `when` is 0.
std::optional<ListedOperator> read_operator(const Node& item, const SizeValues& values) {
  if (item.kind != Node::Kind::map || item.fields.size() != 1)
    fail(item.place, "model.layers: expected an operator, such as linear: {in: hidden, out: 64}");
  const OperatorKeys& keys = operator_keys(item.fields.front().first, item.fields.front().second.key_place);
  const Node& node = *Fields(item, "model.layers.operators").child({item.fields.front().first, keys.meaning});
  ListedOperator op;
  op.word = keys.name;
  op.place = node.place;
  Fields fields(node, "model.layers: " + op.word);
  op.name = fields.text(kOperatorName, op.word);
  for (const Key& key : keys.sizes) op.sizes[std::string(key.name)] = fields.formula(key);
  const auto read_further = [&](const Key& key) {
    if (std::string formula = fields.formula(key, ""); !formula.empty()) op.sizes[std::string(key.name)] = formula;
  };
  const auto add_flag = [&](const Key& key) {
    if (read_flag(fields, key, values)) op.flags.emplace(key.name);
  };
  for (const Key& key : keys.further) read_further(key);
  for (const Key& key : keys.flags) add_flag(key);
  read_further(kOperatorRows);
  add_flag(kOperatorEveryRank);
  for (const OperatorWord& word : keys.words)
    if (const std::string chosen =
            word.is_required ? fields.choice(word.key, word.words) : fields.choice(word.key, word.words, "");
        !chosen.empty())
      op.words[std::string(word.key.name)] = chosen;
  for (const Key& name : keys.names)
    if (const std::string text = fields.text(name, ""); !text.empty()) op.words[std::string(name.name)] = text;
  if (op.words.contains("split")) op.split = op.words.at("split");
  if (const bool has_branch = op.word == "residual" || op.word == "hyper_connection";
      has_branch || (op.word == "tables" && fields.has(kBranch))) {
    const Node& branch = fields.required_child(kBranch);
    if (branch.kind != Node::Kind::list)
      fail(branch.place, fmt::format("model.layers: {}: expected a list of operators", op.word));
    op.operators = read_all(branch.items, values);
  }
  const std::string condition = fields.formula(kOperatorWhen, "");
  fields.finish();
  if (!is_true(condition, values, op.place, fields.path(kOperatorWhen.name))) return std::nullopt;
  return op;
}

std::vector<ListedOperator> read_all(const std::vector<Node>& items, const SizeValues& sizes) {
  std::vector<ListedOperator> all;
  for (const Node& item : items)
    if (std::optional<ListedOperator> op = read_operator(item, sizes)) all.push_back(std::move(*op));
  return all;
}

const Key kLayerWhen{"when",
                     "Formula of sizes: if it is 0, the layer or group is left out, for example 1. Default: 1."};

/// True if a formula contains this name as a whole word.
bool has_name(std::string_view formula, std::string_view name) {
  const auto is_letter = [&formula](std::size_t i) {
    return i < formula.size() && (std::isalnum(static_cast<unsigned char>(formula[i])) != 0 || formula[i] == '_');
  };
  for (std::size_t i = formula.find(name); i != std::string_view::npos; i = formula.find(name, i + 1))
    if ((i == 0 || !is_letter(i - 1)) && !is_letter(i + name.size())) return true;
  return false;
}

bool has_name_below(const Node& node, std::string_view name) {
  return (node.kind == Node::Kind::scalar && has_name(node.scalar, name)) ||
         std::ranges::any_of(node.items, [name](const Node& item) { return has_name_below(item, name); }) ||
         std::ranges::any_of(node.fields, [name](const auto& field) { return has_name_below(field.second, name); });
}

std::size_t count_of(const std::vector<ListedOperator>& operators) {
  std::size_t count = operators.size();
  for (const ListedOperator& op : operators) count += count_of(op.operators);
  return count;
}

/// Keys of operators whose values are means, rates or parts of a sequence. All others count elements, heads or entries.
bool may_be_a_fraction(std::string_view key) {
  static constexpr std::string_view keys[] = {"rows",  "keys",  "attended",       "lookups",        "element",
                                              "moved", "flops", "backward_moved", "backward_flops", "kept"};
  return std::ranges::find(keys, key) != std::end(keys);
}

/// Computes all sizes of the operators, to refuse those that are no formulas, and fractions of an element. A formula that
/// names a size alone is reported where the network states that size.
void check_sizes(const std::vector<ListedOperator>& operators, const OperatorLists& lists, const SizeValues& sizes) {
  for (const ListedOperator& op : operators) {
    for (const auto& [key, formula] : op.sizes) {
      const std::string what = fmt::format("model.layers: {}: {}", op.word, key);
      const double value = size_value(formula, sizes, op.place, what);
      if (value == std::floor(value) || may_be_a_fraction(key)) continue;
      const auto named = std::ranges::find(lists.sizes, formula, &NamedSize::name);
      if (named != lists.sizes.end())
        fail(named->place,
             fmt::format("model.sizes.{}: \"{}\" is {:.10g}, and {} of {} counts elements; expected a whole number",
                         formula, named->formula, value, key, op.name));
      fail(op.place, fmt::format("{}: \"{}\" is {:.10g}; expected a whole number", what, formula, value));
    }
    check_sizes(op.operators, lists, sizes);
  }
}

/// Reads how often a layer or a group of layers follows itself; 0 without the key.
std::int64_t read_repeat(Fields& fields, const SizeValues& sizes) {
  const Key key{"repeat",
                "Number of equal layers in a row, the blocks, or of equal groups of layers, for example 24. Default: a "
                "single layer, which plan.recompute leaves alone."};
  const std::string formula = fields.formula(key, "");
  if (formula.empty()) return 0;
  constexpr double most = 10000;
  const double repeat = size_value(formula, sizes, fields.place_of("repeat"), "model.layers: repeat");
  if (repeat != std::floor(repeat) || repeat > most)
    fields.refuse("repeat", fmt::format("{:.10g}; expected a whole number from 1 to {:.0f}", repeat, most));
  return static_cast<std::int64_t>(repeat);
}

ListedLayer read_listed_layer(const Node& item, const SizeValues& sizes) {
  Fields fields(item, "model.layers");
  ListedLayer layer;
  layer.place = item.place;
  layer.name = fields.text({"layer", "Name of a layer, for example block. The network can be cut between layers."});
  layer.repeat = read_repeat(fields, sizes);
  fields.formula(kLayerWhen, "");
  layer.width = fields.formula(
      {"width", "Elements in a row of a layer's output, for example hidden. Default: the layer ends with the loss."},
      "");
  layer.rows =
      fields.formula({"rows", "Rows of a sample of a layer's output, for example sample. Default: tokens."}, "tokens");
  const Node& operators = fields.required_child({"operators",
                                                 "The operators of a layer in their order, for example [rms_norm: "
                                                 "{width: hidden}]. Each reads what the one before it gives."});
  if (operators.kind != Node::Kind::list || operators.items.empty())
    fail(operators.place, "model.layers: expected a list of operators");
  layer.operators = read_all(operators.items, sizes);
  if (layer.operators.empty()) fail(operators.place, "model.layers: all operators of the layer are left out (when)");
  fields.finish();
  return layer;
}

/// Returns the names in the order of a group's layers: those of the list, or the letters of a word.
std::vector<std::string> read_pattern(const Node& pattern) {
  std::vector<std::string> names;
  if (pattern.kind == Node::Kind::list) {
    for (const Node& item : pattern.items) names.push_back(item.scalar);
  } else if (pattern.kind == Node::Kind::scalar) {
    for (const char letter : pattern.scalar) names.emplace_back(1, letter);
  }
  if (names.empty()) fail(pattern.place, "model.layers: pattern: expected names of layers, such as [mamba, attention]");
  return names;
}

/// Reads a layer, or a group of layers in the order of its pattern, which is repeated.
void read_layers(const Node& item, const SizeValues& sizes, std::vector<ListedLayer>& layers) {
  const Node* condition = item.kind == Node::Kind::map ? item.find("when") : nullptr;
  if (condition && !is_true(condition->scalar, sizes, condition->place, "model.layers: when")) return;
  if (item.kind != Node::Kind::map || item.find("layer") || !item.find("layers"))
    return layers.push_back(read_listed_layer(item, sizes));
  Fields fields(item, "model.layers");
  fields.formula(kLayerWhen, "");
  const Node& inner = fields.required_child(
      {"layers", "Layers of a group, which are blocks, for example [{layer: M, operators: [move: {in: 1, out: 1}]}]."});
  // Conditions and flags of a group's layers may read the number of the block.
  SizeValues numbered = sizes;
  std::int64_t blocks = 0;
  for (const ListedLayer& layer : layers) blocks += layer.repeat;
  numbered[std::string(kBlock)] = static_cast<double>(blocks);
  std::vector<ListedLayer> group;
  std::vector<std::string> names;
  if (inner.kind == Node::Kind::list)
    for (const Node& layer : inner.items) {
      group.push_back(read_listed_layer(layer, numbered));
      group.back().repeat = std::max<std::int64_t>(1, group.back().repeat);
      names.push_back(group.back().name);
    }
  if (group.empty()) fail(inner.place, "model.layers: expected a list of layers");
  const Node* pattern =
      fields.child_unless_null({"pattern",
                                "Order of a group's layers: their names, for example [M, M, A] or MMA if names "
                                "are letters. Default: each layer once, in the order of the group."});
  const std::vector<std::string> order = pattern ? read_pattern(*pattern) : names;
  const std::int64_t repeat = std::max<std::int64_t>(1, read_repeat(fields, sizes));
  if (static_cast<std::size_t>(repeat) * order.size() > kMostListed)
    fields.refuse("repeat",
                  fmt::format("{} layers; at most {}", repeat * static_cast<std::int64_t>(order.size()), kMostListed));
  const bool is_numbered = has_name_below(inner, kBlock);
  for (std::int64_t i = 0; i < repeat; ++i)
    for (const std::string& name : order) {
      const auto layer = std::ranges::find(group, name, &ListedLayer::name);
      if (layer == group.end())
        fail(pattern->place,
             fmt::format("model.layers: pattern: no layer \"{}\" in the group{}", name, hint(name, names)));
      layers.push_back(*layer);
      if (!is_numbered) continue;
      numbered[std::string(kBlock)] = static_cast<double>(blocks);
      const std::int64_t copies = layer->repeat;
      layers.back() = read_listed_layer(inner.items[static_cast<std::size_t>(layer - group.begin())], numbered);
      layers.back().repeat = copies;
      blocks += copies;
    }
  fields.finish();
}

/// Checks that tied operators of the last layer have the sizes of the tensor that they share: of the embedding that begins
/// the network, or of an earlier product of the layer. Pipelines sum the two gradients of a table that the first stage has
/// at its beginning and the last stage at its end. `first`: the first operator of the network. `before`: the operators of
/// the layer before these.
void check_tied(const std::vector<ListedOperator>& operators, const ListedOperator& first, bool is_last_layer,
                const SizeValues& sizes, std::vector<const ListedOperator*> before = {}) {
  for (const ListedOperator& op : operators) {
    check_tied(op.operators, first, is_last_layer, sizes, before);
    before.push_back(&op);
    const auto tied = op.words.find("tied");
    if (tied == op.words.end()) continue;
    if (!is_last_layer)
      fail(op.place, fmt::format("model.layers: {}: tied: only operators of the last layer can be tied", op.name));
    const auto is_shared = [&](const ListedOperator* other) {
      return other != &op && other->word == "linear" && op.word == "linear" && other->name == tied->second;
    };
    const auto product = std::ranges::find_if(before, is_shared);
    if (product == before.end() && (first.word != "embedding" || first.name != tied->second))
      fail(op.place, fmt::format("model.layers: {}: tied: no embedding \"{}\" begins the first layer{}", op.name,
                                 tied->second, first.word == "embedding" ? "; nearest: " + first.name : ""));
    const ListedOperator& other = product == before.end() ? first : **product;
    const auto side = [](const ListedOperator& holder, bool is_inner) {
      return holder.word == "embedding" ? (is_inner ? "width" : "entries") : (is_inner ? "in" : "out");
    };
    for (const bool is_inner : {true, false}) {
      const char *mine = side(op, is_inner), *theirs = side(other, is_inner);
      const auto value = [&](const ListedOperator& of, const char* key) {
        return size_value(of.sizes.find(key)->second, sizes, of.place, std::string("model.layers: ") + key);
      };
      if (const double a = value(op, mine), b = value(other, theirs); a != b)
        fail(op.place, fmt::format("model.layers: {}: {} is {:.10g}, and the {} of the {} to which it is tied "
                                   "is {:.10g}; expected equal sizes",
                                   op.name, mine, a, theirs, other.word == "embedding" ? "embedding" : "product", b));
    }
  }
}

/// Refuses sizes that nothing reads. `readers`: the layers, and the section `hugging_face` or null.
void require_readers(const Node& sizes, std::initializer_list<const Node*> readers) {
  const std::vector<std::string> unread = unread_sizes(sizes, readers);
  if (unread.empty()) return;
  fail(sizes.find(unread.front())->key_place,
       fmt::format("model.sizes.{0}: no layer and no other size reads it; expected a formula with {0}, or no such size",
                   unread.front()));
}

}  // namespace

double any_value(const std::string& formula, const SizeValues& sizes, const Place& place, const std::string& what) {
  double value = 0;
  try {
    value = evaluate(formula, [&sizes](std::string_view name) {
      const auto found = sizes.find(name);
      if (found != sizes.end()) return found->second;
      std::vector<std::string> names;
      for (const auto& known_size : sizes) names.push_back(known_size.first);
      throw UserError(fmt::format("no size \"{}\"{}", name, hint(name, names)));
    });
  } catch (const UserError& e) {
    fail(place, fmt::format("{}: {}", what, e.what()));
  }
  return value;
}

double size_value(const std::string& formula, const SizeValues& sizes, const Place& place, const std::string& what) {
  const double value = any_value(formula, sizes, place, what);
  if (!std::isfinite(value) || value <= 0)
    fail(place, fmt::format("{}: \"{}\" is {:.10g}{}; expected a size above 0", what, formula, value,
                            sizes.count("tokens") > 0 ? fmt::format(" with {:.10g} tokens", sizes.at("tokens")) : ""));
  return value;
}

std::vector<std::string> unread_sizes(const Node& sizes, std::initializer_list<const Node*> readers) {
  // Tensor ranks divide heads, and reports count words of the vocabulary and elements of `hidden` (read_operators).
  static constexpr std::string_view names_of_network[] = {"hidden", "vocabulary", "heads", "key_value_heads"};
  std::vector<std::string> unread;
  for (const auto& [name, node] : sizes.fields) {
    const auto reads = [&name = name](const Node* reader) { return reader && has_name_below(*reader, name); };
    const auto reads_in_other = [&name = name](const auto& other) {
      return other.first != name && has_name(other.second.scalar, name);
    };
    if (std::ranges::find(names_of_network, name) == std::end(names_of_network) &&
        std::ranges::none_of(readers, reads) && std::ranges::none_of(sizes.fields, reads_in_other))
      unread.push_back(name);
  }
  return unread;
}

bool ties_table(const ListedOperator& op, const OperatorLists& lists) {
  const auto tied = op.words.find("tied");
  return op.word == "linear" && tied != op.words.end() && tied->second == lists.layers.front().operators.front().name;
}

SizeValues OperatorLists::values(double tokens) const {
  SizeValues all{{"tokens", tokens}, {"sample", 1}};
  for (const NamedSize& size : sizes)
    all[size.name] = any_value(size.formula, all, size.place, "model.sizes." + size.name);
  return all;
}

OperatorLists read_operator_lists(Fields& fields, double tokens) {
  OperatorLists lists;
  check_hugging_face(fields);
  const Node* stated_sizes = fields.child_unless_null(
      {"sizes",
       "Named sizes of a network of operators, formulas of numbers, of earlier sizes, of tokens and "
       "of sample (1), for example {hidden: 512, heads: hidden / 64}. Default: none."});
  if (stated_sizes) {
    if (stated_sizes->kind != Node::Kind::map)
      fail(stated_sizes->place, "model.sizes: expected a map, such as {hidden: 64}");
    for (const auto& [name, node] : stated_sizes->fields) {
      if (name == "tokens" || name == "sample" || name == kBlock)
        fail(node.key_place, fmt::format("model.sizes: {} has a meaning of its own; choose another name", name));
      if (node.kind != Node::Kind::scalar) fail(node.place, fmt::format("model.sizes.{}: expected a formula", name));
      lists.sizes.push_back({name, node.scalar, node.place});
    }
  }
  const SizeValues sizes = lists.values(tokens);
  const Node& layers =
      fields.required_child({"layers",
                             "Layers of a network of operators (model_type: operators), and groups of layers, for "
                             "example [{layer: head, operators: [cross_entropy: {classes: 2}]}]."});
  if (layers.kind != Node::Kind::list || layers.items.empty())
    fail(layers.place,
         "model.layers: expected a list, such as [{layer: head, operators: [cross_entropy: {classes: 2}]}]");
  for (const Node& item : layers.items) read_layers(item, sizes, lists.layers);
  std::size_t operators = 0;
  for (const ListedLayer& layer : lists.layers) {
    check_sizes(layer.operators, lists, sizes);
    for (const auto& [key, formula] : {std::pair{"width", layer.width}, {"rows", layer.rows}})
      if (!formula.empty()) size_value(formula, sizes, layer.place, fmt::format("model.layers: {}", key));
    operators += count_of(layer.operators) * static_cast<std::size_t>(std::max<std::int64_t>(1, layer.repeat));
    if (operators > kMostListed)
      fail(layers.place, fmt::format("model.layers: {} operators; at most {}", operators, kMostListed));
    check_tied(layer.operators, lists.layers.front().operators.front(), &layer == &lists.layers.back(), sizes);
  }
  check_widths(lists, sizes);
  if (stated_sizes) require_readers(*stated_sizes, {&layers, fields.child("hugging_face")});
  return lists;
}

}  // namespace trainyard
