#include "strategies/mechanisms/servers/stage_times.hpp"

#include <algorithm>

namespace trainyard {

StageTimes::StageTimes(const ServerPlan& plan, const CentralNames& words)
    : plan_(plan), group_of_(static_cast<std::size_t>(plan.workers())) {
  const bool cpu = plan.local.on_cpu;
  stages_.push_back({words.local_reduce, "reduce in the node"});
  if (cpu) stages_.push_back({words.up, "GPU to CPU"});
  stages_.push_back({words.push, "push"});
  stages_.push_back({words.give, "pull"});
  if (cpu) stages_.push_back({words.down, "CPU to GPU"});
  stages_.push_back({words.local_broadcast, "broadcast in the node"});
  for (std::size_t g = 0; g < plan.local.groups.size(); ++g)
    for (const Actor worker : plan.local.groups[g].workers) group_of_[static_cast<std::size_t>(worker)] = g;
}

std::map<StageTimes::Place, double> StageTimes::lengths() const {
  std::map<Place, double> all;
  for (const auto& [place, busy] : busy_) all[place] = busy.total();
  return all;
}

/// Sets the node of a worker or an aggregator. Returns false for a server, which may be on any node.
bool StageTimes::node_of(Actor actor, std::size_t& node) const {
  const Actor first = plan_.first_client();
  if (actor >= first)
    node = static_cast<std::size_t>(actor - first);
  else if (actor < plan_.workers())
    node = group_of_[static_cast<std::size_t>(actor)];
  return actor >= first || actor < plan_.workers();
}

void StageTimes::transferred(const TransferRun& run) {
  if (!(run.bytes.value > 0) || !run.send) return;
  const auto stage = std::ranges::find_if(stages_, [&](const Stage& s) { return s.name == run.send->name; });
  std::size_t node = 0;
  if (stage == stages_.end() || !(node_of(run.from, node) || node_of(run.to, node))) return;
  busy_[{static_cast<std::size_t>(stage - stages_.begin()), node}].cover(run.started.value, run.ended.value);
}

std::vector<NamedTime> StageTimes::stages(Seconds compute, Seconds update, const StepWindow& window) const {
  std::vector<NamedTime> all{{"compute", compute.value}};
  for (const Stage& stage : stages_) all.push_back({stage.words, 0});
  const auto up_to = [this](int steps) { return by_step_.at(static_cast<std::size_t>(steps - 1)); };
  const bool found = window.found;
  std::map<Place, double> lengths = found ? up_to(window.warm + window.steps) : this->lengths();
  if (found && window.warm > 0)
    for (const auto& [place, before] : up_to(window.warm)) lengths[place] -= before;
  for (const auto& [place, length] : lengths) {
    double& longest = all[place.first + 1].time;
    longest = std::max(longest, length / (found ? window.steps : plan_.base.step.steps));
  }
  const auto pull = std::ranges::find(all, std::string_view("pull"), &NamedTime::name);
  all.insert(pull, {"update on the servers", update.value});
  return all;
}

}  // namespace trainyard
