#pragma once
#include <tuple>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "sim/observer.hpp"
#include "sim/observers/values.hpp"

namespace trainyard {

/// Records the messages of a run, and whether they overlap with computing.
class MessageTrace : public Observer {
 public:
  /// Sender, receiver, bytes, in the order of their starts for each pair.
  using Messages = std::vector<std::tuple<Actor, Actor, double>>;
  void transferred(const TransferRun&) override;
  void finished(const OpRun&) override;
  Messages messages() const;
  bool overlaps() const { return first_message_ < last_kernel_; }  ///< a message begins before the last kernel ends

 private:
  std::vector<std::pair<double, std::tuple<Actor, Actor, double>>> all_;
  double first_message_ = 1e300, last_kernel_ = 0;
};

/// Simulates one step of a scenario with these observers. Returns its time in s. With `values` operations carry calls.
double run_step(const Scenario&, const std::vector<Observer*>&, bool values = false);

}  // namespace trainyard
