#pragma once
#include <map>

#include "sim/units.hpp"

namespace trainyard {

struct Scenario;

/// The step time of an elastic training that continues with fewer replicas on fewer nodes. For asynchronous workers it
/// is the time in which the remaining ones make as many steps as all workers did in `step`.
class FewerReplicas {
 public:
  struct Step {
    Seconds time;
    bool simulated = false;  ///< false: scaled from the full step, as if the batch divided evenly
  };
  /// `step`: step time with all replicas.
  FewerReplicas(const Scenario& scenario, Seconds step) : scenario_(scenario), step_(step) {}

  /// Returns the step time with this number of replicas. It is simulated once if the batch, the nodes and the fabric
  /// divide evenly, the scenario does not state the step time, and the simulation does not take minutes. Otherwise it
  /// is scaled. At most `kMostSimulated` numbers of replicas are simulated.
  Seconds operator()(int replicas);
  const std::map<int, Step>& results() const { return results_; }  ///< results so far, by number of replicas

  static constexpr int kMostSimulated = 8;

 private:
  const Scenario& scenario_;
  Seconds step_;
  std::map<int, Step> results_;
  int simulated_ = 0;

  Step find(int replicas);
};

}  // namespace trainyard
