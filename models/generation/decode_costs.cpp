#include "models/generation/decode_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "models/hardware/kernel_shapes.hpp"
#include "models/networks/layers/exchange.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kPrefillStep = 64;  ///< prefill passes are priced at multiples of this number of tokens

/// Layers of a network, by what they keep of a sequence. A layer may have attention and a scan.
struct KeptLayers {
  double full = 0, windowed = 0, scans = 0;
};

KeptLayers kept_layers(const TransformerConfig& c) {
  using namespace layer_letters;
  KeptLayers layers;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const char letter = c.pattern.empty() ? kAttention : c.pattern[static_cast<std::size_t>(i)];
    if (letter == kScan || letter == kBoth) ++layers.scans;
    if (letter != kAttention && letter != kBoth) continue;
    const bool slides = c.sliding_window > 0 && (c.full_attention_every == 0 || (i + 1) % c.full_attention_every != 0);
    ++(slides ? layers.windowed : layers.full);
  }
  return layers;
}

/// Returns the elements of keys and values that one GPU keeps for a token of a layer. Latent attention keeps the latent
/// and the rotary part, on every GPU; other attention keeps the heads of the GPU, at least one.
double cached_elements(const TransformerConfig& c, int tensor) {
  if (c.latent.key_value_rank > 0) return static_cast<double>(c.latent.key_value_rank + c.latent.rotary_head_dim);
  return 2 * std::max(1.0, static_cast<double>(c.num_key_value_heads) / tensor) * static_cast<double>(c.head_dim);
}

/// Returns the FLOPs of attention for a new token and one token of the cache, over all heads of a layer.
double attention_flops(const TransformerConfig& c) {
  const auto heads = static_cast<double>(c.num_attention_heads);
  if (c.latent.key_value_rank > 0)
    return 2 * heads * static_cast<double>(2 * c.latent.key_value_rank + c.latent.rotary_head_dim);
  return 4 * heads * static_cast<double>(c.head_dim);
}

/// Returns the probabilities with which a token chooses each expert; see `Engine::expert_skew`. Their sum is the number of
/// experts of a token, and none is above 1.
std::vector<double> popularity_of(const ExpertsConfig& experts, double skew) {
  std::vector<double> all;
  double remaining = static_cast<double>(experts.per_token), weights = 0;
  for (std::int64_t i = 1; i <= experts.count; ++i) {
    all.push_back(std::pow(static_cast<double>(i), -skew));
    weights += all.back();
  }
  for (double& share : all) {  // the most popular ones first, of which some may be certain
    const double weight = share;
    share = std::min(1.0, remaining * weight / weights);
    remaining -= share;
    weights -= weight;
  }
  return all;
}

bool is_feed_forward(std::string_view layer) {
  return layer.find("expert") != std::string_view::npos || layer.starts_with("shared") || layer == "gate_up" ||
         layer == "gate" || layer == "up" || layer == "down";
}

/// Returns the load of the busiest of `parts` equal parts of the experts over the mean of all parts: the mean over random
/// deals of the experts.
double busiest_part(const std::vector<double>& popularity, int parts) {
  const std::size_t size = popularity.size() / static_cast<std::size_t>(parts);
  if (parts < 2 || size == 0 || size * static_cast<std::size_t>(parts) != popularity.size())
    return 1;  // a number of parts that does not divide the experts is refused with the network
  constexpr int kDeals = 256;
  std::mt19937_64 random(1);
  std::vector<double> dealt = popularity;
  double all = 0, sum = 0;
  for (const double probability : popularity) all += probability;
  for (int deal = 0; deal < kDeals; ++deal) {
    for (std::size_t i = dealt.size(); i-- > 1;) std::swap(dealt[i], dealt[random() % (i + 1)]);
    double busiest = 0;
    for (std::size_t first = 0; first < dealt.size(); first += size)
      busiest = std::max(busiest, std::accumulate(dealt.begin() + static_cast<std::ptrdiff_t>(first),
                                                  dealt.begin() + static_cast<std::ptrdiff_t>(first + size), 0.0));
    sum += busiest;
  }
  return std::max(1.0, sum / kDeals * parts / all);
}

