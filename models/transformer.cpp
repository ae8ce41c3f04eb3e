#include "models/transformer.hpp"

#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

/// Sizes of one micro-batch as doubles, and what to lay out.
struct Layout {
  const TransformerConfig& config;
  const TransformerOptions& options;
  Precision precision;
  double samples, seq;

  double rows() const { return samples * seq; }
  double hidden() const { return static_cast<double>(config.hidden_size); }
  double heads() const { return static_cast<double>(config.num_attention_heads); }
  double query() const { return heads() * static_cast<double>(config.head_dim); }
  double key() const { return static_cast<double>(config.num_key_value_heads * config.head_dim); }
  double ffn() const { return static_cast<double>(config.intermediate_size); }
  double vocab() const { return static_cast<double>(config.vocab_size); }
  Bytes size() const { return element_size(precision); }
  LayerBuilder builder(std::string name) const { return {std::move(name), rows(), precision}; }
};

void query_key_value(LayerBuilder& b, const Layout& l) {
  const bool bias = l.config.qkv_bias;
  if (l.config.fused_qkv) {
    const double width = l.query() + 2 * l.key();
    b.linear({.name = "qkv", .in = l.hidden(), .out = width, .bias = bias});
    Operator split;  // views forward; backward the three gradients are written into one tensor
    split.backward.push_back({elementwise("qkv.gradient_concat", b.row_bytes(2 * width), l.precision), {}});
    split.backward_live = b.row_bytes(2 * width);
    b.add(std::move(split));
  } else {
    b.shared_input("qkv", l.hidden(), 3);
    b.linear({.name = "q", .in = l.hidden(), .out = l.query(), .bias = bias});
    b.linear({.name = "k", .in = l.hidden(), .out = l.key(), .bias = bias, .keeps_input = false});
    b.linear({.name = "v", .in = l.hidden(), .out = l.key(), .bias = bias, .keeps_input = false});
  }
  if (l.config.position_embedding == PositionEmbedding::rotary) {
    b.mover("rotary.q", b.row_bytes(l.query()), b.row_bytes(l.query()));
    b.mover("rotary.k", b.row_bytes(l.key()), b.row_bytes(l.key()));
  }
}

/// Pairs of a query and a key that one causal head computes: half the square; a window leaves a band of it.
double attended_pairs(const Layout& l) {
  const double window = static_cast<double>(l.config.sliding_window);
  if (window == 0 || window >= l.seq) return l.seq * l.seq / 2;
  return l.seq * window - window * window / 2;
}

void flash_attention(LayerBuilder& b, const Layout& l) {
  const Bytes qkv = b.row_bytes(l.query() + 2 * l.key());
  const Bytes out = b.row_bytes(l.query());
  const Bytes log_sum_exp{4 * l.heads() * l.rows()};
  const Flops flops{4 * l.samples * l.query() * attended_pairs(l)};
  Operator op;
  op.forward.push_back(kernel_call("attention", Kernel::attention, flops, qkv + out + log_sum_exp, l.precision));
  op.backward.push_back({kernel_call("attention.backward", Kernel::attention_backward, flops * 2.5,
                                     qkv * 2 + out * 2 + log_sum_exp, l.precision),
                         {}});
  op.kept = {{"attention.qkv", qkv}, {"attention.log_sum_exp", log_sum_exp}, {"attention.output", out}};
  op.backward_live = qkv + out;  // gradients; with dropout the kernel keeps the state of its generator, not a mask
  b.add(std::move(op));
}

/// A product of two operands in the attention of every head, with the two products of its backward pass.
Operator attention_product(const std::string& name, double m, double n, double k, const Layout& l) {
  const double batch = l.samples * l.heads();
  Operator op;
  op.forward.push_back(gemm(name, m, n, k, l.precision, batch));
  op.backward.push_back({gemm(name + ".left_grad", m, k, n, l.precision, batch), {}});
  op.backward.push_back({gemm(name + ".right_grad", k, n, m, l.precision, batch), {}});
  return op;
}

