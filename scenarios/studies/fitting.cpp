#include "scenarios/studies/fitting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/running/simulate.hpp"
#include "sim/observers/progress.hpp"

namespace trainyard {
namespace {

std::vector<Overrides> candidates(const Scenario& s) {
  const PlanChoice& p = s.plan;
  std::vector<Overrides> all;
  const auto add = [&all](const char* key, std::string value) { all.push_back({{key, std::move(value)}}); };
  if (p.sharding.recompute == Recompute::none) add("plan.recompute", "selective");
  if (p.sharding.recompute != Recompute::full) add("plan.recompute", "full");
  if (p.mesh.tensor > 1 && !p.sharding.sequence) add("plan.sequence_parallel", "true");
  const int replicas = p.mesh.data * p.mesh.context;
  for (int stage = static_cast<int>(p.zero) + 1; stage <= 3 && replicas > 1; ++stage)
    add("plan.data_parallel.zero_stage", fmt::format("{}", stage));
  if (!p.offload.used()) {
    const int stage = std::max(static_cast<int>(p.zero), 2);
    all.push_back({{"plan.data_parallel.zero_stage", fmt::format("{}", stage)}, {"plan.data_parallel.offload", "cpu"}});
  }
  if (p.offload.parameters == OffloadDevice::none)
    for (const char* device : {"cpu", "nvme"})
      all.push_back({{"plan.data_parallel.zero_stage", "3"},
                     {"plan.data_parallel.offload", fmt::format("{{optimizer: {0}, parameters: {0}}}", device)}});
  if (s.micro_batch_size % 2 == 0) add("plan.micro_batch_size", fmt::format("{}", s.micro_batch_size / 2));
  if (2 * p.mesh.tensor <= s.cluster.node.gpus) add("plan.tensor_parallel", fmt::format("{}", 2 * p.mesh.tensor));
  add("plan.pipeline_parallel", fmt::format("{}", 2 * p.mesh.pipeline));
  return all;
}

/// "plan.recompute=full".
std::string in_words(const Overrides& overrides) {
  std::string text;
  for (const auto& [path, value] : overrides) text += fmt::format("{}{}={}", text.empty() ? "" : " ", path, value);
  return text;
}

/// With as many micro-batches as are in flight at most, and some.
Scenario shortened(const Scenario& s, const Overrides& overrides) {
  const Scenario other = read_again(s, overrides);
  const std::int64_t enough =
      std::min<std::int64_t>(other.micro_batches(), 2 * other.plan.mesh.pipeline * other.plan.chunks);
  Overrides fewer = overrides;
  fewer.emplace_back("plan.global_batch_size",
                     fmt::format("{}", enough * other.micro_batch_size * other.plan.mesh.data));
  return read_again(s, fewer);
}

}  // namespace

std::vector<FittingChange> fitting_changes(const Scenario& s) {
  std::vector<FittingChange> changes;
  ProgressLine progress;
  for (const Overrides& overrides : candidates(s)) {
    progress.show(fmt::format("would {} fit?", in_words(overrides)));
    SimulateOptions options;
    options.critical_path = false;
    try {
      const Result result = simulate(shortened(s, overrides), options);
      changes.push_back({in_words(overrides), result.memory.peak, result.fits});
    } catch (const UserError&) {  // a plan that does not exist
    }
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const FittingChange& a, const FittingChange& b) { return a.peak < b.peak; });
  return changes;
}

}  // namespace trainyard
