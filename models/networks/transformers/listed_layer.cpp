// Layers of a network that a document writes as operators.
#include "models/networks/transformers/listed_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/networks/layers/sharding.hpp"
#include "models/networks/transformers/special_operators.hpp"

namespace trainyard::transformers {

bool is_on_every_rank(const ListedOperator& op) {
  const auto rows = op.sizes.find("rows");
  return op.is("every_rank") || (rows != op.sizes.end() && rows->second == "sample");
}

bool is_norm(const ListedOperator& op) { return op.word.ends_with("_norm") && op.split.empty() && !op.states("heads"); }

bool is_after_norm(const std::vector<ListedOperator>& operators, std::size_t index) {
  return index > 0 && is_norm(operators[index - 1]);
}

ListedLayerBuilder::ListedLayerBuilder(const ListedNetwork& network, const ListedLayer& layer, const std::string& name)
    : network_(network), l_(network.layout), layer_(layer), b_(l_.builder(name)), config_(l_.config) {
  if (!is_block()) b_.set_fp8({});
}

Layer ListedLayerBuilder::build(Bytes input) && {
  add_all(layer_.operators, false);
  if (is_block()) b_.set_recomputed_parts(l_.sharding().remade);
  const Bytes bytes = output();
  return std::move(b_).build(bytes, is_block() ? l_.sharding().recompute : Recompute::none, input);
}

double ListedLayerBuilder::value(const std::string& formula, const Place& place) const {
  return size_value(formula, network_.sizes, place, "model.layers: " + layer_.name);
}

TransformerLayout ListedLayerBuilder::layout_of(const ListedOperator& op, double hidden) {
  config_.hidden_size = std::llround(hidden);
  return {config_, is_on_every_rank(op) ? network_.local : l_.options, l_.precision, l_.samples, rows_of_sample(op)};
}

void ListedLayerBuilder::set_rows(const ListedOperator& op, bool has_all_tokens) {
  const double rows = rows_of_sample(op), ranks = is_on_every_rank(op) ? 1 : l_.context();
  const double shares = has_all_tokens || is_on_every_rank(op) ? 1 : l_.sequence_shares();
  if (std::fmod(rows / ranks, shares) != 0)
    throw ShardingError("sequence",
                        fmt::format("{}: {:.10g} tensor ranks share the {:.10g} rows of a sample of {}, which must be "
                                    "a multiple of them; state every_rank: true, or expected other ranks",
                                    l_.config.name, shares, rows / ranks, op.name),
                        op.place);
  b_.set_rows(l_.samples * rows / ranks / shares);
  b_.set_active_share(std::min(1.0, rows / network_.sizes.at("tokens")));
}

/// Bytes of the output of the layer.
Bytes ListedLayerBuilder::output() {
  if (layer_.width.empty()) return Bytes{};
  b_.set_rows(l_.samples * value(layer_.rows, layer_.place) / l_.context() / l_.sequence_shares());
  return b_.residual_bytes(value(layer_.width, layer_.place));
}

/// Finds products by columns, an activation and a product by rows that follow each other.
void ListedLayerBuilder::find_feed_forward(const Operators& operators) {
  for (std::size_t first = 0; first < operators.size(); ++first) {
    bool activates = false;
    for (std::size_t i = first; i < operators.size() && !operators[i].split.empty(); ++i) {
      const std::string& word = operators[i].word;
      activates = activates || word == "activation";
      if (word != "linear" && word != "activation" && word != "multiply") break;
      if (operators[i].split != "rows") continue;
      for (std::size_t k = first; activates && k <= i; ++k) feed_forward_.insert(&operators[k]);
      break;
    }
  }
}

void ListedLayerBuilder::add_all(const Operators& operators, bool is_branch) {
  find_feed_forward(operators);
  const ListedOperator* before = nullptr;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const ListedOperator& op = operators[i];
    const bool is_sharded_loss = op.word == "cross_entropy" && before && before->split == "columns";
    const bool has_all_tokens = !op.split.empty() || op.word == "attention" || is_sharded_loss || is_gathered_;
    set_rows(op, has_all_tokens);
    is_last_ = is_branch && i + 1 == operators.size();
    // Weights see the rank's own tokens, or all tokens and a part of the gradient.
    const bool own_tokens = !has_all_tokens && !is_on_every_rank(op) && l_.sequence_parallel();
    b_.set_partial(!splits_itself(op) && (own_tokens || (is_gathered_ && op.split.empty() && l_.tensor_parallel())));
    if (is_sharded_loss) {
      config_.vocab_size = std::llround(size(op, "classes"));
      const double classes = layout_of(op).vocab();
      if (l_.tensor_parallel())
        b_.sharded_cross_entropy(op.name, classes, l_.options.fused_loss);
      else
        b_.cross_entropy(classes, l_.options.fused_loss);
    } else {
      add(operators, i);
    }
    b_.set_partial(false);
    before = &operators[i];
  }
  is_gathered_ = false;
}