/// Returns true if a layer keeps bf16. Published nvfp4 weights of models with latent attention (DeepSeek-R1-0528-NVFP4-v2)
/// narrow the feed-forward parts and the projection of attention's output.
bool stays_wide(std::string_view layer, EngineFormat format, const TransformerConfig& config) {
  return format == EngineFormat::nvfp4 && config.latent.key_value_rank > 0 && layer != "projection" &&
         !is_feed_forward(layer);
}

/// Returns the bytes of all parameters. Linear layers of blocks have the format of the engine, all else has two bytes.
Bytes weight_bytes(const Network& network, EngineFormat format, const TransformerConfig& config) {
  Bytes bytes;
  for (std::size_t i = 0; i < network.layers.size(); ++i)
    for (const ParameterTensor& tensor : network.layers[i].parameters) {
      const bool is_in_block = tensor.in > 0 && i > 0 && i + 1 < network.layers.size() &&
                               (format != EngineFormat::mxfp4 || tensor.expert) &&
                               !stays_wide(tensor.name.substr(0, tensor.name.rfind('.')), format, config);
      bytes += tensor.elements * element_size(is_in_block ? format : EngineFormat::bf16);
    }
  return bytes;
}

/// Returns the model as an engine of `tensor` GPUs has it: GPUs beyond the heads of keys and values keep copies of them.
NetworkEntry with_copied_heads(NetworkEntry model, int tensor) {
  if (TransformerConfig* c = std::get_if<TransformerConfig>(&model.shape))
    if (c->num_key_value_heads > 0 && tensor > c->num_key_value_heads && tensor % c->num_key_value_heads == 0)
      c->num_key_value_heads = tensor;
  return model;
}

const TransformerConfig& config_of(const NetworkEntry& model) {
  const TransformerConfig* config = model.transformer();
  if (!config || !config->causal || config->num_decoder_layers > 0)
    fail(config ? config->place : Place{},
         fmt::format("{} generates no text token by token; expected a decoder, such as llama-3-8b", model.name));
  return *config;
}

bool have_equal_kernels(const Layer& a, const Layer& b) {
  return std::ranges::equal(
             a.forward, b.forward,
             [](const KernelCall& x, const KernelCall& y) { return x.name == y.name && x.work == y.work; }) &&
         std::ranges::equal(a.forward_exchanges, b.forward_exchanges, [](const Exchange& x, const Exchange& y) {
           return x.kind == y.kind && x.bytes == y.bytes;
         });
}

}  // namespace

const std::vector<std::string>& engine_formats() {
  static const std::vector<std::string> names{"bf16", "fp8", "nvfp4", "mxfp4", "fp8-block"};
  return names;
}

Bytes element_size(EngineFormat format) {
  if (format == EngineFormat::mxfp4) return Fp8Products{true, Fp8Scaling::mxfp4, true}.element();
  if (format == EngineFormat::nvfp4) return Fp8Products{true, Fp8Scaling::nvfp4, true}.element();
  return element_size(format == EngineFormat::bf16 ? Precision::bf16 : Precision::fp8);
}

Seconds GenerationCosts::prefill_beside(int /*batch*/, const PromptTokens& tokens) const { return prefill(tokens); }

