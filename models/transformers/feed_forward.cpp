#include "models/transformers/layout.hpp"

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
  }
  op.forward_live = tensor;
  op.backward_live = tensor * 3;
  b.add(std::move(op));
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
  LayerBuilder::Linear in{.name = f.prefix + "fc1", .in = l.hidden(), .out = f.width, .bias = l.config.mlp_bias};
  in.experts = f.experts;
  in.active_share = f.active_share;
  in.keeps_input = f.keeps_input;
  LayerBuilder::Linear out = in;
  if (l.config.gated_mlp) {
    b.shared_input(f.prefix + "gate_up", l.hidden(), 2);
    in.name = f.prefix + "gate";
    b.linear(in);
    in.name = f.prefix + "up";
    in.keeps_input = false;
    b.linear(in);
    gated_activation(b, l, f);
  } else {
    b.linear(in);
    activation(b, l.precision, f.prefix + l.config.activation, f.width);
  }
  if (l.config.activation_dropout > 0) b.dropout({.name = f.prefix + "activation_dropout", .width = f.width});
  out.name = f.prefix + (l.config.gated_mlp ? "down" : "fc2");
  out.in = f.width;
  out.out = l.hidden();
  out.keeps_input = true;
  out.shares_fork_gradient = f.shares_fork_gradient;
  b.linear(out);
}

}  // namespace trainyard::transformers
