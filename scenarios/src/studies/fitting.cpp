#include "scenarios/src/studies/fitting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Returns overrides of keys of `plan.data_parallel`. The scenario may state only its size, as a plain number.
Overrides data_parallel_overrides(const Scenario& s, const Overrides& keys) {
  const Node* plan = s.document.find("plan");
  const Node* section = plan ? plan->find("data_parallel") : nullptr;
  Overrides changes;
  if (section && section->kind == Node::Kind::scalar) {
    std::string map = "{size: " + section->scalar;
    for (const auto& [key, value] : keys) map += fmt::format(", {}: {}", key, value);
    return {{"plan.data_parallel", map + "}"}};
  }
  for (const auto& [key, value] : keys) changes.emplace_back("plan.data_parallel." + key, value);
  return changes;
}

std::vector<Overrides> candidates(const Scenario& s) {
  const PlanChoice& p = s.plan;
  std::vector<Overrides> all;
  const auto add = [&all](const char* key, std::string value) { all.push_back({{key, std::move(value)}}); };
  if (p.sharding.recompute == Recompute::none) add("plan.recompute", "selective");
  if (p.sharding.recompute != Recompute::full) add("plan.recompute", "full");
  if (p.mesh.tensor > 1 && !p.sharding.sequence) add("plan.sequence_parallel", "true");
  for (int stage = static_cast<int>(p.zero) + 1; stage <= 3 && p.replicas() > 1; ++stage)
    all.push_back(data_parallel_overrides(s, {{"zero_stage", fmt::format("{}", stage)}}));
  if (!p.offload.is_used()) {
    const int stage = std::max(static_cast<int>(p.zero), 2);
    all.push_back(data_parallel_overrides(s, {{"zero_stage", fmt::format("{}", stage)}, {"offload", "cpu"}}));
  }
  if (!p.offload.activations()) add("plan.activation_offload", "all");
  if (p.offload.parameters == OffloadDevice::none)
    for (const char* device : {"cpu", "nvme"})
      all.push_back(data_parallel_overrides(
          s, {{"zero_stage", "3"}, {"offload", fmt::format("{{optimizer: {0}, parameters: {0}}}", device)}}));
  // A framework's mode refuses plans that this framework does not support.
  if (!s.strategy.empty() && p.zero != ZeroStage::parameters) add("plan.strategy", "pytorch-fsdp");
  if (s.micro_batch_size % 2 == 0) add("plan.micro_batch_size", fmt::format("{}", s.micro_batch_size / 2));
  if (2 * p.mesh.tensor <= s.cluster.node.gpus) add("plan.tensor_parallel", fmt::format("{}", 2 * p.mesh.tensor));
  add("plan.pipeline_parallel", fmt::format("{}", 2 * p.mesh.pipeline));
  return all;
}

/// Writes overrides as what follows --set: "plan.recompute=full", or "plan.a=1 --set plan.b=2" for several.
std::string set_arguments(const Overrides& overrides) {
  std::string text;
  for (const auto& [path, value] : overrides)
    text += fmt::format("{}{}={}", text.empty() ? "" : " --set ", path, value);
  return text;
}

/// Returns the scenario with at most twice as many micro-batches as virtual stages.
Scenario shorten(const Scenario& s) {
  const std::int64_t enough = std::min<std::int64_t>(s.micro_batches(), 2 * s.plan.mesh.pipeline * s.plan.chunks);
  return read_again(s, {{"plan.global_batch_size", fmt::format("{}", enough * s.micro_batch_size * s.plan.mesh.data)}});
}

/// A change whose plan can be laid out.
struct Candidate {
  Overrides overrides;
  Scenario scenario;
  Plan plan;
  bool is_complete = true;  ///< the scenario is not shortened
};

Candidate lay_out_candidate(const Scenario& s, Overrides overrides) {
  Scenario changed = read_again(s, overrides);
  // A batch that the scenario does not state must stay equal, for comparison.
  if (changed.global_batch_size != s.global_batch_size) {
    overrides.emplace_back("plan.global_batch_size", fmt::format("{}", s.global_batch_size));
    changed = read_again(s, overrides);
  }
  Plan complete_plan = plan(changed);
  if (estimated_operations(complete_plan, true) <= kMostKept)
    return {std::move(overrides), std::move(changed), std::move(complete_plan), true};
  changed = shorten(changed);
  Plan shorter = plan(changed);
  return {std::move(overrides), std::move(changed), std::move(shorter), false};
}