void unfused_attention(LayerBuilder& b, const Layout& l) {
  const double width = l.heads() * l.seq;  // scores of one token
  const double head_dim = static_cast<double>(l.config.head_dim);
  const Bytes scores = b.row_bytes(width), query = b.row_bytes(l.query()), key = b.row_bytes(l.key());
  if (l.config.num_key_value_heads != l.config.num_attention_heads) b.mover("repeat_kv", key * 2, query * 2);

  Operator product = attention_product("scores", l.seq, l.seq, head_dim, l);
  product.kept = {{"attention.query", query}, {"attention.key", query}, {"attention.value", query}};
  product.forward_live = scores;
  product.backward_live = scores + query * 3;
  b.add(std::move(product));
  b.mover("scale", scores, scores);
  b.mover("causal_mask", scores, scores);

  Operator softmax;
  softmax.forward.push_back(elementwise("softmax", scores * 2, l.precision));
  softmax.backward.push_back({elementwise("softmax.backward", scores * 3, l.precision), {}});
  softmax.kept = {{"softmax.output", scores}};
  softmax.forward_live = scores;
  softmax.backward_live = scores * 2 + query;  // the gradient of the values waits
  b.add(std::move(softmax));
  const bool dropout = l.config.attention_dropout > 0;
  if (dropout) b.dropout({.name = "softmax_dropout", .width = width, .input_kept = true});

  Operator context = attention_product("context", l.seq, head_dim, l.seq, l);
  if (dropout) context.kept = {{"softmax_dropout.output", scores}};
  context.forward_live = query;
  context.backward_live = scores + query * 2;
  b.add(std::move(context));
  b.mover("merge_heads", query, query);
}

void residual(LayerBuilder& b, const Layout& l, const std::string& name) {
  if (l.config.residual_dropout > 0)
    b.dropout({.name = name + "_dropout", .width = l.hidden(), .shares_fork_gradient = true});
  b.join(name);
}

void attention_part(LayerBuilder& b, const Layout& l) {
  b.fork("attention_residual", l.hidden());
  b.norm(l.config.norm, "attention_norm", l.hidden());
  query_key_value(b, l);
  if (l.options.flash_attention)
    flash_attention(b, l);
  else
    unfused_attention(b, l);
  b.linear({.name = "projection",
            .in = l.query(),
            .out = l.hidden(),
            .bias = l.config.attention_output_bias,
            .keeps_input = !l.options.flash_attention,  // flash attention keeps the same tensor as its output
            .shares_fork_gradient = l.config.residual_dropout == 0});
  residual(b, l, "attention_residual");
}

void plain_activation(LayerBuilder& b, const Layout& l) {
  const Bytes tensor = b.row_bytes(l.ffn());
  Operator op;
  op.forward.push_back(elementwise(l.config.activation, tensor * 2, l.precision));
  op.backward.push_back({elementwise(l.config.activation + ".backward", tensor * 3, l.precision), {}});
  op.kept = {{"activation.input", tensor}};
  op.forward_live = tensor;
  op.backward_live = tensor * 2;
  b.add(std::move(op));
}

void gated_activation(LayerBuilder& b, const Layout& l) {
  const Bytes tensor = b.row_bytes(l.ffn());
  const std::string& name = l.config.activation;
  Operator op;
  op.kept = {{"activation.gate", tensor}, {"activation.up", tensor}};
  if (l.options.fused_gated_activation) {
    op.forward.push_back(elementwise(name + "_mul", tensor * 3, l.precision));
    op.backward.push_back({elementwise(name + "_mul.backward", tensor * 5, l.precision), {}});
  } else {
    op.forward = {elementwise(name, tensor * 2, l.precision), elementwise("gate_mul", tensor * 3, l.precision)};
    op.backward = {{elementwise("gate_mul.gate_grad", tensor * 3, l.precision), {}},
                   {elementwise("gate_mul.up_grad", tensor * 3, l.precision), {}},
                   {elementwise(name + ".backward", tensor * 3, l.precision), {}}};
    op.kept.push_back({"activation.gate_output", tensor});
  }
  op.forward_live = tensor;
  op.backward_live = tensor * 3;
  b.add(std::move(op));
}

