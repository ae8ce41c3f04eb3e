#include "models/networks/transformers/layout.hpp"
#include "sim/stable_sort.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard::transformers {
namespace {

/// Sizes of the tensors of one attention.
struct AttentionTensors {
  Bytes query, key, value, output;  // keys and values of the key-value heads
  Bytes wide_key, wide_value;       // keys and values repeated for every head
  Bytes scores, bias;               // all samples have the same bias
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

/// Returns the kernel for the gradient of a bias that all samples share: their gradients are summed and added to those
/// of later layers.
BackwardKernel bias_gradient(const TransformerLayout& l, const AttentionShape& a, const AttentionTensors& t) {
  return {elementwise(a.prefix + "position_bias.gradient_sum", t.scores + t.bias * 2, l.precision), {}};
}

/// Replaces the kernels by one for each step of the ring. The keys and values of the next step are sent meanwhile;
/// backward their gradients follow them, and return to their rank after the last step (Liu, Zaharia & Abbeel 2023).
/// Partial results are merged in fp32: after each step but the first a kernel merges the sums of the softmax, one the
/// output, and backward one each the gradients of queries, keys and values (TransformerEngine, context_parallel.py).
void ring_of_steps(Operator& op, const TransformerLayout& l, const AttentionShape& a, const AttentionTensors& t) {
  const std::string name = a.prefix + "attention";
  const Axis axis = l.sharding().splits_context() ? Axis::ring : Axis::context;
  const Bytes moved = t.key + t.value;
  const KernelCall forward = op.forward.front();
  const BackwardKernel backward = op.backward.front();
  op.forward.clear();
  op.backward.clear();
  for (int i = 0; i < a.ring; ++i) {
    const std::string step = std::to_string(i);
    op.forward.push_back(forward);
    op.forward.back().name = name + " " + step;
    op.backward.push_back(backward);
    op.backward.back().name = name + ".backward " + step;
    const Exchange keys{name + ".keys." + step, axis, ExchangeKind::ring_shift, moved, i, i + 1};
    if (i + 1 < a.ring) {
      op.forward_exchanges.push_back(keys);
      op.backward_exchanges.push_back(keys);
      op.backward_exchanges.back().name += ".backward";
    }
    op.backward_exchanges.push_back({name + ".key_gradients." + step, axis, ExchangeKind::ring_shift, moved, i + 1,
                                     i + 1 < a.ring ? i + 2 : i + 1});
  }
  sort_stably(op.backward_exchanges,
              [](const Exchange& x, const Exchange& y) { return x.kernels_before < y.kernels_before; });
  const double wide = 3 * (element_size(Precision::fp32) / l.size());
  for (int i = 1; i < a.ring; ++i) {
    const std::string step = std::to_string(i);
    const auto merge = [&](const char* what, Bytes bytes) {
      return elementwise(name + what + step, bytes, l.precision);
    };
    op.forward.push_back(merge(".sums_merge.", t.log_sum_exp * 3));
    op.forward.push_back(merge(".merge.", t.output * wide));
    for (const auto& [what, tensor] :
         {std::pair{".query_merge.", t.query}, {".key_merge.", t.key}, {".value_merge.", t.value}})
      op.backward.push_back({merge(what, tensor * wide), {}});
  }
  op.forward_live = moved * 2 + t.output;  // keys and values in use and incoming ones; a partial result
  op.backward_live += moved * 4;           // also the gradients that go round
}

/// Halves the tensors that the kernel reads and keeps in fp8.
void narrow(AttentionTensors& t, const TransformerLayout& l) {
  for (Bytes* tensor : {&t.query, &t.key, &t.value, &t.output}) *tensor = l.in_fp8(*tensor);
}

/// Adds the casts of what the kernels read from 16 bits. Formats with a scale for some elements are stored along both
/// dimensions, since the backward pass sums over the other one; the maximum of a tensor may take a pass of its own.
void cast_to_fp8(Operator& op, const TransformerLayout& l, const std::string& name, const AttentionTensors& wide) {
  const Fp8Scaling scaling = l.options.fp8_scaling;
  const double reads = scaling == Fp8Scaling::current ? 2 : 1, writes = scaling == Fp8Scaling::block ? 2 : 1;
  const auto cast = [&](const char* suffix, Bytes tensor) {
    return elementwise(name + suffix, tensor * reads + l.in_fp8(tensor) * writes, l.precision);
  };
  op.forward.insert(op.forward.begin(), cast(".cast", wide.query + wide.key + wide.value));
  op.backward.insert(op.backward.begin(), {cast(".gradient_cast", wide.output), {}});
  for (auto* exchanges : {&op.forward_exchanges, &op.backward_exchanges})
    for (Exchange& exchange : *exchanges) {
      ++exchange.kernels_before;
      ++exchange.needed_by;
    }
}

void fused_attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const AttentionTensors wide = attention_tensors(l, a);
  AttentionTensors t = wide;
  const bool in_fp8 = l.options.fp8 && l.options.fp8_attention;
  if (in_fp8) narrow(t, l);
  const Bytes qkv = t.query + t.key + t.value;
  const double product = 2 * l.samples * a.heads * a.pairs();
  const Flops forward{product * (a.query_width + a.value_width)};
  // Backward has five products: scores again, gradients of queries and of keys; gradients of values and of
  // probabilities.
  const Flops backward{product * (3 * a.query_width + 2 * a.value_width)};
  const std::string name = a.prefix + "attention";
  Operator op;
  AttentionWork shape{l.samples * a.heads, a.queries, a.pairs(), a.longest(), a.mask_edges()};
  if (in_fp8)
    shape.format = l.options.fp8_scaling == Fp8Scaling::block ? AttentionFormat::fp8_block : AttentionFormat::fp8;
  // No library has a fused kernel that multiplies in tf32: PyTorch's for fp32 takes as long with tf32 allowed.
  const Precision precision = l.precision == Precision::tf32 ? Precision::fp32 : l.precision;
  op.forward.push_back(
      kernel_call(name, Kernel::attention, forward, qkv + t.output + t.bias + t.log_sum_exp, precision));
  op.forward.back().work.kernel = kernel_of(shape);
  Bytes moved = qkv * 2 + t.output * 2 + t.log_sum_exp;
  if (a.position_bias) moved += t.bias + t.scores;
  op.backward.push_back({kernel_call(name + ".backward", Kernel::attention_backward, backward, moved, precision), {}});
  shape.backward = true;
  op.backward.back().work.kernel = kernel_of(shape);
  if (a.position_bias) op.backward.push_back(bias_gradient(l, a, t));
  op.saved_tensors = {{name + ".qkv", qkv}, {name + ".log_sum_exp", t.log_sum_exp, true}, {name + ".output", t.output}};
  op.core = true;
  if (l.config.latent.key_value_rank > 0) op.saved_tensors.front().made_by = RecomputedPart::mla_up_proj;
  // Gradients. With dropout the kernel keeps the state of its random generator instead of a mask.
  op.backward_live = wide.query + wide.key + wide.value + wide.output;
  if (a.position_bias) op.backward_live += t.scores;
  if (a.ring > 1) ring_of_steps(op, l, a, wide);
  if (in_fp8) cast_to_fp8(op, l, name, wide);
  b.add(std::move(op));
}

/// A product of two operands in the attention of every head, with the two products of its backward pass. One operand has
/// `width` columns for each head.
Operator attention_product(const TransformerLayout& l, const AttentionShape& a, const std::string& name, double m,
                           double n, double k, double width) {
  constexpr double kAlignment = 16;  // bytes
  const double batch = l.samples * a.heads;
  const bool on_cuda_cores = l.options.aligned_tensor_cores && l.size().value < element_size(Precision::fp32).value &&
                             std::fmod(width * l.size().value, kAlignment) != 0;
  const auto product = [&](const std::string& kernel, double rows, double columns, double inner) {
    KernelCall call = gemm(kernel, rows, columns, inner, l.precision, batch);
    if (!on_cuda_cores) return call;
    call.work.kernel = static_cast<std::uint16_t>(Kernel::gemm);  // without a shape: its tiles are tensor cores'
    call.work.precision = static_cast<std::uint8_t>(Precision::fp32);
    return call;
  };
  Operator op;
  op.forward.push_back(product(a.prefix + name, m, n, k));
  op.backward.push_back({product(a.prefix + name + ".left_grad", m, k, n), {}});
  op.backward.push_back({product(a.prefix + name + ".right_grad", k, n, m), {}});
  op.core = true;
  return op;
}

void softmax_of_scores(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const AttentionTensors t = attention_tensors(l, a);
  const bool separate = !l.options.fused_softmax;
  if (a.scaled && separate) b.mover(a.prefix + "scale", t.scores, t.scores, true);
  if (a.position_bias) {
    Operator bias;
    bias.forward.push_back(elementwise(a.prefix + "position_bias", t.scores * 2 + t.bias, l.precision));
    bias.backward.push_back(bias_gradient(l, a, t));
    bias.core = true;
    bias.forward_live = t.scores * 2;
    bias.backward_live = t.scores + t.wide_value;  // the gradient of the values is held
    b.add(std::move(bias));
  }
  if (a.causal && separate) b.mover(a.prefix + "causal_mask", t.scores, t.scores, true);
  Operator softmax;
  const Bytes softmax_tensor = t.scores * (b.autocasts() ? element_size(Precision::fp32) / l.size() : 1);
  softmax.forward.push_back(elementwise(a.prefix + "softmax", softmax_tensor * 2, l.precision));
  softmax.backward.push_back({elementwise(a.prefix + "softmax.backward", softmax_tensor * 3, l.precision), {}});
  softmax.saved_tensors = {{a.prefix + "softmax.output", softmax_tensor, true}};
  if (b.autocasts()) {  // the softmax is in fp32, between two products in 16 bits
    const auto cast = [&](const char* name) { return b.autocast_kernel(a.prefix + name, t.scores / l.size()); };
    softmax.forward.insert(softmax.forward.begin(), cast("scores_cast"));
    softmax.forward.push_back(cast("softmax_cast"));
    softmax.backward.insert(softmax.backward.begin(), BackwardKernel{cast("softmax_cast.backward"), {}});
    softmax.backward.push_back({cast("scores_cast.backward"), {}});
    softmax.saved_tensors.push_back({a.prefix + "softmax.copy", t.scores, true});
  }
  softmax.core = true;
  softmax.forward_live = t.scores;
  softmax.backward_live = t.scores * 2 + t.wide_value;
  b.add(std::move(softmax));
}

void unfused_attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const AttentionTensors t = attention_tensors(l, a);
  const std::string name = a.prefix + "attention";
  if (a.key_value_heads != a.heads) b.mover(a.prefix + "repeat_kv", t.key + t.value, t.wide_key + t.wide_value);
  Operator product = attention_product(l, a, "scores", a.queries, a.keys, a.query_width, a.query_width);
  product.saved_tensors = {{name + ".query", t.query}, {name + ".key", t.wide_key}, {name + ".value", t.wide_value}};
  product.forward_live = t.scores;
  product.backward_live = t.scores + t.query + t.wide_key + t.wide_value;
  b.add(std::move(product));
  softmax_of_scores(b, l, a);
  const bool dropout = l.config.attention_dropout > 0;
  if (dropout)
    b.dropout({.name = a.prefix + "softmax_dropout", .width = a.heads * a.keys, .input_kept = true, .core = true});
  Operator context = attention_product(l, a, "context", a.queries, a.value_width, a.keys, a.value_width);
  if (dropout) context.saved_tensors = {{a.prefix + "softmax_dropout.output", t.scores, true}};
  context.forward_live = t.output;
  context.backward_live = t.scores + t.output + t.wide_value;
  b.add(std::move(context));
  b.mover(a.prefix + "merge_heads", t.output, t.output);
}

