#include "scenarios/src/running/step_machine.hpp"

#include <algorithm>
#include <map>

#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Returns the largest number of loaders on one node.
int loaders_a_node(const InputMachine& machine) {
  std::map<int, int> count;
  int most = 1;
  for (const InputMachine::Group& group : machine.groups()) most = std::max(most, ++count[group.node]);
  return most;
}

}  // namespace

InputRun::InputRun(const InputChoice& input, const Mesh& mesh, std::int64_t micro_batch_size, ClusterMachine& machine)
    : groups_(loader_groups(mesh)),
      machine_(machine, input.supply, groups_, kDecode, input.place),
      plan_(input_plan(input, mesh.context, micro_batch_size, 0, loaders_a_node(machine_))) {
  for (std::size_t g = 0; g < groups_.size(); ++g)
    plan_.loaders.push_back({machine_.groups()[g].loader, machine_.groups()[g].readers, groups_[g]});
}

void InputRun::feed(TrainingPlan& plan) {
  plan_.batches = plan.steps * plan.micro_batches;
  plan.input.loader_of_rank.assign(static_cast<std::size_t>(plan.ranks()), -1);
  for (const InputPlan::Loader& loader : plan_.loaders)
    for (const Actor rank : loader.ranks) plan.input.loader_of_rank[rank] = loader.self;
  plan.input.ahead = plan_.ahead();
  plan.input.asks = plan_.overlap == InputOverlap::none;
  plan.input.batch_bytes = plan_.on_gpu;
}

void InputRun::add_to(Programs& programs, Names& names) {
  words_ = std::make_unique<InputNames>(names);
  programs.resize(
      static_cast<std::size_t>(machine_.groups().front().loader));  // actors between ranks and loaders do nothing
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    programs.push_back(input_loader(plan_, g, *words_));
    for (std::size_t reader = 0; reader < plan_.loaders[g].readers.size(); ++reader)
      programs.push_back(input_reader(plan_, g, *words_));
  }
}

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
