#include "scenarios/src/studies/loop_what_ifs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "models/hardware/link_fields.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

constexpr const char* kStalenessKey = "post_training.staleness";
constexpr double kMostLoopStaleness = 16;  ///< the largest that a scenario may have

struct LoopChange {
  std::string resource;
  Overrides sets;
  bool keeps_training = false;  ///< the training half and its passes take the same time
};

int multiplied(int nodes, double factor) { return std::max(nodes + 1, static_cast<int>(std::lround(nodes * factor))); }

void add_more_nodes(const Scenario& s, double factor, std::vector<LoopChange>& changes) {
  const PostTrainingChoice& choice = *s.post_training;
  const int nodes = s.document.find("cluster")->find("nodes") ? choice.machine_nodes : 1;
  if (nodes == 0) return;  // nodes of several types have no number that could grow
  const int generating = choice.nodes;
  const int training = nodes - choice.critic_nodes() - generating;
  const auto cluster = [nodes](int before, int after) {
    return std::pair<std::string, std::string>{"cluster.nodes", fmt::format("{}", nodes + after - before)};
  };
  if (choice.has_own_nodes()) {
    const int more = multiplied(generating, factor);
    changes.push_back({kMoreGeneratingNodes,
                       {cluster(generating, more), {"post_training.generation.nodes", fmt::format("{}", more)}},
                       true});
  }
  LoopChange more_training{choice.has_own_nodes() ? kMoreTrainingNodes : kMoreNodes,
                           {cluster(training, multiplied(training, factor))}};
  if (!s.document.find("cluster")->find("fabric") && s.cluster.node.fabric.empty())
    more_training.sets.emplace_back("cluster.fabric", "nonblocking");
  changes.push_back(std::move(more_training));
  const int critic = choice.critic_nodes();
  if (critic == 0) return;
  const int more = multiplied(critic, factor);
  changes.push_back(
      {kMoreCriticNodes, {cluster(critic, more), {"post_training.critic.nodes", fmt::format("{}", more)}}});
}

void add_faster_software(const Scenario& s, double factor, std::vector<LoopChange>& changes) {
  if (!s.post_training->algorithm.has_rollouts) return;  // such algorithms have no time of the loop
  const RlStack& stack = s.post_training->stack;
  Overrides sets;
  const auto divide = [&](const char* key, Seconds time) {
    if (time.value > 0)
      sets.emplace_back(fmt::format("post_training.stack.{}", key), fmt::format("{} s", time.value / factor));
  };
  divide("loop_sample", stack.loop_sample);
  if (s.post_training->shares_gpus()) divide("reload", stack.reload);
  if (sets.empty()) return;
  if (!s.document.find("post_training")->find("stack")) sets.emplace(sets.begin(), "post_training.stack", stack.name);
  changes.push_back({kLoopSoftware, std::move(sets), true});
}

void add_faster_tools(const Scenario& s, double factor, std::vector<LoopChange>& changes) {
  const PostTrainingChoice& choice = *s.post_training;
  if (choice.calls.empty()) return;
  if (choice.tools.sandboxes > 0) {
    Overrides sets;
    if (choice.tools.cores > 0)
      sets.emplace_back("cluster.cpu.cores", fmt::format("{}", std::lround(s.cluster.node.cpu.cores * factor)));
    if (s.document.find("post_training")->find("tools")->find("sandboxes"))
      sets.emplace_back("post_training.tools.sandboxes",
                        fmt::format("{}", std::lround(choice.tools.sandboxes * factor)));
    changes.push_back({kSandboxes, std::move(sets), true});
  }
  if (choice.tools.wait.value > 0)
    changes.push_back(
        {kToolCalls, {{"post_training.tools.wait", fmt::format("{} s", choice.tools.wait.value / factor)}}, true});
}

