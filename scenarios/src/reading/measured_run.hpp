#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/reading/document.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// What such a step took on a real machine.
struct MeasuredRun {
  std::string family, source;  ///< family: runs of one source that are alike
  Seconds step_time;           ///< as measured, or of the rate that was published
  Bytes peak_memory;           ///< of the fullest rank; 0: not measured
  Bytes reserved_memory;       ///< what its allocator had taken from the GPU; 0: not measured
  FlopsPerSecond rate;         ///< of one device, as published; 0: a time or a rate of tokens was
  std::string counted;         ///< what that rate counts, in words
  double tokens_per_s = 0;     ///< of one device, as published; 0: another figure was
  std::string assumed;         ///< what the source does not say
  bool given() const { return step_time.value > 0; }
};

/// What published rates count, of a token.
enum class CountedFlops : std::uint8_t {
  model,             ///< `Network::model_flops_per_token`: 6 a parameter
  layers,            ///< 6 a parameter of what is neither embedding nor head
  attention,         ///< `Network::attention_flops_per_token`: scores of all pairs of tokens
  causal_attention,  ///< half of them
  recomputation      ///< a second forward pass of the layers, and of attention where it counts
};
Flops counted_flops_per_token(const Network&, const std::vector<CountedFlops>&);

/// `{step_time | rate, counts | tokens_per_s | samples_per_s, peak_memory, reserved_memory, assumed, source}`: how long a
/// step of so many samples took on so many devices; samples_per_s is of all of them. Throws UserError.
MeasuredRun read_measured_run(const Node&, const Network&, double samples, int devices);

}  // namespace trainyard