DecodeCosts::DecodeCosts(const NetworkEntry& model, const Engine& engine, const Gpu& gpu, const EngineLayout& layout,
                         ExchangeTime all_reduce, ExchangeTime all_to_all)
    : model_(model),
      engine_model_(with_copied_heads(model, layout.tensor)),
      config_(config_of(model_)),
      engine_(engine),
      gpu_(gpu),
      experts_gpu_(gpu),
      layout_(layout),
      all_reduce_(std::move(all_reduce)),
      all_to_all_(std::move(all_to_all)) {
  const TemporaryShapes temporary;
  if (layout.weights == EngineFormat::mxfp4)
    experts_gpu_.memory_bandwidth =
        gpu.memory_bandwidth * (element_size(expert_products()) / element_size(EngineFormat::mxfp4));
  if (widens_experts())
    for (FlopsPerSecond& peak : experts_gpu_.peak) peak = peak * engine.kernels_on(gpu).widened_rate;
  const double skew = config_.experts.correction_bias ? engine.balanced_skew : engine.expert_skew;
  popularity_ = popularity_of(config_.experts, skew);
  if (skew > 0) busiest_part_ = busiest_part(popularity_, layout.expert);
  weights_ = weight_bytes(network(1, 1), layout.weights, config_);
  policy_ = Bytes{2 * make_network(model_, 1, 1, Precision::bf16).parameters()};
  const Bytes taken = weights_ + engine.reserved_memory;
  room_ = engine.shares_free_memory ? layout.memory_share * (gpu.usable_memory() - taken)
                                    : layout.memory_share * gpu.usable_memory() - taken;
  repeat_blocks();
  token_bytes_ = cached_elements(config_, layout.tensor) * element_size(layout.cache).value / layout.data;
  const KeptLayers layers = kept_layers(config_);
  full_layers_ = layers.full;
  windowed_layers_ = layers.windowed;
  scan_layers_ = layers.scans;
  const ScanConfig& scan = config_.scan;
  const auto inner = static_cast<double>(scan.inner()), keys = static_cast<double>(scan.groups * scan.state);
  const double convolved = scan.kind == ScanKind::mamba1 ? inner : inner + 2 * keys;
  recurrence_ = engine.state_element * (inner * static_cast<double>(scan.state) / layout.tensor);
  convolution_ = element_size(Precision::bf16) * (convolved * static_cast<double>(scan.taps - 1) / layout.tensor);
}

Network DecodeCosts::network(std::int64_t sequences, std::int64_t tokens) const {
  TransformerOptions options;
  options.fused_projections = options.fused_gated_activation = options.fused_rotary = true;
  options.fp8 = layout_.weights != EngineFormat::bf16 && layout_.weights != EngineFormat::mxfp4;
  if (layout_.weights == EngineFormat::fp8_block) options.fp8_scaling = Fp8Scaling::block;
  if (layout_.weights == EngineFormat::nvfp4) {
    options.fp8_scaling = Fp8Scaling::mxfp4;  // casts need no maximum of the tensor, whose scale was calibrated before
    options.fp8_any_layout = true;
  }
  options.sharding.tensor = layout_.tensor;
  if (layout_.data > 1) {
    options.sharding.expert = layout_.expert;
    options.sharding.expert_tensor = 1;
    options.sharding.expert_imbalance = busiest_part_;
    if (layout_.tensor > 1) {
      // Tensor ranks divide the tokens of their copy, and each sends its own ones to their experts. Decode steps have the
      // shapes of one sequence with the new tokens of all, so that the ranks divide them.
      options.sharding.sequence = true;
      if (tokens == 1) tokens = std::exchange(sequences, 1);
      tokens = (tokens + layout_.tensor - 1) / layout_.tensor * layout_.tensor;
    }
  }
  return make_network(engine_model_, sequences, tokens, Precision::bf16, options);
}

/// Prices a pass by few blocks, each of which stands for several, where later blocks have the kernels of earlier ones.
void DecodeCosts::repeat_blocks() {
  const auto blocks = static_cast<std::size_t>(config_.num_hidden_layers);
  const std::int64_t longest = config_.max_position_embeddings > 0 ? config_.max_position_embeddings : 1 << 16;
  const Network all = network(1, longest);  // so long that windows of attention differ from all tokens
  repeats_.assign(all.layers.size(), 1);
  TransformerConfig* config = std::get_if<TransformerConfig>(&engine_model_.shape);
  if (!config || !config->pattern.empty() || all.layers.size() != blocks + 2) return;
  std::size_t first = blocks, period = 0;  // blocks from `first` on repeat each `period` blocks
  for (std::size_t p = 1; p <= blocks / 2; ++p) {
    std::size_t begin = blocks - p;
    while (begin > 0 && have_equal_kernels(all.layers[begin], all.layers[begin + p])) --begin;
    if (begin + p < first + period) first = begin, period = p;
  }
  if (period == 0) return;
  config->num_hidden_layers = static_cast<std::int64_t>(first + period);
  const Network few = network(1, longest);
  const bool is_equal = few.layers.size() == first + period + 2 &&
                        std::equal(few.layers.begin(), few.layers.end() - 1, all.layers.begin(), have_equal_kernels) &&
                        have_equal_kernels(few.layers.back(), all.layers.back());
  if (!is_equal) {
    config->num_hidden_layers = config_.num_hidden_layers;
    return;
  }
  repeats_.assign(few.layers.size(), 1);
  for (std::size_t i = first + period; i < blocks; ++i) repeats_[1 + first + (i - first) % period] += 1;
}