/// Norms of queries and keys: of each head with one weight for all (Qwen3), or over all heads of a token (OLMo 2). In
/// the second case ranks of the tensor axis would sum a few bytes a row; this exchange is left out.
void head_norms(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const double rows = b.rows();
  const bool all = l.config.head_norms == HeadNorms::all;
  b.set_partial(!all && l.tensor_parallel());  // the rank's heads contribute a part of the weight's gradient
  const auto norm = [&](const char* name, double heads) {
    b.set_rows(all ? rows : rows * heads);
    b.norm(l.config.norm, name, all ? heads * a.query_width : a.query_width);
  };
  norm("q_norm", a.heads);
  norm("k_norm", a.key_value_heads);
  b.set_rows(rows);
  b.set_partial(false);
}

/// Rotates and scales a tensor by the eager kernels of Megatron-Core, whose fused kernel does not scale (models/common/
/// embeddings/rope_utils.py, _apply_rotary_pos_emb_bshd): the half that changes sign, a concatenation, two products, a sum
/// and another concatenation; backward also the gradients of the slices and their sum. The halves of a head are strided, and
/// the tables of cosines and sines are broadcast to all heads.
void rotate_eagerly(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes tensor) {
  const auto kernel = [&](const char* what, double passes) {
    return elementwise(name + "." + what, tensor * passes, l.precision);
  };
  const auto strided = [&](const char* what, double passes) {
    return strided_elementwise(name + "." + what, tensor * passes, l.precision);
  };
  Operator op;
  op.forward = {strided("negate", 1), kernel("halves", 2), strided("cos", 2),
                strided("sin", 2),    kernel("add", 3),    kernel("concat", 2)};
  op.backward = {{strided("sin.backward", 2), {}},    {strided("cos.backward", 2), {}},
                 {strided("negate.backward", 1), {}}, {kernel("halves.backward", 2), {}},
                 {kernel("slice.backward", 3), {}},   {kernel("add.backward", 3), {}}};
  op.forward_live = op.backward_live = tensor * 3;
  b.add(std::move(op));
}

