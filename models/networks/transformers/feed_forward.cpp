#include "models/networks/transformers/layout.hpp"

namespace trainyard::transformers {
namespace {

/// Returns the bytes that are kept of an activation's input.
Bytes kept_input(const TransformerLayout& l, Bytes input) {
  const bool narrow = l.options.fp8 && l.options.fp8_activation_input;
  return narrow ? l.in_fp8(input) : input;
}

/// Counts a copy of the input in fp8, which is written forward, and read backward instead of the input.
void keep_narrow(Operator& op, Bytes input, Bytes kept_bytes) {
  if (kept_bytes == input) return;
  op.forward.front().work.bytes += kept_bytes;
  op.backward.back().work.bytes += kept_bytes - input;
}

/// Returns the bytes of the router's weights by which the activation of routed experts multiplies its rows.
Bytes weights_of_rows(const LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  return f.routed && l.options.weighted_expert_activation ? element_size(Precision::fp32) * b.rows() : Bytes{};
}

/// Counts the weights, which the operator reads, and their gradients, which it writes.
void weigh_rows(Operator& op, Bytes weights, const std::string& tensors) {
  if (weights.value == 0) return;
  op.forward.back().work.bytes += weights;
  op.backward.front().work.bytes += weights * 2;
  op.saved_tensors.push_back({tensors + ".weights", weights});
}

void gated_activation(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  const Bytes tensor = b.row_bytes(f.width);
  const std::string name = f.prefix + l.config.activation, tensors = f.prefix + "activation";
  const std::string mul = f.prefix + "gate_mul";
  Operator op;
  const Bytes kept_bytes = kept_input(l, tensor);
  op.saved_tensors = {{tensors + ".gate", kept_bytes}, {tensors + ".up", kept_bytes}};
  if (l.options.fused_gated_activation) {
    op.forward.push_back(elementwise(name + "_mul", tensor * 3, l.precision));
    op.backward.push_back({elementwise(name + "_mul.backward", tensor * 5, l.precision), {}});
  } else {
    op.forward = {elementwise(name, tensor * 2, l.precision), elementwise(mul, tensor * 3, l.precision)};
    op.backward = {{elementwise(mul + ".gate_grad", tensor * 3, l.precision), {}},
                   {elementwise(mul + ".up_grad", tensor * 3, l.precision), {}},
                   {elementwise(name + ".backward", tensor * 3, l.precision), {}}};
    op.saved_tensors.push_back({tensors + ".gate_output", tensor});
    // Forward: views of one tensor; backward: the two gradients are written into one tensor.
    if (l.options.fused_projections)
      op.backward.push_back({elementwise(f.prefix + "gate_up.gradient_concat", tensor * 4, l.precision), {}});
  }
  keep_narrow(op, tensor * 2, kept_bytes * 2);
  weigh_rows(op, weights_of_rows(b, l, f), tensors);
  op.forward_live = tensor;
  op.backward_live = tensor * 3;
  b.add(std::move(op));
}

/// Clamps the inputs of the experts' gated activation by eager kernels, as Megatron-Core does before its fused activation
/// (fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl). Forward: one kernel for the gate, one for the other
/// half, and a concatenation. Backward: a kernel for each half that reads what was clamped, and a concatenation.
void clamp_inputs(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  if (!f.routed || l.config.activation_limit == 0 || !l.options.weighted_expert_activation ||
      !l.options.experts_in_turn)
    return;
  const Bytes half = b.row_bytes(f.width);
  Operator op;
  const auto kernel = [&](const char* name, double halves) {
    return elementwise(std::string("experts.clamp.") + name, half * halves, l.precision);
  };
  op.forward = {kernel("gate", 2), kernel("up", 2), kernel("concat", 4)};
  op.backward = {{kernel("gate.backward", 3), {}}, {kernel("up.backward", 3), {}}, {kernel("concat.backward", 4), {}}};
  op.saved_tensors = {{"experts.clamp.input", half * 2}};
  op.forward_live = half * 4;
  op.backward_live = half * 4;
  b.add(std::move(op));
}

LayerBuilder::Linear expert_linear(const FeedForward& f) {
  LayerBuilder::Linear linear;
  linear.experts = f.experts;
  linear.active_share = f.active_share;
  linear.routed = f.routed;
  return linear;
}

/// Adds the linear layers from the hidden size to the inner width.
void project_in(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  const auto project = [&](const char* name, double width, bool first, bool last) {
    LayerBuilder::Linear in = expert_linear(f);
    if (!f.routed) {
      const LayerBuilder::Linear shared = column_linear(l, "mlp", last && f.gathers, f.readers);
      in.input_shares = shared.input_shares;
      in.casts_residual = shared.casts_residual;
      in.regather = shared.regather;
      in.cast = shared.cast;
    }
    in.name = f.prefix + name;
    in.in = f.routed ? l.expert_rows_width() : l.hidden();
    in.out = width;
    in.bias = l.config.mlp_bias;
    in.keeps_input = f.keeps_input && first;
    if (!f.routed) in.part = LinearPart::mlp_in;
    b.linear(in);
  };
  if (!l.config.gated_mlp) {
    project("fc1", f.width, true, true);
  } else if (l.options.fused_projections) {
    project("gate_up", 2 * f.width, true, true);
  } else {
    b.shared_input(f.prefix + "gate_up", f.routed ? l.expert_rows_width() : l.hidden(), 2);
    project("gate", f.width, true, false);
    project("up", f.width, false, true);
  }
}

}  // namespace

void activation(LayerBuilder& b, Precision precision, const std::string& name, double width) {
  activation(b, precision, name, width, b.row_bytes(width), {});
}

void activation(LayerBuilder& b, Precision precision, const std::string& name, double width, Bytes kept_bytes,
                Bytes weights) {
  const Bytes tensor = b.row_bytes(width);
  Operator op;
  op.forward.push_back(elementwise(name, tensor * 2, precision));
  op.backward.push_back({elementwise(name + ".backward", tensor * 3, precision), {}});
  op.saved_tensors = {{"activation.input", kept_bytes}};
  keep_narrow(op, tensor, kept_bytes);
  weigh_rows(op, weights, "activation");
  op.forward_live = tensor;
  op.backward_live = tensor * 2;
  b.add(std::move(op));
}

void feed_forward(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  project_in(b, l, f);
  if (f.routed) b.set_module(RecomputedPart::moe_act);
  clamp_inputs(b, l, f);
  if (l.config.gated_mlp)
    gated_activation(b, l, f);
  else
    activation(b, l.precision, f.prefix + l.config.activation, f.width, kept_input(l, b.row_bytes(f.width)),
               weights_of_rows(b, l, f));
  b.set_module(RecomputedPart::none);
  if (l.config.activation_dropout > 0) b.dropout({.name = f.prefix + "activation_dropout", .width = f.width});
  LayerBuilder::Linear out = expert_linear(f);
  out.bias = l.config.mlp_bias && (f.routed || !l.tensor_parallel());
  out.name = f.prefix + (l.config.gated_mlp ? "down" : "fc2");
  out.in = f.width;
  out.out = f.routed ? l.expert_rows_width() : l.hidden();
  out.shares_fork_gradient = f.shares_fork_gradient;
  if (!f.routed) {
    out.part = LinearPart::mlp_out;
    out.gradient_cast_before = gathers_cast_gradient(l, f.gradient_readers);
  }
  b.linear(out);
}

}  // namespace trainyard::transformers
