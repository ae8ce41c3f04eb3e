#include "models/networks/transformers/layout.hpp"

#include <algorithm>

namespace trainyard::transformers {
namespace {

/// Computes the scores of all experts in fp32, and chooses the best: `per_token` of those that compute, and as large a
/// share of those that do not. If a table names the experts of each token (Roller et al. 2021, hash layers), only their
/// scores are gathered. The table itself, some megabytes, is not counted.
void choose_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const double count = static_cast<double>(e.count + e.idle),
               chosen = b.rows() * (static_cast<double>(e.per_token) * (count / static_cast<double>(e.count)));
  LayerBuilder::Linear router;
  router.in = l.hidden();
  if (!l.sharding().folds_experts()) router = column_linear(l, "mlp", e.shared_intermediate_size == 0, Readers::others);
  router.name = "router";
  router.out = count;
  router.bias = e.router_bias;
  b.set_partial(l.tensor_parallel());  // the rank has the gradient of its columns or of its own tokens
  b.set_fp8({});
  b.linear(router);
  b.set_fp8(l.products());
  b.set_partial(false);
  const Bytes logits = b.row_bytes(count), scores = element_size(Precision::fp32) * (b.rows() * count);
  const Bytes weights = element_size(Precision::fp32) * chosen, indices = kIndexSize * chosen;
  Operator op;
  op.forward = {elementwise("router.scores", logits + scores, l.precision),
                e.by_token ? elementwise("router.look_up", (weights + indices) * 2, l.precision)
                           : elementwise("router.top_k", scores + weights + indices, l.precision)};
  op.forward.back().host_reads = l.sharding().expert_capacity == 0;
  op.backward.push_back({elementwise("router.scores.backward", weights + indices + scores + logits, l.precision), {}});
  // The load of the experts updates the bias, not the loss: its gradient is zero, but is exchanged with the others.
  if (e.correction_bias) op.backward.back().gradients_ready = {b.parameter("router.correction_bias", count)};
  op.saved_tensors = {{"router.scores", scores}, {"router.weights", weights}, {"router.indices", indices}};
  op.forward_live = logits;
  op.backward_live = weights + logits;
  b.add(std::move(op));
}

/// Copies each row to each of its experts. Backward the gradients of the copies are added.
void permute(LayerBuilder& b, const TransformerLayout& l) {
  const double per_token = static_cast<double>(l.config.experts.per_token);
  const Bytes rows = b.row_bytes(l.expert_rows_width());
  b.mover("permute", rows, rows * per_token);
  b.set_rows(b.rows() * per_token);
}

/// Adds an exchange of the ranks that split an expert. gathers: the ranks gather the rows of each rank to `all` rows.
/// Otherwise they sum the outputs of their parts of the expert for all rows, and each rank keeps its rows.
void share_rows(LayerBuilder& b, const std::string& name, Bytes rank_rows, Bytes all, bool gathers) {
  const auto gather = [&](const std::string& exchange) {
    return Exchange{exchange, Axis::expert_tensor, ExchangeKind::all_gather, all};
  };
  const auto scatter = [&](const std::string& exchange) {
    return Exchange{exchange, Axis::expert_tensor, ExchangeKind::reduce_scatter, all};
  };
  LayerBuilder::Crossing c;
  c.forward = gathers ? gather(name) : scatter(name);
  c.backward = gathers ? scatter(name + ".backward") : gather(name + ".backward");
  c.in = gathers ? rank_rows : all;
  c.out = gathers ? all : rank_rows;
  b.cross(std::move(c));
}

/// Sends rows to other ranks: `in` bytes of tensors become `out`. `forward` and `backward` are the bytes that are sent.
/// `returns`: forward, rows come back from their experts.
void send_rows(LayerBuilder& b, const std::string& name, Bytes in, Bytes out, Bytes forward, Bytes backward,
               bool returns) {
  LayerBuilder::Crossing c;
  c.forward = {name, Axis::expert, ExchangeKind::all_to_all, forward};
  c.forward.returns = returns;
  c.backward = {name + ".backward", Axis::expert, ExchangeKind::all_to_all, backward};
  c.backward.returns = !returns;
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

/// Adds the outputs of a token's experts with the router's weights: `outputs` bytes become `sums`.
void add_outputs(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes outputs, Bytes weights,
                 Bytes sums) {
  Operator op;
  if (l.options.weighted_expert_activation) {  // a sum without weights: its gradient goes to each row
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
  op.saved_tensors = {{"experts.output", outputs}};
  op.forward_live = sums;
  op.backward_live = outputs + weights;
  if (l.config.residual_dropout > 0 && !l.sequence_parallel()) op.backward_live += sums;
  b.add(std::move(op));
}

/// True if eager kernels add the biases of experts one expert after another (see add_weighted_bias).
bool weighs_biases(const TransformerLayout& l) {
  return l.config.mlp_bias && l.options.weighted_expert_activation && l.options.experts_in_turn;
}

/// Adds the biases of the experts' outputs, each times the router's weight of its row, as eager kernels do it if the
/// weights of the rows are applied in the activation (Megatron-Core, moe/experts.py, TEGroupedMLP._apply_bias). The weights
/// are in fp32, so the products and sums are too. Forward: products, sums, their concatenation over the experts, a cast.
/// Backward: the same casts, a concatenation, and the products of the gradient with weights and biases. The kernel of the
/// bias's gradient belongs to the linear layer. The host launches products and sums for each expert of the rank: two
/// kernels forward, and backward two products, each with its sum. Kernels that mix 16 bits and fp32, or read a weight for
/// a row, load one element at a time.
void add_weighted_bias(LayerBuilder& b, const TransformerLayout& l) {
  if (!weighs_biases(l)) return;
  const Bytes output = b.row_bytes(l.expert_rows_width());
  const Bytes wide = element_size(Precision::fp32) * (b.rows() * l.expert_rows_width());
  const double experts = static_cast<double>(l.config.experts.count / l.sharding().expert);
  const auto kernel = [&](const char* name, Bytes moved) {
    return elementwise(std::string("experts.bias.") + name, moved, l.precision);
  };
  const auto mixed = [&](const char* name, Bytes moved, double launches = 1) {
    KernelCall call = strided_elementwise(std::string("experts.bias.") + name, moved, l.precision);
    spread_launches({&call}, launches);
    return call;
  };
  KernelCall sums = kernel("weigh.sums", wide);
  spread_launches({&sums}, 2 * experts);
  Operator op;
  op.forward = {mixed("weigh", wide, experts), mixed("add", output + wide * 2, experts), kernel("concat", wide * 2),
                kernel("cast", wide + output)};
  op.backward = {{mixed("cast.backward", output + wide), {}},
                 {kernel("add.backward", wide + output * 3), {}},
                 {mixed("weigh.backward", wide * 4, 2 * experts), {}},
                 {sums, {}}};
  op.forward_live = output + wide * 2;
  op.backward_live = wide * 2;
  b.add(std::move(op));
}

/// Ratio of the size of an element in fp8, with its share of an fp32 scale for 128 elements (DeepSeek-AI 2024, §3.3.2),
/// to that in another precision.
double fp8_ratio(Precision precision) {
  return (element_size(Precision::fp8) + element_size(Precision::fp32) / 128.0) / element_size(precision);
}

/// A token goes once to each rank that has some of its experts, and is copied there for each of them. Their outputs are
/// summed there, and the sums of the ranks are added when they come back.
void dispatched_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const Sharding& s = l.sharding();
  const double tokens = b.rows(), ranks = parts_of_token(e.routing(), s.expert), fullest = fullest_expert_rank(s),
               load = rows_of_expert_rank(s);
  const Bytes rank_rows = b.row_bytes(l.expert_rows_width());
  b.set_rows(tokens * ranks * load);
  const Bytes received = b.row_bytes(l.expert_rows_width()),
              sent = rank_rows * (ranks * std::max(rows_within_capacity(s), fullest));
  const Bytes narrow = s.fp8_dispatch ? sent * fp8_ratio(l.precision) : sent;
  send_rows(b, "experts.dispatch", rank_rows, received, narrow, sent, false);
  const double rows = tokens * static_cast<double>(e.per_token) * load;
  b.set_rows(rows);
  const Bytes copies = b.row_bytes(l.expert_rows_width());
  b.mover("permute", received, copies);
  feed_forward(b, l, routed_feed_forward(l));
  add_weighted_bias(b, l);
  add_outputs(b, l, "unpermute", copies, element_size(Precision::fp32) * rows, received);
  send_rows(b, "experts.return", received, rank_rows, sent, narrow, true);
  b.set_rows(tokens);
}

void routed_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const Sharding& s = l.sharding();
  const double rows = b.rows();
  b.set_rows(rows * rows_within_capacity(s));
  const Bytes sent = b.row_bytes(l.expert_rows_width());
  b.set_rows(rows * fullest_expert_rank(s));
  const Bytes most = std::max(sent, b.row_bytes(l.expert_rows_width()));  // the fullest rank may receive more
  b.set_rows(rows * rows_of_expert_rank(s));
  const Bytes received = b.row_bytes(l.expert_rows_width());
  const double shards = std::max(1, s.expert_tensor);  // rows are split over these ranks too
  const Bytes all = received * shards;
  const bool spread = s.expert > 1, shared = shards > 1;
  const bool sorts = (spread || shared) && e.count > s.expert;  // rows of several experts arrive mixed
  if (spread) send_rows(b, "experts.dispatch", sent, received, most, most, false);
  if (shared) share_rows(b, "experts.gather", received, all, true);
  b.set_rows(b.rows() * shards);
  if (sorts) b.mover("experts.sort", all, all);
  feed_forward(b, l, routed_feed_forward(l));
  add_weighted_bias(b, l);
  if (sorts) b.mover("experts.unsort", all, all);
  if (shared) share_rows(b, "experts.scatter", received, all, false);
  b.set_rows(rows);
  if (spread) send_rows(b, "experts.return", received, sent, most, most, true);
}

/// Sums the outputs of the experts of each row with the router's weights.
void combine(LayerBuilder& b, const TransformerLayout& l) {
  const Bytes outputs = b.row_bytes(l.expert_rows_width()), weights = element_size(Precision::fp32) * b.rows();
  b.set_rows(b.rows() / static_cast<double>(l.config.experts.per_token));
  add_outputs(b, l, "combine", outputs, weights, b.row_bytes(l.expert_rows_width()));
}

/// The products of one sample with masks: a mask has an element for each token and each row of all experts.
struct MaskedProducts {
  double samples, tokens, slots;

