#include "scenarios/src/studies/measured/doubt_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kLeastGain = 0.001;  // a measurement that narrows the half width by less is not worth its time

/// Returns measurements of steps of this job to which its stack may be anchored, and the half width of the interval
/// after each: steps on one node, and steps on half of the devices that wait for as large a share of their time.
std::vector<NarrowingMeasurement> possible_measurements(const Scenario& s, const StepProfile& profile) {
  const std::string& stack = profile.trait(StepTrait::stack);
  SoftwareStack::Anchor anchor{.spread = kSpreadOfSteps,
                               .stack = stack,
                               .gpu = profile.trait(StepTrait::gpu),
                               .networks = {profile.trait(StepTrait::network)},
                               .precisions = {profile.trait(StepTrait::precision)},
                               .features = {profile.unmeasured_parts.begin(), profile.unmeasured_parts.end()}};
  const bool has_unknown_host = slow_host_factor(profile, whole_experience()) > 1;
  if (has_unknown_host) anchor.slow_host = kShownHost;
  const std::string host_words = has_unknown_host ? ", one of them with few samples a GPU" : "";
  std::vector<NarrowingMeasurement> measurements;
  const auto add = [&](double devices, const std::string& conditions) {
    anchor.devices = devices;
    measurements.push_back({fmt::format("trainyard anchor with two steps of this model with {} on {:.0f} GPU{}{}{}",
                                        stack, devices, devices == 1 ? "" : "s", conditions, host_words),
                            DoubtBasis(profile, anchor).range().half_width()});
  };
  const int node_devices = s.cluster.node.gpus;
  anchor.wide_tensor = s.plan.mesh.widest(Axis::tensor) <= node_devices;
  const double least_devices = std::min<double>(profile.devices, node_devices);
  add(least_devices, "");
  const double half = std::ceil(profile.devices / 2);
  if (half <= least_devices) return measurements;
  anchor.wide_tensor = true;
  anchor.exchange = profile.exchange;
  add(half, ", laid out as this one");
  return measurements;
}

/// Adds the doubt of a step that not every rank's own simulation gives. `deviation`: ln of the upper end of its interval.
void add_estimate(DoubtAnswer& a, double deviation) {
  const double half_width = (a.interval->back() - a.interval->front()) / 2 / a.step_time;
  const double without = std::sqrt(std::max(0.0, std::pow(std::asinh(half_width), 2) - deviation * deviation));
  for (DoubtPart& part : a.parts) part.width_without = std::sinh(std::hypot(std::asinh(part.width_without), deviation));
  a.parts.push_back({"the step is an estimate, since not every rank is simulated as it is (fold)", std::sinh(deviation),
                     std::sinh(without)});
  sort_stably(a.parts, [](const auto& x, const auto& y) { return x.width_alone > y.width_alone; });
  for (NarrowingMeasurement& m : a.measurements)
    m.half_width = std::sinh(std::hypot(std::asinh(m.half_width), deviation));
  a.measurements.push_back({"run --fold off, which simulates every rank by itself", std::sinh(without)});
}

const RegisterJsonReference doubt_reference{"explain --doubt", "what makes the interval of the step time wide",
                                            doubt_fields};

}  // namespace

DoubtAnswer explain_doubt(const Scenario& s, const Result& r) {
  const StepDoubt doubt = step_doubt(s, r);
  DoubtAnswer a;
  a.scenario = s.post_training ? r.scenario + ", an optimizer step of its training half" : r.scenario;
  a.step_time = r.step_time.value;
  a.interval = likely_step_times(r.step_time.value, doubt);
  a.no_interval = no_doubt_reason(s);
  if (!a.no_interval.empty()) return a;
  const StepProfile profile = profile_of(s, r);
  const DoubtBasis basis(profile, s.software.anchor);
  a.parts = basis.parts();
  if (s.software.anchor.exists())
    for (DoubtPart& part : a.parts)
      if (part.words == doubt_terms().front().words) part.words = "the anchored stack, on steps like the measured ones";
  a.measurements = possible_measurements(s, profile);
  if (r.estimate_error > 0) add_estimate(a, std::log1p(r.estimate_error));
  const double half_width = DoubtModel::shipped().range(doubt, kLikely).half_width();
  std::erase_if(a.measurements, [half_width](const auto& m) { return m.half_width >= half_width - kLeastGain; });
  sort_stably(a.measurements, [](const auto& x, const auto& y) { return x.half_width < y.half_width; });
  return a;
}

const JsonFields<DoubtAnswer>& doubt_fields() {
  using A = DoubtAnswer;
  using P = DoubtPart;
  static const JsonFields<P> parts =
      JsonFields<P>()
          .value("doubt", "", &P::words, "what sets the step apart from those that were measured")
          .value("half_width_alone", "share", &P::width_alone, "half width of the interval with this doubt alone")
          .value("half_width_without", "share", &P::width_without, "half width of the interval with all other doubts");
  using M = NarrowingMeasurement;
  static const JsonFields<M> measurements =
      JsonFields<M>()
          .value("measure", "", &M::words, "steps to measure, or a run of every rank")
          .value("half_width", "share", &M::half_width,
                 "half width of the interval of a stack that is anchored to them");
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "name of the scenario; with post_training it names the training half")
          .value("step_time_s", "s", &A::step_time, "predicted time of a step")
          .value("step_time_interval_s", "s", &A::interval,
                 "lower and upper end of the interval that holds the step time of the real machine with a probability "
                 "of 80 %")
          .when(&A::interval, "if there is one")
          .value("no_interval", "", &A::no_interval, "why there is no interval")
          .when(&A::no_interval, "if there is none")
          .list("doubts", &A::parts, parts, "what makes the interval wide, the largest first")
          .list("measurements", &A::measurements, measurements,
                "measured steps that would narrow the interval, the most useful first");
  return fields;
}

}  // namespace trainyard