Precision DecodeCosts::expert_products() const {
  return gpu_.peak[static_cast<std::size_t>(Precision::fp4)].value > 0 ? Precision::fp8 : Precision::bf16;
}

bool DecodeCosts::widens_experts() const {
  return layout_.weights == EngineFormat::mxfp4 && expert_products() == Precision::bf16;
}

/// Returns the time of a matrix product in a pass over `tokens` tokens of each GPU. A product of experts reads only the
/// weights that a token needs.
Seconds DecodeCosts::product_time(const KernelCall& call, double tokens) const {
  const auto precision =
      stays_wide(call.name, layout_.weights, config_) ? Precision::bf16 : static_cast<Precision>(call.work.precision);
  const GemmShape shape = shape_of(call.work.kernel);
  const EngineKernels& kernels = engine_.kernels_on(gpu_);
  Seconds start;
  if (precision == Precision::fp4 && !call.name.starts_with("experts.")) start = kernels.nvfp4_start;
  if (precision == Precision::fp8 && layout_.weights == EngineFormat::fp8_block) start = kernels.block_start;
  if (!call.name.starts_with("experts."))
    return start +
           kernel_time(
               gpu_,
               gemm(call.name, shape.m, shape.n, shape.k, precision, shape.count, shape.in_turn, shape.in_blocks).work);
  double chosen = 0;
  for (const double probability : popularity_) chosen += 1 - std::pow(1 - probability, tokens * layout_.data);
  const double count = std::max(1.0, chosen / layout_.expert);
  if (layout_.weights == EngineFormat::fp8_block && call.name == "experts.down")
    start += kernels.block_expert * (static_cast<double>(popularity_.size()) / layout_.expert);
  if (widens_experts() && call.name == "experts.down")
    start += kernels.widened_start + kernels.widened_token * (tokens * layout_.data);
  // Without copies, all GPUs have all tokens: a GPU computes the rows of its own experts, of which it has wider parts.
  const bool has_copies = layout_.data > 1, is_last = call.name == "experts.down";
  const double parts = has_copies ? 1 : layout_.expert, rows = shape.m * shape.count * (has_copies ? 1 : busiest_part_);
  return start + kernel_time(experts_gpu_, gemm(call.name, rows / parts / count, shape.n * (is_last ? 1 : parts),
                                                shape.k * (is_last ? parts : 1),
                                                layout_.weights == EngineFormat::mxfp4 ? expert_products() : precision,
                                                count, shape.in_turn, shape.in_blocks)
                                               .work);
}

