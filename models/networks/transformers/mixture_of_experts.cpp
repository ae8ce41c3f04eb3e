#include "models/networks/transformers/layout.hpp"

#include <algorithm>

namespace trainyard::transformers {
namespace {

constexpr Bytes kExpertIndexSize{8};  // torch.long

/// Scores of every expert in fp32, and the best `per_token` of them.
void choose_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const double count = static_cast<double>(e.count), chosen = b.rows() * static_cast<double>(e.per_token);
  LayerBuilder::Linear router;
  router.in = l.hidden();
  if (!l.sharding().folds_experts()) router = column_linear(l, "mlp", e.shared_intermediate_size == 0, Readers::others);
  router.name = "router";
  router.out = count;
  router.bias = e.router_bias;
  b.set_partial(l.tensor_parallel());  // gradients of what the rank's columns make, or of its own tokens
  b.set_fp8({});
  b.linear(router);
  b.set_fp8(l.products());
  b.set_partial(false);
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

/// The ranks that split an expert gather the `own` rows that each was sent to `all` of them; or sum what each made of
/// all rows with its part of the expert, and keep their own.
void share_rows(LayerBuilder& b, const std::string& name, Bytes own, Bytes all, bool gathers) {
  const auto gather = [&](const std::string& of) {
    return Exchange{of, Axis::expert_tensor, Exchanged::all_gather, all};
  };
  const auto scatter = [&](const std::string& of) {
    return Exchange{of, Axis::expert_tensor, Exchanged::reduce_scatter, all};
  };
  LayerBuilder::Crossing c;
  c.forward = gathers ? gather(name) : scatter(name);
  c.backward = gathers ? scatter(name + ".backward") : gather(name + ".backward");
  c.in = gathers ? own : all;
  c.out = gathers ? all : own;
  b.cross(std::move(c));
}

/// `in` bytes of rows become `out` on other ranks, as so many bytes forward and backward.
void send_rows(LayerBuilder& b, const std::string& name, Bytes in, Bytes out, Bytes forward, Bytes backward) {
  LayerBuilder::Crossing c;
  c.forward = {name, Axis::expert, Exchanged::all_to_all, forward};
  c.backward = {name + ".backward", Axis::expert, Exchanged::all_to_all, backward};
  c.in = in;
  c.out = out;
  b.cross(std::move(c));
}

FeedForward routed_feed_forward(const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  FeedForward routed{.prefix = "experts.",
                     .width = static_cast<double>(e.intermediate_size) / l.sharding().expert_shards()};
  routed.experts = static_cast<double>(e.count / l.sharding().expert);
  routed.active_share = static_cast<double>(e.per_token) / static_cast<double>(e.count);
  routed.routed = true;
  return routed;
}

/// What the experts of a token made of it is added up by the router's weights, to `sums` from `outputs`.
void add_outputs(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes outputs, Bytes weights,
                 Bytes sums) {
  Operator op;
  if (l.options.weighted_expert_activation && l.config.gated_mlp) {  // a plain sum: its gradient goes to each row
    op.forward.push_back(elementwise(name, outputs + sums, l.precision));
    op.backward.push_back({elementwise(name + ".backward", sums + outputs, l.precision), {}});
    op.forward_live = outputs + sums;
    op.backward_live = outputs;
    if (l.config.residual_dropout > 0 && !l.sequence_parallel()) op.backward_live += sums;
    b.add(std::move(op));
    return;
  }
  op.forward.push_back(elementwise(name, outputs + weights + sums, l.precision));
  op.backward.push_back({elementwise(name + ".backward", sums + outputs * 2 + weights * 2, l.precision), {}});
  op.kept = {{"experts.output", outputs}};
  op.forward_live = sums;
  op.backward_live = outputs + weights;
  if (l.config.residual_dropout > 0 && !l.sequence_parallel()) op.backward_live += sums;
  b.add(std::move(op));
}

/// One element in fp8, and its share of the scale in fp32 of 128 elements (DeepSeek-AI 2024, §3.3.2).
double fp8_over(Precision precision) {
  return (element_size(Precision::fp8) + element_size(Precision::fp32) / 128.0) / element_size(precision);
}

/// A token goes once to each rank that has some of its experts, and is copied for each of them there; their outputs are
/// added up there, and the ranks' sums on the way back.
void dispatched_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const Sharding& s = l.sharding();
  const double tokens = b.rows(), ranks = parts_of_token(e.routing(), s.expert), fullest = fullest_expert_rank(s);
  const Bytes own = b.row_bytes(l.hidden());
  b.set_rows(tokens * ranks * fullest);
  const Bytes got = b.row_bytes(l.hidden()), sent = own * (ranks * std::max(rows_within_capacity(s), fullest));
  const Bytes narrow = s.fp8_dispatch ? sent * fp8_over(l.precision) : sent;
  send_rows(b, "experts.dispatch", own, got, narrow, sent);
  const double rows = tokens * static_cast<double>(e.per_token) * fullest;
  b.set_rows(rows);
  const Bytes copies = b.row_bytes(l.hidden());
  b.mover("permute", got, copies);
  feed_forward(b, l, routed_feed_forward(l));
  add_outputs(b, l, "unpermute", copies, element_size(Precision::fp32) * rows, got);
  send_rows(b, "experts.return", got, own, sent, narrow);
  b.set_rows(tokens);
}

void routed_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const Sharding& s = l.sharding();
  const double rows = b.rows();
  b.set_rows(rows * rows_within_capacity(s));
  const Bytes sent = b.row_bytes(l.hidden());
  b.set_rows(rows * fullest_expert_rank(s));
  const Bytes got = b.row_bytes(l.hidden());
  const Bytes most = std::max(sent, got);  // what a rank sends and what the fullest one is given count alike
  const double shards = std::max(1, s.expert_tensor);  // of rows too
  const Bytes all = got * shards;
  const bool spread = s.expert > 1, shared = shards > 1;
  const bool sorts = (spread || shared) && e.count > s.expert;  // rows of several experts come mixed
  if (spread) send_rows(b, "experts.dispatch", sent, got, most, most);
  if (shared) share_rows(b, "experts.gather", got, all, true);
  b.set_rows(b.rows() * shards);
  if (sorts) b.mover("experts.sort", all, all);
  feed_forward(b, l, routed_feed_forward(l));
  if (sorts) b.mover("experts.unsort", all, all);
  if (shared) share_rows(b, "experts.scatter", got, all, false);
  b.set_rows(rows);
  if (spread) send_rows(b, "experts.return", got, sent, most, most);
}

