#pragma once
#include <array>
#include <string>
#include <vector>

#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// The streams of a training rank: compute, then those of exchanges, of which a plan uses some.
class TrainingStreams {
 public:
  explicit TrainingStreams(const TrainingPlan&);

  static constexpr Stream compute = 0, gradients = 1, coordinator = 3, more_channels = 4;
  Stream send(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  Stream recv(Lane lane) const { return static_cast<Stream>(send(lane) + 1); }
  /// The first stream of a lane's further channels, each a pair of streams.
  Stream more(Lane lane) const { return more_[static_cast<std::size_t>(lane)]; }
  /// Number of stream pairs that the collective of gradients uses: the lane's own pair, and the others from
  /// `more_channels` on.
  int channels() const { return channels_; }
  /// Streams of messages between stages: activations forward and gradients back, each for sending and receiving.
  Stream pipeline(bool back, bool sending) const {
    return static_cast<Stream>(pipeline_ + (back ? 2 : 0) + (sending ? 0 : 1));
  }
  Stream host(HostTransfer way) const { return static_cast<Stream>(host_ + static_cast<int>(way)); }
  /// Streams of incoming samples, and of requests for them.
  Stream input() const { return input_; }
  Stream input_request() const { return static_cast<Stream>(input_ + 1); }
  /// The first stream of UpdatePolicy::streams.
  int updates() const { return updates_; }
  int count() const { return static_cast<int>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }  ///< names, for traces

 private:
  std::array<Stream, kLanes> lanes_{}, more_{};
  Stream pipeline_ = 0, host_ = 0, input_ = 0;
  int channels_ = 1, updates_ = 0;
  std::vector<std::string> names_;
};

}  // namespace trainyard
