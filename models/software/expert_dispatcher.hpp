#pragma once
#include <string>

#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A library that sends rows of tokens to the ranks of their experts and back: an entry of models/catalog/dispatchers.
/// A token goes once to each node that has some of its experts. It arrives at the rank with the same index in the node
/// as its own rank, and goes from there by NVLink to each rank that has some of its experts (DeepSeek-AI 2024, §3.2.2).
struct ExpertDispatcher {
  std::string name;  ///< empty: the all-to-all of the collectives' library, with a row for each expert
  double hca_share = 1, nvlink_share = 1;  ///< shares of the links' rates that it reaches
  int sms = 0;                             ///< number of SMs that its kernels occupy
  BytesPerSecond rate_per_sm{};            ///< rate at which one of these SMs sends over NVLink
  Sources sources;
};

/// Reads the dispatcher that `plan.expert_parallel.dispatcher` names, unless that is `all-to-all`. Throws UserError
/// with the place.
ExpertDispatcher read_expert_dispatcher(const Catalog&, const Node& reference);

}  // namespace trainyard
