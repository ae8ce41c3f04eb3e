#include "scenarios/src/search/axis_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/sweeps/scaling_knee.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

constexpr const char* kLimitedAxes[] = {"data", "tensor", "pipeline"};

/// Returns the largest micro-batch up to `largest` that divides a replica's samples.
std::int64_t micro_batch_of(std::int64_t samples, std::int64_t largest) {
  std::int64_t micro = std::min(samples, largest);
  while (samples % micro != 0) --micro;
  return micro;
}

/// Returns the numbers of devices to try on an axis: 1, 2, 4, … and the largest that can be possible, a replica for each
/// sample or a stage for each layer; on the tensor axis of a transformer, the divisors of its number of heads.
std::vector<int> devices_of(const std::string& axis, const Scenario& s, int most) {
  std::vector<int> counts;
  const TransformerConfig* config = s.model.entry.transformer();
  if (axis == "tensor" && config && config->num_attention_heads > 0) {
    for (int n = 1; n <= std::min<std::int64_t>(most, config->num_attention_heads); ++n)
      if (config->num_attention_heads % n == 0) counts.push_back(n);
    return counts;
  }
  for (int n = 1; n <= most; n *= 2) counts.push_back(n);
  std::int64_t largest = 0;
  if (axis == "data") largest = s.global_batch_size;
  if (axis == "pipeline" && config) largest = config->num_hidden_layers + config->num_decoder_layers;
  const auto place = std::ranges::lower_bound(counts, largest);
  if (largest > 0 && largest <= most && (place == counts.end() || *place != largest))
    counts.insert(place, static_cast<int>(largest));
  return counts;
}

/// Returns the scenario with this number of devices on one axis, and one rank on all others. `p`: its other choices.
/// `most_zero`: the highest stage of ZeRO beside a pipeline.
Node single_axis_scenario(const PlanQuestion& question, PlanPoint p, const std::string& axis, int devices,
                          ZeroStage most_zero) {
  const Scenario& base = question.base;
  static_cast<Degrees&>(p) = {};
  p.chunks = 1;
  p.zero_group = 0;
  std::int64_t data = 1;
  if (axis == "data") data = devices;
  if (axis == "tensor") p.tensor = devices;
  if (axis == "pipeline") p.pipeline = devices;
  if (p.tensor == 1) p.sequence = false;
  if (p.pipeline > 1) {  // 1F1B has one chunk per stage, so that there can be as many stages as layers
    p.schedule = "1f1b";
    static_cast<StateSharing&>(p) = {std::min(p.zero, most_zero), p.zero_group};
  }
  if (base.global_batch_size % data != 0)
    throw UserError(fmt::format("{} samples are no multiple of {} replicas", base.global_batch_size, data));
  p.micro_batch = micro_batch_of(base.global_batch_size / data, p.micro_batch);
  Node document = base.document;
  *document.find("plan") = plan_section(without_choices(question.section), p, data, base.global_batch_size);
  set_field(document, "plan.idle_devices", Node::scalar_node("allowed", document.place));
  const int node_gpus = base.cluster.node.gpus, nodes = (devices + node_gpus - 1) / node_gpus;
  set_field(document, "cluster.nodes", Node::scalar_node(fmt::format("{}", nodes), document.place));
  Node& cluster = *document.find("cluster");
  if (nodes > 1 && !cluster.find("fabric") && base.cluster.node.fabric.empty())
    set_field(document, "cluster.fabric", Node::scalar_node("nonblocking", document.place));
  return document;
}

AxisPoint simulated_point(const Node& document, const std::string& name) {
  const Scenario s = read_scenario(document, name);
  const Result r = simulate(s, {.critical_path = false});
  AxisPoint point;
  point.micro_batch = s.micro_batch_size;
  point.step_time = r.step_time.value;
  point.rate = r.samples_per_s;
  point.peak = r.memory.peak.value;
  point.fits = r.fits;
  return point;
}

/// Many frameworks have no pipeline with ZeRO beyond stage 1, and some have no lower stage than 2. One replica shares
/// nothing at any stage. If both are impossible, an error that does not name that stage is the cause.
AxisPoint axis_point(const PlanQuestion& question, const PlanPoint& p, const std::string& axis, int devices) {
  AxisPoint impossible;
  for (const ZeroStage most_zero : {ZeroStage::parameters, ZeroStage::optimizer}) try {
      return simulated_point(single_axis_scenario(question, p, axis, devices, most_zero), question.base.name);
    } catch (const UserError& e) {
      const std::string error = e.what();
      const auto names_zero = [](const std::string& words) { return words.find("zero_stage") != std::string::npos; };
      if (impossible.error.empty() || (names_zero(impossible.error) && !names_zero(error))) impossible.error = error;
    }
  return impossible;
}

