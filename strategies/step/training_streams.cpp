#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "strategies/step/training_program.hpp"

namespace trainyard {

TrainingStreams::TrainingStreams(const TrainingPlan& plan) {
  names_ = {"compute", "send", "receive", "coordinator"};
  const LaneGroups& gradients = plan.lane(Lane::gradients);
  const Collective* algorithm = gradients.algorithm[static_cast<std::size_t>(Operation::all_reduce)];
  int channels = 1;
  if (gradients.used() && algorithm) {
    const LaneGroup& group = gradients.groups.front();
    channels = algorithm->channels_of({0, static_cast<int>(group.members.size()), &group.settings});
    for (int channel = 1; channel < channels; ++channel)
      for (const char* half : {"send", "receive"}) names_.push_back(fmt::format("{} of channel {}", half, channel));
  }
  for (int slot = 1; slot <= plan.updates.delay; ++slot) {
    delayed_.push_back(static_cast<Stream>(std::min<std::size_t>(names_.size(), 255)));
    for (int channel = 0; channel < channels; ++channel)
      for (const char* half : {"send", "receive"})
        names_.push_back(fmt::format("{} {} steps later, channel {}", half, slot, channel));
  }
  const auto add = [this](const std::string& name) {
    const auto first = static_cast<Stream>(names_.size());
    names_.push_back("send " + name);
    names_.push_back("receive " + name);
    return first;
  };
  lanes_[static_cast<std::size_t>(Lane::gradients)] = 1;
  for (int i = 0; i < kLanes; ++i)
    if (static_cast<Lane>(i) != Lane::gradients && plan.lanes[static_cast<std::size_t>(i)].used())
      lanes_[static_cast<std::size_t>(i)] = add(name_of(static_cast<Lane>(i)));
  if (plan.pipeline.stages > 1) {
    pipeline_ = add("activations");
    add("gradients of activations");
  }
  if (plan.offload.used()) {
    host_ = static_cast<Stream>(names_.size());
    for (int way = 0; way < kHostWays; ++way) names_.emplace_back(name_of(static_cast<HostWay>(way)));
  }
  if (plan.input.used()) {
    input_ = static_cast<Stream>(names_.size());
    names_.emplace_back("receive input");
    if (plan.input.asks) names_.emplace_back("ask for input");
  }
  if (plan.updates.gossip) {
    const int room = kMaxStreams - static_cast<int>(names_.size());
    gossip_ = static_cast<Stream>(names_.size());
    gossip_ways_ = std::clamp(plan.updates.gossip->most_neighbours(), 1, std::max(1, room));
    for (int way = 0; way < gossip_ways_; ++way) names_.push_back(fmt::format("send to neighbour {}", way));
  }
  if (names_.size() > kMaxStreams)
    throw UserError(
        fmt::format("the plan needs {} streams a rank, at most {}: fewer channels", names_.size(), kMaxStreams));
}

}  // namespace trainyard