  MaskedProducts(const LayerBuilder& b, const TransformerLayout& l)
      : samples(l.samples),
        tokens(b.rows() / l.samples),
        slots(tokens * static_cast<double>(l.config.experts.per_token) * l.sharding().expert_capacity) {}
  Bytes mask(const TransformerLayout& l) const { return l.size() * (samples * tokens * slots); }
};

/// A product with the mask of the router's choices, one a sample, copies each row to its experts. The rows that an expert
/// lacks to its capacity are zero. The mask has no gradient.
void permute_by_mask(LayerBuilder& b, const TransformerLayout& l) {
  const MaskedProducts p(b, l);
  const double width = l.expert_rows_width();
  Operator op;
  op.forward = {elementwise("router.masks", p.mask(l), l.precision),
                gemm("permute", p.slots, width, p.tokens, l.precision, p.samples)};
  op.backward.push_back({gemm("permute.dgrad", p.tokens, width, p.slots, l.precision, p.samples), {}});
  op.saved_tensors = {{"router.masks", p.mask(l)}};
  op.forward_live = op.backward_live = l.size() * (p.samples * p.slots * width);
  b.add(std::move(op));
  b.set_rows(b.rows() * static_cast<double>(l.config.experts.per_token));
}

/// A product with the mask that has the router's weights adds the outputs of the experts of each row.
void combine_by_mask(LayerBuilder& b, const TransformerLayout& l) {
  b.set_rows(b.rows() / static_cast<double>(l.config.experts.per_token));
  const MaskedProducts p(b, l);
  const double width = l.expert_rows_width();
  const Bytes outputs = l.size() * (p.samples * p.slots * width);
  Operator op;
  op.forward.push_back(gemm("combine", p.tokens, width, p.slots, l.precision, p.samples));
  op.backward = {{gemm("combine.dgrad", p.slots, width, p.tokens, l.precision, p.samples), {}},
                 {gemm("combine.weights", p.tokens, p.slots, width, l.precision, p.samples), {}},
                 {elementwise("router.masks.backward", p.mask(l), l.precision), {}}};
  op.saved_tensors = {{"experts.output", outputs}};
  op.forward_live = b.row_bytes(width);
  op.backward_live = outputs + p.mask(l);
  b.add(std::move(op));
}

void shared_experts(LayerBuilder& b, const TransformerLayout& l) {
  const ExpertsConfig& e = l.config.experts;
  const bool folds = l.sharding().folds_experts();
  // If routed experts are not split over the tensor axis, only the products of shared experts read the gathered tensor.
  const bool only_products = folds && !e.shared_gate && readers_of(l, LinearPart::mlp_in) == Readers::products;
  const Readers readers = only_products ? Readers::later_products : Readers::others;
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
    scale.saved_tensors = {{"shared.output", rows}, {"shared.scale", gate}};
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
  const bool gate =
      e.shared_gate &&
      !l.sharding().folds_experts();  // if they fold, the gate reads the tensor gathered for shared experts
  b.set_region(RecomputedPart::moe);
  b.shared_input("experts", l.hidden(), 2 + (shared ? 1 : 0) + (gate ? 1 : 0));
  choose_experts(b, l);
  const double launches = l.options.expert_layer_launches,
               paired = l.sharding().pairs_passes && l.products().is_used ? l.options.paired_launches : 0,
               an_expert = l.options.expert_launches + (weighs_biases(l) ? 2 : 0);
  const bool counts = l.products().is_used || l.options.expert_launches_in_16_bits;
  if (launches > 0 && counts && l.sharding().expert_capacity == 0)
    b.set_launches(launches + paired + an_expert * static_cast<double>(e.count / l.sharding().expert));
  if (e.latent_size > 0)
    b.linear({.name = "latent_down", .in = l.hidden(), .out = l.expert_rows_width(), .keeps_input = false});
  if (l.sharding().expert > 1 && l.sharding().one_row_a_rank) {
    dispatched_experts(b, l);
  } else {
    const bool masks = l.sharding().expert_masks;
    masks ? permute_by_mask(b, l) : permute(b, l);
    routed_experts(b, l);
    masks ? combine_by_mask(b, l) : combine(b, l);
  }
  if (e.latent_size > 0) b.linear({.name = "latent_up", .in = l.expert_rows_width(), .out = l.hidden()});
  if (shared) shared_experts(b, l);
  b.set_region(RecomputedPart::none);
}

void experts_branch(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  const ExpertsConfig& e = l.config.experts;
  if (e.count == 0 || index < e.first_layer || (index + 1) % e.layer_interval != 0) {
    feed_forward_branch(b, l);
    return;
  }
  begin_branch(b, l, "mlp");
  exchanged_experts(b, l, "mlp");
  end_branch(b, l, "mlp");
}

void exchanged_experts(LayerBuilder& b, const TransformerLayout& l, const std::string& prefix) {
  if (l.sharding().folds_experts()) return mixture_of_experts(b, l);
  begin_columns(b, l, prefix, Readers::others);       // the router reads it too
  const bool holds_gradient = l.sequence_parallel();  // the gathered gradient of the output lives until the router's
  if (holds_gradient) b.hold(l.hidden_bytes());
  mixture_of_experts(b, l);
  if (holds_gradient) b.release();
  end_rows(b, l, prefix, Readers::others);
}

}  // namespace trainyard::transformers
