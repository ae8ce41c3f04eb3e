// A transformer block: attention, then a feed-forward part or experts. Each has a norm before it and is added to its
// input.
#include <algorithm>
#include <cmath>

#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

constexpr double kNormSpread = 0.2, kBiasSpread = 0.1;

/// Adds a matrix of `out` × `in`, of which the rank has `rows` and `columns`. Initial values are proportional to 1 /
/// √in, so that activations are of order 1.
void add_linear(TensorShards& shards, const std::string& name, Index out, const std::vector<Index>& rows, Index in,
                const std::vector<Index>& columns, bool bias) {
  TensorShard& weight = shards[name + ".weight"] = TensorShard::cut(out, rows, columns);
  weight.spread = 1.5 / std::sqrt(static_cast<double>(in));
  if (!bias) return;
  TensorShard& b = shards[name + ".bias"] = TensorShard::cut(out, rows, {0});
  b.spread = kBiasSpread;
}

void append(std::vector<Index>& to, const std::vector<Index>& numbers, Index shift) {
  for (const Index number : numbers) to.push_back(shift + number);
}

void attention_tensors(TensorShards& shards, const RankPlace& p, bool fused) {
  const TransformerConfig& c = p.config();
  const int t = p.sharding.tensor;
  const Index hidden = c.hidden_size, query = c.num_attention_heads * c.head_dim;
  const Index key = c.num_key_value_heads * c.head_dim;
  const std::vector<Index> all = span(0, hidden), queries = part(query, p.tensor, t), keys = part(key, p.tensor, t);
  add_norm(shards, c.norm, "attention_norm", hidden);
  if (fused) {
    std::vector<Index> rows = queries;
    append(rows, keys, query);
    append(rows, keys, query + key);
    add_linear(shards, "qkv", query + 2 * key, rows, hidden, all, c.qkv_bias);
  } else {
    add_linear(shards, "q", query, queries, hidden, all, c.qkv_bias);
    for (const char* name : {"k", "v"}) add_linear(shards, name, key, keys, hidden, all, c.qkv_bias);
  }
  if (c.head_norms == HeadNorms::one_a_head)
    for (const char* name : {"q_norm", "k_norm"}) add_norm(shards, c.norm, name, c.head_dim);
  add_linear(shards, "projection", hidden, all, query, queries, c.attention_output_bias);
}

/// Adds the tensors of a feed-forward part or of one expert. `inner`: the hidden columns that the rank has. `fused`:
/// gate and up are one matrix.
void feed_forward_tensors(TensorShards& shards, const RankPlace& p, const std::string& prefix, Index width,
                          const std::vector<Index>& inner, bool fused) {
  const TransformerConfig& c = p.config();
  const Index hidden = c.hidden_size;
  const std::vector<Index> all = span(0, hidden);
  if (c.gated_mlp && fused) {
    std::vector<Index> both = inner;
    append(both, inner, width);
    add_linear(shards, prefix + "gate_up", 2 * width, both, hidden, all, c.mlp_bias);
  } else {
    std::vector<std::string> names{"fc1"};
    if (c.gated_mlp) names = {"gate", "up"};
    for (const std::string& name : names) add_linear(shards, prefix + name, width, inner, hidden, all, c.mlp_bias);
  }
  add_linear(shards, prefix + (c.gated_mlp ? "down" : "fc2"), hidden, all, width, inner, c.mlp_bias);
}

void expert_tensors(TensorShards& shards, const RankPlace& p, bool fused) {
  const TransformerConfig& c = p.config();
  add_linear(shards, "router", c.experts.count, span(0, c.experts.count), c.hidden_size, span(0, c.hidden_size), false);
  TensorShards expert_shards;
  const Index width = c.experts.intermediate_size, parts = p.sharding.expert_shards();
  feed_forward_tensors(expert_shards, p, "experts.", width, part(width, p.expert_tensor, p.sharding.expert_shards()),
                       fused);
  for (const auto& [name, matrix] : expert_shards) {
    TensorShard& shard = shards[name];
    const Index elements = static_cast<Index>(matrix.numbers.size()) * parts;
    for (const Index expert : part(c.experts.count, p.expert, p.sharding.expert)) shard.add(matrix, expert, elements);
    shard.spread = matrix.spread;
    shard.expert = true;
  }
}

bool has_experts(const TransformerConfig& c, int number) {
  return c.experts.count > 0 && number - 1 >= c.experts.first_layer;  // layer 0 is the embedding
}

