#pragma once
#include <vector>

#include "sim/executor/ids.hpp"
#include "sim/machine.hpp"
#include "sim/observer.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard::execution {

/// The observers of a run, sorted by their interests.
class ObserverList {
 public:
  void add(Observer& observer) {
    all_.push_back(&observer);
    const Interest interest = observer.interest();
    if (interest.operations) operation_observers_.push_back(&observer);
    if (interest.transfers) transfer_observers_.push_back(&observer);
    if (interest.level >= Level::ops) record_limiting_ = true;
    if (interest.level >= Level::links) record_link_rates_ = true;
    if (!interest.takes_stretches()) take_intervals_ = false;
    if (!interest.rounds) take_rounds_ = false;
    if (RoundSums* sums = observer.round_sums()) round_sums_.push_back(sums);
  }
  const std::vector<Observer*>& observers() const { return all_; }
  const std::vector<RoundSums*>& round_sums() const { return round_sums_; }
  const std::vector<Observer*>& operation_observers() const { return operation_observers_; }
  const std::vector<Observer*>& transfer_observers() const { return transfer_observers_; }
  /// Returns true if an observer needs the link that limited a message.
  bool record_limiting() const { return record_limiting_; }
  bool record_link_rates() const { return record_link_rates_; }
  bool take_rounds() const { return take_rounds_ && !record_link_rates_; }
  bool take_intervals() const { return take_intervals_ && !record_link_rates_; }

 private:
  std::vector<Observer*> all_, operation_observers_, transfer_observers_;
  std::vector<RoundSums*> round_sums_;
  bool record_limiting_ = false;
  bool record_link_rates_ = false;
  bool take_intervals_ = true;
  bool take_rounds_ = true;
};

/// State shared by all parts of the executor.
struct Context {
  Machine& machine;
  Transport& transport;
  Timers& timers;
  ObserverList observers;
  double now = 0;  ///< s, time of the present time step

  TimerId set_timer(double time, TimerToken::Kind kind, std::uint32_t number) {
    return timers.add(time, {kind, number});
  }
};

}  // namespace trainyard::execution
