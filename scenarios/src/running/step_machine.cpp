#include "scenarios/src/running/step_machine.hpp"

#include <algorithm>

#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

StepMachine::StepMachine(const Scenario& s, const Plan& plan)
    : cluster(s.cluster, s.software),
      ranks_(static_cast<std::size_t>(s.ranks())),
      actors_(s.plan.mechanism->actors(plan.training, cluster)) {
  if (!actors_.empty()) {
    placed_ = std::make_unique<PlacedMachine>(cluster, actors_);
    top_ = placed_.get();
  }
  if (s.input.is_used()) {
    input = std::make_unique<InputRun>(s.input, s.plan.mesh, s.micro_batch_size, cluster);
    top_ = &input->machine();
  }
  if (!s.slow.stragglers.empty()) {
    stragglers_ = std::make_unique<StragglerMachine>(*top_, s.slow.stragglers, s.ranks());
    top_ = stragglers_.get();
  }
  cluster.scale_compute(plan.compute_scale);
}

std::vector<LinkChange> StepMachine::link_changes(const Scenario& s) const {
  const std::vector<BackgroundTraffic>& background = s.cluster.background;
  if (background.empty()) return trainyard::link_changes(s.slow, top_->links());
  if (!s.slow.links.empty())
    fail(background.front().place, "cluster.background: faults.links change links too; leave one of them out");
  const bool repeats = std::ranges::any_of(background, [](const auto& traffic) { return traffic.period.value > 0; });
  if (repeats && s.transport != TransportKind::flow)
    fail(background.front().place, "cluster.background: traffic that repeats needs the transport flow");
  return background_changes(background, cluster.graph());
}

std::vector<Actor> StepMachine::others_on(Actor rank) const {
  std::vector<Actor> others;
  for (std::size_t actor = ranks_; actor < actors_.size(); ++actor)
    if (actors_[actor].place == actors_[rank].place) others.push_back(static_cast<Actor>(actor));
  return others;
}

}  // namespace trainyard