void ListedLayerBuilder::add(const Operators& operators, std::size_t& index) {
  const ListedOperator& op = operators[index];
  if (op.word == "linear") return linear(operators, index);
  if (op.word == "layer_norm" || op.word == "rms_norm") return norm(operators, index);
  if (op.word == "plain_norm") return plain_norm(op);
  if (op.word == "scale") return scale(op);
  if (op.word == "activation") return activate(op);
  if (op.word == "multiply") return multiply(op);
  if (op.word == "attention") return attend(op);
  if (op.word == "residual") return residual(op);
  if (op.word == "hyper_connection") return hyper_connection(op);
  if (op.word == "embedding") return embed(op);
  if (op.word == "learned") return learned(op);
  if (op.word == "tables") return tables(op);
  if (op.word == "interaction") return interaction(op);
  if (op.word == "mean_squared_error") return mean_squared_error(op);
  if (op.word == "cross_entropy") return b_.cross_entropy(size(op, "classes"), l_.options.fused_loss);
  if (op.word == "move")
    return b_.mover(op.name, b_.row_bytes(size(op, "in") / shares(op)), b_.row_bytes(size(op, "out") / shares(op)));
  const TransformerLayout l = layout_of(op);
  if (op.word == "positions") {
    if (const double entries = size(op, "entries"); rows_of_sample(op) > entries)
      fail(op.place, fmt::format("model.layers: {}: {:.10g} tokens, and the table has {:.10g} positions", op.name,
                                 rows_of_sample(op), entries));
    return learned_positions(b_, l, op.name, op.name + ".sum", size(op, "entries"));
  }
  if (op.word == "gather") {
    b_.set_rows(l.residual_rows());
    begin_columns(b_, l, op.name, Readers::others);
    is_gathered_ = true;
    return;
  }
  if (op.word == "dropout")
    return b_.dropout({.name = op.name,
                       .width = size(op, "width"),
                       .shares_fork_gradient = is_last_,
                       .fused = is_last_ && l_.options.fused_bias_dropout_add});
  if (op.word == "rotary") {
    const double width = size(op, "width") / shares(op), key = size(op, "key", 0) / shares(op);
    if (key == 0) return b_.mover(op.name, b_.row_bytes(width), b_.row_bytes(width));
    return rotary(b_, l, {.heads = width - key, .key_value_heads = key, .query_width = 1, .value_width = 1});
  }
  if (l_.sequence_parallel() && op.split.empty() && !is_gathered_ && !is_on_every_rank(op)) {
    if (op.word.starts_with("convolution") || op.word == "indexer" || op.is("sequential"))
      throw ShardingError(
          "sequence",
          fmt::format("{}: {} reads the rows of other tensor ranks; expected split: columns, or `gather` before it",
                      l_.config.name, op.name),
          op.place);
    if (op.word == "exchange" && op.words.at("over") == "tensor")
      throw ShardingError("sequence",
                          fmt::format("{}: {} exchanges rows that tensor ranks share; expected `gather` before it, or "
                                      "plan.sequence_parallel: false",
                                      l_.config.name, op.name),
                          op.place);
  }
  // The operator reads the output of a norm, and the gradient of its output is that of the residual.
  const NormPlace place = config_.norm_place;
  config_.norm_place = is_after_norm(operators, index) ? (is_last_ ? NormPlace::before : NormPlace::both)
                                                       : (is_last_ ? NormPlace::after : NormPlace::output);
  add_special_operator(b_, l, op, network_.sizes);
  config_.norm_place = place;
}