void mlp_part(LayerBuilder& b, const Layout& l) {
  const bool bias = l.config.mlp_bias;
  b.fork("mlp_residual", l.hidden());
  b.norm(l.config.norm, "mlp_norm", l.hidden());
  if (l.config.gated_mlp) {
    b.shared_input("gate_up", l.hidden(), 2);
    b.linear({.name = "gate", .in = l.hidden(), .out = l.ffn(), .bias = bias});
    b.linear({.name = "up", .in = l.hidden(), .out = l.ffn(), .bias = bias, .keeps_input = false});
    gated_activation(b, l);
  } else {
    b.linear({.name = "fc1", .in = l.hidden(), .out = l.ffn(), .bias = bias});
    plain_activation(b, l);
  }
  b.linear({.name = l.config.gated_mlp ? "down" : "fc2",
            .in = l.ffn(),
            .out = l.hidden(),
            .bias = bias,
            .shares_fork_gradient = l.config.residual_dropout == 0});
  residual(b, l, "mlp_residual");
}

Layer embedding_layer(const Layout& l) {
  LayerBuilder b = l.builder("embedding");
  const Bytes tensor = b.row_bytes(l.hidden());
  b.embedding({.name = "token_embedding",
               .entries = l.vocab(),
               .width = l.hidden(),
               .lookups = l.rows(),
               .tied = l.config.tie_word_embeddings});
  if (l.config.position_embedding == PositionEmbedding::learned) {
    const double positions = static_cast<double>(l.config.max_position_embeddings);
    b.embedding({.name = "position_embedding", .entries = positions, .width = l.hidden(), .lookups = l.seq});
    // One row of positions serves every sample, so its gradient is summed over them.
    const Bytes row = l.size() * (l.seq * l.hidden());
    Operator sum;
    sum.forward.push_back(elementwise("embedding_sum", tensor * 2 + row, l.precision));
    if (l.samples > 1) sum.backward.push_back({elementwise("embedding_sum.backward", tensor + row, l.precision), {}});
    sum.forward_live = tensor * 2 + row;
    sum.backward_live = tensor + row;
    b.add(std::move(sum));
  }
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  return std::move(b).build(tensor);
}

Layer block(const Layout& l, std::int64_t index) {
  LayerBuilder b = l.builder("block " + std::to_string(index));
  attention_part(b, l);
  mlp_part(b, l);
  return std::move(b).build(b.row_bytes(l.hidden()));
}

Layer head_layer(const Layout& l) {
  LayerBuilder b = l.builder("head");
  b.norm(l.config.norm, "final_norm", l.hidden());
  const LayerBuilder::Linear projection{.name = "output", .in = l.hidden(), .out = l.vocab()};
  if (l.config.tie_word_embeddings)
    b.tied_linear(projection);
  else
    b.linear(projection);
  b.cross_entropy(l.vocab(), l.options.fused_loss);
  return std::move(b).build(Bytes{});
}

}  // namespace

Network transformer_network(const TransformerConfig& config, std::int64_t micro_batch_size, std::int64_t seq_length,
                            Precision precision, const TransformerOptions& options) {
  if (micro_batch_size < 1)
    throw UserError("micro_batch_size is " + std::to_string(micro_batch_size) + "; expected at least 1");
  if (seq_length < 1) throw UserError("seq_length is " + std::to_string(seq_length) + "; expected at least 1");
  if (config.position_embedding == PositionEmbedding::learned && seq_length > config.max_position_embeddings)
    fail(config.place, "seq_length " + std::to_string(seq_length) + " is above the " +
                           std::to_string(config.max_position_embeddings) + " learned positions of " + config.name);
  const Layout layout{config, options, precision, static_cast<double>(micro_batch_size),
                      static_cast<double>(seq_length)};
  Network network;
  network.name = config.name;
  network.source = config.source;
  network.precision = precision;
  network.samples = micro_batch_size;
  network.tokens_per_sample = seq_length;
  network.layers.push_back(embedding_layer(layout));
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) network.layers.push_back(block(layout, i));
  network.layers.push_back(head_layer(layout));
  return network;
}

}  // namespace trainyard
