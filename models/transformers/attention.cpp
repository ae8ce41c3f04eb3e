#include "models/transformers/layout.hpp"

namespace trainyard::transformers {
namespace {

/// Rows and widths of the tensors of one attention.
struct AttentionTensors {
  Bytes query, key, value, output;  // keys and values of their own heads
  Bytes wide_key, wide_value;       // repeated for every head
  Bytes scores, bias;               // bias: one for all samples
  Bytes log_sum_exp;
};

AttentionTensors attention_tensors(const TransformerLayout& l, const AttentionShape& a) {
  const auto bytes = [&l](double tokens, double width) { return l.size() * (l.samples * tokens * width); };
  AttentionTensors t;
  t.query = bytes(a.queries, a.heads * a.query_width);
  t.key = bytes(a.keys, a.key_value_heads * a.query_width);
  t.value = bytes(a.keys, a.key_value_heads * a.value_width);
  t.output = bytes(a.queries, a.heads * a.value_width);
  t.wide_key = bytes(a.keys, a.heads * a.query_width);
  t.wide_value = bytes(a.keys, a.heads * a.value_width);
  t.scores = bytes(a.queries, a.heads * a.keys);
  t.log_sum_exp = Bytes{4 * a.heads * l.samples * a.queries};
  if (a.position_bias) t.bias = l.size() * (a.heads * a.queries * a.keys);
  return t;
}

/// The gradient of a bias that all samples share is the sum of theirs, added to what later layers left.
BackwardKernel bias_gradient(const TransformerLayout& l, const AttentionShape& a, const AttentionTensors& t) {
  return {elementwise(a.prefix + "position_bias.gradient_sum", t.scores + t.bias * 2, l.precision), {}};
}

void fused_attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const AttentionTensors t = attention_tensors(l, a);
  const Bytes qkv = t.query + t.key + t.value;
  const double product = 2 * l.samples * a.heads * a.pairs();
  const Flops forward{product * (a.query_width + a.value_width)};
  // Backward: the scores again, and the gradients of queries and keys; those of values and of the probabilities.
  const Flops backward{product * (3 * a.query_width + 2 * a.value_width)};
  const std::string name = a.prefix + "attention";
  Operator op;
  op.forward.push_back(
      kernel_call(name, Kernel::attention, forward, qkv + t.output + t.bias + t.log_sum_exp, l.precision));
  Bytes moved = qkv * 2 + t.output * 2 + t.log_sum_exp;
  if (a.position_bias) moved += t.bias + t.scores;
  op.backward.push_back(
      {kernel_call(name + ".backward", Kernel::attention_backward, backward, moved, l.precision), {}});
  if (a.position_bias) op.backward.push_back(bias_gradient(l, a, t));
  op.kept = {{name + ".qkv", qkv}, {name + ".log_sum_exp", t.log_sum_exp}, {name + ".output", t.output}};
  op.backward_live = qkv + t.output;  // gradients; with dropout the kernel keeps the state of its generator, not a mask
  if (a.position_bias) op.backward_live += t.scores;
  b.add(std::move(op));
}

/// A product of two operands in the attention of every head, with the two products of its backward pass.
Operator attention_product(const TransformerLayout& l, const AttentionShape& a, const std::string& name, double m,
                           double n, double k) {
  const double batch = l.samples * a.heads;
  Operator op;
  op.forward.push_back(gemm(a.prefix + name, m, n, k, l.precision, batch));
  op.backward.push_back({gemm(a.prefix + name + ".left_grad", m, k, n, l.precision, batch), {}});
  op.backward.push_back({gemm(a.prefix + name + ".right_grad", k, n, m, l.precision, batch), {}});
  return op;
}

void softmax_of_scores(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const AttentionTensors t = attention_tensors(l, a);
  if (a.scaled) b.mover(a.prefix + "scale", t.scores, t.scores);
  if (a.position_bias) {
    Operator bias;
    bias.forward.push_back(elementwise(a.prefix + "position_bias", t.scores * 2 + t.bias, l.precision));
    bias.backward.push_back(bias_gradient(l, a, t));
    bias.forward_live = t.scores * 2;
    bias.backward_live = t.scores + t.wide_value;  // the gradient of the values waits
    b.add(std::move(bias));
  }
  if (a.causal) b.mover(a.prefix + "causal_mask", t.scores, t.scores);
  Operator softmax;
  softmax.forward.push_back(elementwise(a.prefix + "softmax", t.scores * 2, l.precision));
  softmax.backward.push_back({elementwise(a.prefix + "softmax.backward", t.scores * 3, l.precision), {}});
  softmax.kept = {{a.prefix + "softmax.output", t.scores}};
  softmax.forward_live = t.scores;
  softmax.backward_live = t.scores * 2 + t.wide_value;
  b.add(std::move(softmax));
}

void unfused_attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const AttentionTensors t = attention_tensors(l, a);
  const std::string name = a.prefix + "attention";
  if (a.key_value_heads != a.heads) b.mover(a.prefix + "repeat_kv", t.key + t.value, t.wide_key + t.wide_value);
  Operator product = attention_product(l, a, "scores", a.queries, a.keys, a.query_width);
  product.kept = {{name + ".query", t.query}, {name + ".key", t.wide_key}, {name + ".value", t.wide_value}};
  product.forward_live = t.scores;
  product.backward_live = t.scores + t.query + t.wide_key + t.wide_value;
  b.add(std::move(product));
  softmax_of_scores(b, l, a);
  const bool dropout = l.config.attention_dropout > 0;
  if (dropout) b.dropout({.name = a.prefix + "softmax_dropout", .width = a.heads * a.keys, .input_kept = true});
  Operator context = attention_product(l, a, "context", a.queries, a.value_width, a.keys);
  if (dropout) context.kept = {{a.prefix + "softmax_dropout.output", t.scores}};
  context.forward_live = t.output;
  context.backward_live = t.scores + t.output + t.wide_value;
  b.add(std::move(context));
  b.mover(a.prefix + "merge_heads", t.output, t.output);
}

