// Layers of a network that a document writes as operators (model_type: operators).
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "models/networks/layers/sharding.hpp"
#include "models/networks/transformers/family.hpp"
#include "models/networks/transformers/operator_lists.hpp"
#include "models/networks/transformers/special_operators.hpp"

namespace trainyard::transformers {
namespace {

bool has_split(const std::vector<ListedOperator>& operators) {
  return std::ranges::any_of(operators, [](const ListedOperator& op) {
    return !op.split.empty() || splits_itself(op) || has_split(op.operators);
  });
}

/// Builds one layer from its operators.
class ListedLayerBuilder {
 public:
  /// `local`: the same options without context ranks, for operators whose rows every rank has.
  ListedLayerBuilder(const TransformerLayout& l, const TransformerOptions& local, const SizeValues& sizes,
                     const ListedLayer& layer, const std::string& name)
      : l_(l), local_(local), sizes_(sizes), layer_(layer), b_(l.builder(name)) {
    if (layer.repeat == 0) b_.set_fp8({});
  }

  /// `input`: bytes of the layer's input.
  Layer build(Bytes input) && {
    add_all(layer_.operators);
    const bool is_block = layer_.repeat > 0;
    if (is_block) b_.set_recomputed_parts(l_.sharding().remade);
    return std::move(b_).build(output(), is_block ? l_.sharding().recompute : Recompute::none, input);
  }

 private:
  const TransformerLayout& l_;
  const TransformerOptions& local_;
  const SizeValues& sizes_;
  const ListedLayer& layer_;
  LayerBuilder b_;

  double value(const std::string& formula, const Place& place) const {
    return size_value(formula, sizes_, place, "model.layers: " + layer_.name);
  }
  double size(const ListedOperator& op, std::string_view key) const {
    return value(op.sizes.find(key)->second, op.place);
  }
  double size(const ListedOperator& op, std::string_view key, double fallback) const {
    return op.states(key) ? size(op, key) : fallback;
  }
  double tokens() const { return sizes_.at("tokens"); }
  /// Number of ranks that divide a size of the operator.
  double shares(const ListedOperator& op) const { return op.split == "columns" ? l_.tensor() : 1; }
  /// Do all context ranks have these rows?
  static bool is_on_every_rank(const ListedOperator& op) {
    const auto rows = op.sizes.find("rows");
    return op.is("every_rank") || (rows != op.sizes.end() && rows->second == "sample");
  }
  double rows_of_sample(const ListedOperator& op) const { return size(op, "rows", tokens()); }

  /// Returns the layout of an operator's rows. `is_local`: no context ranks divide them.
  TransformerLayout layout_of(const ListedOperator& op, bool is_local) const {
    return {l_.config, is_local ? local_ : l_.options, l_.precision, l_.samples, rows_of_sample(op)};
  }

  void set_rows(const ListedOperator& op) {
    const double rows = rows_of_sample(op);
    b_.set_rows(l_.samples * rows / (is_on_every_rank(op) ? 1 : l_.context()));
    b_.set_active_share(std::min(1.0, rows / tokens()));
  }
  /// Bytes of the output of the layer.
  Bytes output() {
    if (layer_.width.empty()) return Bytes{};
    b_.set_rows(l_.samples * value(layer_.rows, layer_.place) / l_.context());
    return b_.residual_bytes(value(layer_.width, layer_.place));
  }

  void add_all(const std::vector<ListedOperator>& operators) {
    const ListedOperator* before = nullptr;
    for (const ListedOperator& op : operators) {
      if (l_.tensor_parallel() && op.word == "cross_entropy" && before && before->split == "columns")
        throw ShardingError("tensor",
                            fmt::format("{}: the loss reads all classes, and {} has split: columns; leave split out",
                                        l_.config.name, before->name),
                            op.place);
      set_rows(op);
      add(op);
      before = &op;
    }
  }

