#pragma once
#include <string>

#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A library that sends rows of tokens to the ranks of their experts and back: an entry of models/catalog/dispatchers.
/// A token goes once to each node that has some of its experts, to the rank there with its own place in the node, and from
/// there by NVLink to each rank that has some (DeepSeek-AI 2024, §3.2.2).
struct ExpertDispatcher {
  std::string name;                        ///< empty: all-to-all of the collectives' library, of a row for each expert
  double hca_share = 1, nvlink_share = 1;  ///< of the links' rates, that it reaches
  int sms = 0;                             ///< number of SMs that its kernels occupy
  BytesPerSecond rate_per_sm{};            ///< rate at which one of these SMs sends over NVLink
  Sources sources;
};

/// What `plan.expert_parallel.dispatcher` may name besides `all-to-all`. Throws UserError with the place.
ExpertDispatcher read_expert_dispatcher(const Catalog&, const Node& reference);

}  // namespace trainyard
