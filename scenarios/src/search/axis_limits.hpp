#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/pictures/run_pictures.hpp"
#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// The step of a plan that has `gpus` devices on one axis.
struct AxisPoint {
  int gpus = 1;
  std::int64_t micro_batch = 1;
  double step_time = 0;   ///< s
  double rate = 0;        ///< samples/s
  double efficiency = 1;  ///< `rate` over the ideal rate, which is the rate of one device times `gpus`
  double peak = 0;        ///< peak memory of the fullest GPU, bytes
  bool fits = true;
  std::string error;  ///< why there is no such plan; empty: there is one
  bool good() const { return error.empty(); }
};

/// The scaling of one kind of parallelism. All other kinds have one rank.
struct AxisLimit {
  std::string axis;               ///< "data", "tensor", "pipeline"
  std::vector<AxisPoint> points;  ///< 1, 2, 4, … devices; divisors of the heads for tensor ranks
  int most = 1;                   ///< number of devices of the fastest step
  int half = 1;                   ///< number of devices up to which each increase gives at least half of its ideal gain
  std::string end;                ///< why there are no more points; empty: the limit of devices was reached
};

struct AxisLimits {
  std::string scenario;
  std::int64_t batch = 0;  ///< samples of a step, the same for all points: strong scaling
  double capacity = 0;     ///< memory of a GPU, bytes
  std::vector<AxisLimit> axes;
};

/// Computes the strong scaling of a scenario's model and batch over each axis alone, on its nodes and fabric, up to
/// `most` devices. The rest of the scenario's plan does not change. The micro-batch is the scenario's, or a replica's
/// share of the batch if that is less. Steps that do not fit into memory are included, with `AxisPoint::fits` false.
/// Throws UserError for scenarios whose plan cannot be chosen (see read_plan_question).
AxisLimits axis_limits(const PlanQuestion&, int most,
                       const std::function<void(std::size_t, std::size_t)>& progress = {});

std::vector<ScalingCurve> curves_of(const AxisLimits&);
const JsonFields<AxisLimits>& axis_limits_fields();

}  // namespace trainyard
