#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// What a scenario's GPUs have room for, all else as it is.
struct Capacity {
  Bytes memory;                               ///< of the GPU with the least
  std::int64_t largest_micro_batch_size = 0;  ///< samples; 0: not even one fits
  /// Layers like the model's own (each half of an encoder-decoder so many); 0: not even one fits. None where the model
  /// is not described by a number of layers.
  std::optional<std::int64_t> largest_num_hidden_layers;
  double largest_parameters = 0;  ///< of that model
};

/// The most memory that a rank holds at any moment of the step, simulated on one device: ranks of data parallelism hold
/// the same, and messages take no memory beside the buckets.
Bytes peak_memory(const Scenario&);

/// The largest whole number from 0 that fits, where all below one that fits do; `guess` is where the search begins.
std::int64_t largest_that_fits(std::int64_t guess, const std::function<bool(std::int64_t)>& fits);

/// Searches by reading the scenario again with other sizes and simulating what it then holds. A size that the reader
/// refuses does not fit.
Capacity capacity(const Scenario&);

}  // namespace trainyard
