#include "models/generation/decode_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

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

/// Returns the bytes of all parameters. Linear layers of blocks have one byte an element in fp8, all else has two.
Bytes weight_bytes(const Network& network, bool fp8) {
  double bytes = 0;
  for (std::size_t i = 0; i < network.layers.size(); ++i)
    for (const ParameterTensor& tensor : network.layers[i].parameters)
      bytes += tensor.elements * (fp8 && tensor.in > 0 && i > 0 && i + 1 < network.layers.size() ? 1 : 2);
  return Bytes{bytes};
}

const TransformerConfig& config_of(const NetworkEntry& model) {
  const TransformerConfig* config = model.transformer();
  if (!config || !config->causal || config->num_decoder_layers > 0)
    fail(config ? config->place : Place{},
         fmt::format("{} generates no text token by token; expected a decoder, such as llama-3-8b", model.name));
  return *config;
}

}  // namespace

const ForwardPasses::Pass& ForwardPasses::pass(std::int64_t sequences, std::int64_t tokens, bool decodes,
                                               const std::function<Pass()>& make) {
  const std::tuple key{sequences, tokens, decodes};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = passes_.find(key); found != passes_.end()) return found->second;
  }
  Pass made = make();
  const std::lock_guard lock(mutex_);
  return passes_.try_emplace(key, std::move(made)).first->second;
}

DecodeCosts::DecodeCosts(const NetworkEntry& model, const Engine& engine, const Gpu& gpu, const EngineLayout& layout,
                         ExchangeTime all_reduce, ExchangeTime all_to_all, std::shared_ptr<ForwardPasses> passes)
    : model_(model),
      config_(config_of(model_)),
      engine_(engine),
      gpu_(gpu),
      layout_(layout),
      all_reduce_(std::move(all_reduce)),
      all_to_all_(std::move(all_to_all)),
      table_(passes ? std::move(passes) : std::make_shared<ForwardPasses>()) {
  weights_ = weight_bytes(network(1, 1), layout.fp8);
  policy_ = Bytes{2 * make_network(model_, 1, 1, Precision::bf16).parameters()};
  room_ = layout.memory_share * gpu.usable_memory() - weights_ - engine.reserved_memory;
  token_bytes_ = cached_elements(config_, layout.tensor) * (layout.fp8_cache ? 1 : 2) / layout.expert;
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
  options.fp8 = layout_.fp8;
  options.sharding.tensor = layout_.tensor;
  if (layout_.expert > 1) {
    options.sharding.expert = layout_.expert;
    options.sharding.expert_tensor = 1;
  }
  return make_network(model_, sequences, tokens, Precision::bf16, options);
}

ForwardPasses::Pass DecodeCosts::new_pass(std::int64_t sequences, std::int64_t tokens, bool decodes) const {
  Network pass = network(sequences, tokens);
  if (!decodes) pass.layers.pop_back();  // only the last token of a prompt goes through the head
  ForwardPasses::Pass all;
  for (const Layer& layer : pass.layers) {
    for (const KernelCall& call : layer.forward) {
      const Kernel kind = kind_of(call.work.kernel);
      if (!decodes || (kind != Kernel::attention && kind != Kernel::scan)) all.kernels += kernel_time(gpu_, call.work);
    }
    for (const Exchange& exchange : layer.forward_exchanges) all.exchanges.emplace_back(exchange.kind, exchange.bytes);
  }
  return all;
}

DecodeCosts::PassTime DecodeCosts::forward(std::int64_t sequences, std::int64_t tokens, bool decodes) const {
  const ForwardPasses::Pass& pass =
      table_->pass(sequences, tokens, decodes, [&] { return new_pass(sequences, tokens, decodes); });
  PassTime time{pass.kernels, {}};
  for (const auto& [kind, bytes] : pass.exchanges)
    if (kind == ExchangeKind::all_to_all && all_to_all_)
      time.exchanges += all_to_all_(bytes);
    else
      time.exchanges += all_reduce_(bytes) * (kind == ExchangeKind::all_reduce ? 1 : 0.5);
  return time;
}

const DecodeCosts::PassTime& DecodeCosts::decode_pass(int batch) const {
  const auto small = static_cast<int>(std::bit_ceil(static_cast<unsigned>(batch)));
  const int multiple = engine_.batch_multiple, above = (batch + multiple - 1) / multiple * multiple;
  const int captured = std::min(small, above);
  const auto found = passes_.find(captured);
  if (found != passes_.end()) return found->second;
  return passes_.emplace(captured, forward(captured, 1, true)).first->second;
}

DecodeTime DecodeCosts::verify(int all_sequences, int new_tokens, double context) const {
  const int batch = (all_sequences + layout_.expert - 1) / layout_.expert;  // sequences of one GPU
  const PassTime& pass = decode_pass(batch * new_tokens);
  const EngineKernels& kernels = engine_.kernels_on(gpu_);
  const BytesPerSecond rate = kernels.attention_rate * gpu_.memory_bandwidth;
  const FlopsPerSecond peak = gpu_.efficiency[static_cast<std::size_t>(Kernel::attention)].flops *
                              gpu_.peak[static_cast<std::size_t>(Precision::bf16)];
  const auto layers = [&](double count, double tokens) {
    const double all = static_cast<double>(batch) * tokens;
    const Seconds read = Bytes{all * token_bytes_ * layout_.expert} / rate,
                  compute = Flops{all * new_tokens * attention_flops(config_) / layout_.tensor} / peak;
    return count * (kernels.attention_start + std::max(read, compute));
  };
  const double window = std::min(context, static_cast<double>(config_.sliding_window));
  // The state after each new token is written, because the engine goes back to the last one that the model accepts.
  const Bytes states = convolution_ * 2 + recurrence_ * (1 + new_tokens);
  const Seconds scan =
      kernels.scan_start + static_cast<double>(batch) * states / (kernels.scan_rate * gpu_.memory_bandwidth);
  return {pass.kernels, layers(full_layers_, context) + layers(windowed_layers_, window) + scan_layers_ * scan,
          pass.exchanges, engine_.host_step + engine_.host_sequence * batch};
}

Seconds DecodeCosts::prefill_pass(std::int64_t tokens) const {
  const std::int64_t priced = (tokens + kPrefillStep - 1) / kPrefillStep * kPrefillStep;
  const std::int64_t shaped = config_.position_embedding == PositionEmbedding::learned
                                  ? std::min(priced, config_.max_position_embeddings)
                                  : priced;
  const auto found = prefills_.find(shaped);
  if (found != prefills_.end()) return found->second;
  const PassTime pass = forward(1, shaped, false);
  return prefills_.emplace(shaped, pass.kernels + pass.exchanges).first->second;
}

Seconds DecodeCosts::prefill(double tokens) const {
  const auto all = static_cast<std::int64_t>(std::ceil(tokens / layout_.expert));
  if (all == 0) return Seconds{};
  const std::int64_t most = engine_.most_prefill_tokens, rest = all % most;
  Seconds time = rest > 0 ? prefill_pass(rest) : Seconds{};
  if (all >= most) time += prefill_pass(most) * static_cast<double>(all / most);
  return time + engine_.host_step;
}

Bytes DecodeCosts::cache(double tokens) const {
  const double window = std::min(tokens, static_cast<double>(config_.sliding_window));
  return Bytes{token_bytes_ * (full_layers_ * tokens + windowed_layers_ * window)};
}

Bytes DecodeCosts::states() const { return scan_layers_ / layout_.expert * (recurrence_ + convolution_); }

}  // namespace trainyard