/// Collects the points that are possible. The end is the error of the first number of devices beyond them.
AxisLimit limit_of(const std::string& axis, const std::vector<int>& devices, std::span<const AxisPoint> simulated) {
  AxisLimit limit;
  limit.axis = axis;
  std::vector<GpusAndRate> rates;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    AxisPoint point = simulated[i];
    if (!point.good()) {
      if (limit.end.empty()) limit.end = point.error;
      continue;
    }
    limit.end.clear();
    point.gpus = devices[i];
    rates.push_back({static_cast<double>(devices[i]), point.rate});
    point.efficiency = point.rate / rates.front().rate * rates.front().gpus / point.gpus;
    limit.points.push_back(std::move(point));
  }
  if (rates.empty()) return limit;
  const ScalingKnee knee = knee_of(rates);
  limit.most = static_cast<int>(knee.fastest.gpus);
  limit.half = static_cast<int>(knee.half.gpus);
  return limit;
}

const RegisterJsonReference axis_limits_json{"explain --limits", "how far each kind of parallelism helps",
                                             axis_limits_fields};

}  // namespace

AxisLimits axis_limits(const PlanQuestion& question, int most,
                       const std::function<void(std::size_t, std::size_t)>& progress) {
  const Scenario& base = question.base;
  if (base.cluster.types().size() > 1) throw UserError(base.name + ": --limits needs a cluster with one type of node");
  std::vector<std::vector<int>> devices;
  std::vector<std::pair<std::string, int>> points;
  for (const char* axis : kLimitedAxes) {
    devices.push_back(devices_of(axis, base, most));
    for (const int n : devices.back()) points.emplace_back(axis, n);
  }
  const PlanPoint choices = stated_point(question);
  std::size_t done = 0;
  const std::vector<AxisPoint> simulated = all_in_parallel(
      points.size(), processors(),
      [&](std::size_t i) { return axis_point(question, choices, points[i].first, points[i].second); },
      [&](std::size_t, const AxisPoint&) {
        if (progress) progress(++done, points.size());
      });
  AxisLimits limits;
  limits.scenario = base.name;
  limits.batch = base.global_batch_size;
  limits.capacity = base.cluster.node.gpu.memory_capacity.value;
  std::size_t first = 0;
  for (std::size_t axis = 0; axis < devices.size(); ++axis) {
    const std::size_t count = devices[axis].size();
    limits.axes.push_back(limit_of(kLimitedAxes[axis], devices[axis], std::span(simulated).subspan(first, count)));
    first += count;
  }
  if (std::ranges::all_of(limits.axes, [](const AxisLimit& axis) { return axis.points.empty(); }))
    throw UserError(limits.axes.front().end);
  return limits;
}

std::vector<ScalingCurve> curves_of(const AxisLimits& limits) {
  std::vector<ScalingCurve> curves;
  for (const AxisLimit& axis : limits.axes) {
    if (axis.points.empty()) continue;
    ScalingCurve& curve = curves.emplace_back();
    curve.name = axis.axis;
    for (const AxisPoint& point : axis.points) curve.points.push_back({static_cast<double>(point.gpus), point.rate});
  }
  return curves;
}

const JsonFields<AxisLimits>& axis_limits_fields() {
  using L = AxisLimits;
  using A = AxisLimit;
  using P = AxisPoint;
  static const JsonFields<L> fields =
      JsonFields<L>()
          .value("scenario", "", &L::scenario, "name of the scenario")
          .value("global_batch_size", "samples", &L::batch, "samples of a step, the same for all points")
          .value("capacity_bytes", "bytes", &L::capacity, "memory of a device")
          .list(
              "axes", &L::axes,
              JsonFields<A>()
                  .value("axis", "", &A::axis, "data, tensor or pipeline: the other axes have one rank")
                  .value("most_gpus", "", &A::most, "number of devices of the fastest step")
                  .value("half_gpus", "", &A::half,
                         "number of devices up to which more devices give at least half of their ideal gain")
                  .value("end", "", &A::end, "why there are no more points; empty: the limit of devices was reached")
                  .list("points", &A::points,
                        JsonFields<P>()
                            .value("gpus", "", &P::gpus, "number of devices of the axis")
                            .value("micro_batch_size", "samples", &P::micro_batch,
                                   "samples of a forward pass: the scenario's, or all of a replica if these are less")
                            .value("step_time_s", "s", &P::step_time, "time of the step")
                            .value("samples_per_s", "1/s", &P::rate, "batch over step time")
                            .value("scaling_efficiency", "share", &P::efficiency,
                                   "share of the ideal rate: that of the fewest devices, in proportion to their number")
                            .value("peak_bytes", "bytes", &P::peak, "peak memory of the fullest device")
                            .value("fits", "", &P::fits, "the step fits into memory"),
                        "1, 2, 4, ... devices and a replica for each sample or a stage for each layer, as far as the "
                        "plan runs on "
                        "them; tensor ranks divide the heads"),
              "each kind of parallelism alone");
  return fields;
}

}  // namespace trainyard
