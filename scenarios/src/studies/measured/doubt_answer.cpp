#include "scenarios/src/studies/measured/doubt_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/program_memory.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kLeastGain = 0.001;  // a measurement that narrows the half width by less is not worth its time

/// Returns the changes of a scenario that make the same plan run on fewer nodes, with as many samples a replica. No
/// value: there is no such plan, or it does not fit into the GPUs' memory.
std::optional<Overrides> smaller_run(const Scenario& s, int nodes) {
  if (nodes == s.cluster.nodes) return s.prescribed_step.exists() ? std::nullopt : std::optional(Overrides());
  const double batch = static_cast<double>(s.global_batch_size) * nodes / s.cluster.nodes;
  const Overrides sets{{"cluster.nodes", fmt::format("{}", nodes)},
                       {"plan.global_batch_size", fmt::format("{}", std::max(1L, std::lround(batch)))}};
  try {
    if (memory_of_step(read_again(s, sets)).fits) return sets;
  } catch (const UserError&) {  // the plan needs more nodes
  }
  return std::nullopt;
}

/// Returns a word of a command line, in quotes if it needs them.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-=@:,+%";
  return word.find_first_not_of(kPlain) == std::string::npos ? word : "'" + word + "'";
}

/// Returns measurements of steps of this job to which its stack may be anchored, and the half width of the interval
/// after each: steps on the fewest nodes that hold the plan, on half of the nodes, and on all of them.
std::vector<NarrowingMeasurement> possible_measurements(const Scenario& s, const StepProfile& profile,
                                                        const std::string& file) {
  const std::string& stack = profile.trait(StepTrait::stack);
  SoftwareStack::Anchor anchor{.spread = spread_of_anchor(2, 0),
                               .stack = stack,
                               .gpu = profile.trait(StepTrait::gpu),
                               .networks = {profile.trait(StepTrait::network)},
                               .precisions = {profile.trait(StepTrait::precision)},
                               .features = {profile.unmeasured_parts.begin(), profile.unmeasured_parts.end()}};
  const bool has_unknown_host = slow_host_factor(profile, whole_experience()) > 1;
  if (has_unknown_host) anchor.slow_host = kShownHost;
  anchor.wide_tensor = profile.wide_tensor;
  std::vector<NarrowingMeasurement> measurements;
  const auto add = [&](int nodes) {
    const std::optional<Overrides> sets = smaller_run(s, nodes);
    if (!sets) return false;
    anchor.devices = std::ceil(profile.devices * nodes / s.cluster.nodes);
    std::string command = "trainyard anchor " + file;
    for (const auto& [path, value] : *sets) command += " --set " + shell_word(path + "=" + value);
    measurements.push_back(
        {fmt::format("steps of two plans with {} on {:.0f} GPU{}{}", stack, anchor.devices,
                     anchor.devices == 1 ? "" : "s", has_unknown_host ? ", one of them with few samples a GPU" : ""),
         DoubtBasis(profile, anchor).range().half_width(), command + " --measured FILE"});
    return true;
  };
  const int half = s.cluster.nodes / 2;
  int least = 1;
  while (least < half && !add(least)) least *= 2;
  if (half >= least) add(half);
  add(s.cluster.nodes);
  return measurements;
}

/// A doubt of the simulation itself. `deviation`: ln of the upper end of its 80 % interval; 0: there is none.
struct SimulatedDoubt {
  std::string words, remedy;
  double deviation = 0;
};

/// Adds doubts of the simulation itself to those of the model.
void add_simulated(DoubtAnswer& a, const std::vector<SimulatedDoubt>& doubts) {
  double all = 0;
  for (const SimulatedDoubt& doubt : doubts) all = std::hypot(all, doubt.deviation);
  for (DoubtPart& part : a.parts) part.width_without = std::sinh(std::hypot(std::asinh(part.width_without), all));
  for (NarrowingMeasurement& m : a.measurements) m.half_width = std::sinh(std::hypot(std::asinh(m.half_width), all));
  const double whole_deviation = std::asinh((a.interval->back() - a.interval->front()) / 2 / a.step_time);
  for (const SimulatedDoubt& doubt : doubts) {
    if (doubt.deviation == 0) continue;
    const double without =
        std::sinh(std::sqrt(std::max(0.0, whole_deviation * whole_deviation - doubt.deviation * doubt.deviation)));
    a.parts.push_back({doubt.words, std::sinh(doubt.deviation), without});
    a.measurements.push_back({doubt.remedy, without, ""});
  }
  sort_stably(a.parts, [](const auto& x, const auto& y) { return x.width_alone > y.width_alone; });
}

const RegisterJsonReference doubt_reference{"explain --doubt", "what makes the interval of the step time wide",
                                            doubt_fields};

}  // namespace

DoubtAnswer explain_doubt(const Scenario& s, const Result& r, const std::string& file) {
  const StepDoubt doubt = step_doubt(s, r);
  DoubtAnswer a;
  a.scenario = s.post_training ? r.scenario + ", " + r.post_training->optimizer_step_words() : r.scenario;
  a.step_time = r.step_time.value;
  a.interval = likely_step_times(r.step_time.value, doubt);
  a.no_interval = no_doubt_reason(s);
  if (!a.no_interval.empty()) return a;
  const StepProfile profile = profile_of(s, r);
  const DoubtBasis basis(profile, s.software.anchor);
  a.parts = basis.parts();
  for (DoubtPart& part : a.parts)
    if (part.words == doubt_terms().back().words)  // the term lists all, the answer those of the step
      part.words = fmt::format("no measured step has {}", fmt::join(profile.unmeasured_parts, ", nor "));
  if (s.software.anchor.exists())
    for (DoubtPart& part : a.parts)
      if (part.words == doubt_terms().front().words) part.words = "the anchored stack, on steps like the measured ones";
  a.measurements = possible_measurements(s, profile, file);
  add_simulated(a, {{"the step is an estimate, since not every rank is simulated as it is (fold)",
                     "run --fold off, which simulates every rank by itself", std::log1p(r.estimate_error)},
                    {fmt::format("the mean of {} drawn steps (stragglers, jitter)", r.steps),
                     "run with more plan.steps, whose mean is surer", drawn_deviation(r)}});
  const double half_width = DoubtModel::shipped().range(doubt, kLikely).half_width();
  std::erase_if(a.measurements, [half_width](const auto& m) { return m.half_width >= half_width - kLeastGain; });
  sort_stably(a.measurements, [](const auto& x, const auto& y) { return x.half_width < y.half_width; });
  return a;
}

std::vector<std::vector<int>> exchanging_groups(const Scenario& s) {
  std::vector<std::vector<int>> groups{s.plan.mesh.replicas(0)};
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::expert}) groups.push_back(s.plan.mesh.group(0, axis));
  return groups;
}

std::optional<ExtrapolatedCollectives> extrapolated_collectives(const Scenario& s) {
  ExtrapolatedCollectives found{0, s.plan.all_reduce.measured_gpus};
  for (const std::vector<int>& group : exchanging_groups(s)) {
    std::map<int, int> gpus_of_nodes;
    for (const int rank : group) found.gpus = std::max(found.gpus, ++gpus_of_nodes[s.cluster.node_of_gpu(rank)]);
  }
  if (found.measured_gpus == 0 || found.gpus <= found.measured_gpus) return std::nullopt;
  return found;
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
          .value("command", "", &M::command, "command that anchors the stack to them; FILE has their times")
          .when(&M::command, "of steps to measure")
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
