#pragma once
#include <memory>

#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// Streams of a training rank: compute, then what is exchanged, of which a plan uses some.
class TrainingStreams {
 public:
  explicit TrainingStreams(const TrainingPlan&);

  static constexpr Stream compute = 0, coordinator = 3, more_channels = 4;
  Stream send(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  Stream recv(Lane lane) const { return static_cast<Stream>(send(lane) + 1); }
  /// Of messages between stages: activations forward, gradients back; each half.
  Stream pipeline(bool back, bool sending) const {
    return static_cast<Stream>(pipeline_ + (back ? 2 : 0) + (sending ? 0 : 1));
  }
  Stream host(HostWay way) const { return static_cast<Stream>(host_ + static_cast<int>(way)); }
  /// Of gradients of several steps that are on their way at the same time, each slot's own pair: the sending one.
  Stream of_delayed(int slot) const { return delayed_[static_cast<std::size_t>(slot)]; }
  /// Pairs of further channels of that slot, from here on.
  Stream more_of_delayed(int slot) const {
    return slot == 0 ? more_channels : static_cast<Stream>(of_delayed(slot) + 2);
  }
  /// Of gossip: the sending one to a neighbour; beyond so many ways several neighbours share one.
  Stream gossip(std::size_t neighbour) const {
    return static_cast<Stream>(gossip_ + static_cast<int>(neighbour) % gossip_ways_);
  }
  int gossip_ways() const { return gossip_ways_; }
  /// Of samples that come in, and of asking for them.
  Stream input() const { return input_; }
  Stream input_request() const { return static_cast<Stream>(input_ + 1); }
  int count() const { return static_cast<int>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }  ///< for traces

 private:
  std::array<Stream, kLanes> lanes_{};
  Stream pipeline_ = 0, host_ = 0, input_ = 0, gossip_ = 0;
  int gossip_ways_ = 0;
  std::vector<Stream> delayed_{1};
  std::vector<std::string> names_;
};

/// All steps of one rank. Plan, tables and streams must outlive the program.
std::unique_ptr<Program> training_program(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&);

}  // namespace trainyard