/// Hugging Face's Qwen3: a norm of each head's query and key, one weight for all heads.
void head_norms(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const double rows = b.rows();
  b.set_rows(rows * a.heads);
  b.norm(l.config.norm, "q_norm", a.query_width);
  b.set_rows(rows * a.key_value_heads);
  b.norm(l.config.norm, "k_norm", a.query_width);
  b.set_rows(rows);
}

}  // namespace

double AttentionShape::pairs() const {
  if (!causal) return queries * keys;
  if (window == 0 || window >= keys) return queries * keys / 2;
  return keys * window - window * window / 2;
}

AttentionShape self_attention_shape(const TransformerLayout& l) {
  AttentionShape a;
  a.heads = l.heads();
  a.key_value_heads = static_cast<double>(l.config.num_key_value_heads);
  a.query_width = a.value_width = static_cast<double>(l.config.head_dim);
  a.queries = a.keys = l.seq;
  a.causal = l.config.causal;
  a.window = static_cast<double>(l.config.sliding_window);
  return a;
}

void attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  if (l.options.flash_attention)
    fused_attention(b, l, a);
  else
    unfused_attention(b, l, a);
}

void output_projection(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  b.linear({.name = a.prefix + "projection",
            .in = a.heads * a.value_width,
            .out = l.hidden(),
            .bias = l.config.attention_output_bias,
            .keeps_input = !l.options.flash_attention,  // flash attention keeps the same tensor as its output
            .shares_fork_gradient = l.config.residual_dropout == 0});
}

void self_attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const bool bias = l.config.qkv_bias;
  const double query = a.heads * a.query_width, key = a.key_value_heads * a.query_width;
  if (l.config.fused_qkv) {
    const double width = query + 2 * key;
    b.linear({.name = a.prefix + "qkv", .in = l.hidden(), .out = width, .bias = bias});
    Operator split;  // views forward; backward the three gradients are written into one tensor
    const Bytes moved = b.row_bytes(2 * width);
    split.backward.push_back({elementwise(a.prefix + "qkv.gradient_concat", moved, l.precision), {}});
    split.backward_live = moved;
    b.add(std::move(split));
  } else {
    b.shared_input(a.prefix + "qkv", l.hidden(), 3);
    b.linear({.name = a.prefix + "q", .in = l.hidden(), .out = query, .bias = bias});
    b.linear({.name = a.prefix + "k", .in = l.hidden(), .out = key, .bias = bias, .keeps_input = false});
    b.linear({.name = a.prefix + "v", .in = l.hidden(), .out = key, .bias = bias, .keeps_input = false});
  }
  if (l.config.head_norms) head_norms(b, l, a);
  if (l.config.position_embedding == PositionEmbedding::rotary) {
    b.mover("rotary.q", b.row_bytes(query), b.row_bytes(query));
    b.mover("rotary.k", b.row_bytes(key), b.row_bytes(key));
  }
  attention(b, l, a);
}

}  // namespace trainyard::transformers
