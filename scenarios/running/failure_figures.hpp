#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "strategies/failures/checkpoint_interval.hpp"

namespace trainyard {

/// What failures and checkpoints make of a training: means over its runs. Times in seconds.
struct FailureStudy {
  int runs = 1;
  double time_between_failures = 0;               ///< of all parts together; 0: none is drawn
  double end = 0;                                 ///< of the training
  double steps = 0;                               ///< done
  double goodput = 1, goodput_deviation = 0;      ///< useful share of the time; standard deviation over the runs
  double lost_work = 0, lost_work_deviation = 0;  ///< done again
  double stalled = 0, down = 0, without_node = 0, slower = 0;
  double failures = 0, checkpoints = 0;
  std::map<std::string, double> failures_of;
  /// Failures that were said, in their order.
  struct Said {
    std::string what;                                         ///< "gpu 5"
    bool idle = false;                                        ///< its node was away already
    double at = 0, steps = 0, lost_steps = 0, lost_work = 0;  ///< s; steps done until then
  };
  std::vector<Said> said;
  /// Steps of an elastic training without some of its replicas.
  struct Fewer {
    int replicas = 0;
    double step_time = 0;
    bool simulated = false;  ///< false: as if the batch divided among them to the last sample
  };
  std::vector<Fewer> fewer;
  struct {
    double bytes = 0, stall = 0, write = 0, load = 0;
    double interval = 0;  ///< as it was run; 0: no checkpoints
    BestInterval best;    ///< simulated 0: there is none
    std::string storage;
  } checkpoint;
  double effective_step_time() const { return steps > 0 ? end / steps : 0; }
};

/// Adds the keys of the result: goodput, lost_work_s, checkpoint_interval_s, ….
void add_json(nlohmann::json& result, const FailureStudy&);
FailureStudy failure_study_from_json(const nlohmann::json& result);

}  // namespace trainyard