std::vector<LoopChange> loop_changes(const Scenario& s, double factor, bool all) {
  const PostTrainingChoice& choice = *s.post_training;
  Scenario machine = s;  // with the nodes of all halves, between which links may be
  if (choice.machine_nodes > 0) machine.cluster.nodes = choice.machine_nodes;
  std::vector<LoopChange> changes;
  std::vector<std::string> left_out;
  if (!s.plan.offload.copies() && !choice.shares_gpus())  // others do not wait for links to hosts and drives
    left_out = {name_of(LinkKind::pcie), name_of(LinkKind::socket), name_of(LinkKind::host_memory)};
  if (!all) left_out.insert(left_out.end(), {"latency", "framework"});
  for (const std::string& resource : resource_classes(machine))
    if (std::ranges::find(left_out, resource) == left_out.end())
      changes.push_back({resource, faster(machine, resource, factor)});
  add_faster_software(s, factor, changes);
  add_more_nodes(s, factor, changes);
  add_faster_tools(s, factor, changes);
  if (choice.asynchrony && choice.asynchrony->staleness < kMostLoopStaleness) {
    const double now = choice.asynchrony->staleness, more = std::min(kMostLoopStaleness, now > 0 ? now * factor : 1);
    changes.push_back({now > 0 ? kStaleness : kFirstStaleness, {{kStalenessKey, fmt::format("{}", more)}}, true});
  }
  if (choice.asynchrony && !choice.asynchrony->by_start && choice.asynchrony->staleness > 0)
    changes.push_back({kStartedOrder, {{"post_training.order", "started"}}, true});
  return changes;
}

/// Simulates the changes in parallel. `time_of` returns the time of a changed scenario; it may throw UserError. Changes that
/// are refused are added to `refused`.
std::vector<WhatIf> times_of_changes(const Scenario& s, const std::vector<LoopChange>& changes, double factor,
                                     std::vector<RefusedWhatIf>& refused,
                                     const std::function<Seconds(const Scenario&, const LoopChange&)>& time_of) {
  ProgressLine progress;
  std::size_t ended = 0;
  progress.show(fmt::format("0 of {} what-ifs", changes.size()));
  std::vector<std::string> errors(changes.size());
  const auto changed_time = [&](std::size_t i) {
    try {
      return time_of(read_again(s, changes[i].sets), changes[i]);
    } catch (const UserError& e) {
      errors[i] = e.what();
      return Seconds{};
    }
  };
  const std::vector<Seconds> times = all_in_parallel(
      changes.size(), processors(), changed_time,
      [&](std::size_t, Seconds) { progress.show(fmt::format("{} of {} what-ifs", ++ended, changes.size())); });
  std::vector<WhatIf> table;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!errors[i].empty()) refused.push_back({changes[i].resource, factor, errors[i]});
    if (times[i] == Seconds{}) continue;
    WhatIf& row = table.emplace_back();
    row.resource_class = changes[i].resource;
    row.factor = factor;
    row.step_time = times[i];
    row.sets = as_sets(changes[i].sets);
  }
  return table;
}

}  // namespace

std::vector<WhatIf> loop_what_ifs(const Scenario& s, const PostTrainingResult& loop, double factor,
                                  const SimulateOptions& base, bool all, std::vector<RefusedWhatIf>& refused) {
  const std::vector<LoopChange> changes = loop_changes(s, factor, all);
  const SimulateOptions options{.critical_path = false,
                                .kernels_as_with_path = base.critical_path || base.kernels_as_with_path,
                                .transport = base.transport,
                                .folding = base.folding};
  return times_of_changes(s, changes, factor, refused, [&](const Scenario& changed, const LoopChange& change) {
    const PostTrainingChoice& choice = *changed.post_training;
    if (change.keeps_training && choice.algorithm.has_rollouts)
      return step_with_engines(choice, changed.model.entry, loop, choice.engines());
    return simulate_here(changed, options).post_training->step_time;
  });
}

std::vector<WhatIf> engine_what_ifs(const Scenario& s, const GenerationResult& engines, double factor, bool all,
                                    std::vector<RefusedWhatIf>& refused) {
  std::vector<LoopChange> changes;
  for (const std::string& resource : resource_classes(s))
    if (resource != "framework" && (all || resource != "latency"))
      changes.push_back({resource, faster(s, resource, factor)});
  std::vector<WhatIf> table =
      times_of_changes(s, changes, factor, refused, [](const Scenario& changed, const LoopChange&) {
        return generation_result(*changed.generation, changed.model.entry).engines.generation;
      });
  std::erase_if(table, [&](const WhatIf& w) { return w.step_time == engines.engines.generation; });
  return table;
}

std::string loop_bottleneck(const std::vector<WhatIf>& what_ifs, Seconds step) {
  constexpr double worth_naming = 0.005;  // share of the step
  const WhatIf* best = nullptr;
  for (const WhatIf& w : what_ifs)
    if (w.resource_class != kMoreNodes && w.resource_class != kStartedOrder && w.saves(step) >= worth_naming &&
        (!best || w.step_time < best->step_time))
      best = &w;
  return best ? best->resource_class : "";
}

}  // namespace trainyard