/// Adds exchange `name`, which repeats exchange `first` for a result that a sequence-parallel rank has discarded. If
/// `name` is not listed, its value is that of `first`.
void repeat_exchange(Graph& g, const std::string& name, const std::string& first, const std::string& source) {
  g.exchange(name, g.is_listed(name) ? source : first);
}

/// Adds the exchanges at both ends of a branch. Forward: `source` to `branch`.gather, and `branch`.out to
/// `branch`.scatter. Backward: `dout` to `branch`.scatter.backward, and `branch`.in.d to `branch`.gather.backward.
void branch_exchanges(Graph& g, const std::string& branch, const std::string& source, const std::string& dout) {
  g.exchange(branch + ".gather", source);
  repeat_exchange(g, branch + ".regather", branch + ".gather", source);
  g.exchange(branch + ".reduce.backward", branch + ".in.d");
  g.exchange(branch + ".gather.backward", branch + ".reduce.backward");
  g.exchange(branch + ".reduce", branch + ".out");
  g.exchange(branch + ".scatter", branch + ".reduce");
  g.exchange(branch + ".scatter.backward", dout);
}

}  // namespace

void add_norm(TensorShards& shards, Norm kind, const std::string& name, Index width) {
  TensorShard shard = TensorShard::cut(width, span(0, width), {0});
  shard.spread = kNormSpread;
  if (kind == Norm::layer_norm) shards[name + ".bias"] = shard;
  shard.mean = 1;
  shards[name + ".weight"] = shard;
}

TensorShards block_tensors(const RankPlace& p, int number, const Layer& layer) {
  const auto has = [&layer](const char* name) {
    return std::ranges::find(layer.parameters, name, &ParameterTensor::name) != layer.parameters.end();
  };
  TensorShards shards;
  attention_tensors(shards, p, has("qkv.weight"));
  add_norm(shards, p.config().norm, "mlp_norm", p.config().hidden_size);
  if (has_experts(p.config(), number))
    expert_tensors(shards, p, has("experts.gate_up.weight"));
  else
    feed_forward_tensors(shards, p, "", p.config().intermediate_size,
                         part(p.config().intermediate_size, p.tensor, p.sharding.tensor), has("gate_up.weight"));
  return shards;
}

void block(Graph& g, const RankPlace& p, const RankLayer& layer) {
  const TransformerConfig& c = p.config();
  const LayerShard& s = *layer.shard;
  norm(g, s, {"attention_norm", "x", "attention.gather.backward", c.norm});
  branch_exchanges(g, "attention", "attention_norm", "residual.d");
  self_attention(g, p, s, "attention.gather", "attention.regather", "projection.d");
  linear(g, s,
         {.name = "projection",
          .in = "attention.heads.out",
          .in_for_weights = "attention.heads.out",
          .out_gradient = "attention.scatter.backward"});
  g.node("attention.out", [&g] { return g["projection"]; });
  g.node("attention.in.d", [&g] { return g["qkv.in.d"]; });
  if (c.attention_output_bias) add_bias(g, s, "projection.bias", "attention.biased", "attention.scatter", "residual.d");
  sum(g, "residual", "x", c.attention_output_bias ? "attention.biased" : "attention.scatter");

  norm(g, s, {"mlp_norm", "residual", "mlp.gather.backward", c.norm});
  branch_exchanges(g, "mlp", "mlp_norm", "dout");
  const bool moe = has_experts(c, layer.number);
  if (moe)
    experts(g, p, s, "mlp.gather", "mlp.regather", "mlp.scatter.backward");
  else
    feed_forward(g, s,
                 {.prefix = "",
                  .in = "mlp.gather",
                  .in_for_weights = "mlp.regather",
                  .out_gradient = "mlp.scatter.backward",
                  .activation = c.activation,
                  .gated = c.gated_mlp,
                  .bias = c.mlp_bias});
  g.node("mlp.out", [&g, moe] { return g[moe ? "experts.sum" : "ffn.out"]; });
  g.node("mlp.in.d", [&g, moe] { return g[moe ? "experts.sum.d" : "ffn.in.d"]; });
  const bool bias = c.mlp_bias && !moe;
  if (bias) add_bias(g, s, c.gated_mlp ? "down.bias" : "fc2.bias", "mlp.biased", "mlp.scatter", "dout");
  sum(g, "out", "residual", bias ? "mlp.biased" : "mlp.scatter");
  sum(g, "residual.d", "dout", "mlp_norm.d");
  sum(g, "dx", "residual.d", "attention_norm.d");
}

}  // namespace trainyard::numeric
