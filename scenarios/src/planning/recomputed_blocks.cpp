#include "scenarios/src/planning/recomputed_blocks.hpp"

#include <fmt/format.h>

namespace trainyard {

std::shared_ptr<const Network> recomputed_in_part(const Network& all, const Scenario& s,
                                                  const std::vector<std::vector<int>>& stages) {
  Sharding kept = s.plan.sharding;
  kept.recompute = Recompute::none;
  auto network =
      std::make_shared<Network>(network_of(s.model, s.micro_batch_size, s.precision, kept, s.plan.ends_apart()));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    int left = s.plan.recomputed_blocks;
    for (const int number : stages[stage]) {
      const Layer& again = all.layers[static_cast<std::size_t>(number)];
      if (left == 0 || !again.recomputes_all) continue;
      network->layers[static_cast<std::size_t>(number)] = again;
      --left;
    }
    if (left > 0)
      fail(s.plan.recomputed_place, fmt::format("plan.recompute.full: {} blocks a stage, but virtual stage {} has {}",
                                                s.plan.recomputed_blocks, stage, s.plan.recomputed_blocks - left));
  }
  return network;
}

}  // namespace trainyard
