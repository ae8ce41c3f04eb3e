#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/observer.hpp"
#include "strategies/mechanisms/mechanism_figures.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// How long each stage of a step takes that goes through the aggregators of nodes: the time in which any of its messages
/// is under way, of the node that has most. Stages overlap where there are several keys. Messages without bytes (answers
/// after the last step) do not count.
class StageTimes : public Observer {
 public:
  StageTimes(const ServerPlan&, const CentralWords&);
  bool sees_operations() const override { return false; }
  void transferred(const TransferRun&) override;

  /// A step's, in their order; `compute` is known to others.
  std::vector<ServerFigures::Stage> stages(Seconds compute) const;

 private:
  struct Stage {
    NameId name;  ///< of the operation that sends
    const char* words;
  };
  /// The union of spans that are given in the order of their ends.
  class Union {
   public:
    void add(double begin, double end);
    double length() const;

   private:
    std::vector<std::pair<double, double>> spans_;
  };
  const ServerPlan& plan_;
  std::vector<Stage> stages_;
  std::vector<std::size_t> group_of_;                          // by worker
  std::map<std::pair<std::size_t, std::size_t>, Union> busy_;  // by stage and node

  bool node_of(Actor, std::size_t& node) const;
};

}  // namespace trainyard
