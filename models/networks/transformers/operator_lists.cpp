// Reads networks that are written as layers of operators.
#include "models/networks/transformers/operator_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/reading/formula.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostListed = 100000;  // operators with repetition; a typing error must not fill the memory

/// The keys of an operator besides `name`, `rows` and `every_rank`, which all have.
struct OperatorKeys {
  const char* word;
  std::vector<std::string> required, optional, flags;
  bool splits = false;
};

const std::vector<OperatorKeys>& operator_keys() {
  static const std::vector<OperatorKeys> all{
      {"linear", {"in", "out"}, {"readers"}, {"bias", "first", "shares_input", "after_attention"}, true},
      {"layer_norm", {"width"}, {"heads"}, {}, true},
      {"rms_norm", {"width"}, {"heads"}, {}, true},
      {"plain_norm", {"width"}, {}, {}},
      {"scale", {"width"}, {}, {"shift"}},
      {"activation", {"width"}, {}, {"gated"}, true},
      {"attention", {"heads", "width"}, {"key_value_heads", "keys", "attended"}, {"causal"}},
      {"rotary", {"width"}, {}, {}, true},
      {"residual", {"width"}, {}, {}},
      {"embedding", {"entries", "width"}, {}, {}},
      {"tables", {"entries", "width"}, {"tables", "lookups", "element"}, {}},
      {"interaction", {"vectors", "width"}, {"others"}, {}},
      {"learned", {"elements", "width"}, {}, {}},
      {"move", {"in", "out"}, {}, {}, true},
      {"cross_entropy", {"classes"}, {}, {}},
      {"mean_squared_error", {"width"}, {}, {}}};
  return all;
}

const OperatorKeys& keys_of(const std::string& word, const Place& place) {
  std::vector<std::string> words;
  for (const OperatorKeys& keys : operator_keys()) {
    if (same_name(keys.word, word)) return keys;
    words.emplace_back(keys.word);
  }
  fail(place, fmt::format("model.layers: unknown operator \"{}\"{}", word, hint(word, words)));
}

/// Reads `linear: {in: hidden, out: 64}`.
ListedOperator read_operator(const Node& item) {
  if (item.kind != Node::Kind::map || item.fields.size() != 1)
    fail(item.place, "model.layers: expected an operator, such as linear: {in: hidden, out: 64}");
  const auto& [word, node] = item.fields.front();
  const OperatorKeys& keys = keys_of(word, node.key_place);
  ListedOperator op;
  op.word = keys.word;
  op.place = node.place;
  Fields fields(node, "model.layers: " + op.word);
  op.name = fields.text("name", op.word);
  for (const std::string& key : keys.required) op.sizes[key] = fields.text(key);
  for (const std::string& key : keys.optional)
    if (fields.has(key)) op.sizes[key] = fields.text(key);
  if (fields.has("rows")) op.sizes["rows"] = fields.text("rows");
  for (const std::string& flag : keys.flags)
    if (fields.boolean(flag, false)) op.flags.insert(flag);
  if (fields.boolean("every_rank", false)) op.flags.insert("every_rank");
  if (keys.splits && fields.has("split"))
    op.split = fields.choice("split", op.word == "linear" ? std::vector<std::string>{"columns", "rows"}
                                                          : std::vector<std::string>{"columns"});
  if (const bool is_residual = op.word == "residual"; is_residual || (op.word == "tables" && fields.has("operators"))) {
    const Node& branch = fields.required_child("operators");
    if (branch.kind != Node::Kind::list)
      fail(branch.place, fmt::format("model.layers: {}: expected a list of operators", op.word));
    for (const Node& inner : branch.items) op.operators.push_back(read_operator(inner));
  }
  fields.finish();
  return op;
}

std::size_t count_of(const std::vector<ListedOperator>& operators) {
  std::size_t count = operators.size();
  for (const ListedOperator& op : operators) count += count_of(op.operators);
  return count;
}