void ListedLayerBuilder::residual(const ListedOperator& op) {
  const double width = size(op, "width");
  const bool before = !op.operators.empty() && is_norm(op.operators.front()),
             after = !op.operators.empty() && is_norm(op.operators.back()),
             drops = !op.operators.empty() && op.operators.back().word == "dropout";
  const TransformerConfig outer = config_;
  config_.norm_place = before  ? (after ? NormPlace::both : NormPlace::before)
                       : after ? NormPlace::output
                               : NormPlace::after;
  config_.residual_dropout = drops ? 1 : 0;
  b_.fork(op.name, width);
  add_all(op.operators, true);
  config_ = outer;
  set_rows(op, false);
  b_.join(op.name, drops && l_.options.fused_bias_dropout_add ? Bytes{b_.rows() * width} : Bytes{});
}

/// Several streams of rows in place of one residual. Learned maps, a product of all streams, weigh the streams: for the sum
/// that the branch reads, for its output in each stream, and for the streams among each other, by an iteration on
/// streams x streams numbers (Xie et al. 2026, mHC). One kernel sums the streams for the branch, and one mixes them.
void ListedLayerBuilder::hyper_connection(const ListedOperator& op) {
  const double width = size(op, "width"), streams = size(op, "streams"), all = streams * width;
  const double maps = (2 + streams) * streams;
  const TransformerConfig outer = config_;
  config_.norm_place = NormPlace::before;
  config_.residual_dropout = 0;
  b_.fork(op.name, all);
  b_.shared_input(op.name + ".readers", all, 2);
  b_.set_fp8({});
  b_.linear({.name = op.name + ".maps", .in = all, .out = maps});
  BackwardKernel of_maps = gradient(op.name + ".iteration.backward", b_.row_bytes(3 * maps));
  of_maps.gradients_ready = {b_.parameter(op.name + ".base", maps), b_.parameter(op.name + ".scale", 3)};
  add_kernels(op, b_.row_bytes(2 * maps), {std::move(of_maps)}, {{op.name + ".weights", b_.row_bytes(maps)}},
              b_.row_bytes(maps));
  b_.mover(op.name + ".sum", b_.row_bytes(all + streams), b_.row_bytes(width));
  if (is_block()) b_.set_fp8(l_.products());
  add_all(op.operators, false);
  config_ = outer;
  set_rows(op, false);
  // Backward reads the gradient of the streams, the streams and the branch's output, and writes the branch's gradient.
  Operator mix;
  mix.backward.push_back(gradient(op.name + ".mix.backward", b_.row_bytes(2 * all + 2 * width)));
  mix.saved_tensors = {{op.name + ".branch", b_.row_bytes(width)}};
  mix.backward_live = b_.row_bytes(all + width);
  b_.add(std::move(mix));
  b_.join(op.name + ".mix");
  b_.set_traffic(b_.operators() - 1, b_.row_bytes(2 * all + width));
}

void ListedLayerBuilder::add_kernels(const ListedOperator& op, Bytes forward, std::vector<BackwardKernel> backward,
                                     std::vector<KeptTensor> kept_tensors, Bytes live) {
  Operator kernels;
  kernels.forward.push_back(elementwise(op.name, forward, l_.precision));
  kernels.backward = std::move(backward);
  kernels.saved_tensors = std::move(kept_tensors);
  kernels.forward_live = live;
  kernels.backward_live = live * 2;
  b_.add(std::move(kernels));
}

/// A norm without weights keeps its input, and the fp32 mean and deviation of each row.
void ListedLayerBuilder::plain_norm(const ListedOperator& op) {
  const Bytes tensor = b_.row_bytes(size(op, "width")), statistics = element_size(Precision::fp32) * (2 * b_.rows());
  add_kernels(op, tensor * 2 + statistics, {gradient(op.name + ".backward", tensor * 3 + statistics)},
              {{op.name + ".input", tensor}, {op.name + ".statistics", statistics}}, tensor);
}

/// Rows are multiplied by a vector of their sample, and another one is added (`shift`): the modulation of diffusion
/// transformers. The gradients of the vectors are sums over the rows of a sample.
void ListedLayerBuilder::scale(const ListedOperator& op) {
  const Bytes tensor = b_.row_bytes(size(op, "width"));
  std::vector<BackwardKernel> backward{gradient(op.name + ".backward", tensor * 2),
                                       gradient(op.name + ".scale_grad", tensor * 2)};
  if (op.is("shift")) backward.push_back(gradient(op.name + ".shift_grad", tensor));
  add_kernels(op, tensor * 2, std::move(backward), {{op.name + ".input", tensor}}, tensor);
}

