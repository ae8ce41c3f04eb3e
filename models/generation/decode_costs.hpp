#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/generation/engine.hpp"
#include "models/networks/network_entry.hpp"

namespace trainyard {

/// Number format of the weights of an engine's linear layers, or of its cache of keys and values. nvfp4: 4 bits, with an
/// fp8 scale for 16 numbers. mxfp4: only experts have 4 bits, with a scale for 32 numbers; their products are in bf16, or
/// in fp8 on GPUs with units for fp4. fp8_block: fp8 with a scale for each block of 128 x 128 weights.
enum class EngineFormat : std::uint8_t { bf16, fp8, nvfp4, mxfp4, fp8_block };
/// Returns the names of the formats, in the order of the enumeration. The first three suit a cache.
const std::vector<std::string>& engine_formats();
/// Returns the size of a number in that format, with its share of a scale.
Bytes element_size(EngineFormat);

/// The layout of one engine.
struct EngineLayout {
  int tensor = 1;  ///< number of GPUs that split the layers besides the experts
  /// Number of copies of these layers in the engine, each with sequences of its own. Above 1, the experts are spread over
  /// all GPUs of the engine, and tokens go to their experts and back.
  int data = 1;
  /// Number of parts among which the experts are dealt. It divides the GPUs of the engine, and the GPUs of a part split
  /// each of its experts. 1: experts are split like other layers. With `data` 1, every GPU has all tokens, and the
  /// outputs of experts are summed by the all-reduce of the layer.
  int expert = 1;
  EngineFormat weights = EngineFormat::bf16;  ///< format of the linear layers of blocks; all else is in bf16
  EngineFormat cache = EngineFormat::bf16;    ///< format of keys and values
  double memory_share = 0;                    ///< share of each GPU's memory that the engine takes

  int gpus() const { return tensor * data; }  ///< GPUs of the engine
};

/// The time of one decode step, by what takes it.
struct DecodeTime {
  Seconds products;   ///< matrix products, experts, norms, sampling
  Seconds cache;      ///< attention: reads of keys and values; state-space layers: reads and writes of states
  Seconds exchanges;  ///< all-reduces of tensor parallelism, all-to-alls of expert parallelism
  Seconds host;       ///< time of the engine's host, and of the sequences of networks with experts
  Seconds sum() const { return products + cache + exchanges + host; }
};

/// Tokens of prompts that a step computes.
struct PromptTokens {
  double count = 0;
  double length = 0;  ///< mean number of tokens that the sequence of a token has in this step
  double before = 0;  ///< mean number of tokens of its sequence that the cache has already
};

/// Prices of an engine that generates text, as the simulation of engines needs them.
class GenerationCosts {
 public:
  virtual ~GenerationCosts() = default;
  /// Returns the time in which each of `batch` sequences gets one token. `context`: mean number of tokens before it.
  virtual DecodeTime decode(int batch, double context) const = 0;
  /// Returns the time to compute the keys and values of tokens of prompts in passes of their own.
  virtual Seconds prefill(const PromptTokens&) const = 0;
  /// Returns what a decode step takes longer if it also computes the keys and values of tokens of prompts. `batch` 0:
  /// there is no decode step. By default the prompts have a pass of their own.
  virtual Seconds prefill_beside(int batch, const PromptTokens&) const;
  /// Returns the bytes of keys and values of `tokens` tokens of a sequence, on one GPU: the mean over the GPUs of the
  /// engine.
  virtual Bytes cache(double tokens) const = 0;
  /// Returns the bytes of the states of a sequence in state-space layers and linear attention, however long it is, on
  /// one GPU: the mean over the GPUs of the engine.
  virtual Bytes states() const { return {}; }
  virtual Bytes room() const = 0;  ///< bytes of one GPU for keys, values and states
};

/// Returns the time that each running sequence of a copy adds to a decode step, besides its kernels and exchanges.
Seconds sequence_time(const Engine&, const TransformerConfig&);

/// Prices by the kernels of the network on a GPU of the catalog. A decode step is a forward pass of one token for each
/// sequence, in which attention reads the cache instead, and a state-space layer reads and writes its state. Matrix
/// products and experts are priced by their shapes, as in training; the batch is rounded up to a captured graph's.
class DecodeCosts : public GenerationCosts {
 public:
  using ExchangeTime = std::function<Seconds(Bytes)>;