struct TriedChange {
  Overrides overrides;
  bool offloads = false;
  FittingChange change;
};

/// Names a memory that is too small; "": the plan fits. What hosts and drives lack is certain, so it comes first.
std::string lacking(const Result& r) {
  if (r.fits) return "";
  const std::string elsewhere = r.lack_outside_gpus();
  return elsewhere.empty() ? "GPU memory" : elsewhere;
}

/// Joins overrides. A later value of a field replaces an earlier one.
Overrides join_overrides(Overrides changes, const Overrides& more) {
  for (const auto& change : more) {
    std::erase_if(changes, [&change](const auto& c) { return c.first == change.first; });
    changes.push_back(change);
  }
  return changes;
}

/// Tries all candidates on top of the changes `before`, in parallel on all processors. Skips those in `tried_texts`.
std::vector<TriedChange> try_all(const Scenario& s, const Overrides& before, std::set<std::string>& tried_texts) {
  std::vector<Candidate> all;
  for (const Overrides& more : candidates(read_again(s, before))) {
    try {
      Candidate candidate = lay_out_candidate(s, join_overrides(before, more));
      Overrides sorted = candidate.overrides;  // the order of the changes does not count
      std::ranges::sort(sorted);
      if (tried_texts.insert(set_arguments(sorted)).second) all.push_back(std::move(candidate));
    } catch (const UserError&) {  // there is no such plan
    }
  }
  ProgressLine progress;
  std::size_t done = 0;
  const auto results = in_parallel(
      all.size(), processors(),
      [&](std::size_t i) -> std::optional<Result> {
        try {
          return simulate_here(all[i].scenario, all[i].plan, {.critical_path = false});
        } catch (const UserError&) {  // too large to simulate
          return std::nullopt;
        }
      },
      [&](std::size_t, const std::optional<Result>&) {
        progress.show(fmt::format("changes that may make it fit: {} of {} tried", ++done, all.size()));
      });
  std::vector<TriedChange> outcomes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!results[i] || !*results[i]) continue;
    const Result& r = **results[i];
    outcomes.push_back({all[i].overrides,
                        all[i].scenario.plan.offload.copies(),
                        {set_arguments(all[i].overrides), r.memory.peak, r.fits,
                         Seconds{all[i].is_complete ? r.step_time.value : 0}, r.risk, lacking(r)}});
  }
  return outcomes;
}

/// Returns the change that needs least memory, and the one that needs least memory without offload if it differs.
std::vector<Overrides> leanest(std::vector<TriedChange> changes) {
  std::vector<Overrides> best;
  sort_stably(changes, [](const TriedChange& a, const TriedChange& b) { return a.change.peak < b.change.peak; });
  if (!changes.empty()) best.push_back(changes.front().overrides);
  std::erase_if(changes, [](const TriedChange& t) { return t.offloads; });
  if (!changes.empty() && changes.front().overrides != best.front()) best.push_back(changes.front().overrides);
  return best;
}

/// Orders changes: first those that fit, then faster ones if times are known, then those with less memory.
bool is_better(const FittingChange& a, const FittingChange& b) {
  const auto rank = [](const FittingChange& c) {
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    return std::make_tuple(!c.fits, c.fits && c.step_time.value > 0 ? c.step_time.value : kUnknown, c.peak);
  };
  return rank(a) < rank(b);
}

}  // namespace

std::vector<FittingChange> fitting_changes(const Scenario& s) {
  const auto fits = [](const TriedChange& t) { return t.change.fits; };
  std::set<std::string> tried_texts;
  std::vector<TriedChange> all = try_all(s, {}, tried_texts);
  if (std::ranges::none_of(all, fits))
    for (const Overrides& before : leanest(all)) {
      const std::vector<TriedChange> more = try_all(s, before, tried_texts);
      all.insert(all.end(), more.begin(), more.end());
    }
  std::vector<FittingChange> changes;
  for (const TriedChange& t : all) changes.push_back(t.change);
  sort_stably(changes, is_better);
  return changes;
}

}  // namespace trainyard
