#pragma once
#include "sim/folding/outline.hpp"
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// The groups of joins, as the upper bits of their tags name them (see ActorOutline): those of a lane's groups by the first
/// member.
constexpr Tag group_of_join(Lane lane, Actor first) {
  return static_cast<Tag>(lane) | static_cast<Tag>(first) << (32 - kMeetingBits);
}

/// The collectives of one rank: each on the streams of its lane.
class LaneCollectives {
 public:
  /// What a collective works on: a whole buffer, or part `part` of `parts` of it.
  struct Call {
    Lane lane;
    Operation operation;
    Bytes bytes;
    NameId name;
    std::uint16_t buffer;
    Dep start;  ///< the data are there
    std::uint16_t input = 0;
    int part = 0, parts = 1;
    double density = 1, whole = 1;  ///< see CollectiveCall
  };
  explicit LaneCollectives(StepContext& step) : step_(step) {}

  /// Nothing where the rank has no group on the lane. The receiving stream ends with the collective.
  Ops run(Call);
  /// A number that the members of a group give their next collective on a lane alike.
  Tag next_tag(Lane lane) { return static_cast<Tag>(lane) << kMeetingBits | ++calls_[static_cast<std::size_t>(lane)]; }
  Stream sends(Lane lane) const { return lane == Lane::gradients ? gradients_ : step_.streams.send(lane); }
  Stream receives(Lane lane) const { return static_cast<Stream>(sends(lane) + 1); }
  /// Everything on a lane so far.
  Dep end_of(Lane lane) const { return step_.out.after(receives(lane)); }
  /// From now on gradients use this pair of streams, and from `more_channels` on pairs for further channels.
  void use_for_gradients(Stream sends, Stream more_channels) {
    gradients_ = sends;
    more_channels_ = more_channels;
  }

 private:
  StepContext& step_;
  std::array<std::uint32_t, kLanes> calls_{};  // so far
  Stream gradients_ = TrainingStreams::gradients, more_channels_ = TrainingStreams::more_channels;
};

}  // namespace trainyard