DecodeCosts::PassTime DecodeCosts::forward(std::int64_t sequences, std::int64_t tokens, bool decodes) const {
  const TemporaryShapes temporary;  // its kernels are priced here and never simulated
  Network pass = network(sequences, tokens);
  if (!decodes) pass.layers.pop_back();  // only the last token of a prompt goes through the head
  PassTime time;
  for (std::size_t i = 0; i < pass.layers.size(); ++i) {
    const Layer& layer = pass.layers[i];
    const double repeats = repeats_[i];
    Seconds& products = decodes && i + 1 == pass.layers.size() ? time.head : time.linear;
    for (const KernelCall& call : layer.forward) {
      const Kernel kind = kind_of(call.work.kernel);
      const bool mixes = kind == Kernel::attention || kind == Kernel::scan;
      time.launches += repeats * call.work.launches;
      if (kind == Kernel::gemm)
        products += repeats * product_time(call, static_cast<double>(sequences * tokens));
      else if (!mixes)
        products += repeats * kernel_time(gpu_, call.work);
      else if (!decodes)
        time.mixing += repeats * kernel_time(gpu_, call.work);
    }
    time.launches += repeats * static_cast<double>(layer.forward_exchanges.size());
    // Norms over the heads of all GPUs share their sums of squares.
    if (config_.head_norms == HeadNorms::all && layout_.tensor > 1 && i > 0 && i + 1 < pass.layers.size())
      time.exchanges +=
          repeats * all_reduce_(element_size(Precision::fp32) * static_cast<double>(2 * sequences * tokens));
    for (const Exchange& exchange : layer.forward_exchanges)
      if (exchange.kind == ExchangeKind::all_to_all && all_to_all_)
        time.exchanges += repeats * all_to_all_(exchange.bytes);
      else
        time.exchanges += repeats * all_reduce_(exchange.bytes) * (exchange.kind == ExchangeKind::all_reduce ? 1 : 0.5);
  }
  return time;
}

const DecodeCosts::PassTime& DecodeCosts::decode_pass(int batch) const {
  const auto small = static_cast<int>(std::bit_ceil(static_cast<unsigned>(batch)));
  const int multiple = engine_.batch_multiple, above = (batch + multiple - 1) / multiple * multiple;
  const int captured = engine_.cuda_graphs ? std::min(small, above) : batch;
  const auto found = passes_.find(captured);
  if (found != passes_.end()) return found->second;
  return passes_.emplace(captured, forward(captured, 1, true)).first->second;
}

/// Returns the time for which the GPU waits until the host has launched the kernels of a pass, which take `busy`.
Seconds DecodeCosts::launched(const PassTime& pass, Seconds busy) const {
  if (engine_.cuda_graphs) return {};
  return std::max(Seconds{}, engine_.kernel_launch * pass.launches - busy);
}

DecodeTime DecodeCosts::verify(int all_sequences, int new_tokens, double context) const {
  const int batch = (all_sequences + layout_.data - 1) / layout_.data;  // sequences of one copy
  const PassTime& pass = decode_pass(batch * new_tokens);
  const EngineKernels& kernels = engine_.kernels_on(gpu_);
  const BytesPerSecond rate = kernels.attention_rate * gpu_.memory_bandwidth;
  const FlopsPerSecond peak = attention_peak();
  const auto layers = [&](double count, double tokens) {
    const double all = static_cast<double>(batch) * tokens;
    const Seconds read = Bytes{all * token_bytes_ * layout_.data} / rate,
                  compute = Flops{all * new_tokens * attention_flops(config_) / layout_.tensor} / peak;
    return count * (kernels.attention_start + std::max(read, compute));
  };
  const double window = std::min(context, static_cast<double>(config_.sliding_window));
  // The state after each new token is written, because the engine goes back to the last one that the model accepts.
  const Bytes states = convolution_ * 2 + recurrence_ * (1 + new_tokens);
  const Seconds scan =
      kernels.scan_start + static_cast<double>(batch) * states / (kernels.scan_rate * gpu_.memory_bandwidth);
  DecodeTime time{pass.kernels(),
                  layers(full_layers_, context) + layers(windowed_layers_, window) + scan_layers_ * scan,
                  pass.exchanges, engine_.host_step + batch * sequence_time(engine_, config_)};
  time.host += launched(pass, time.products + time.cache + time.exchanges);
  return time;
}

Seconds sequence_time(const Engine& engine, const TransformerConfig& network) {
  return engine.host_sequence + (network.experts.count > 0 ? engine.expert_sequence : Seconds{});
}

FlopsPerSecond DecodeCosts::attention_peak() const {
  return gpu_.efficiency[static_cast<std::size_t>(Kernel::attention)].flops *
         gpu_.peak[static_cast<std::size_t>(Precision::bf16)];
}