/// Computes all sizes of the operators, to refuse those that are no formulas.
void check_sizes(const std::vector<ListedOperator>& operators, const SizeValues& sizes) {
  for (const ListedOperator& op : operators) {
    for (const auto& [key, formula] : op.sizes)
      size_value(formula, sizes, op.place, fmt::format("model.layers: {}: {}", op.word, key));
    check_sizes(op.operators, sizes);
  }
}

ListedLayer read_listed_layer(const Node& item, const SizeValues& sizes) {
  Fields fields(item, "model.layers");
  ListedLayer layer;
  layer.place = item.place;
  layer.name = fields.text("layer");
  if (fields.has("repeat")) {
    constexpr double most = 10000;
    const double repeat = size_value(fields.text("repeat"), sizes, fields.place_of("repeat"), "model.layers: repeat");
    if (repeat != std::floor(repeat) || repeat > most)
      fields.refuse("repeat", fmt::format("{:.10g}; expected a whole number from 1 to {:.0f}", repeat, most));
    layer.repeat = static_cast<std::int64_t>(repeat);
  }
  layer.width = fields.text("width", "");
  layer.rows = fields.text("rows", "tokens");
  const Node& operators = fields.required_child("operators");
  if (operators.kind != Node::Kind::list || operators.items.empty())
    fail(operators.place, "model.layers: expected a list of operators");
  for (const Node& inner : operators.items) layer.operators.push_back(read_operator(inner));
  fields.finish();
  return layer;
}

}  // namespace

double size_value(const std::string& formula, const SizeValues& sizes, const Place& place, const std::string& what) {
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
  if (!std::isfinite(value) || value <= 0)
    fail(place, fmt::format("{}: \"{}\" is {:.10g}{}; expected a size above 0", what, formula, value,
                            sizes.count("tokens") > 0 ? fmt::format(" with {:.10g} tokens", sizes.at("tokens")) : ""));
  return value;
}

SizeValues OperatorLists::values(double tokens) const {
  SizeValues all{{"tokens", tokens}, {"sample", 1}};
  for (const auto& [name, formula] : sizes) all[name] = size_value(formula, all, place, "model.sizes." + name);
  return all;
}

OperatorLists read_operator_lists(Fields& fields, double tokens) {
  OperatorLists lists;
  lists.place = fields.place();
  if (const Node* sizes = fields.child("sizes")) {
    if (sizes->kind != Node::Kind::map) fail(sizes->place, "model.sizes: expected a map, such as {hidden: 64}");
    for (const auto& [name, node] : sizes->fields) {
      if (name == "tokens" || name == "sample")
        fail(node.key_place, fmt::format("model.sizes: {} has a meaning of its own; choose another name", name));
      if (node.kind != Node::Kind::scalar) fail(node.place, fmt::format("model.sizes.{}: expected a formula", name));
      lists.sizes.emplace_back(name, node.scalar);
    }
  }
  const SizeValues sizes = lists.values(tokens);
  const Node& layers = fields.required_child("layers");
  if (layers.kind != Node::Kind::list || layers.items.empty())
    fail(layers.place,
         "model.layers: expected a list, such as [{layer: head, operators: [cross_entropy: {classes: 2}]}]");
  std::size_t operators = 0;
  for (const Node& item : layers.items) {
    ListedLayer layer = read_listed_layer(item, sizes);
    check_sizes(layer.operators, sizes);
    for (const auto& [key, formula] : {std::pair{"width", layer.width}, {"rows", layer.rows}})
      if (!formula.empty()) size_value(formula, sizes, layer.place, fmt::format("model.layers: {}", key));
    operators += count_of(layer.operators) * static_cast<std::size_t>(std::max<std::int64_t>(1, layer.repeat));
    lists.layers.push_back(std::move(layer));
  }
  if (operators > kMostListed)
    fail(layers.place, fmt::format("model.layers: {} operators; at most {}", operators, kMostListed));
  return lists;
}

}  // namespace trainyard