  void add(const ListedOperator& op) {
    if (op.word == "linear") return linear(op);
    if (op.word == "layer_norm" || op.word == "rms_norm") return norm(op);
    if (op.word == "plain_norm") return plain_norm(op);
    if (op.word == "scale") return scale(op);
    if (op.word == "attention") return attend(op);
    if (is_special_operator(op)) return add_special_operator(b_, layout_of(op, is_on_every_rank(op)), op, sizes_);
    if (op.word == "learned") return learned(op);
    if (op.word == "tables") return tables(op);
    if (op.word == "interaction") return interaction(op);
    if (op.word == "mean_squared_error") return mean_squared_error(op);
    if (op.word == "cross_entropy") return b_.cross_entropy(size(op, "classes"), l_.options.fused_loss);
    if (op.word == "move")
      return b_.mover(op.name, b_.row_bytes(size(op, "in") / shares(op)), b_.row_bytes(size(op, "out") / shares(op)));
    const double width = size(op, "width") / shares(op);
    if (op.word == "rotary") return b_.mover(op.name, b_.row_bytes(width), b_.row_bytes(width));
    if (op.word == "activation")
      return op.is("gated") ? gated(op, width) : activation(b_, l_.precision, op.name, width);
    if (op.word == "embedding") {
      b_.set_active_share(1);
      return b_.embedding({.name = op.name, .entries = size(op, "entries"), .width = width, .lookups = b_.rows()});
    }
    b_.fork(op.name, width);  // a residual
    add_all(op.operators);
    set_rows(op);
    b_.join(op.name);
  }

  void add_kernels(const ListedOperator& op, Bytes forward, std::vector<BackwardKernel> backward,
                   std::vector<KeptTensor> kept_tensors, Bytes live) {
    Operator kernels;
    kernels.forward.push_back(elementwise(op.name, forward, l_.precision));
    kernels.backward = std::move(backward);
    kernels.saved_tensors = std::move(kept_tensors);
    kernels.forward_live = live;
    kernels.backward_live = live * 2;
    b_.add(std::move(kernels));
  }
  BackwardKernel gradient(const std::string& name, Bytes moved) const {
    return {elementwise(name, moved, l_.precision), {}};
  }

  /// A tensor rank has a part of the columns (outputs) or of the rows (inputs) of the weight. Ranks sum the gradients of
  /// the whole input, or the whole output.
  void linear(const ListedOperator& op) {
    const double in = size(op, "in"), out = size(op, "out");
    const bool columns = op.split == "columns", rows = op.split == "rows";
    if (columns && !op.is("shares_input")) sum_over_ranks(op.name + ".reduce.backward", in, true);
    if (const double readers = size(op, "readers", 1); readers > 1)
      b_.shared_input(op.name + ".readers", in, static_cast<int>(readers));
    // Flash attention keeps its output, which is the input of the next product, unless it is exchanged in between.
    const bool is_kept_before = op.is("after_attention") && l_.options.flash_attention &&
                                (is_on_every_rank(op) || l_.sharding().head_ranks() == 1);
    b_.linear({.name = op.name,
               .in = rows ? in / l_.tensor() : in,
               .out = columns ? out / l_.tensor() : out,
               .bias = op.is("bias"),
               .keeps_input = !op.is("shares_input") && !is_kept_before,
               .input_gradient = !op.is("first"),
               .holds_input = is_kept_before});
    if (rows) sum_over_ranks(op.name + ".reduce", out, false);
  }

  void sum_over_ranks(const std::string& name, double width, bool backward) {
    if (!l_.tensor_parallel()) return;
    const Bytes tensor = b_.row_bytes(width);
    LayerBuilder::Crossing c;
    (backward ? c.backward : c.forward) = {name, Axis::tensor, ExchangeKind::all_reduce, tensor};
    c.in = c.out = tensor;
    c.beside_weights = backward;
    b_.cross(std::move(c));
  }

