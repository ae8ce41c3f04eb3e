#pragma once
#include <map>
#include <utility>
#include <vector>

#include "sim/covered_time.hpp"
#include "sim/observer.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// Measures the stages of a step with local aggregation. The time of a stage is the time during which at least one of
/// its messages is under way, on the node where this is longest. With several keys, stages overlap. Messages without
/// bytes (answers after the last step) do not count.
class StageTimes : public Observer {
 public:
  StageTimes(const ServerPlan&, const CentralNames&);
  Interest interest() const override { return {.operations = false}; }
  void transferred(const TransferRun&) override;

  /// A step of all workers has ended.
  void step_over() { by_step_.push_back(lengths()); }

  /// The stages of a step in their order. The caller measures the workers' compute and the servers' update.
  std::vector<NamedTime> stages(Seconds compute, Seconds update, const StepWindow&) const;

 private:
  struct Stage {
    NameId name;  ///< name of the operation that sends
    const char* words;
  };
  using Place = std::pair<std::size_t, std::size_t>;  // stage and node
  const ServerPlan& plan_;
  std::vector<Stage> stages_;
  std::vector<std::size_t> group_of_;  // group by worker
  std::map<Place, CoveredTime> busy_;
  std::vector<std::map<Place, double>> by_step_;

  std::map<Place, double> lengths() const;
  bool node_of(Actor, std::size_t& node) const;
};

}  // namespace trainyard
