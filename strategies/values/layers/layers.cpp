#include "strategies/values/layers/layers.hpp"

#include "sim/error.hpp"

namespace trainyard::numeric {
namespace {

/// Throws InternalError for networks whose values cannot be computed.
void check(const TransformerConfig& c, const Sharding& sharding) {
  const auto refuse = [](bool bad, const char* what) {
    if (bad) throw InternalError(std::string("values know no ") + what);
  };
  refuse(c.num_decoder_layers > 0, "decoders beside encoders");
  refuse(c.norm_place != NormPlace::before, "norms but before a branch");
  refuse(c.one_norm, "branches with one norm");
  refuse(c.head_bias, "biases of output projections");
  refuse(c.head_norms == HeadNorms::all, "norms over all heads");
  refuse(c.full_attention_every > 0 || c.chunked_attention, "windows in some layers");
  refuse(c.attention_sinks, "attention sinks");
  refuse(c.latent.key_value_rank > 0, "latent attention");
  refuse(!c.pattern.empty() || c.attention_gate, "layers of state-space models or linear attention");
  refuse(c.position_embedding == PositionEmbedding::none, "attention without positions");
  refuse(c.position_embedding == PositionEmbedding::relative, "relative positions");
  refuse(c.experts.shared_intermediate_size > 0, "shared experts");
  refuse(c.experts.correction_bias || c.experts.router_bias, "biases of routers");
  refuse(c.experts.layer_interval > 1, "experts in some layers");
  refuse(c.experts.count > 0 && c.mlp_bias, "biases of experts");
  refuse(c.patch_size > 0 || c.type_vocab_size > 0, "images and segments");
  refuse(sharding.expert_capacity > 0, "dropped tokens");
}

}  // namespace

TensorShards layer_tensors(const RankPlace& p, int number, const Network& network, bool own_tied) {
  const int layers = static_cast<int>(network.layers.size());
  TensorShards shards;
  if (const MlpShape* shape = std::get_if<MlpShape>(&p.task.model)) {
    shards = mlp_tensors(p, *shape, number);
  } else {
    check(p.config(), p.sharding);
    shards = number == 0            ? embedding_tensors(p)
             : number + 1 == layers ? head_tensors(p, own_tied)
                                    : block_tensors(p, number, network.layers[number]);
  }
  for (auto& [name, shard] : shards) shard.drawn_as = std::to_string(number) + " " + name;
  if (own_tied && number + 1 == layers && shards.contains("output.weight"))
    shards["output.weight"].drawn_as = "0 token_embedding.weight";
  return shards;
}

Index input_rows(const RankPlace& p, int number) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&p.task.model)) return mlp_input_rows(p, *shape, number);
  return p.config().hidden_size;
}

void define_layer(Graph& g, const RankPlace& p, const RankLayer& layer, const Batch& batch) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&p.task.model))
    mlp_layer(g, p, *shape, layer, batch);
  else if (layer.number == 0)
    embedding(g, p, layer, batch);
  else if (layer.last)
    head(g, p, layer, batch);
  else
    block(g, p, layer);
}

std::vector<std::string> dropped_after_forward(const Graph& g, const RankPlace& p) {
  std::vector<std::string> names;
  for (const char* part : {"attention", "mlp", "head"})
    if (g.is_listed(std::string(part) + ".regather")) names.push_back(std::string(part) + ".gather");
  for (int i = 0; i + 1 < p.sharding.context; ++i) {
    const std::string keys = "attention.keys." + std::to_string(i);
    if (g.is_listed(keys + ".backward")) names.push_back(keys);
  }
  if (p.sharding.recompute == Recompute::selective) names.push_back("attended");
  return names;
}

}  // namespace trainyard::numeric