  /// A norm with weights: of whole rows, or of each of `heads` parts of a row with one weight for all.
  void norm(const ListedOperator& op) {
    const double heads = size(op, "heads", 1), width = size(op, "width");
    const bool parts = heads > 1;
    b_.set_partial(parts && shares(op) > 1);
    if (parts) b_.set_rows(b_.rows() * heads / shares(op));
    b_.norm(op.word == "rms_norm" ? Norm::rms_norm : Norm::layer_norm, op.name, parts ? width : width / shares(op));
    b_.set_partial(false);
  }

  /// A norm without weights keeps its input, and the fp32 mean and deviation of each row.
  void plain_norm(const ListedOperator& op) {
    const Bytes tensor = b_.row_bytes(size(op, "width")), statistics = element_size(Precision::fp32) * (2 * b_.rows());
    add_kernels(op, tensor * 2 + statistics, {gradient(op.name + ".backward", tensor * 3 + statistics)},
                {{op.name + ".input", tensor}, {op.name + ".statistics", statistics}}, tensor);
  }

  /// Rows are multiplied by a vector of their sample, and another one is added (`shift`): the modulation of diffusion
  /// transformers. The gradients of the vectors are sums over the rows of a sample.
  void scale(const ListedOperator& op) {
    const Bytes tensor = b_.row_bytes(size(op, "width"));
    std::vector<BackwardKernel> backward{gradient(op.name + ".backward", tensor * 2),
                                         gradient(op.name + ".scale_grad", tensor * 2)};
    if (op.is("shift")) backward.push_back(gradient(op.name + ".shift_grad", tensor));
    add_kernels(op, tensor * 2, std::move(backward), {{op.name + ".input", tensor}}, tensor);
  }

  /// activation(gate) · up, in one kernel.
  void gated(const ListedOperator& op, double width) {
    const Bytes tensor = b_.row_bytes(width);
    add_kernels(op, tensor * 3, {gradient(op.name + ".backward", tensor * 5)},
                {{op.name + ".gate", tensor}, {op.name + ".up", tensor}}, tensor);
  }

  /// A learned tensor that is added to the rows of all samples alike.
  void learned(const ListedOperator& op) {
    const double elements = size(op, "elements");
    const Bytes tensor = b_.row_bytes(size(op, "width")), table = l_.size() * elements;
    BackwardKernel backward = gradient(op.name + ".backward", tensor + table);
    backward.gradients_ready = {b_.parameter(op.name + ".weight", elements)};
    add_kernels(op, tensor * 2 + table, {std::move(backward)}, {}, tensor);
  }

  /// Each expert rank has a part of the tables, and looks up in it for the rows of all of them. Vectors go to the rank
  /// that has the row, and gradients go back. The listed operators run meanwhile.
  void tables(const ListedOperator& op) {
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
    add_all(op.operators);
    set_rows(op);
    cross({}, exchange(".exchange.backward", sent), sent, received);
    b_.overlap_since(first);
  }

