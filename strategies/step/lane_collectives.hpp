#pragma once
#include "sim/folding/outline.hpp"
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// Identifies the joins of one of a lane's groups by its first member: the upper bits of their tags (see
/// ActorOutline).
constexpr Tag group_of_join(Lane lane, Actor first) {
  return static_cast<Tag>(lane) | static_cast<Tag>(first) << (32 - kJoinBits);
}

/// Runs the collectives of one rank, each on the streams of its lane.
class LaneCollectives {
 public:
  /// A collective on a whole buffer, or on part `part` of `parts` of it.
  struct Call {
    Lane lane;
    Operation operation;
    Bytes bytes;
    NameId name;
    std::uint16_t buffer;
    Dep start;  ///< end of the operation that makes the data available
    std::uint16_t input = 0;
    int part = 0, parts = 1;
    double density = 1, whole = 1;  ///< see CollectiveCall
  };
  explicit LaneCollectives(StepContext& step) : step_(step) {}

  /// Runs a collective; does nothing if the rank has no group on the lane. The end of the receiving stream is the end
  /// of the collective.
  Ops run(Call);
  /// Returns a tag for the next collective on a lane. All members of a group get the same.
  Tag next_tag(Lane lane) { return static_cast<Tag>(lane) << kJoinBits | ++calls_[static_cast<std::size_t>(lane)]; }
  Stream sends(Lane lane) const { return lane == Lane::gradients ? gradients_ : step_.streams.send(lane); }
  Stream receives(Lane lane) const { return static_cast<Stream>(sends(lane) + 1); }
  /// Returns a dependency on everything on a lane so far.
  Dep end_of(Lane lane) const { return step_.out.last_operation(receives(lane)); }
  /// Makes gradients use this pair of streams from now on, and pairs from `more_channels` on for further channels.
  void use_for_gradients(Stream sends, Stream more_channels) {
    gradients_ = sends;
    more_channels_ = more_channels;
  }

 private:
  StepContext& step_;
  std::array<std::uint32_t, kLanes> calls_{};  // number of collectives so far, by lane
  Stream gradients_ = TrainingStreams::gradients, more_channels_ = TrainingStreams::more_channels;
};

}  // namespace trainyard