/// Each row is the sum of what its experts made of it, by the router's weights.
void combine(LayerBuilder& b, const TransformerLayout& l) {
  const Bytes outputs = b.row_bytes(l.hidden()), weights = element_size(Precision::fp32) * b.rows();
  b.set_rows(b.rows() / static_cast<double>(l.config.experts.per_token));
  add_outputs(b, l, "combine", outputs, weights, b.row_bytes(l.hidden()));
}

void shared_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const bool folds = l.sharding().folds_experts();
  // Where they are split over the tensor axis, their products alone read what is gathered.
  const bool alone = folds && !e.shared_gate && readers_of(l, LinearPart::mlp_in) == Readers::products;
  const Readers readers = alone ? Readers::later_products : Readers::others;
  if (folds) begin_columns(b, l, "mlp", readers);
  if (folds && e.shared_gate) b.shared_input("shared", l.hidden(), 2);
  FeedForward shared{.prefix = "shared.", .width = static_cast<double>(e.shared_intermediate_size) / l.tensor()};
  shared.keeps_input = false;
  shared.gathers = !e.shared_gate;
  shared.readers = shared.gradient_readers = readers;
  shared.shares_fork_gradient = !e.shared_gate && !(folds && l.tensor_parallel()) &&
                                (l.config.residual_dropout == 0 || l.sequence_parallel()) && !l.norms_output();
  feed_forward(b, l, shared);
  const Bytes rows = b.row_bytes(l.hidden()), gate = b.row_bytes(1);
  if (e.shared_gate) {
    LayerBuilder::Linear gate_of_token = column_linear(l, "mlp", true, Readers::others);
    gate_of_token.name = "shared.scale";
    gate_of_token.out = 1;
    gate_of_token.keeps_input = false;
    b.set_partial(l.tensor_parallel());
    b.linear(gate_of_token);
    b.set_partial(false);
    Operator scale;
    scale.forward.push_back(elementwise("shared.scale_mul", rows * 2 + gate, l.precision));
    scale.backward.push_back({elementwise("shared.scale_mul.backward", rows * 3 + gate * 2, l.precision), {}});
    scale.kept = {{"shared.output", rows}, {"shared.scale", gate}};
    scale.forward_live = rows;
    scale.backward_live = rows + gate;
    b.add(std::move(scale));
  }
  if (folds) end_rows(b, l, "mlp", readers);
  const Bytes summed = b.row_bytes(l.hidden());
  Operator sum;  // backward: the gradient goes to both
  sum.forward.push_back(elementwise("experts_sum", summed * 3, l.precision));
  sum.forward_live = summed * 2;
  b.add(std::move(sum));
}

}  // namespace

void mixture_of_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const bool shared = e.shared_intermediate_size > 0;
  const bool gate = e.shared_gate && !l.sharding().folds_experts();  // else it reads what shared experts gather
  b.shared_input("experts", l.hidden(), 2 + (shared ? 1 : 0) + (gate ? 1 : 0));
  choose_experts(b, l);
  if (l.sharding().expert > 1 && l.sharding().one_row_a_rank) {
    dispatched_experts(b, l);
  } else {
    permute(b, l);
    routed_experts(b, l);
    combine(b, l);
  }
  if (shared) shared_experts(b, l);
}

void experts_branch(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  if (index < l.config.experts.first_layer || (index + 1) % l.config.experts.every != 0) {
    feed_forward_branch(b, l);
    return;
  }
  begin_branch(b, l, "mlp");
  if (l.sharding().folds_experts()) {
    mixture_of_experts(b, l);
    end_branch(b, l, "mlp");
    return;
  }
  begin_columns(b, l, "mlp", Readers::others);  // the router too
  const bool gathered = l.sequence_parallel();  // the gradient of the output: it is read until the router's
  if (gathered) b.hold(l.hidden_bytes());
  mixture_of_experts(b, l);
  if (gathered) b.release();
  end_rows(b, l, "mlp", Readers::others);
  end_branch(b, l, "mlp");
}

}  // namespace trainyard::transformers
