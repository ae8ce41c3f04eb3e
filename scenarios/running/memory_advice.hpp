#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/units.hpp"

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

/// One change of a plan, and the peak memory that simulating it again gives.
struct FittingChange {
  std::vector<std::pair<std::string, std::string>> overrides;  ///< path, value
  double peak = 0;                                             ///< bytes, of the fullest rank
  bool fits = false;
};

/// "plan.recompute=full".
std::string in_words(const std::vector<std::pair<std::string, std::string>>& overrides);

}  // namespace trainyard
