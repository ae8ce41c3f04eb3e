// Operators of listed layers with several parts, and kernels and exchanges whose sizes are stated.
#include "models/networks/transformers/special_operators.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "models/networks/layers/scan_kernels.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/nearest.hpp"

namespace trainyard::transformers {
namespace {

/// Recurrences by the words of their operators.
constexpr std::pair<std::string_view, ScanKind> kScans[] = {
    {"mamba2", ScanKind::mamba2}, {"gated_delta", ScanKind::gated_delta}, {"kimi_delta", ScanKind::kimi_delta}};

ScanKind scan_kind(const ListedOperator& op) {
  for (const auto& [word, kind] : kScans)
    if (op.word == word) return kind;
  return ScanKind::none;
}

/// Returns a size that must be a whole number, such as a number of experts.
std::int64_t whole_size(const ListedOperator& op, std::string_view key, const SizeValues& sizes) {
  const double value =
      size_value(op.sizes.find(key)->second, sizes, op.place, fmt::format("model.layers: {}", op.word));
  if (value != std::floor(value) || value > 1e9)
    fail(op.place, fmt::format("model.layers: {}: {}: {:.10g}; expected a whole number", op.word, key, value));
  return static_cast<std::int64_t>(value);
}
std::int64_t whole_size(const ListedOperator& op, std::string_view key, const SizeValues& sizes,
                        std::int64_t fallback) {
  return op.states(key) ? whole_size(op, key, sizes) : fallback;
}

ExpertsConfig experts_of(const ListedOperator& op, const SizeValues& sizes) {
  ExpertsConfig e;
  e.count = whole_size(op, "experts", sizes);
  e.per_token = whole_size(op, "chosen", sizes);
  e.intermediate_size = whole_size(op, "inner", sizes);
  e.shared_intermediate_size = whole_size(op, "shared", sizes, 0);
  e.shared_gate = op.is("shared_gate");
  e.router_bias = op.is("router_bias");
  e.correction_bias = op.is("correction_bias");
  e.by_token = op.is("by_token");
  if (e.per_token > e.count)
    fail(op.place,
         fmt::format("model.layers: experts: {} of {} are chosen; expected at most all", e.per_token, e.count));
  return e;
}

/// A router, and the experts that it chooses for each row, as in mixtures of experts.
void experts(LayerBuilder& b, const TransformerLayout& rows, const ListedOperator& op, const SizeValues& sizes) {
  TransformerConfig config = rows.config;
  config.hidden_size = whole_size(op, "width", sizes);
  config.experts = experts_of(op, sizes);
  config.activation = "silu";
  config.gated_mlp = op.is("gated");
  config.mlp_bias = op.is("bias");
  const TransformerLayout l{config, rows.options, rows.precision, rows.samples, rows.seq};
  require_shares(l, "tensor", l.sharding().expert_shards(), static_cast<double>(config.experts.intermediate_size),
                 "columns", op);
  require_shares(l, "tensor", l.tensor(), static_cast<double>(config.experts.shared_intermediate_size),
                 "shared columns", op);
  exchanged_experts(b, l, op.name);
}

/// A state-space layer or linear attention with its projections: see `scan_mixer`.
void scan(LayerBuilder& b, const TransformerLayout& rows, const ListedOperator& op, const SizeValues& sizes) {
  constexpr std::int64_t kMambaChunk = 256;
  TransformerConfig config = rows.config;
  config.hidden_size = whole_size(op, "width", sizes);
  ScanConfig& c = config.scan;
  c.kind = scan_kind(op);
  c.heads = whole_size(op, "heads", sizes);
  c.head_dim = whole_size(op, "head", sizes);
  c.groups = whole_size(op, "groups", sizes);
  c.state = whole_size(op, "state", sizes);
  c.chunk = whole_size(op, "chunk", sizes, c.kind == ScanKind::mamba2 ? kMambaChunk : kDeltaChunk);
  c.taps = whole_size(op, "taps", sizes, 4);
  c.convolution_bias = op.is("bias");
  if (c.heads % c.groups != 0)
    fail(op.place,
         fmt::format("model.layers: {}: {} heads in {} groups; expected a multiple", op.word, c.heads, c.groups));
  const TransformerLayout l{config, rows.options, rows.precision, rows.samples, rows.seq};
  require_shares(l, "tensor", l.tensor(), static_cast<double>(c.heads), "heads", op);
  require_shares(l, "tensor", l.tensor(), static_cast<double>(c.groups), "groups of heads", op);
  require_shares(l, "context", l.tensor() * l.context(), static_cast<double>(c.heads), "heads", op);
  scan_mixer(b, l, true);
}

void require_one_context_rank(const TransformerLayout& l, const ListedOperator& op) {
  if (l.context() == 1) return;
  throw ShardingError("context",
                      fmt::format("{}: {} reads the rows of other context ranks, which is not modelled; expected 1",
                                  l.config.name, op.name),
                      op.place);
}

/// Each channel of a row is a sum over `taps` rows, the last of which is the row itself.
void convolution(LayerBuilder& b, const TransformerLayout& l, const ListedOperator& op, const SizeValues& sizes) {
  require_one_context_rank(l, op);
  const std::int64_t width = whole_size(op, "width", sizes);
  const double ranks = op.split == "columns" ? l.tensor() : 1;
  require_shares(l, "tensor", ranks, static_cast<double>(width), "channels", op);
  ScanShape s;
  s.kind = ScanKind::mamba1;  // its convolution is that of the values alone
  s.tokens = b.rows();
  s.heads = static_cast<double>(width) / ranks;
  s.head_dim = 1;
  s.taps = static_cast<double>(whole_size(op, "taps", sizes));
  s.element = l.size();
  Operator kernels;
  kernels.forward = convolution_forward(s, l.precision);
  for (KernelCall& call : convolution_backward(s, l.precision)) kernels.backward.push_back({std::move(call), {}});
  std::vector<int>& gradients = kernels.backward.back().gradients_ready;
  gradients = {b.parameter(op.name + ".weight", s.inner() * s.taps)};
  if (op.is("bias")) gradients.push_back(b.parameter(op.name + ".bias", s.inner()));
  kernels.saved_tensors = {{op.name + ".input", b.row_bytes(s.inner())}};
  kernels.keeps_input = true;
  kernels.forward_live = b.row_bytes(s.inner());
  kernels.backward_live = b.row_bytes(2 * s.inner());
  b.add(std::move(kernels));
}

/// An indexer between its projections and the attention to the keys that it chooses. Every tensor rank computes all of it,
/// and its own heads' part of the target.
void indexer(LayerBuilder& b, const TransformerLayout& l, const ListedOperator& op, const SizeValues& sizes) {
  require_one_context_rank(l, op);
  const auto size = [&](const char* key) {
    return size_value(op.sizes.find(key)->second, sizes, op.place, std::string("model.layers: indexer: ") + key);
  };
  const double rows = b.rows() / l.samples;
  AttentionShape attention;
  attention.heads = size("attention_heads") / l.tensor();
  attention.query_width = size("attention_width");
  attention.queries = rows;
  choose_keys(b, l, op.name,
              {size("heads"), size("head"), op.states("keys") ? size("keys") : rows, size("chosen"), op.is("causal")},
              attention);
}

/// A convolution over the rows and columns of an image, of which a sample has `rows` positions in the output. A tensor
/// rank has a part of the output's channels.
void convolution_2d(LayerBuilder& b, const TransformerLayout& l, const ListedOperator& op, const SizeValues& sizes) {
  require_one_context_rank(l, op);
  const double ranks = op.split == "columns" ? l.tensor() : 1;
  const auto in = static_cast<double>(whole_size(op, "in", sizes)),
             out = static_cast<double>(whole_size(op, "out", sizes)),
             side = static_cast<double>(whole_size(op, "side", sizes)),
             stride = static_cast<double>(whole_size(op, "stride", sizes, 1)),
             groups = static_cast<double>(whole_size(op, "groups", sizes, 1));
  for (const double channels : {in, out})
    if (std::fmod(channels, groups) != 0)
      fail(op.place, fmt::format("model.layers: {}: {:.10g} channels in {:.10g} groups; expected a multiple", op.name,
                                 channels, groups));
  require_shares(l, "tensor", ranks, out, "channels", op);
  const double window = in / groups * side * side, channels = out / ranks, elements = window * channels;
  const Bytes x = b.row_bytes(stride * stride * (groups > 1 ? in / ranks : in)), y = b.row_bytes(channels);
  const bool is_fast = l.precision == Precision::fp32 && side == 3 && stride == 1;
  const Kernel kind = groups > 1 && groups == in ? Kernel::elementwise
                      : is_fast                  ? Kernel::convolution_3x3
                                                 : Kernel::convolution;
  const auto product = [&](const char* pass) {
    return kernel_call(op.name + pass, kind, Flops{2 * b.rows() * channels * window}, x + y + l.size() * elements,
                       l.precision);
  };
  Operator kernels;
  b.cast_weights(kernels, op.name, elements);
  kernels.forward.push_back(product(""));
  if (!op.is("first")) kernels.backward.push_back({product(".dgrad"), {}});
  kernels.backward.push_back({product(".wgrad"), {b.parameter(op.name + ".weight", elements, channels)}});
  kernels.backward.back().for_weights = true;
  b.cast_gradient(kernels, op.name + ".weight", elements);
  if (op.is("bias")) {
    const Bytes biases = l.size() * channels;
    kernels.forward.push_back(elementwise(op.name + ".bias", y * 2 + biases, l.precision));
    kernels.backward.push_back(
        {elementwise(op.name + ".bias_grad", y + biases, l.precision), {b.parameter(op.name + ".bias", channels)}});
    kernels.backward.back().for_weights = true;
  }
  kernels.for_weights = x + y;
  kernels.saved_tensors = {{op.name + ".input", x}};
  kernels.keeps_input = true;
  kernels.forward_live = y;
  kernels.backward_live = op.is("first") ? y : y + x;
  b.add(std::move(kernels));
}

/// A kernel of which a user states the elements that it reads and writes for a row, its FLOP and what it keeps. With FLOP
/// it has the rates of scans, else those of element-wise kernels.
void stated_kernel(LayerBuilder& b, const TransformerLayout& l, const ListedOperator& op, const SizeValues& sizes) {
  const double ranks = op.split == "columns" ? l.tensor() : 1;
  if (op.is("sequential")) require_one_context_rank(l, op);
  const auto size = [&](const char* key, double fallback) {
    const auto found = op.sizes.find(key);
    return found == op.sizes.end()
               ? fallback
               : size_value(found->second, sizes, op.place, std::string("model.layers: kernel: ") + key) / ranks;
  };
  const double moved = size("moved", 0), flops = size("flops", 0), kept_elements = size("kept", 0);
  const double parameters = size("parameters", 0);
  const Bytes weights = l.size() * parameters;
  const auto kernel = [&](const char* pass, double row_elements, double row_flops) {
    return kernel_call(op.name + pass, row_flops > 0 ? Kernel::scan : Kernel::elementwise, Flops{row_flops * b.rows()},
                       b.row_bytes(row_elements) + weights, l.precision);
  };
  Operator kernels;
  kernels.forward.push_back(kernel("", moved, flops));
  kernels.backward.push_back(
      {kernel(".backward", size("backward_moved", 2 * moved), size("backward_flops", 2 * flops)), {}});
  if (parameters > 0) kernels.backward.back().gradients_ready = {b.parameter(op.name + ".weight", parameters)};
  if (kept_elements > 0) kernels.saved_tensors = {{op.name + ".kept", b.row_bytes(kept_elements)}};
  kernels.forward_live = b.row_bytes(moved);
  kernels.backward_live = b.row_bytes(2 * moved);
  b.add(std::move(kernels));
}

constexpr std::pair<std::string_view, ExchangeKind> kExchanges[] = {{"all_reduce", ExchangeKind::all_reduce},
                                                                    {"all_gather", ExchangeKind::all_gather},
                                                                    {"reduce_scatter", ExchangeKind::reduce_scatter},
                                                                    {"all_to_all", ExchangeKind::all_to_all}};

/// Exchanges rows over the ranks of an axis. Backward, gathers and scatters change places, an all-to-all goes back, and
/// the gradient of a sum is that of each of its parts, which needs no exchange.
void stated_exchange(LayerBuilder& b, const TransformerLayout& l, const ListedOperator& op, const SizeValues& sizes) {
  const Axis axis = parse_axis(op.words.at("over"));
  const double ranks = axis == Axis::tensor ? l.tensor() : axis == Axis::context ? l.context() : l.sharding().expert;
  if (ranks < 2) return;
  ExchangeKind kind = ExchangeKind::all_reduce;
  for (const auto& [word, kind_of_word] : kExchanges)
    if (op.words.at("kind") == word) kind = kind_of_word;
  const Bytes all = b.row_bytes(size_value(op.sizes.at("width"), sizes, op.place, "model.layers: exchange: width"));
  LayerBuilder::Crossing c;
  c.forward = {op.name, axis, kind, all};
  if (kind != ExchangeKind::all_reduce) {
    const ExchangeKind back = kind == ExchangeKind::all_gather       ? ExchangeKind::reduce_scatter
                              : kind == ExchangeKind::reduce_scatter ? ExchangeKind::all_gather
                                                                     : kind;
    c.backward = {op.name + ".backward", axis, back, all};
  }
  c.in = kind == ExchangeKind::all_gather ? all / ranks : all;
  c.out = kind == ExchangeKind::reduce_scatter ? all / ranks : all;
  b.cross(std::move(c));
}

}  // namespace

bool splits_itself(const ListedOperator& op) { return op.word == "experts" || scan_kind(op) != ScanKind::none; }

void add_special_operator(LayerBuilder& b, const TransformerLayout& rows, const ListedOperator& op,
                          const SizeValues& sizes) {
  if (op.word == "experts") return experts(b, rows, op, sizes);
  if (op.word == "convolution") return convolution(b, rows, op, sizes);
  if (op.word == "convolution_2d") return convolution_2d(b, rows, op, sizes);
  if (op.word == "indexer") return indexer(b, rows, op, sizes);
  if (op.word == "kernel") return stated_kernel(b, rows, op, sizes);
  if (op.word == "exchange") return stated_exchange(b, rows, op, sizes);
  scan(b, rows, op, sizes);
}

void take_experts(const std::vector<ListedOperator>& operators, const SizeValues& sizes, TransformerConfig& c) {
  for (const ListedOperator& op : operators) {
    take_experts(op.operators, sizes, c);
    if (op.word != "experts") continue;
    const ExpertsConfig experts = experts_of(op, sizes);
    if (c.experts.count > 0 && (c.experts.count != experts.count || c.experts.per_token != experts.per_token))
      fail(op.place, fmt::format("model.layers: experts: {} of {} are chosen here, and {} of {} before; expected equal "
                                 "numbers in all layers",
                                 experts.per_token, experts.count, c.experts.per_token, c.experts.count));
    c.experts = experts;
  }
}

void require_shares(const TransformerLayout& l, const char* part, double ranks, double parts, const std::string& words,
                    const ListedOperator& op) {
  if (std::fmod(parts, ranks) == 0) return;
  throw ShardingError(
      part,
      fmt::format("{}: {:.10g} ranks share the {:.10g} {} of {}, which must be a multiple of them; nearest: {}",
                  l.config.name, ranks, parts, words, op.name,
                  nearest_divisors(static_cast<std::int64_t>(parts), static_cast<std::int64_t>(ranks))),
      op.place, static_cast<std::int64_t>(parts));
}

}  // namespace trainyard::transformers
