#pragma once
#include <string>

#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The transfer of new weights from the training to the engines: an entry of models/catalog/weight-transfers. It is a figure
/// of the software and not of the links: measured stacks differ by a factor of 20 on the same network.
struct WeightTransfer {
  std::string name;
  Seconds start;
  BytesPerSecond rate;   ///< rate of the whole policy: every GPU receives each tensor before it keeps its share
  Seconds per_doubling;  ///< added for each doubling of the receiving GPUs above `doubled_from`
  int doubled_from = 1;
  Sources sources;

  Seconds time(Bytes policy, int gpus) const;
};

/// Reads and checks an entry. Throws UserError with the place.
WeightTransfer read_weight_transfer(const Node& entry);

/// The software of a post-training loop: an entry of models/catalog/rl-stacks.
struct RlStack {
  std::string name;
  Seconds loop;          ///< time of a step besides its parts: rewards, preparation of data, workers
  Seconds reload;        ///< time of a colocated step that moves weights and optimizer states out and back
  double pack_fill = 1;  ///< share of a pack of samples that is filled
  std::string colocated_transfer, apart_transfer;  ///< weight transfers, by placement
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
RlStack read_rl_stack(const Node& entry);

}  // namespace trainyard
