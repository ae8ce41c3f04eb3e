// State-space layers (Mamba-2: Dao & Gu 2024) and linear attention (Gated DeltaNet: Yang et al. 2024; Kimi Linear: Kimi
// Team 2025): input projections, a causal convolution, a scan, a gated norm, and an output projection.
#include <algorithm>

#include "models/networks/transformers/layout.hpp"

namespace trainyard::transformers {
namespace {

/// Returns the width of all projections of a token that the convolution, the scan and the gated norm read.
double projected_width(const ScanShape& s) {
  if (s.kind == ScanKind::mamba2) return 2 * s.inner() + 2 * s.keys() + s.heads;  // gate, values, keys, queries, steps
  if (s.kind == ScanKind::gated_delta) return 2 * s.inner() + 2 * s.keys() + 2 * s.heads;
  return 3 * s.inner() + s.convolved() - s.inner() + s.heads;  // also a decay and a gate for each channel
}

void project_in(LayerBuilder& b, const TransformerLayout& l, const ScanShape& s, bool keeps_input) {
  const auto project = [&](const char* name, double width, bool first, bool last) {
    LayerBuilder::Linear linear = column_linear(l, "scan", last, readers_of(l, LinearPart::qkv));
    linear.name = name;
    linear.out = width;
    linear.bias = l.config.scan.projection_bias;
    linear.keeps_input = keeps_input && first;
    linear.part = LinearPart::qkv;
    b.linear(linear);
  };
  if (s.kind != ScanKind::kimi_delta) {
    project("in_proj", projected_width(s), true, true);
    return;
  }
  // Decays and gates of channels are projected through a low rank, which is not split.
  b.shared_input("in_proj", l.hidden(), 4);
  project("in_proj", s.convolved(), true, false);
  for (const char* name : {"decay", "gate"}) {
    const std::string down = std::string(name) + "_down";
    b.set_partial(l.tensor_parallel());
    project(down.c_str(), s.head_dim, false, false);
    b.set_partial(false);
    b.linear({.name = std::string(name) + "_up", .in = s.head_dim, .out = s.inner(), .part = LinearPart::qkv});
  }
  project("beta", s.heads, false, true);
}

void convolution(LayerBuilder& b, const TransformerLayout& l, const ScanShape& shard, const ScanShape& s) {
  Operator op;
  op.forward = convolution_forward(s, l.precision);
  std::vector<int> gradients{b.parameter("convolution.weight", shard.convolved() * shard.taps)};
  if (l.config.scan.convolution_bias) gradients.push_back(b.parameter("convolution.bias", shard.convolved()));
  op.backward = backward_kernels(convolution_backward(s, l.precision), std::move(gradients), l);
  const bool keeps_all = s.kind == ScanKind::mamba2;  // the scan and the gate read the same tensor
  op.saved_tensors.assign({{"convolution.input", b.row_bytes(keeps_all ? projected_width(s) : s.convolved())}});
  op.keeps_input = true;
  op.forward_live = b.row_bytes(s.convolved());
  op.backward_live = b.row_bytes(2 * s.convolved());
  b.add(std::move(op));
}

/// Adds the tensors that the scan keeps besides the output of the input projection.
void add_scan_tensors(LayerBuilder& b, const ScanShape& s, std::vector<KeptTensor>& tensors) {
  if (s.kind == ScanKind::mamba2) return tensors.push_back({"scan.output", b.row_bytes(s.inner())});
  const bool channels = s.kind == ScanKind::kimi_delta;
  const Bytes number = element_size(Precision::fp32) * b.rows();
  tensors.assign({{"scan.queries", b.row_bytes(s.heads * s.state)},
                  {"scan.keys", b.row_bytes(s.heads * s.state)},
                  {"scan.values", b.row_bytes(s.inner())},
                  {"scan.decays", number * (s.heads * (channels ? s.state : 1))},
                  {"scan.betas", number * s.heads},
                  {"scan.chunk_products", b.row_bytes(s.heads * s.chunk * (channels ? 2 : 1))}});
}

void chunked_scan(LayerBuilder& b, const TransformerLayout& l, const ScanShape& shard, const ScanShape& s) {
  if (s.repeats_keys) b.mover("repeat_keys", b.row_bytes(2 * s.keys()), b.row_bytes(2 * s.heads * s.state));
  Operator op;
  op.forward = scan_forward(s, l.precision);
  std::vector<int> gradients{b.parameter("scan.decay", shard.heads)};
  // Kimi's steps have a bias for each channel.
  gradients.push_back(
      b.parameter("scan.step_bias", s.kind == ScanKind::kimi_delta ? shard.heads * shard.state : shard.heads));
  if (s.kind == ScanKind::mamba2) gradients.push_back(b.parameter("scan.skip", shard.heads));
  op.backward = backward_kernels(scan_backward(s, l.precision), std::move(gradients), l);
  add_scan_tensors(b, s, op.saved_tensors);
  const Bytes states = s.element * s.states(), values = b.row_bytes(s.inner());
  const Bytes keys = b.row_bytes(2 * s.heads * s.state);
  if (s.kind == ScanKind::mamba2) {
    op.forward_live = values * 2 + states * 3;  // states in fp32, then in 16 bits
    op.backward_live = b.row_bytes(2 * projected_width(s)) + values * 2 + states * 4;
  } else {
    op.forward_live = values * 3 + keys + states;
    op.backward_live = values * 6 + keys * 3 + states * 2;
  }
  b.add(std::move(op));
}

/// Mamba-2 gates the output in the scan and normalizes groups of heads; delta rules normalize heads and gate the result
/// in the same kernel.
void gated_norm(LayerBuilder& b, const TransformerLayout& l, const ScanShape& shard, const ScanShape& s) {
  const bool gates = s.kind != ScanKind::mamba2;
  const Bytes tensor = b.row_bytes(s.inner());
  const Bytes statistics = element_size(Precision::fp32) * (b.rows() * (gates ? s.heads : s.groups));
  b.set_partial(gates && l.tensor_parallel());  // all heads have one weight
  Operator op;
  op.forward.push_back(elementwise("gated_norm", tensor * (gates ? 3 : 2) + statistics, l.precision));
  op.backward =
      backward_kernels({elementwise("gated_norm.backward", tensor * (gates ? 5 : 3) + statistics, l.precision)},
                       {b.parameter("gated_norm.weight", gates ? shard.head_dim : shard.inner())}, l);
  b.set_partial(false);
  op.saved_tensors.assign({{"gated_norm.input", tensor}, {"gated_norm.statistics", statistics}});
  if (gates) op.saved_tensors.push_back({"gated_norm.gate", tensor});
  op.forward_live = tensor;
  op.backward_live = tensor * (gates ? 3 : 2);
  b.add(std::move(op));
}

}  // namespace

ScanShape rank_scan(const TransformerLayout& l) {
  const ScanConfig& c = l.config.scan;
  ScanShape s;
  s.kind = c.kind;
  s.tokens = l.rows();
  s.heads = static_cast<double>(c.heads) / l.tensor();
  s.head_dim = static_cast<double>(c.head_dim);
  s.groups = c.kind == ScanKind::mamba1 ? 1 : static_cast<double>(c.groups) / l.tensor();
  s.state = static_cast<double>(c.state);
  s.chunk = static_cast<double>(c.chunk);
  s.taps = static_cast<double>(c.taps);
  s.element = l.size();
  s.repeats_keys = c.kind == ScanKind::gated_delta && c.heads > c.groups;
  return s;
}

std::vector<BackwardKernel> backward_kernels(std::vector<KernelCall> calls, std::vector<int> gradients,
                                             const TransformerLayout& l) {
  std::vector<BackwardKernel> kernels;
  for (KernelCall& call : calls) kernels.push_back({std::move(call), {}});
  if (!l.options.adapters.has_rank()) kernels.back().gradients_ready = std::move(gradients);
  return kernels;
}

void scan_mixer(LayerBuilder& b, const TransformerLayout& l, bool keeps_input) {
  const ScanShape shard = rank_scan(l);
  const double rows = l.rows(), ranks = l.context();
  begin_columns(b, l, "scan", readers_of(l, LinearPart::qkv));
  project_in(b, l, shard, keeps_input);
  ScanShape s = shard;
  if (ranks > 1) {
    trade_heads(b, l, "scan.heads", b.row_bytes(projected_width(shard)));
    s.heads /= ranks;
    s.groups = std::max(1.0, s.groups / ranks);  // ranks that share a group have copies of its keys
    s.tokens = l.samples * l.seq;
    b.set_rows(s.tokens);
  }
  convolution(b, l, shard, s);
  chunked_scan(b, l, shard, s);
  if (ranks > 1) {
    trade_heads(b, l, "scan.tokens", b.row_bytes(s.inner()));
    b.set_rows(rows);
  }
  if (l.config.scan.gated_norm) gated_norm(b, l, shard, shard);
  b.linear({.name = "out_proj",
            .in = shard.inner(),
            .out = l.hidden(),
            .part = LinearPart::attention_output,
            .bias = l.config.scan.projection_bias && !l.tensor_parallel(),
            .shares_fork_gradient = l.adds_output(),
            .gradient_cast_before = gathers_cast_gradient(l)});
  end_rows(b, l, "scan");
  if (l.config.scan.projection_bias) row_bias(b, l, "out_proj.bias");
}

void scan_branch(LayerBuilder& b, const TransformerLayout& l) {
  begin_branch(b, l, "scan", readers_of(l, LinearPart::qkv));
  if (l.config.scan.kind == ScanKind::mamba1)
    selective_mixer(b, l);
  else
    scan_mixer(b, l, true);
  end_branch(b, l, "scan");
}

}  // namespace trainyard::transformers
