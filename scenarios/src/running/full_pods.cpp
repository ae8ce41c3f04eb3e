#include "scenarios/src/running/full_pods.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/index.hpp"
#include "topologies/fabrics/pods.hpp"

namespace trainyard {

FullPods::FullPods(const Scenario& s, const Plan& plan, StepMachine& machine, const MechanismRun& run, Names& names,
                   Actor most_classes)
    : nodes_(s.cluster.nodes), nodes_of_pod_(trainyard::nodes_of_pod(s.cluster)), all_nodes_(nodes_) {
  refusal_ = reason_against(s, plan, run);
  if (!refusal_.empty()) return;
  all_nodes_ = (nodes_ + nodes_of_pod_ - 1) / nodes_of_pod_ * nodes_of_pod_;
  const std::int64_t data = std::int64_t{s.plan.mesh.data} * all_nodes_;
  if (data % nodes_ != 0) {
    refusal_ = "replicas do not divide the nodes of full pods";
    return;
  }
  Scenario all = s;
  all.cluster.nodes = all_nodes_;
  all.plan.mesh.data = static_cast<int>(data / nodes_);
  all.global_batch_size = s.global_batch_size / s.plan.mesh.data * all.plan.mesh.data;
  Plan all_plan = trainyard::plan(all);
  all_plan.training.steps = run.plan().steps;
  all_plan.training.marks_steps = run.plan().marks_steps;
  const StepMachine all_machine(all, all_plan);
  const TrainingStates states{all.precision, all.optimizer, all.software};
  const auto all_run = all.plan.mechanism->run({all_plan.training, all_machine.cluster, states, names});
  auto fold =
      std::make_unique<Fold>(all_machine.top(), *all_run->source(), std::span<const LinkChange>{}, most_classes);
  refusal_ = fold->refusal();
  if (!refusal_.empty()) return;
  fold->keep(s.ranks(), all_machine.top(), machine.top());
  fold_ = std::move(fold);
  refusal_ = difference_of_programs(*all_run->source(), *run.source());
  if (!refusal_.empty()) fold_.reset();
}

std::string FullPods::reason_against(const Scenario& s, const Plan& plan, const MechanismRun& run) const {
  if (nodes_of_pod_ == 0) return "the nodes are not divided into equal pods";
  if (nodes_ % nodes_of_pod_ == 0) return "all pods are full";
  if (!run.source() || run.source()->actors() != s.ranks()) return "not every actor is a rank";
  if (s.ranks() != s.cluster.gpus()) return "some devices have no rank";
  if (!s.slow.stragglers.empty() || !s.slow.links.empty()) return "some parts are slow";
  if (!s.cluster.background.empty()) return "links carry background traffic";
  if (plan.search) return "steps differ";
  if (plan.training.offload.is_used()) return "states are offloaded to hosts";
  return "";
}

/// Compares the programs of all members of each class, and their peers and groups by slot with those of the
/// representative in the cluster of full pods.
std::string FullPods::difference_of_programs(const ProgramSource& all, const ProgramSource& own) const {
  for (Actor c = 0; c < fold_->classes(); ++c) {
    const ActorOutline model = all.outline(fold_->representative(c));
    const ActorOutline first = own.outline(fold_->representative(c));
    const bool same_groups = std::ranges::equal(
        model.joins, first.joins, [](const ActorOutline::GroupJoin& a, const ActorOutline::GroupJoin& b) {
          return a.group == b.group && a.slot == b.slot && (a.flow == nullptr) == (b.flow == nullptr);
        });
    if (model.slots.size() != first.slots.size() || !same_groups)
      return "with full pods ranks have other peers or groups";
    for (const Actor member : fold_->members(c))
      if (own.outline(member).text != first.text) return "with full pods other ranks have equal programs";
  }
  return "";
}

std::string FullPods::in_words() const {
  return fmt::format("the last pod, {} of {} nodes, counts as full; the step may be up to {:.2g} % off",
                     nodes_ % nodes_of_pod_, nodes_of_pod_, std::ceil(most_error() * 1e4) / 100);
}

}  // namespace trainyard