/// Rows times a second input, in one kernel that keeps both.
void ListedLayerBuilder::multiply(const ListedOperator& op) {
  const Bytes tensor = b_.row_bytes(size(op, "width") / shares(op));
  add_kernels(op, tensor * 3, {gradient(op.name + ".backward", tensor * 5)},
              {{op.name + ".left", tensor}, {op.name + ".right", tensor}}, tensor);
}

/// A learned tensor that is added to the rows of all samples alike.
void ListedLayerBuilder::learned(const ListedOperator& op) {
  const double elements = size(op, "elements");
  const Bytes tensor = b_.row_bytes(size(op, "width")), table = l_.size() * elements;
  BackwardKernel backward = gradient(op.name + ".backward", tensor + table);
  backward.gradients_ready = {b_.parameter(op.name + ".weight", elements)};
  add_kernels(op, tensor * 2 + table, {std::move(backward)}, {}, tensor);
}

/// Each expert rank has a part of the tables, and looks up in it for the rows of all of them. Vectors go to the rank
/// that has the row, and gradients go back. The listed operators run meanwhile.
void ListedLayerBuilder::tables(const ListedOperator& op) {
  const double ranks = l_.sharding().expert, vectors = size(op, "tables", 1), width = size(op, "width");
  LayerBuilder::Tables t{.name = op.name,
                         .entries = size(op, "entries"),
                         .width = width,
                         .vectors = vectors,
                         .lookups = size(op, "lookups", vectors),
                         .element = Bytes{size(op, "element", l_.size().value)},
                         .ranks = ranks,
                         .load = fullest_expert_rank(l_.sharding())};
  const Bytes sent = b_.row_bytes(vectors * width) * t.load;
  const auto exchange = [&](const char* what, Bytes bytes) {
    return Exchange{op.name + what, Axis::expert, ExchangeKind::all_to_all, bytes};
  };
  const auto cross = [&](Exchange forward, Exchange backward, Bytes in, Bytes out) {
    b_.cross(ranks > 1 ? LayerBuilder::Crossing{std::move(forward), std::move(backward), in, out}
                       : LayerBuilder::Crossing{});
  };
  const Bytes indices = kIndexSize * (b_.rows() * t.lookups), received = b_.row_bytes(vectors * width);
  cross(exchange(".indices", indices), {}, indices, indices * t.load);
  b_.tables(t);
  cross(exchange(".exchange", sent), {}, sent, received);
  const std::size_t first = b_.operators() - 1;
  add_all(op.operators, false);
  set_rows(op, false);
  cross({}, exchange(".exchange.backward", sent), sent, received);
  b_.overlap_since(first);
}

/// Products of the `vectors` of a row with each other, or with `others`, and the copy of their results.
void ListedLayerBuilder::interaction(const ListedOperator& op) {
  const double vectors = size(op, "vectors"), others = size(op, "others", vectors), width = size(op, "width");
  const bool are_same = !op.states("others");
  const Bytes inputs = b_.row_bytes((are_same ? vectors : vectors + others) * width),
              products = b_.row_bytes(vectors * others);
  Operator kernels;
  kernels.forward.push_back(gemm(op.name, vectors, others, width, l_.precision, b_.rows()));
  kernels.forward.push_back(elementwise(op.name + ".copy", products * 1.5, l_.precision));
  kernels.backward.push_back(gradient(op.name + ".copy.backward", products * 1.5));
  kernels.backward.push_back({gemm(op.name + ".left_grad", vectors, width, others, l_.precision, b_.rows()), {}});
  kernels.backward.push_back({gemm(op.name + ".right_grad", others, width, vectors, l_.precision, b_.rows()), {}});
  kernels.saved_tensors = {{op.name + ".input", inputs}};
  kernels.forward_live = products * 2;
  kernels.backward_live = inputs + products;
  kernels.keeps_input = true;
  b_.add(std::move(kernels));
}

void ListedLayerBuilder::mean_squared_error(const ListedOperator& op) {
  const Bytes tensor = b_.row_bytes(size(op, "width"));
  add_kernels(op, tensor * 2, {gradient(op.name + ".backward", tensor * 3)}, {{"output", tensor}, {"targets", tensor}},
              tensor);
}

}  // namespace trainyard::transformers
