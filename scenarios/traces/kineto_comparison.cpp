#include "scenarios/traces/kineto_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/answer/json_reference.hpp"
#include "scenarios/planning/size.hpp"
#include "scenarios/running/simulate.hpp"
#include "scenarios/running/step_run.hpp"
#include "scenarios/traces/kineto.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/child.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

/// As family_of_kernel has it of measured ones. "": nothing that a GPU runs as a kernel.
std::string family_of_record(const StepRun& run, const OpRecord& record) {
  switch (record.kind) {
    case Kind::join: {
      const auto [operation, bytes] = collective_of(record.work);
      return bytes.value > 0 ? name_of(operation) : "copies";
    }
    case Kind::send:
    case Kind::recv: {
      // Of a collective whose messages are simulated, what the rank receives: the rest goes on at the same time.
      const Group& group = run.names.groups()[record.group];
      if (group.role != Role::collective) return "send-recv";
      return record.kind == Kind::recv ? group.name : "";
    }
    case Kind::compute:
    case Kind::local:
      break;
    default:
      return "";
  }
  if (record.work.kernel == kBucketCopy) return "copies";
  if (!is_kernel(record.work.kernel)) return "elementwise";
  switch (kind_of(record.work.kernel)) {
    case Kernel::gemm:
      return "matrix products";
    case Kernel::attention:
    case Kernel::attention_backward:
      return "attention";
    case Kernel::optimizer:
      return "optimizer";
    case Kernel::embedding:
      return "embedding";
    case Kernel::convolution:
    case Kernel::convolution_3x3:
      return "convolution";
    default:
      return run.names[record.name].find("norm") == std::string::npos ? "elementwise" : "normalization";
  }
}

/// Of one rank: by family, a kernel of NCCL from its launch on, since it waits for its peers while it runs.
std::map<std::string, KernelSum> predicted_kernels(const StepRun& run, Actor rank) {
  std::map<std::string, KernelSum> families;
  for (const OpRecord& record : run.timeline.records()) {
    if (record.actor != rank) continue;
    const std::string family = family_of_record(run, record);
    if (family.empty()) continue;
    const double begin = waits_for_others(record.kind) ? record.posted : record.started;
    families[family] += {(record.ended - begin) / run.steps(), 1 / run.steps()};
  }
  return families;
}

std::vector<KinetoComparison::Kernel> longest_kernels(const std::map<std::string, KernelSum>& kernels, double steps) {
  constexpr std::size_t most = 3;
  std::vector<KinetoComparison::Kernel> all;
  for (const auto& [name, sum] : kernels) all.push_back({name, sum.seconds / steps, sum.count / steps});
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  all.resize(std::min(all.size(), most));
  return all;
}

struct PredictedStep {
  int rank = 0;
  double time = 0;
  std::map<std::string, KernelSum> families;
};

PredictedStep predicted_step(const Scenario& s, std::optional<int> rank) {
  const Plan laid_out = plan(s);
  if (s.prescribed_step.given()) throw UserError("compare --kineto: plan.step_time is not simulated");
  if (const double operations = estimated_operations(laid_out); operations > kMostKept)
    throw UserError(
        fmt::format("compare --kineto: about {:.2g} million operations; at most {:.0f} million are kept. Fewer "
                    "nodes, at the same work a GPU, do",
                    operations * 1e-6, kMostKept * 1e-6));
  const nlohmann::json j = json_in_child([&] {
    nlohmann::json answer;
    SimulateOptions options;
    options.folding = Folding::off;
    options.watch = [&](const StepRun& run) {
      const Actor of = rank ? *rank : run.last();
      answer["rank"] = of;
      for (const auto& [family, sum] : predicted_kernels(run, of))
        answer["families"][family] = {sum.seconds, sum.count};
    };
    answer["time"] = simulate_here(s, laid_out, options).step_time;
    return answer;
  });
  PredictedStep step{j.at("rank"), j.at("time"), {}};
  for (const auto& [family, sum] : j.at("families").items()) step.families[family] = {sum.at(0), sum.at(1)};
  return step;
}

JsonFields<KinetoComparison::Kernel> kernel_fields() {
  using K = KinetoComparison::Kernel;
  return JsonFields<K>()
      .value("name", "", &K::name, "as the profiler has it")
      .value("time_s", "s", &K::seconds, "of all such kernels of a step")
      .value("count", "", &K::count, "a step");
}

JsonFields<KinetoComparison::Family> family_fields() {
  using F = KinetoComparison::Family;
  return JsonFields<F>()
      .value("family", "", &F::name, "kernels of a kind; of NCCL the operation")
      .value("measured_s", "s", &F::measured, "time of its kernels in the trace, a step")
      .value("measured_count", "", &F::measured_count, "its kernels in the trace, a step")
      .value("predicted_s", "s", &F::predicted, "the same, simulated")
      .value("predicted_count", "", &F::predicted_count, "the same, simulated")
      .value("ratio", "", &F::ratio, "predicted over measured; null where nothing was measured")
      .value("gap_s", "s", &F::gap, "measured less predicted")
      .list("longest_kernels", &F::longest, kernel_fields(), "measured ones that take longest");
}

const RegisterJsonReference registered_kineto_json{"compare-kineto", "of compare SCENARIO --kineto TRACE",
                                                   [] { return kineto_fields().rows(); }};

}  // namespace

const JsonFields<KinetoComparison>& kineto_fields() {
  using C = KinetoComparison;
  static const JsonFields<C> fields = JsonFields<C>()
                                          .value("scenario", "", &C::scenario, "name of the scenario")
                                          .value("trace", "", &C::trace, "file of the profiler's trace")
                                          .value("rank", "", &C::rank, "rank whose step is simulated beside it")
                                          .value("steps", "", &C::steps, "steps in the trace")
                                          .value("measured_step_s", "s", &C::measured_step,
                                                 "mean of the steps that the trace marks, or the span of its kernels")
                                          .value("predicted_step_s", "s", &C::predicted_step, "simulated")
                                          .list("families", &C::families, family_fields(), "the largest gap first");
  return fields;
}

KinetoComparison compare_kineto(const Scenario& s, const std::filesystem::path& file, std::optional<int> rank,
                                int steps) {
  if (rank && (*rank < 0 || *rank >= s.ranks()))
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", *rank, s.ranks() - 1));
  const KinetoTrace trace = read_kineto(file);
  const PredictedStep step = predicted_step(s, rank);
  KinetoComparison c;
  c.scenario = s.name;
  c.trace = file.string();
  c.rank = step.rank;
  c.counted = steps == 0 && trace.steps > 0;
  c.steps = steps > 0 ? steps : std::max(1.0, trace.steps);
  c.measured_step = c.counted ? trace.step_time : trace.span / c.steps;
  c.predicted_step = step.time;
  std::map<std::string, KinetoComparison::Family> families;
  for (const auto& [name, kernels] : trace.families) {
    KinetoComparison::Family& family = families[name];
    for (const auto& [kernel, sum] : kernels) {
      family.measured += sum.seconds / c.steps;
      family.measured_count += sum.count / c.steps;
    }
    family.longest = longest_kernels(kernels, c.steps);
  }
  for (const auto& [name, sum] : step.families) {
    families[name].predicted = sum.seconds;
    families[name].predicted_count = sum.count;
  }
  for (auto& [name, family] : families) {
    family.name = name;
    c.families.push_back(std::move(family));
  }
  std::stable_sort(c.families.begin(), c.families.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.gap()) > std::abs(b.gap()); });
  return c;
}

}  // namespace trainyard
