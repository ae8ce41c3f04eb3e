#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/observer.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// How long each stage of a step takes that goes through the aggregators of nodes: the time in which any of its messages
/// is under way, of the node that has most. Stages overlap where there are several keys. Messages without bytes (answers
/// after the last step) do not count.
class StageTimes : public Observer {
 public:
  StageTimes(const ServerPlan&, const CentralWords&);
  Interest interest() const override { return {.operations = false}; }
  void transferred(const TransferRun&) override;

  /// A step of all is over.
  void step_over() { by_step_.push_back(lengths()); }

  /// A step's, in their order; `compute` is known to others.
  std::vector<NamedTime> stages(Seconds compute, const StepsLookedAt&) const;

 private:
  struct Stage {
    NameId name;  ///< of the operation that sends
    const char* words;
  };
  /// The union of spans that are given in the order of their ends.
  class Union {
   public:
    void add(double begin, double end);
    double length() const { return length_; }

   private:
    std::vector<std::pair<double, double>> spans_;
    double length_ = 0;
  };
  using Place = std::pair<std::size_t, std::size_t>;  // stage and node
  const ServerPlan& plan_;
  std::vector<Stage> stages_;
  std::vector<std::size_t> group_of_;  // by worker
  std::map<Place, Union> busy_;
  std::vector<std::map<Place, double>> by_step_;

  std::map<Place, double> lengths() const;
  bool node_of(Actor, std::size_t& node) const;
};

}  // namespace trainyard