  /// Products of the `vectors` of a row with each other, or with `others`, and the copy of their results.
  void interaction(const ListedOperator& op) {
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

  void mean_squared_error(const ListedOperator& op) {
    const Bytes tensor = b_.row_bytes(size(op, "width"));
    add_kernels(op, tensor * 2, {gradient(op.name + ".backward", tensor * 3)},
                {{"output", tensor}, {"targets", tensor}}, tensor);
  }

  /// Attention among the rows of a sample, or to other `keys`, which every context rank has.
  void attend(const ListedOperator& op) {
    const bool is_local = op.states("keys") || is_on_every_rank(op);
    const TransformerLayout l = layout_of(op, is_local);
    const double heads = size(op, "heads"), ranks = l_.tensor() * l.sharding().head_ranks();
    const double key_value_heads = size(op, "key_value_heads", heads);
    const char* const axis = l.sharding().head_ranks() > 1 ? "context" : "tensor";
    require_shares(l, axis, ranks, heads, "heads", op);
    require_shares(l, axis, ranks, key_value_heads, "key-value heads", op);
    AttentionShape a;
    a.prefix = op.name == "attention" ? "" : op.name + "_";
    a.heads = heads / l_.tensor();
    a.key_value_heads = key_value_heads / l_.tensor();
    a.query_width = a.value_width = size(op, "width");
    a.queries = b_.rows() / l_.samples;
    a.keys = size(op, "keys", a.queries);
    a.ring = l.sharding().ring_ranks();
    a.attended = size(op, "attended", 0);
    if (a.attended > 0 && a.ring > 1)
      throw ShardingError("context",
                          l_.config.name +
                              ": a ring of context ranks with attention to windows is not modelled; expected "
                              "all-to-all",
                          op.place);
    a.causal = op.is("causal");
    attention(b_, l, a);
  }
};

bool has_tables(const std::vector<ListedOperator>& operators) {
  return std::ranges::any_of(operators,
                             [](const ListedOperator& op) { return op.word == "tables" || has_tables(op.operators); });
}

void check_operators(const TransformerLayout& l, const OperatorLists& lists) {
  const TransformerConfig& c = l.config;
  const Sharding& s = l.sharding();
  if (s.sequence)
    throw ShardingError(
        "sequence",
        c.name +
            ": sequence parallelism of a network that is written as operators is not modelled; expected "
            "plan.sequence_parallel: false",
        c.place);
  if (s.tensor > 1 &&
      std::ranges::none_of(lists.layers, [](const ListedLayer& layer) { return has_split(layer.operators); }))
    throw ShardingError("tensor",
                        c.name +
                            ": none of its operators states how tensor ranks split it (split: columns); "
                            "expected 1",
                        c.place);
  if (l.options.adapters.has_rank())
    fail(c.place, "plan.lora: " + c.name + " is written as operators, which have no adapters; leave it out");
  if (l.options.unpadded.mean > 0)
    fail(c.place, "plan.unpadded: " + c.name + " is written as operators, which have full sequences; leave it out");
}

std::vector<Layer> operator_layers(const TransformerLayout& l) {
  const OperatorLists& lists = *l.config.lists;
  check_operators(l, lists);
  const SizeValues sizes = lists.values(l.seq);
  TransformerOptions local = l.options;
  local.sharding.context = 1;
  local.sharding.ulysses = 0;
  std::vector<Layer> layers;
  std::int64_t blocks = 0;
  for (const ListedLayer& listed : lists.layers)
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, listed.repeat); ++i) {
      const std::string block = listed.repeat > 0 ? fmt::format("block {} ", blocks++) : "";
      const Bytes input = layers.empty() ? Bytes{} : layers.back().output;
      layers.push_back(ListedLayerBuilder(l, local, sizes, listed, block + listed.name).build(input));
    }
  return layers;
}

void read_operators(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = read_size(f, "tokens");
  c.position_embedding = PositionEmbedding::none;
  const double tokens = static_cast<double>(c.max_position_embeddings);
  const OperatorLists lists = read_operator_lists(f, tokens);
  const SizeValues sizes = lists.values(tokens);
  const auto stated = [&sizes](const char* name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? 0 : static_cast<std::int64_t>(found->second);
  };
  c.hidden_size = stated("hidden");
  c.vocab_size = stated("vocabulary");
  c.num_attention_heads = stated("heads");  // tensor ranks divide them
  c.num_key_value_heads = sizes.count("key_value_heads") > 0 ? stated("key_value_heads") : c.num_attention_heads;
  c.causal = false;
  for (const ListedLayer& layer : lists.layers) {
    c.num_hidden_layers += layer.repeat;
    c.has_tables = c.has_tables || has_tables(layer.operators);
    take_experts(layer.operators, sizes, c);
  }
  c.lists = std::make_shared<const OperatorLists>(lists);
}

const RegisterTransformer registered_operators{"operators", {read_operators, operator_layers}};

}  // namespace
}  // namespace trainyard::transformers
