#pragma once
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/executor/joins.hpp"
#include "sim/executor/messages.hpp"

namespace trainyard::execution {

/// Makes actors fail and come back. Does nothing in a run without failures.
class Failures : private Parts {
 public:
  Failures(const Parts& parts, Messages& messages, Joins& joins) : Parts(parts), messages_(messages), joins_(joins) {}

  void add(ActorChange);
  void set_timers();
  bool empty() const { return changes_.empty(); }
  /// Notes a change when its timer ends. The change takes effect after all operations of the time step have ended.
  void note(std::uint32_t change) { due_.push_back(change); }
  void apply_due() {
    if (!due_.empty()) apply();
  }

 private:
  Messages& messages_;
  Joins& joins_;
  std::vector<ActorChange> changes_;
  std::vector<std::uint32_t> due_;

  void apply();
  void fail(Actor);
  void revive(Actor, std::unique_ptr<Program>);
  std::vector<StreamId> lose_transfers(Actor);
};

}  // namespace trainyard::execution
