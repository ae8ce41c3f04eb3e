// Falcon-H1 (TII 2025): in each block, attention and Mamba-2 read one norm and are added together; then a feed-forward
// part. Its multipliers change no tensor.
#include <fmt/format.h>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// x + attention(norm(x)) + scan(norm(x)).
void beside_branch(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  const Readers readers = readers_of(l, LinearPart::qkv);
  const AttentionShape shape = self_attention_shape(l, index);
  begin_branch(b, l, "block", readers);
  b.shared_input("block", l.hidden(), 2);
  begin_columns(b, l, "attention", readers);
  self_attention(b, l, shape);
  output_projection(b, l, shape);
  end_rows(b, l, "attention");
  if (l.config.attention_output_bias) row_bias(b, l, "projection.bias");
  const Bytes tensor = b.residual_bytes(l.hidden());
  b.hold(tensor, tensor);   // the output of attention, and backward the gradient of the norm's output
  scan_mixer(b, l, false);  // attention keeps the input
  b.release();
  Operator sum;  // backward both branches have the gradient of their sum
  sum.forward.push_back(elementwise("branches_sum", tensor * 3, l.precision));
  sum.forward_live = tensor * 3;
  b.add(std::move(sum));
  end_branch(b, l, "block");
}

void falcon_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  beside_branch(b, l, index);
  feed_forward_branch(b, l);
}

std::vector<Layer> falcon_layers(const TransformerLayout& l) { return decoder_layers(l, falcon_branches); }

void read_falcon_h1(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = 8192;  // default of transformers.FalconH1Config
  read_with_biases(f, c);
  c.pattern = std::string(static_cast<std::size_t>(c.num_hidden_layers), layer_letters::kBoth);
  const bool states_inner = f.has("mamba_d_ssm") && f.child("mamba_d_ssm")->scalar != "null";
  const std::int64_t wide = read_size(f, "mamba_expand", 2) * c.hidden_size;
  const std::int64_t inner = states_inner ? read_size(f, "mamba_d_ssm") : wide;
  c.scan.kind = ScanKind::mamba2;
  c.scan.heads = read_size(f, "mamba_n_heads", 128);
  const bool states_width = f.has("mamba_d_head") && f.child("mamba_d_head")->scalar != "auto";
  c.scan.head_dim = states_width ? read_size(f, "mamba_d_head") : inner / c.scan.heads;
  if (c.scan.inner() != inner)
    f.refuse("mamba_n_heads",
             fmt::format("{} heads of {} are not mamba_d_ssm, {}", c.scan.heads, c.scan.head_dim, inner));
  c.scan.groups = read_size(f, "mamba_n_groups", 1);
  if (c.scan.heads % c.scan.groups != 0)
    f.refuse("mamba_n_groups", fmt::format("{} groups do not divide {} heads", c.scan.groups, c.scan.heads));
  c.scan.state = read_size(f, "mamba_d_state", 256);
  c.scan.taps = read_size(f, "mamba_d_conv", 4);
  c.scan.chunk = read_size(f, "mamba_chunk_size", 256);
  c.scan.convolution_bias = f.boolean("mamba_conv_bias", true);
  c.scan.projection_bias = f.boolean("mamba_proj_bias", false);
  if (f.boolean("projectors_bias", false) != c.scan.projection_bias)
    f.refuse("projectors_bias", "a bias in only one projection of Mamba-2 is not modelled; expected mamba_proj_bias");
  c.scan.gated_norm = f.boolean("mamba_rms_norm", false);
  if (!f.boolean("mamba_use_mlp", true))
    f.refuse("mamba_use_mlp", "blocks without a feed-forward part are not modelled; expected true");
  ignore_keys(f, {"attention_in_multiplier", "attention_out_multiplier", "attn_layer_indices", "embedding_multiplier",
                  "key_multiplier", "layers_block_type", "lm_head_multiplier", "mamba_norm_before_gate",
                  "mlp_expansion_factor", "mlp_multipliers", "num_logits_to_keep", "sliding_window"});
  ignore_keys(f, {"ssm_in_multiplier", "ssm_multipliers", "ssm_out_multiplier", "time_step_floor", "time_step_limit",
                  "time_step_max", "time_step_min"});
}

const RegisterTransformer registered_falcon_h1{"falcon_h1", {read_falcon_h1, falcon_layers}};

}  // namespace
}  // namespace trainyard::transformers
