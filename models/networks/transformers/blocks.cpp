// The parts from which the layers of the families are built.
#include <fmt/format.h>

#include "models/networks/transformers/layout.hpp"

namespace trainyard::transformers {

void residual_norm(LayerBuilder& b, const TransformerLayout& l, const std::string& name, bool casts) {
  b.set_partial(l.sequence_parallel());
  b.set_module(RecomputedPart::layernorm);
  b.norm(l.config.norm, name, l.hidden(), casts);
  b.set_module(RecomputedPart::none);
  b.set_partial(false);
}

void begin_branch(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Readers readers) {
  b.fork(name + "_residual", l.hidden());
  if (l.norms_input()) residual_norm(b, l, name + "_norm", readers == Readers::products && l.norms_cast());
}

void end_branch(LayerBuilder& b, const TransformerLayout& l, const std::string& name) {
  if (l.norms_output()) residual_norm(b, l, name + "_output_norm");
  const bool dropout = l.config.residual_dropout > 0, fused = l.options.fused_bias_dropout_add;
  if (dropout)
    b.dropout({.name = name + "_residual_dropout", .width = l.hidden(), .shares_fork_gradient = true, .fused = fused});
  b.join(name + "_residual", dropout && fused ? Bytes{b.rows() * l.hidden()} : Bytes{});
  if (l.config.norm_place == NormPlace::after) residual_norm(b, l, name + "_norm");
}

namespace {

/// Adds attention without norm and residual.
void attention_part(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  const AttentionShape shape = self_attention_shape(l, index);
  begin_columns(b, l, "attention", readers_of(l, LinearPart::qkv));
  self_attention(b, l, shape);
  output_projection(b, l, shape);
  end_rows(b, l, "attention");
  if (l.config.attention_output_bias) row_bias(b, l, "projection.bias");
}

}  // namespace

void attention_branch(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  begin_branch(b, l, "attention", readers_of(l, LinearPart::qkv));
  attention_part(b, l, index);
  end_branch(b, l, "attention");
}

void feed_forward_part(LayerBuilder& b, const TransformerLayout& l, bool keeps_input) {
  const Readers readers = readers_of(l, LinearPart::mlp_in);
  begin_columns(b, l, "mlp", readers);
  b.set_region(RecomputedPart::mlp);
  feed_forward(
      b, l,
      {.width = l.ffn(), .keeps_input = keeps_input, .shares_fork_gradient = l.adds_output(), .readers = readers});
  b.set_region(RecomputedPart::none);
  end_rows(b, l, "mlp");
  if (l.config.mlp_bias) row_bias(b, l, l.config.gated_mlp ? "down.bias" : "fc2.bias");
}

void feed_forward_branch(LayerBuilder& b, const TransformerLayout& l) {
  begin_branch(b, l, "mlp", readers_of(l, LinearPart::mlp_in));
  feed_forward_part(b, l, true);
  end_branch(b, l, "mlp");
}

void select_rows(LayerBuilder& b, const TransformerLayout& l, const std::string& name, double rows) {
  const Bytes all = b.row_bytes(l.hidden());
  b.set_rows(rows);
  const Bytes selected = b.row_bytes(l.hidden());
  Operator op;  // backward: a zero gradient of all rows, into which the selected rows are written
  op.forward.push_back(elementwise(name, selected * 2, l.precision));
  op.backward.push_back({elementwise(name + ".backward", all + selected * 2, l.precision), {}});
  op.forward_live = selected;
  op.backward_live = all + selected;
  b.add(std::move(op));
}

void add_positions(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes positions, int terms) {
  const Bytes tensor = b.residual_bytes(l.hidden());
  Operator sum;
  sum.forward.push_back(elementwise(name, tensor * terms + positions, l.precision));
  // All samples have the same positions, so their gradient is summed over the samples.
  if (l.samples > 1) sum.backward.push_back({elementwise(name + ".backward", tensor + positions, l.precision), {}});
  sum.forward_live = tensor * terms + positions;
  sum.backward_live = tensor + positions;
  b.add(std::move(sum));
}

void token_embedding(LayerBuilder& b, const TransformerLayout& l, const std::string& prefix) {
  const bool first = prefix.empty();
  look_up(b, l, prefix + "token_embedding", prefix + "embedding",
          first && (l.config.tie_word_embeddings || l.config.further_tokens > 0), first);
}

/// Each rank looks up the tokens in its part of the vocabulary. The sum over ranks has the rows of all tokens.
void look_up(LayerBuilder& b, const TransformerLayout& l, const std::string& name, const std::string& exchange,
             bool tied, bool owned) {
  b.set_rows(l.rows());
  b.embedding(
      {.name = name, .entries = l.vocab(), .width = l.hidden(), .lookups = l.rows(), .tied = tied, .owned = owned});
  if (!l.tensor_parallel()) return;
  LayerBuilder::Crossing c;
  c.in = l.hidden_bytes();
  c.out = l.hidden_bytes() / l.sequence_shares();
  if (l.sequence_parallel()) {
    c.forward = {exchange + ".scatter", Axis::tensor, ExchangeKind::reduce_scatter, c.in};
    c.backward = {exchange + ".gather", Axis::tensor, ExchangeKind::all_gather, c.in};
  } else {
    c.forward = {exchange + ".reduce", Axis::tensor, ExchangeKind::all_reduce, c.in};
  }
  b.cross(std::move(c));
  b.set_rows(l.residual_rows());
}

void learned_positions(LayerBuilder& b, const TransformerLayout& l, const std::string& name, const std::string& sum,
                       double entries) {
  const double rank_tokens = l.tokens() / l.sequence_shares();
  b.set_partial(l.sequence_parallel());
  b.embedding({.name = name, .entries = entries, .width = l.hidden(), .lookups = rank_tokens});
  b.set_partial(false);
  add_positions(b, l, sum, b.residual_element() * (rank_tokens * l.hidden()), 2);
}

Layer embedding_layer(const TransformerLayout& l) {
  LayerBuilder b = l.builder("embedding");
  token_embedding(b, l);
  const Bytes tensor = b.residual_bytes(l.hidden());
  if (l.config.position_embedding == PositionEmbedding::learned) {
    learned_positions(b, l, "position_embedding", "embedding_sum",
                      static_cast<double>(l.config.max_position_embeddings));
  }
  if (l.config.embedding_norm) residual_norm(b, l, "embedding_norm");
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  return std::move(b).build(tensor);
}

namespace {
std::string name_of_block(std::int64_t index) { return "block " + std::to_string(index); }
}  // namespace

Layer dense_block(const TransformerLayout& l, std::int64_t index) {
  LayerBuilder b = l.builder(name_of_block(index));
  attention_branch(b, l, index);
  feed_forward_branch(b, l);
  return l.finish_block(std::move(b));
}

bool activation_casts(const TransformerLayout& l, const FeedForward& f) {
  const TransformerOptions& o = l.options;
  return o.fp8 && o.fused_operations && o.fused_gated_activation && o.fused_projections && l.config.gated_mlp &&
         l.config.activation_dropout == 0 && !f.routed &&
         (o.fp8_scaling == Fp8Scaling::delayed || o.fp8_scaling == Fp8Scaling::block);
}

namespace {

/// Layers that predict further tokens (DeepSeek-AI 2024, DeepSeek-V3, section 2.2). Each projects the hidden state and the
/// embedding of the next token to one row, which goes through one more block, and then through the output projection of
/// the model. The projection is not split over tensor ranks: each computes its own rows.
void predict_further_tokens(LayerBuilder& b, const TransformerLayout& l, Branches branches) {
  for (std::int64_t i = 0; i < l.config.further_tokens; ++i) {
    const std::string prefix = l.config.further_tokens > 1 ? fmt::format("mtp.{}.", i) : "mtp.";
    token_embedding(b, l, prefix);
    residual_norm(b, l, prefix + "embedding_norm");
    residual_norm(b, l, prefix + "hidden_norm");
    b.set_fp8(l.products());
    const Bytes both = b.row_bytes(2 * l.hidden());
    b.mover(prefix + "concat", both, both);
    b.set_partial(l.sequence_parallel());
    b.linear({.name = prefix + "projection", .in = 2 * l.hidden(), .out = l.hidden()});
    b.set_partial(false);
    branches(b, l, l.config.num_hidden_layers + i);
    residual_norm(b, l, prefix + "final_norm");
    vocabulary_loss(b, l, false, prefix);
  }
}

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
    Bytes output = tensor, gradients = tensor * 2;
    if (activation_casts(l, f)) {
      output = l.products().cast_traffic(b.rows() * f.width, Bytes{0}, !l.options.adapters.has_rank());
      gradients = l.products().cast_traffic(b.rows() * f.width * 2, Bytes{0}, false);
    }
    op.forward.push_back(elementwise(name + "_mul", tensor * 2 + output, l.precision));
    op.backward.push_back({elementwise(name + "_mul.backward", tensor * 3 + gradients, l.precision), {}});
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
/// half, and a concatenation. Backward: a kernel for each half that reads what was clamped, and a concatenation. Halves are
/// strided: every second run of `width` elements.
void clamp_inputs(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  if (!f.routed || l.config.activation_limit == 0 || !l.options.weighted_expert_activation ||
      !l.options.experts_in_turn)
    return;
  const Bytes half = b.row_bytes(f.width);
  Operator op;
  const auto kernel = [&](const char* name, double halves) {
    return strided_elementwise(std::string("experts.clamp.") + name, half * halves, l.precision);
  };
  const KernelCall concat = elementwise("experts.clamp.concat", half * 4, l.precision);
  op.forward = {kernel("gate", 2), kernel("up", 2), concat};
  op.forward.back().host_reads = true;  // the host copies the offset of the activation to the GPU, and waits for it
  op.backward = {{kernel("gate.backward", 3), {}}, {kernel("up.backward", 3), {}}, {concat, {}}};
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
    in.gradient_cast_before = activation_casts(l, f);
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

Layer language_head(const TransformerLayout& l, Branches branches) {
  LayerBuilder b = l.builder("head");
  if (l.config.norm_place != NormPlace::after) residual_norm(b, l, "final_norm");  // else the last block ends with one
  vocabulary_loss(b, l, l.config.head_bias);
  if (branches) predict_further_tokens(b, l, branches);
  return std::move(b).build(Bytes{});
}

void vocabulary_loss(LayerBuilder& b, const TransformerLayout& l, bool bias, const std::string& prefix) {
  b.set_fp8({});
  const std::string head = prefix + "head";
  begin_columns(b, l, head, Readers::others);
  LayerBuilder::Linear projection = column_linear(l, head, true, Readers::others);
  projection.name = prefix + "output";
  projection.out = l.vocab();
  projection.bias = bias;
  if (l.sequence_parallel() && l.options.lasting_gather_buffer) {
    projection.regather_buffer = false;
    b.add_lasting(l.hidden_bytes());
  }
  if (l.config.tie_word_embeddings || !prefix.empty())
    b.tied_linear(projection);
  else
    b.linear(projection);
  if (l.tensor_parallel())
    b.sharded_cross_entropy(head, l.vocab(), l.options.fused_loss);
  else
    b.cross_entropy(l.vocab(), l.options.fused_loss);
}

void attention_beside(LayerBuilder& b, const TransformerLayout& l, std::int64_t index,
                      void (*add_other)(LayerBuilder&, const TransformerLayout&)) {
  begin_branch(b, l, "block", readers_of(l, LinearPart::qkv));
  b.shared_input("block", l.hidden(), 2);
  attention_part(b, l, index);
  const Bytes tensor = b.residual_bytes(l.hidden());
  b.hold(tensor, tensor);  // the output of attention, and backward the gradient of the norm's output
  add_other(b, l);
  b.release();
  Operator sum;  // backward both branches have the gradient of their sum
  sum.forward.push_back(elementwise("branches_sum", tensor * 3, l.precision));
  sum.forward_live = tensor * 3;
  b.add(std::move(sum));
  end_branch(b, l, "block");
}

std::vector<Layer> layers_between(Layer first, const TransformerLayout& l, Layer last,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index)) {
  std::vector<Layer> layers{std::move(first)};
  layers.reserve(static_cast<std::size_t>(l.config.num_hidden_layers) + 2);
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) {
    // Dense blocks differ only in their names and in the windows of their attention.
    const bool is_copy =
        block == dense_block && i > 0 && self_attention_shape(l, i).window == self_attention_shape(l, i - 1).window;
    if (is_copy) {
      layers.push_back(layers.back());
      layers.back().name = name_of_block(i);
    } else {
      layers.push_back(block(l, i));
    }
  }
  layers.push_back(std::move(last));
  return layers;
}
std::vector<Layer> decoder_layers(const TransformerLayout& l,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index)) {
  return layers_between(embedding_layer(l), l, language_head(l), block);
}
std::vector<Layer> decoder_layers(const TransformerLayout& l, Branches branches) {
  std::vector<Layer> layers{embedding_layer(l)};
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) {
    LayerBuilder b = l.builder(name_of_block(i));
    branches(b, l, i);
    layers.push_back(l.finish_block(std::move(b)));
  }
  layers.push_back(language_head(l, branches));
  return layers;
}
std::vector<Layer> decoder_layers(const TransformerLayout& l) { return decoder_layers(l, dense_block); }

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

void feed_forward_activation(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  if (l.config.gated_mlp)
    gated_activation(b, l, f);
  else
    activation(b, l.precision, f.prefix + l.config.activation, f.width, kept_input(l, b.row_bytes(f.width)),
               weights_of_rows(b, l, f));
}

void feed_forward(LayerBuilder& b, const TransformerLayout& l, const FeedForward& f) {
  project_in(b, l, f);
  b.set_module(f.routed ? RecomputedPart::moe_act : RecomputedPart::mlp_act);
  clamp_inputs(b, l, f);
  feed_forward_activation(b, l, f);
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
  if (activation_casts(l, f)) out.cast = LayerBuilder::Linear::Cast::done;
  b.linear(out);
}

}  // namespace trainyard::transformers
