// Products of listed layers, and the operators that depend on the products beside them.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/networks/transformers/listed_layer.hpp"
#include "models/networks/transformers/special_operators.hpp"

namespace trainyard::transformers {
namespace {

const ListedOperator* next_of(const std::vector<ListedOperator>& operators, std::size_t index) {
  return index + 1 < operators.size() ? &operators[index + 1] : nullptr;
}

bool is_gate(const ListedOperator* op) {
  return op && op->word == "activation" && op->is("gated") && op->split == "columns";
}

/// Does no later product read the same input?
bool reads_last(const std::vector<ListedOperator>& operators, std::size_t index) {
  for (std::size_t i = index + 1; i < operators.size(); ++i)
    if (operators[i].word == "linear") return !operators[i].is("shares_input");
  return true;
}

}  // namespace

/// A tensor rank has a part of the columns (outputs) or of the rows (inputs) of the weight. Ranks gather or sum what they
/// need before and after. Products that read the same input are one product if the stack fuses projections.
void ListedLayerBuilder::linear(const Operators& operators, std::size_t& index) {
  const ListedOperator& op = operators[index];
  const bool columns = op.split == "columns", rows = op.split == "rows", shares_input = op.is("shares_input");
  const double in = size(op, "in"), groups = size(op, "groups", 1);
  double out = size(op, "out"), readers = size(op, "readers", 1);
  const std::size_t first = index;
  std::string name = op.name;
  if (l_.options.fused_projections && readers > 1) {
    for (const ListedOperator* next = next_of(operators, index);
         next && next->word == "linear" && next->is("shares_input") && next->split == op.split &&
         next->is("wide") == op.is("wide");
         next = next_of(operators, index)) {
      out += size(*next, "out");
      name += "_" + next->name;
      readers -= 1;
      ++index;
    }
  }
  const ListedOperator* next = next_of(operators, index);
  const bool is_output = next && next->word == "cross_entropy";
  const bool is_narrow = is_block() && !op.is("wide");  // in fp8 or fewer bits if the plan's products are
  const Readers gradient_readers = is_narrow ? Readers::products : Readers::others;
  if (!is_narrow) b_.set_fp8({});
  if (!shares_input)
    readers_ = is_narrow && !is_after_norm(operators, first) ? Readers::later_products : gradient_readers;
  const TransformerLayout l = layout_of(op, rows ? out : in);
  const bool enters = columns && !is_gathered_ && groups == 1;  // groups read the rank's part of a row
  if (enters && !shares_input) {
    b_.set_rows(is_on_every_rank(op) ? b_.rows() : l.residual_rows());
    begin_columns(b_, l, op.name, readers_);
  }
  const bool is_feed_forward = feed_forward_.contains(&op);
  if (is_feed_forward) b_.set_region(RecomputedPart::mlp);
  if (readers > 1) b_.shared_input(op.name + ".readers", in, static_cast<int>(readers));
  // Flash attention keeps its output, which is the input of the next product, unless it is exchanged in between.
  const bool is_kept_before = op.is("after_attention") && l_.options.flash_attention &&
                              (is_on_every_rank(op) || l_.sharding().head_ranks() == 1);
  LayerBuilder::Linear product;
  if (enters) product = column_linear(l, op.name, reads_last(operators, index), readers_);
  config_.vocab_size = std::llround(out);
  product.name = name;
  product.in = rows ? in / l_.tensor() : in;
  product.out = !columns ? out : is_output ? l.vocab() : out / l_.tensor();
  if (groups > 1) {
    if (rows) fail(op.place, fmt::format("model.layers: {}: groups and split: rows; expected columns", op.name));
    require_shares(l_, "tensor", columns ? l_.tensor() : 1, groups, "groups", op);
    product.experts = groups / (columns ? l_.tensor() : 1);
    product.in = in / groups;
    product.out = out / groups;
    b_.set_rows(b_.rows() * product.experts);
  }
  product.bias = op.is("bias") && !(rows && l.tensor_parallel());
  product.keeps_input = !shares_input && !is_kept_before;
  product.input_gradient = !op.is("first");
  product.holds_input = is_kept_before;
  product.shares_fork_gradient = is_last_ && l.adds_output();
  if (rows) product.gradient_cast_before = gathers_cast_gradient(l, gradient_readers);
  config_.gated_mlp = true;
  if (is_narrow && is_gate(next)) product.gradient_cast_before = activation_casts(l, {});
  if (is_narrow && rows && first > 0 && is_gate(&operators[first - 1]) && activation_casts(l, {}))
    product.cast = LayerBuilder::Linear::Cast::done;
  if (enters && is_output && l.sequence_parallel() && l.options.lasting_gather_buffer) {
    product.regather_buffer = false;
    b_.add_lasting(l.hidden_bytes());
  }
  const bool tied = ties_table(op, *l_.config.lists);
  if (tied) product.name = "output";  // where the last stage of a pipeline has a copy of the table, it has this name
  if ((tied && l_.config.tie_word_embeddings) || (!tied && op.words.contains("tied")))
    b_.tied_linear(product);
  else
    b_.linear(product);
  if (groups > 1) b_.set_rows(b_.rows() / product.experts);
  if ((index > first && !is_gate(next)) || op.states("parts")) concatenate_gradients(name, product.out);
  if (is_block()) b_.set_fp8(l.products());
  if (rows && is_feed_forward) b_.set_region(RecomputedPart::none);
  if (!rows) return;
  b_.set_partial(false);
  end_rows(b_, l, op.name, gradient_readers);
  if (op.is("bias")) row_bias(b_, l, op.name + ".bias");
  is_gathered_ = false;
}

/// Forward, the parts of an output are views; backward, their gradients are written into one tensor.
void ListedLayerBuilder::concatenate_gradients(const std::string& name, double width) {
  const Bytes moved = b_.row_bytes(2 * width);
  Operator split;
  split.backward.push_back(gradient(name + ".gradient_concat", moved));
  split.backward_live = moved;
  b_.add(std::move(split));
}

/// A norm with weights: of whole rows, or of each of `heads` parts of a row with one weight for all.
void ListedLayerBuilder::norm(const Operators& operators, std::size_t index) {
  const ListedOperator& op = operators[index];
  const double heads = size(op, "heads", 1), width = size(op, "width");
  const Norm kind = op.word == "rms_norm" ? Norm::rms_norm : Norm::layer_norm;
  if (heads > 1) {
    if (shares(op) > 1) b_.set_partial(true);  // the rank's heads make a part of the weight's gradient
    b_.set_rows(b_.rows() * heads / shares(op));
    return b_.norm(kind, op.name, width);
  }
  if (op.split == "columns") return b_.norm(kind, op.name, width / shares(op));
  const ListedOperator* next = next_of(operators, index);
  const bool feeds_products = next && ((next->word == "linear" && next->split == "columns") ||
                                       (splits_itself(*next) && next->word != "experts"));
  const TransformerLayout l = layout_of(op);
  b_.set_module(RecomputedPart::layernorm);
  b_.norm(kind, op.name, width, is_block() && !is_gathered_ && feeds_products && l.norms_cast());
  b_.set_module(RecomputedPart::none);
}

void ListedLayerBuilder::activate(const ListedOperator& op) {
  const double width = size(op, "width") / shares(op);
  TransformerOptions options = l_.options;
  options.fp8 = options.fp8 && is_block() && !op.split.empty();  // as the products beside it are
  const TransformerLayout l{config_, options, l_.precision, l_.samples, rows_of_sample(op)};
  config_.activation = op.name;
  config_.gated_mlp = op.is("gated");
  b_.set_module(RecomputedPart::mlp_act);
  feed_forward_activation(b_, l, {.width = width});
  b_.set_module(RecomputedPart::none);
}

/// Attention among the rows of a sample, or to other `keys`, which every context rank has.
void ListedLayerBuilder::attend(const ListedOperator& op) {
  const bool is_local = op.states("keys") || is_on_every_rank(op);
  config_.attention_dropout = op.is("dropout") ? 1 : 0;
  const TransformerLayout l{config_, is_local ? network_.local : l_.options, l_.precision, l_.samples,
                            rows_of_sample(op)};
  const double heads = size(op, "heads"), ranks = l_.tensor() * l.sharding().head_ranks();
  const double key_value_heads = size(op, "key_value_heads", heads);
  const char* const axis = l.sharding().head_ranks() > 1 ? "context" : "tensor";
  require_shares(l, axis, ranks, heads, "heads", op);
  const bool shares_keys = op.is("common_keys");
  if (!shares_keys) require_shares(l, axis, ranks, key_value_heads, "key-value heads", op);
  AttentionShape a;
  a.prefix = op.name == "attention" ? "" : op.name + "_";
  a.heads = heads / l_.tensor();
  a.key_value_heads = key_value_heads / (shares_keys ? 1 : l_.tensor());
  a.query_width = size(op, "width");
  a.value_width = size(op, "value", a.query_width);
  a.queries = b_.rows() / l_.samples;
  a.keys = size(op, "keys", a.queries);
  a.ring = l.sharding().ring_ranks();
  a.attended = size(op, "attended", 0);
  a.window = size(op, "window", 0);
  if (a.attended + a.window > 0 && a.ring > 1)
    throw ShardingError(
        "context",
        l_.config.name + ": a ring of context ranks with attention to windows is not modelled; expected all-to-all",
        op.place);
  a.causal = op.is("causal");
  if (op.is("sinks")) attention_sinks(b_, l, a);
  attention(b_, l, a);
  if (op.is("gate")) attention_gate(b_, l, a.heads * a.value_width);
}

/// A table of which every rank has all entries, or a part of them. Only the last layer may look the first one up again.
void ListedLayerBuilder::embed(const ListedOperator& op) {
  const double width = size(op, "width"), entries = size(op, "entries");
  const TransformerLayout l = layout_of(op);
  const bool begins = &op == &l_.config.lists->layers.front().operators.front(),
             tied = begins && (l_.config.tie_word_embeddings || l_.config.further_tokens > 0),
             owned = !op.words.contains("tied");
  b_.set_active_share(1);
  if (op.split == "rows") {
    config_.vocab_size = std::llround(entries);
    return look_up(b_, l, op.name, op.name, tied, owned);
  }
  b_.embedding(
      {.name = op.name, .entries = entries, .width = width, .lookups = b_.rows(), .tied = tied, .owned = owned});
}

}  // namespace trainyard::transformers
