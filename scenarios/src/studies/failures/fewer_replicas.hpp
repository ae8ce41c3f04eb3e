#pragma once
#include <map>

#include "sim/units.hpp"

namespace trainyard {

struct Scenario;

/// The step of an elastic training with so many of its replicas, on so many nodes fewer; of asynchronous workers, the time
/// in which so many of them make as many steps as all did.
class FewerReplicas {
 public:
  struct Step {
    Seconds time;
    bool simulated = false;  ///< false: scaled from the full step, as if the batch divided evenly
  };
  /// `step` of all replicas.
  FewerReplicas(const Scenario& scenario, Seconds step) : scenario_(scenario), step_(step) {}

  /// Simulated once, where the scenario allows for it: where the batch, the nodes and the fabric divide, and
  /// the step time is not given and its simulation does not take minutes. At most `kMostSimulated` are simulated.
  Seconds operator()(int replicas);
  const std::map<int, Step>& asked() const { return asked_; }  ///< by replicas

  static constexpr int kMostSimulated = 8;

 private:
  const Scenario& scenario_;
  Seconds step_;
  std::map<int, Step> asked_;
  int simulated_ = 0;

  Step find(int replicas);
};

}  // namespace trainyard
