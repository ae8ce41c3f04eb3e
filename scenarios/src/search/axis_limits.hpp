#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/pictures/scaling_picture.hpp"
#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A step on so many devices of one axis.
struct AxisPoint {
  int gpus = 1;
  double step_time = 0;   ///< s
  double rate = 0;        ///< samples/s
  double efficiency = 1;  ///< of the rate that as many devices as one alone would have
  double peak = 0;        ///< bytes of the fullest GPU
  bool fits = true;
  std::string error;  ///< why there is no such plan; else empty
  bool good() const { return error.empty(); }
};

/// How far one kind of parallelism helps by itself, all others being one.
struct AxisLimit {
  std::string axis;               ///< "data", "tensor", "pipeline"
  std::vector<AxisPoint> points;  ///< 1, 2, 4, … devices; divisors of the heads for tensor ranks
  int most = 1;                   ///< the devices of the fastest step
  int half = 1;                   ///< up to there what is added gives half of its ideal, or more
  std::string end;                ///< why there are no more points; empty: the most that were looked at
};

struct AxisLimits {
  std::string scenario;
  std::int64_t batch = 0;  ///< samples of a step, the same for all: strong scaling
  double capacity = 0;     ///< bytes of a GPU
  std::vector<AxisLimit> axes;
};

/// Strong scaling of a scenario's model and batch over each axis by itself, on its nodes and fabric, for as many devices as
/// the axis may have, `most` at most. What else the scenario's plan says stays. The micro-batch is the scenario's, or what is left of the batch for a replica if that
/// is less. Steps that do not fit into memory count: what limits them is told beside. Throws UserError for scenarios whose
/// plan cannot be chosen (see read_plan_question).
AxisLimits axis_limits(const PlanQuestion&, int most,
                       const std::function<void(std::size_t, std::size_t)>& progress = {});

std::vector<ScalingCurve> curves_of(const AxisLimits&);
const JsonFields<AxisLimits>& axis_limits_fields();

}  // namespace trainyard