const DecodeCosts::PassTime& DecodeCosts::prefill_pass(std::int64_t tokens) const {
  const std::int64_t priced = (tokens + kPrefillStep - 1) / kPrefillStep * kPrefillStep;
  const std::int64_t shaped = config_.position_embedding == PositionEmbedding::learned
                                  ? std::min(priced, config_.max_position_embeddings)
                                  : priced;
  const auto found = prefills_.find(shaped);
  if (found != prefills_.end()) return found->second;
  return prefills_.emplace(shaped, forward(1, shaped, false)).first->second;
}

/// Returns the time of attention and scans for tokens of prompts: of the tokens of a sequence to each other, and to those
/// before them, whose keys and values the cache has.
Seconds DecodeCosts::mixing(const PromptTokens& tokens) const {
  const double all = std::ceil(tokens.count / layout_.data);
  if (all <= 0) return Seconds{};
  const auto wide = static_cast<std::int64_t>(std::ceil(std::clamp(tokens.length, 1.0, all)));
  const std::int64_t length = wide > kPrefillStep ? (wide + kPrefillStep - 1) / kPrefillStep * kPrefillStep : wide,
                     sequences = std::max<std::int64_t>(1, std::llround(all / static_cast<double>(wide)));
  const auto found = mixings_.find({sequences, length});
  const Seconds among =
      found != mixings_.end()
          ? found->second
          : mixings_.emplace(std::pair{sequences, length}, forward(sequences, length, false).mixing).first->second;
  const double window = std::min(tokens.before, static_cast<double>(config_.sliding_window));
  const double pairs = tokens.count / layout_.data * (full_layers_ * tokens.before + windowed_layers_ * window);
  return among + Flops{pairs * attention_flops(config_) / layout_.tensor} / attention_peak();
}

/// Returns the time of one pass over tokens of prompts.
Seconds DecodeCosts::prefill_pass_time(const PromptTokens& tokens) const {
  const PassTime& pass = prefill_pass(static_cast<std::int64_t>(std::ceil(tokens.count / layout_.data)));
  const Seconds busy = pass.linear + pass.exchanges + mixing(tokens);
  return busy + launched(pass, busy);
}

Seconds DecodeCosts::prefill(const PromptTokens& tokens) const {
  if (tokens.count <= 0) return Seconds{};
  const double most = static_cast<double>(engine_.most_prefill_tokens) * layout_.data,
               passes = std::floor(tokens.count / most), rest = tokens.count - passes * most;
  Seconds time = engine_.host_step;
  if (rest > 0) time += prefill_pass_time({rest, tokens.length, tokens.before});
  if (passes > 0) time += passes * prefill_pass_time({most, tokens.length, tokens.before});
  return time;
}

Seconds DecodeCosts::prefill_beside(int all_sequences, const PromptTokens& tokens) const {
  if (all_sequences == 0) return prefill(tokens);
  const int batch = (all_sequences + layout_.data - 1) / layout_.data;
  const auto chunk = static_cast<std::int64_t>(std::ceil(tokens.count / layout_.data));
  // Products and exchanges are those of both kinds of tokens together. Attention is priced for each kind.
  const PassTime &decodes = decode_pass(batch), &both = prefill_pass(chunk + batch);
  const Seconds together = both.linear + both.exchanges, without = decodes.linear + decodes.exchanges;
  return std::max(Seconds{}, together - without) + mixing(tokens);
}

Bytes DecodeCosts::cache(double tokens) const {
  const double window =
      engine_.keeps_all_tokens ? tokens : std::min(tokens, static_cast<double>(config_.sliding_window));
  return Bytes{token_bytes_ * (full_layers_ * tokens + windowed_layers_ * window)};
}

Bytes DecodeCosts::narrow_policy() const {
  const TemporaryShapes temporary;
  return weight_bytes(make_network(model_, 1, 1, Precision::bf16), layout_.weights, config_);
}

Bytes DecodeCosts::states() const { return scan_layers_ / layout_.data * (recurrence_ + convolution_); }

}  // namespace trainyard
