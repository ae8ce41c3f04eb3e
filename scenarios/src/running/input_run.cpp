#include "scenarios/src/running/input_run.hpp"

#include <algorithm>
#include <map>

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
  words_ = std::make_unique<InputWords>(names);
  programs.resize(
      static_cast<std::size_t>(machine_.groups().front().loader));  // actors between ranks and loaders do nothing
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    programs.push_back(input_loader(plan_, g, *words_));
    for (std::size_t reader = 0; reader < plan_.loaders[g].readers.size(); ++reader)
      programs.push_back(input_reader(plan_, g, *words_));
  }
}

}  // namespace trainyard