bool trades_heads(const TransformerLayout& l) { return l.sharding().head_ranks() > 1; }

}  // namespace

void rotary(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const Bytes query = b.row_bytes(a.heads * a.query_width), key = b.row_bytes(a.key_value_heads * a.query_width);
  if (l.options.fused_rotary && l.config.scaled_rotary && !l.options.scales_fused_rotary) {
    rotate_eagerly(b, l, "rotary.q", query);
    rotate_eagerly(b, l, "rotary.k", key);
    return;
  }
  if (l.options.fused_rotary) {
    b.mover("rotary", query + key, query + key);
    return;
  }
  if (l.options.eager_heads) {
    const double wide = element_size(Precision::fp32) / l.size();
    for (const auto& [name, tensor] : {std::pair{std::string("rotary.q"), query}, {std::string("rotary.k"), key}}) {
      b.mover(name + ".to_fp32", tensor, tensor * wide);
      b.mover(name, tensor * wide, tensor * wide);
      b.mover(name + ".from_fp32", tensor * wide, tensor);
    }
    return;
  }
  b.mover("rotary.q", query, query);
  b.mover("rotary.k", key, key);
}

void trade_heads(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes tensors) {
  const Axis axis = l.sharding().splits_context() ? Axis::ulysses : Axis::context;
  b.cross({.forward = {name, axis, ExchangeKind::all_to_all, tensors},
           .backward = {name + ".backward", axis, ExchangeKind::all_to_all, tensors},
           .in = tensors,
           .out = tensors});
}

