#pragma once
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "sim/observer.hpp"
#include "sim/observers/values.hpp"

namespace trainyard {

/// Every message of a run, and when work was done beside it.
class MessageTrace : public Observer {
 public:
  /// Sender, receiver, bytes, in the order of their starts for each pair.
  using Messages = std::vector<std::tuple<Actor, Actor, double>>;
  void transferred(const TransferRun&) override;
  void finished(const OpRun&) override;
  Messages messages() const;
  bool overlaps() const { return first_message_ < last_kernel_; }  ///< with computing

 private:
  std::vector<std::pair<double, std::tuple<Actor, Actor, double>>> all_;
  double first_message_ = 1e300, last_kernel_ = 0;
};

/// One step of a scenario by its programs, in this process, watched; its time in s. With values, operations carry calls.
double run_step(const Scenario&, const std::vector<Observer*>&, bool values = false);

}  // namespace trainyard
