#include "strategies/step/training_streams.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {
namespace {

/// Returns the number of stream pairs that the collectives of a lane use.
int channels_of(const LaneGroups& lane) {
  if (!lane.is_used()) return 1;
  const LaneGroup& group = lane.groups.front();
  const GroupPlace place{0, static_cast<int>(group.members.size()), &group.settings};
  int channels = 1;
  for (const Collective* algorithm : lane.algorithm)
    if (algorithm) channels = std::max(channels, algorithm->channels_of(place));
  return channels;
}

}  // namespace

TrainingStreams::TrainingStreams(const TrainingPlan& plan) {
  names_ = {"compute", "send", "receive", "coordinator"};
  const auto add_channels = [this](int channels, const std::string& lane) {
    for (int channel = 1; channel < channels; ++channel)
      for (const char* half : {"send", "receive"})
        names_.push_back(fmt::format("{}{} of channel {}", half, lane, channel));
  };
  const auto add = [this](const std::string& name) {
    const auto first = static_cast<Stream>(names_.size());
    names_.push_back("send " + name);
    names_.push_back("receive " + name);
    return first;
  };
  more_.fill(more_channels);
  channels_ = channels_of(plan.lane(Lane::gradients));
  add_channels(channels_, "");
  lanes_[static_cast<std::size_t>(Lane::gradients)] = TrainingStreams::gradients;
  for (int i = 0; i < kLanes; ++i)
    if (static_cast<Lane>(i) != Lane::gradients && static_cast<Lane>(i) != Lane::expert_return &&
        plan.lanes[i].is_used()) {
      lanes_[i] = add(name_of(static_cast<Lane>(i)));
      more_[i] = static_cast<Stream>(names_.size());
      add_channels(channels_of(plan.lanes[i]), fmt::format(" {}", name_of(static_cast<Lane>(i))));
    }
  lanes_[static_cast<std::size_t>(Lane::expert_return)] = send(Lane::expert);
  if (plan.pipeline.stages > 1) {
    pipeline_ = add("activations");
    add("gradients of activations");
  }
  if (plan.offload.copies()) {
    host_ = static_cast<Stream>(names_.size());
    const int ways = plan.offload.is_used() ? kHostWays : static_cast<int>(HostTransfer::from_host) + 1;
    for (int way = 0; way < ways; ++way) names_.emplace_back(name_of(static_cast<HostTransfer>(way)));
  }
  if (plan.input.is_used()) {
    input_ = static_cast<Stream>(names_.size());
    names_.emplace_back("receive input");
    if (plan.input.asks) names_.emplace_back("ask for input");
  }
  updates_ = count();
  for (const std::string& name : update_policy_of(plan).streams(channels_, kMaxStreams - updates_))
    names_.push_back(name);
  if (names_.size() > kMaxStreams)
    throw UserError(fmt::format("the plan needs {} streams for each rank, but there are at most {}; use fewer channels",
                                names_.size(), kMaxStreams));
}

}  // namespace trainyard
