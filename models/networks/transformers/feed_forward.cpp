#include "models/networks/transformers/layout.hpp"

namespace trainyard::transformers {
namespace {

void gated_activation(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  const Bytes tensor = b.row_bytes(f.width);
  const std::string name = f.prefix + l.config.activation, kept = f.prefix + "activation", mul = f.prefix + "gate_mul";
  Operator op;
  op.kept = {{kept + ".gate", tensor}, {kept + ".up", tensor}};
  if (l.options.fused_gated_activation) {
    op.forward.push_back(elementwise(name + "_mul", tensor * 3, l.precision));
    op.backward.push_back({elementwise(name + "_mul.backward", tensor * 5, l.precision), {}});
  } else {
    op.forward = {elementwise(name, tensor * 2, l.precision), elementwise(mul, tensor * 3, l.precision)};
    op.backward = {{elementwise(mul + ".gate_grad", tensor * 3, l.precision), {}},
                   {elementwise(mul + ".up_grad", tensor * 3, l.precision), {}},
                   {elementwise(name + ".backward", tensor * 3, l.precision), {}}};
    op.kept.push_back({kept + ".gate_output", tensor});
    // Views of one tensor forward; backward the two gradients are written into one.
    if (l.options.fused_projections)
      op.backward.push_back({elementwise(f.prefix + "gate_up.gradient_concat", tensor * 4, l.precision), {}});
  }
  op.forward_live = tensor;
  op.backward_live = tensor * 3;
  b.add(std::move(op));
}

LayerBuilder::Linear expert_linear(const FeedForward& f) {
  LayerBuilder::Linear linear;
  linear.experts = f.experts;
  linear.active_share = f.active_share;
  linear.routed = f.routed;
  return linear;
}

/// From the hidden size to the inner width.
void project_in(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  const auto project = [&](const char* name, double width, bool first, bool last) {
    LayerBuilder::Linear in = expert_linear(f);
    if (!f.routed) {
      const LayerBuilder::Linear shared = column_linear(l, "mlp", last && f.gathers);
      in.input_shares = shared.input_shares;
      in.regather = shared.regather;
    }
    in.name = f.prefix + name;
    in.in = l.hidden();
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
    b.shared_input(f.prefix + "gate_up", l.hidden(), 2);
    project("gate", f.width, true, false);
    project("up", f.width, false, true);
  }
}

}  // namespace

void activation(LayerBuilder& b, Precision precision, const std::string& name, double width) {
  const Bytes tensor = b.row_bytes(width);
  Operator op;
  op.forward.push_back(elementwise(name, tensor * 2, precision));
  op.backward.push_back({elementwise(name + ".backward", tensor * 3, precision), {}});
  op.kept = {{"activation.input", tensor}};
  op.forward_live = tensor;
  op.backward_live = tensor * 2;
  b.add(std::move(op));
}

void feed_forward(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  project_in(b, l, f);
  if (f.routed) b.set_module(Remade::moe_act);
  if (l.config.gated_mlp)
    gated_activation(b, l, f);
  else
    activation(b, l.precision, f.prefix + l.config.activation, f.width);
  b.set_module(Remade::none);
  if (l.config.activation_dropout > 0) b.dropout({.name = f.prefix + "activation_dropout", .width = f.width});
  LayerBuilder::Linear out = expert_linear(f);
  out.bias = l.config.mlp_bias && (f.routed || !l.tensor_parallel());
  out.name = f.prefix + (l.config.gated_mlp ? "down" : "fc2");
  out.in = f.width;
  out.out = l.hidden();
  out.shares_fork_gradient = f.shares_fork_gradient;
  if (!f.routed) out.part = LinearPart::mlp_out;
  b.linear(out);
}

}  // namespace trainyard::transformers
