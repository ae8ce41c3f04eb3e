// Layers of a network that a document writes as operators (model_type: operators).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "models/networks/layers/sharding.hpp"
#include "models/networks/transformers/family.hpp"
#include "models/networks/transformers/listed_layer.hpp"
#include "models/networks/transformers/operator_lists.hpp"
#include "models/networks/transformers/special_operators.hpp"

namespace trainyard::transformers {
namespace {

template <class Visit>
void visit(const std::vector<ListedOperator>& operators, const Visit& see) {
  for (const ListedOperator& op : operators) {
    see(op);
    visit(op.operators, see);
  }
}

bool has_split(const std::vector<ListedOperator>& operators) {
  return std::ranges::any_of(operators, [](const ListedOperator& op) {
    return !op.split.empty() || splits_itself(op) || has_split(op.operators);
  });
}

bool has_tables(const std::vector<ListedOperator>& operators) {
  return std::ranges::any_of(operators,
                             [](const ListedOperator& op) { return op.word == "tables" || has_tables(op.operators); });
}

void check_operators(const TransformerLayout& l, const OperatorLists& lists) {
  const TransformerConfig& c = l.config;
  const Sharding& s = l.sharding();
  if (s.tensor > 1 &&
      std::ranges::none_of(lists.layers, [](const ListedLayer& layer) { return has_split(layer.operators); }))
    throw ShardingError(
        "tensor", c.name + ": none of its operators states how tensor ranks split it (split: columns); expected 1",
        c.place);
  if (l.options.adapters.has_rank())
    fail(c.place, "plan.lora: " + c.name + " is written as operators, which have no adapters; leave it out");
  if (l.options.unpadded.mean > 0)
    fail(c.place, "plan.unpadded: " + c.name + " is written as operators, which have full sequences; leave it out");
}

std::vector<Layer> operator_layers(const TransformerLayout& l) {
  const OperatorLists& lists = *l.config.lists;
  check_operators(l, lists);
  ListedNetwork network{l, l.options, lists.values(l.seq)};
  network.local.sharding.context = 1;
  network.local.sharding.ulysses = 0;
  network.local.sharding.sequence = false;
  std::vector<Layer> layers;
  std::int64_t blocks = 0;
  for (const ListedLayer& listed : lists.layers)
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, listed.repeat); ++i) {
      std::string name = listed.name;
      if (listed.repeat > 0) {
        const std::string block = fmt::format("block {}", blocks++);
        name = name == "block" ? block : block + " " + name;
      }
      if (i > 1) {  // equal to the one before, whose input is that of an equal layer too
        layers.push_back(layers.back());
        layers.back().name = name;
        continue;
      }
      const Bytes input = layers.empty() ? Bytes{} : layers.back().output;
      layers.push_back(ListedLayerBuilder(network, listed, name).build(input));
    }
  return layers;
}

/// Sets the width of rotated heads, whose table of angles every stage has: that of the attention after the rotation.
void take_rotary(const std::vector<ListedOperator>& operators, const SizeValues& sizes, TransformerConfig& c) {
  bool rotates = false;
  for (const ListedOperator& op : operators) {
    take_rotary(op.operators, sizes, c);
    rotates = rotates || op.word == "rotary";
    if (!rotates || op.word != "attention") continue;
    c.position_embedding = PositionEmbedding::rotary;
    const double width = size_value(op.sizes.find("width")->second, sizes, op.place, "model.layers: attention");
    c.head_dim = std::max<std::int64_t>(c.head_dim, std::llround(width));
  }
}

void read_operators(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = f.integer_within<std::int64_t>(
      {"tokens", "Rows of a sample of a network of operators, its sequence length, for example 4096."}, 1,
      std::numeric_limits<std::int32_t>::max());
  c.position_embedding = PositionEmbedding::none;
  const double tokens = static_cast<double>(c.max_position_embeddings);
  const OperatorLists lists = read_operator_lists(f, tokens);
  const SizeValues sizes = lists.values(tokens);
  const auto stated = [&sizes](const char* name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? 0 : static_cast<std::int64_t>(found->second);
  };
  c.hidden_size = stated("hidden");
  c.vocab_size = stated("vocabulary");
  c.num_attention_heads = stated("heads");  // tensor ranks divide them
  c.num_key_value_heads = sizes.count("key_value_heads") > 0 ? stated("key_value_heads") : c.num_attention_heads;
  c.causal = false;
  for (const ListedLayer& layer : lists.layers) {
    c.num_hidden_layers += layer.repeat;
    c.has_tables = c.has_tables || has_tables(layer.operators);
    take_experts(layer.operators, sizes, c);
    take_rotary(layer.operators, sizes, c);
    visit(layer.operators, [&](const ListedOperator& op) {
      c.tie_word_embeddings = c.tie_word_embeddings || ties_table(op, lists);
      if (op.word == "embedding" && op.words.contains("tied")) c.further_tokens = 1;
      if (op.word == "indexer") c.indexer.keys = 1;  // one key refuses ranks that cannot share keys
    });
  }
  c.lists = std::make_shared<const OperatorLists>(lists);
}

const RegisterTransformer registered_operators{"operators", {read_operators, operator_layers}};

}  // namespace
}  // namespace trainyard::transformers
