// LongCat-Flash (Meituan 2025, arXiv:2509.01322): a layer has two latent attentions, two dense feed-forward parts, and experts
// that read what the first of these parts reads. A third of the experts return their input.
#include <fmt/format.h>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// The experts have a norm of their own here, which is the first dense part's in the paper: 6,144 of 20 billion parameters of
/// a layer. Their exchange may overlap the rest of the layer; it does not here.
void shortcut_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  latent_branch(b, l);
  experts_branch(b, l, index);
  feed_forward_branch(b, l);
  latent_branch(b, l);
  feed_forward_branch(b, l);
}

std::vector<Layer> longcat_layers(const TransformerLayout& l) { return decoder_layers(l, shortcut_branches); }

/// Experts that return their input are chosen as often as the others, as the report states on average (8 of 12 compute).
void read_experts(Fields& f, TransformerConfig& c) {
  c.experts.count = read_size(f, "n_routed_experts", 512);
  c.experts.idle = f.integer("zero_expert_num", 0, 256);
  if (const std::string kind = f.text("zero_expert_type", "identity"); kind != "identity")
    f.refuse("zero_expert_type", kind + " is not modelled; expected identity");
  c.experts.intermediate_size = read_size(f, "expert_ffn_hidden_size", 2048);
  const std::int64_t chosen = read_size(f, "moe_topk", 12), all = c.experts.count + c.experts.idle;
  if (chosen > all) f.refuse("moe_topk", fmt::format("{}, but there are {} experts", chosen, all));
  if (chosen * c.experts.count % all != 0)
    f.refuse("moe_topk", fmt::format("{} of {} experts, {} of which compute nothing, are {:.4g} that compute for a "
                                     "token on average; a fraction is not modelled",
                                     chosen, all, c.experts.idle,
                                     static_cast<double>(chosen * c.experts.count) / static_cast<double>(all)));
  c.experts.per_token = chosen * c.experts.count / all;
  c.experts.router_bias = f.boolean("router_bias", false);
  c.experts.correction_bias = true;
}

void read_longcat(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_size(f, "vocab_size", 131072);
  c.num_hidden_layers = read_layers(f, {"num_layers"});
  if (const std::int64_t parts = read_size(f, "num_hidden_layers", 2 * c.num_hidden_layers);
      parts != 2 * c.num_hidden_layers)
    f.refuse("num_hidden_layers",
             fmt::format("{}; expected two for each of the {} layers of num_layers", parts, c.num_hidden_layers));
  c.hidden_size = read_size(f, "hidden_size", 6144);
  c.intermediate_size = read_size(f, "ffn_hidden_size", read_size(f, "intermediate_size", 12288));
  c.num_attention_heads = read_size(f, "num_attention_heads", 64);
  c.num_key_value_heads = read_size(f, "num_key_value_heads", c.num_attention_heads);
  c.max_position_embeddings = read_size(f, "max_position_embeddings", 131072);
  c.activation = read_activation(f, "hidden_act", "silu");
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
  c.position_embedding = PositionEmbedding::rotary;
  c.norm = Norm::rms_norm;
  c.gated_mlp = true;
  c.head_dim = 1;  // heads have the widths of latent attention
  finish_heads(f, c);
  read_latent_sizes(f, c);
  read_experts(f, c);
  refuse_true(f, "attention_bias", "biases of latent attention are");
}

const RegisterTransformer registered_longcat{"longcat_flash", {read_longcat, longcat_layers}};

}  // namespace
}  // namespace trainyard::transformers