double AttentionShape::pairs() const {
  if (attended > 0) return queries * attended / (causal ? 2 : 1);
  if (!causal) return queries * keys;
  if (window == 0 || window >= keys) return queries * keys / 2;
  if (chunked) return queries * window / 2;
  return keys * window - window * window / 2;
}

double AttentionShape::longest() const {
  if (attended > 0) return attended;
  return causal && window > 0 ? std::min(window, keys) : keys;
}

int AttentionShape::mask_edges() const {
  if (!causal) return 0;
  return attended == 0 && window > 0 && window < keys && !chunked ? 2 : 1;
}

AttentionShape self_attention_shape(const TransformerLayout& l, std::int64_t index) {
  AttentionShape a;
  a.heads = l.heads();
  a.key_value_heads = l.key_value_heads();
  a.query_width = a.value_width = static_cast<double>(l.config.head_dim);
  a.queries = a.keys = l.tokens();
  a.ring = l.sharding().ring_ranks();
  a.causal = l.config.causal;
  a.attended = l.options.unpadded.attended;
  const std::int64_t every = l.config.full_attention_every;
  if (every == 0 || (index + 1) % every != 0) a.window = static_cast<double>(l.config.sliding_window);
  a.chunked = l.config.chunked_attention;
  return a;
}

void attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& shape) {
  AttentionShape a = shape;
  const double rows = b.rows();
  if (trades_heads(l)) {
    const AttentionTensors t = attention_tensors(l, a);
    trade_heads(b, l, a.prefix + "attention.heads", t.query + t.key + t.value);
    a.heads /= l.sharding().head_ranks();
    a.key_value_heads /= l.sharding().head_ranks();
    a.queries = a.keys = l.seq / l.sharding().ring_ranks();
    b.set_rows(l.samples * a.queries);
  }
  const double keys = a.attended > 0 ? a.attended : a.keys * a.ring;
  b.add_attention(Flops{2 * l.samples * a.heads * a.queries * keys * (a.query_width + a.value_width)});
  if (l.options.flash_attention && l.options.eager_heads && a.key_value_heads != a.heads) {
    const AttentionTensors t = attention_tensors(l, a);
    b.mover(a.prefix + "repeat_kv", t.key + t.value, t.wide_key + t.wide_value);
    a.key_value_heads = a.heads;
  }
  if (l.options.flash_attention)
    fused_attention(b, l, a);
  else
    unfused_attention(b, l, a);
  if (!trades_heads(l)) return;
  trade_heads(b, l, a.prefix + "attention.tokens", attention_tensors(l, a).output);
  b.set_rows(rows);
}

