#include "models/transformers/layout.hpp"

namespace trainyard::transformers {
namespace {

constexpr Bytes kExpertIndexSize{8};  // torch.long

/// Scores of every expert in fp32, and the best `per_token` of them.
void choose_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const double count = static_cast<double>(e.count), chosen = b.rows() * static_cast<double>(e.per_token);
  b.linear({.name = "router", .in = l.hidden(), .out = count});
  const Bytes logits = b.row_bytes(count), scores = element_size(Precision::fp32) * (b.rows() * count);
  const Bytes weights = element_size(Precision::fp32) * chosen, indices = kExpertIndexSize * chosen;
  Operator op;
  op.forward = {elementwise("router.scores", logits + scores, l.precision),
                elementwise("router.top_k", scores + weights + indices, l.precision)};
  op.backward.push_back({elementwise("router.scores.backward", weights + indices + scores + logits, l.precision), {}});
  // It is moved by the load of the experts, not by the loss: its gradient is zero, but exchanged with the others.
  if (e.correction_bias) op.backward.back().gradients_ready = {b.parameter("router.correction_bias", count)};
  op.kept = {{"router.scores", scores}, {"router.weights", weights}, {"router.indices", indices}};
  op.forward_live = logits;
  op.backward_live = weights + logits;
  b.add(std::move(op));
}

/// Each row is copied to the place of each of its experts; backward the copies' gradients are added.
void permute(LayerBuilder& b, const TransformerLayout& l) {
  const double per_token = static_cast<double>(l.config.experts.per_token);
  const Bytes rows = b.row_bytes(l.hidden());
  b.mover("permute", rows, rows * per_token);
  b.set_rows(b.rows() * per_token);
}

/// Each row is the sum of what its experts made of it, by the router's weights.
void combine(LayerBuilder& b, const TransformerLayout& l) {
  const Bytes outputs = b.row_bytes(l.hidden()), weights = element_size(Precision::fp32) * b.rows();
  b.set_rows(b.rows() / static_cast<double>(l.config.experts.per_token));
  const Bytes rows = b.row_bytes(l.hidden());
  Operator op;
  op.forward.push_back(elementwise("combine", outputs + weights + rows, l.precision));
  op.backward.push_back({elementwise("combine.backward", rows + outputs * 2 + weights * 2, l.precision), {}});
  op.kept = {{"experts.output", outputs}};
  op.forward_live = rows;
  op.backward_live = outputs + weights;
  if (l.config.residual_dropout > 0) op.backward_live += rows;
  b.add(std::move(op));
}

void shared_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  FeedForward shared{.prefix = "shared.", .width = static_cast<double>(e.shared_intermediate_size)};
  shared.keeps_input = false;
  shared.shares_fork_gradient = !e.shared_gate && l.config.residual_dropout == 0;
  feed_forward(b, l, shared);
  const Bytes rows = b.row_bytes(l.hidden()), gate = b.row_bytes(1);
  if (e.shared_gate) {
    b.linear({.name = "shared.scale", .in = l.hidden(), .out = 1, .keeps_input = false});
    Operator scale;
    scale.forward.push_back(elementwise("shared.scale_mul", rows * 2 + gate, l.precision));
    scale.backward.push_back({elementwise("shared.scale_mul.backward", rows * 3 + gate * 2, l.precision), {}});
    scale.kept = {{"shared.output", rows}, {"shared.scale", gate}};
    scale.forward_live = rows;
    scale.backward_live = rows + gate;
    b.add(std::move(scale));
  }
  Operator sum;  // backward: the gradient goes to both
  sum.forward.push_back(elementwise("experts_sum", rows * 3, l.precision));
  sum.forward_live = rows * 2;
  b.add(std::move(sum));
}

}  // namespace

void mixture_of_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const bool shared = e.shared_intermediate_size > 0;
  b.shared_input("experts", l.hidden(), 2 + (shared ? 1 : 0) + (e.shared_gate ? 1 : 0));
  choose_experts(b, l);
  permute(b, l);
  FeedForward routed{.prefix = "experts.", .width = static_cast<double>(e.intermediate_size)};
  routed.experts = static_cast<double>(e.count);
  routed.active_share = static_cast<double>(e.per_token) / routed.experts;
  feed_forward(b, l, routed);
  combine(b, l);
  if (shared) shared_experts(b, l);
}

void experts_branch(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  if (index < l.config.experts.first_layer) {
    feed_forward_branch(b, l);
    return;
  }
  begin_branch(b, l, "mlp");
  mixture_of_experts(b, l);
  end_branch(b, l, "mlp");
}

}  // namespace trainyard::transformers
