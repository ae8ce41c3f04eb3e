// Jamba (AI21 2024): layers of Mamba-1 (Gu & Dao 2023) or attention, then experts or a dense feed-forward part.
// Falcon-H1 (TII 2025): in each block, attention and Mamba-2 read one norm and are added together; then a feed-forward
// part. Its multipliers change no tensor.
#include <fmt/format.h>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

using namespace layer_letters;

/// Tokens of a chunk in the kernel of Mamba-1 (state-spaces/mamba, selective_scan_fwd_kernel.cuh).
constexpr std::int64_t kSelectiveChunk = 2048;

void channel_convolution(LayerBuilder& b, const TransformerLayout& l, const ScanShape& s) {
  Operator op;
  op.forward = convolution_forward(s, l.precision);
  std::vector<int> gradients{b.parameter("convolution.weight", s.inner() * s.taps)};
  if (l.config.scan.convolution_bias) gradients.push_back(b.parameter("convolution.bias", s.inner()));
  op.backward = backward_kernels(convolution_backward(s, l.precision), std::move(gradients), l);
  op.saved_tensors.assign({{"convolution.input", b.row_bytes(2 * s.inner())}});  // with the gate, which the scan reads
  op.keeps_input = true;
  op.forward_live = b.row_bytes(s.inner());
  op.backward_live = b.row_bytes(2 * s.inner());
  b.add(std::move(op));
}

/// Adds the projection of values to steps, keys and queries, and their norms. Tensor ranks sum it forward, and its
/// gradient backward, because each has some of the channels.
void project_steps(LayerBuilder& b, const TransformerLayout& l, const ScanShape& s) {
  const auto rank = static_cast<double>(l.config.scan.step_rank);
  const Bytes steps = b.row_bytes(rank + 2 * s.state);
  const auto sum_over_ranks = [&](bool backward) {
    if (!l.tensor_parallel()) return;
    LayerBuilder::Crossing c;
    c.in = c.out = steps;
    const Exchange exchange{backward ? "scan.steps.reduce.backward" : "scan.steps.reduce", Axis::tensor,
                            ExchangeKind::all_reduce, steps};
    (backward ? c.backward : c.forward) = exchange;
    b.cross(std::move(c));
  };
  b.shared_input("x_proj", s.inner(), 2);  // the scan reads the values too
  b.linear({.name = "x_proj", .in = s.inner(), .out = rank + 2 * s.state});
  sum_over_ranks(false);
  b.norm(Norm::rms_norm, "dt_norm", rank);
  b.norm(Norm::rms_norm, "b_norm", s.state);
  b.norm(Norm::rms_norm, "c_norm", s.state);
  sum_over_ranks(true);
  b.linear({.name = "dt_proj", .in = rank, .out = s.inner()});
}

void selective_kernel(LayerBuilder& b, const TransformerLayout& l, const ScanShape& s) {
  Operator op;
  op.forward = scan_forward(s, l.precision);
  op.backward = backward_kernels(scan_backward(s, l.precision),
                                 {b.parameter("scan.decay", s.inner() * s.state),
                                  b.parameter("scan.step_bias", s.inner()), b.parameter("scan.skip", s.inner())},
                                 l);
  const Bytes states = element_size(Precision::fp32) * (2 * s.states());
  op.saved_tensors.assign({{"scan.steps", b.row_bytes(s.inner())},
                           {"scan.keys", b.row_bytes(2 * s.state)},
                           {"scan.output", b.row_bytes(s.inner())},
                           {"scan.states", states}});
  op.forward_live = b.row_bytes(s.inner());
  op.backward_live = b.row_bytes(4 * s.inner());  // gradients of output, values, steps and gate
  b.add(std::move(op));
}