  /// `all_reduce` and `all_to_all`: time of such an exchange among the GPUs of the engine, by the bytes of the tensor, or
  /// by the bytes that each GPU sends. Throws UserError at the model's place for a network that generates no text, and
  /// for a sharding that does not divide it.
  DecodeCosts(const NetworkEntry&, const Engine&, const Gpu&, const EngineLayout&, ExchangeTime all_reduce,
              ExchangeTime all_to_all = {});

  DecodeTime decode(int batch, double context) const override { return verify(batch, 1, context); }
  /// Returns the time of a pass over `tokens` new tokens of each of `batch` sequences, which reads the cache once.
  DecodeTime verify(int batch, int tokens, double context) const;
  Seconds prefill(const PromptTokens&) const override;
  Seconds prefill_beside(int batch, const PromptTokens&) const override;
  Bytes cache(double tokens) const override;
  Bytes states() const override;
  Bytes room() const override { return room_; }
  Bytes weights() const { return weights_; }  ///< bytes of the weights on one GPU
  Bytes policy() const { return policy_; }    ///< bytes of all parameters in bf16
  Bytes narrow_policy() const;                ///< bytes of all parameters in the format of the engine

 private:
  /// Times of a forward pass. Prompts do not go through the head, and a decode pass has no time of the mixing of tokens:
  /// it reads the cache instead.
  struct PassTime {
    Seconds linear;  ///< kernels besides the head and the mixing of tokens
    Seconds head;
    Seconds mixing;  ///< attention and scans
    Seconds exchanges;
    double launches = 0;  ///< number of kernels and exchanges, with those of attention and scans
    Seconds kernels() const { return linear + head + mixing; }
  };
  Precision expert_products() const;
  bool widens_experts() const;
  Seconds product_time(const KernelCall&, double tokens) const;
  PassTime forward(std::int64_t sequences, std::int64_t tokens, bool decodes) const;
  const PassTime& decode_pass(int batch) const;
  const PassTime& prefill_pass(std::int64_t tokens) const;
  Seconds prefill_pass_time(const PromptTokens&) const;
  Seconds launched(const PassTime& pass, Seconds busy) const;
  FlopsPerSecond attention_peak() const;
  Seconds mixing(const PromptTokens&) const;
  Network network(std::int64_t sequences, std::int64_t tokens) const;
  void repeat_blocks();

  NetworkEntry model_, engine_model_;
  TransformerConfig config_;
  Engine engine_;
  Gpu gpu_, experts_gpu_;  ///< `experts_gpu_`: its memory is faster by the ratio of a product's format to the weights'
  EngineLayout layout_;
  ExchangeTime all_reduce_, all_to_all_;
  Bytes weights_, policy_, room_;
  double token_bytes_ = 0;          ///< bytes of keys and values of one token in one layer, on one GPU
  double full_layers_ = 0;          ///< layers whose attention reads all tokens
  double windowed_layers_ = 0;      ///< layers whose attention has a sliding window
  double scan_layers_ = 0;          ///< state-space layers, and layers of linear attention
  std::vector<double> popularity_;  ///< probability with which a token chooses each expert
  double busiest_part_ = 1;         ///< load of the busiest part of the experts over the mean of all parts
  Bytes recurrence_, convolution_;  ///< state of a sequence in one of them, on one GPU that has the sequence
  /// Number of layers that each layer of `engine_model_` stands for.
  std::vector<double> repeats_;
  mutable std::map<int, PassTime> passes_;             ///< decode steps by batch
  mutable std::map<std::int64_t, PassTime> prefills_;  ///< prefill passes by tokens, of one sequence
  /// Attention and scans of prefill passes, by the number of sequences and the tokens of each.
  mutable std::map<std::pair<std::int64_t, std::int64_t>, Seconds> mixings_;
};

}  // namespace trainyard