void output_projection(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  // Flash attention keeps the same tensor as its output.
  const bool is_kept_before =
      l.options.flash_attention && !trades_heads(l) && !l.config.attention_gate && l.config.indexer.keys == 0;
  b.linear({.name = a.prefix + "projection",
            .in = a.heads * a.value_width,
            .out = l.hidden(),
            .part = LinearPart::attention_output,
            .bias = l.config.attention_output_bias && !l.tensor_parallel(),
            .keeps_input = !is_kept_before,
            .shares_fork_gradient = l.adds_output(),
            .holds_input = is_kept_before,
            .gradient_cast_before = gathers_cast_gradient(l)});
}

void self_attention(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  const bool bias = l.config.qkv_bias;
  const double query = a.heads * a.query_width, gate = l.config.attention_gate ? query : 0,
               key = a.key_value_heads * a.query_width;
  const auto project = [&](const char* name, double width, bool first, bool last) {
    LayerBuilder::Linear linear = column_linear(l, "attention", last, readers_of(l, LinearPart::qkv));
    linear.name = a.prefix + name;
    if (a.input_width > 0) linear.in = a.input_width;
    linear.out = width;
    linear.bias = bias;
    linear.keeps_input = first;
    linear.part = LinearPart::qkv;
    b.linear(linear);
  };
  if (l.config.fused_qkv || l.options.fused_projections) {
    const double width = query + gate + 2 * key;
    project("qkv", width, true, true);
    Operator split;  // forward: views; backward: the three gradients are written into one tensor
    const Bytes moved = b.row_bytes(2 * width);
    split.backward.push_back({elementwise(a.prefix + "qkv.gradient_concat", moved, l.precision), {}});
    split.backward_live = moved;
    b.add(std::move(split));
  } else {
    b.shared_input(a.prefix + "qkv", a.input_width > 0 ? a.input_width : l.hidden(), 3);
    project("q", query + gate, true, false);
    project("k", key, false, false);
    project("v", key, false, true);
  }
  if (l.config.head_norms != HeadNorms::none) head_norms(b, l, a);
  if (l.config.position_embedding == PositionEmbedding::rotary) rotary(b, l, a);
  if (l.config.attention_sinks) attention_sinks(b, l, a);
  attention(b, l, a);
  if (l.config.attention_gate) attention_gate(b, l, query);
}

void attention_sinks(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& a) {
  Operator sinks;
  sinks.backward.push_back({elementwise(a.prefix + "sinks.gradient", b.row_bytes(a.heads), l.precision),
                            {b.parameter(a.prefix + "sinks", a.heads)}});
  b.add(std::move(sinks));
}

void attention_gate(LayerBuilder& b, const TransformerLayout& l, double width) {
  const Bytes tensor = b.row_bytes(width);
  Operator gated;
  gated.forward.push_back(elementwise("attention_gate", tensor * 3, l.precision));
  gated.backward.push_back({elementwise("attention_gate.backward", tensor * 5, l.precision), {}});
  gated.saved_tensors.assign({{"attention_gate.input", tensor}});
  if (trades_heads(l))
    gated.saved_tensors.push_back({"attention_gate.output", tensor});  // else flash attention keeps it
  gated.forward_live = tensor * 2;
  gated.backward_live = tensor * 3;
  b.add(std::move(gated));
}

}  // namespace trainyard::transformers