/// Reads which layers have attention, and which have experts.
void read_jamba_layers(Fields& f, TransformerConfig& c) {
  const std::int64_t period = read_size(f, "attn_layer_period", 8);
  const std::int64_t offset = f.integer("attn_layer_offset", 0, 4);
  if (offset >= period)
    f.refuse("attn_layer_offset", fmt::format("{}; expected less than the period {}", offset, period));
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.pattern += i % period == offset ? kAttention : kScan;
  c.experts.count = read_size(f, "num_experts", 16);
  c.experts.per_token = read_size(f, "num_experts_per_tok", 2);
  c.experts.intermediate_size = c.intermediate_size;
  c.experts.layer_interval = read_size(f, "expert_layer_period", 2);
  const std::int64_t first = f.integer("expert_layer_offset", 0, 1);
  if (first + 1 != c.experts.layer_interval)
    f.refuse("expert_layer_offset",
             fmt::format("{} is not modelled: experts are in the last layer of each period; expected {}", first,
                         c.experts.layer_interval - 1));
  if (c.experts.count == 1)
    c.experts = {};
  else
    check_experts(f, c);
}

void read_jamba(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = 262144;  // defaults of transformers.JambaConfig
  read_llama_keys(f, c);
  c.position_embedding = PositionEmbedding::none;
  read_jamba_layers(f, c);
  const std::int64_t inner = read_size(f, "mamba_expand", 2) * c.hidden_size;
  c.scan.kind = ScanKind::mamba1;
  c.scan.heads = inner;
  c.scan.head_dim = c.scan.groups = 1;
  c.scan.state = read_size(f, "mamba_d_state", 16);
  c.scan.taps = read_size(f, "mamba_d_conv", 4);
  c.scan.chunk = kSelectiveChunk;
  const bool states_rank = f.has("mamba_dt_rank") && f.child("mamba_dt_rank")->scalar != "auto";
  c.scan.step_rank = states_rank ? read_size(f, "mamba_dt_rank") : (c.hidden_size + 15) / 16;
  c.scan.convolution_bias = f.boolean("mamba_conv_bias", true);
  refuse_true(f, "mamba_proj_bias", "biases of Mamba-1's projections are");
  if (!f.boolean("mamba_inner_layernorms", true))
    f.refuse("mamba_inner_layernorms", "steps without norms are not modelled; expected true");
}

void jamba_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  if (l.config.pattern[static_cast<std::size_t>(index)] == kScan)
    scan_branch(b, l);
  else
    attention_branch(b, l, index);
  experts_branch(b, l, index);
}

std::vector<Layer> jamba_layers(const TransformerLayout& l) { return decoder_layers(l, jamba_branches); }

const RegisterTransformer registered_jamba{"jamba", {read_jamba, jamba_layers}};

void falcon_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  attention_beside(b, l, index, [](LayerBuilder& other, const TransformerLayout& layout) {
    scan_mixer(other, layout, false);  // attention keeps the input
  });
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
  read_mamba_keys(f, c, inner);
  if (c.scan.inner() != inner)
    f.refuse("mamba_n_heads",
             fmt::format("{} heads of {} are not mamba_d_ssm, {}", c.scan.heads, c.scan.head_dim, inner));
  if (f.boolean("projectors_bias", false) != c.scan.projection_bias)
    f.refuse("projectors_bias", "a bias in only one projection of Mamba-2 is not modelled; expected mamba_proj_bias");
  c.scan.gated_norm = f.boolean("mamba_rms_norm", false);
  if (!f.boolean("mamba_use_mlp", true))
    f.refuse("mamba_use_mlp", "blocks without a feed-forward part are not modelled; expected true");
}

const RegisterTransformer registered_falcon_h1{"falcon_h1", {read_falcon_h1, falcon_layers}};

}  // namespace

void selective_mixer(LayerBuilder& b, const TransformerLayout& l) {
  const ScanShape s = rank_scan(l);
  begin_columns(b, l, "scan", readers_of(l, LinearPart::qkv));
  LayerBuilder::Linear in = column_linear(l, "scan", true, readers_of(l, LinearPart::qkv));
  in.name = "in_proj";
  in.out = 2 * s.inner();  // values and gate
  in.part = LinearPart::qkv;
  b.linear(in);
  channel_convolution(b, l, s);
  project_steps(b, l, s);
  selective_kernel(b, l, s);
  b.linear({.name = "out_proj",
            .in = s.inner(),
            .out = l.hidden(),
            .part = LinearPart::attention_output,
            .shares_fork_gradient = l.adds_output(),
            .gradient_cast_before = gathers_cast_gradient(l)});
  end_rows(b, l, "scan");
}

}  // namespace trainyard::transformers
