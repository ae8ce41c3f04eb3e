#include "scenarios/search/plan_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "scenarios/planning/plan.hpp"
#include "scenarios/search/step_floor.hpp"

namespace trainyard {

PlanJudge::PlanJudge(const Scenario& of, const PlanSpace& space) : of_(of), space_(space) {
  for (const NodeType* type : of.cluster.types()) capacity_ = std::max(capacity_, type->gpu.memory_capacity.value);
}

/// All that a network's layers depend on.
std::string PlanJudge::share_key(const Scenario& s) const {
  const Sharding& h = s.plan.sharding;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", s.micro_batch_size, s.plan.splits_model(),
                     s.plan.ends_apart(), h.tensor, h.sequence, h.context, static_cast<int>(h.context_exchange),
                     h.expert, h.expert_imbalance, h.expert_capacity, h.overlap, h.user_buffers,
                     static_cast<int>(h.recompute), static_cast<int>(h.linear_split));
}

std::shared_ptr<const Network> PlanJudge::share(const Scenario& s) {
  const auto [at, fresh] = shares_.try_emplace(share_key(s));
  if (fresh) {
    try {
      if (s.plan.splits_model()) {
        at->second.network = share_of_rank(s);
      } else {
        at->second.network = std::make_shared<const Network>(network_of(s.model, s.micro_batch_size, s.precision));
      }
    } catch (const UserError& e) {
      at->second.error = e.what();
    }
  }
  if (!at->second.network) throw UserError(at->second.error);
  return at->second.network;
}

/// Groups of tensor, context and expert ranks are neighbours: where all lie on nodes alike, data ranks and stages do not
/// matter.
const PassFloors& PlanJudge::floors(const Scenario& s, const std::shared_ptr<const Network>& network) {
  const Mesh& mesh = s.plan.mesh;
  const std::string key = share_key(s) + (groups_lie_alike(s) ? "" : fmt::format(" {} {}", mesh.data, mesh.pipeline));
  std::shared_ptr<const PassFloors>& known = floors_[key];
  if (known) return *known;
  Scenario plain = s;  // how gradients are exchanged does not matter here, and may take long to find out
  if (!plain.plan.all_reduce.algorithm) plain.plan.all_reduce.algorithm = &default_collective(Operation::all_reduce);
  known = std::make_shared<const PassFloors>(plain, plan(plain, network).training);
  return *known;
}

JudgedPlan PlanJudge::judge(const PlanPoint& point) {
  JudgedPlan judged;
  try {
    const Scenario s = read_with_plan(of_, space_.section(point));
    const std::shared_ptr<const Network> network = share(s);
    const TrainingPlan training = lay_out_stages(s, network);
    judged.memory = memory_of(s, training);
    if (judged.memory.peak.value <= capacity_) judged.floor = step_floor(s, training, floors(s, network));
  } catch (const UserError& e) {
    judged.error = e.what();
  }
  return judged;
}

double PlanJudge::group_floor(const PlanPoint& group) {
  for (const PlanPoint& point : space_.points(group)) {
    try {
      const Scenario s = read_with_plan(of_, space_.section(point));
      return floors(s, share(s)).micro_batch() * s.micro_batches() / s.plan.mesh.pipeline * (1 - 1e-9);
    } catch (const UserError&) {  // another plan of the group may be one
    }
  }
  return std::numeric_limits<double>::infinity();
}

Scenario PlanJudge::scenario(const PlanPoint& point) {
  Scenario s = read_with_plan(of_, space_.section(point));
  const auto [at, fresh] = whole_.try_emplace(s.micro_batch_size);
  if (fresh) at->second = network_of(s.model, s.micro_batch_size, s.precision);
  s.network = at->second;
  return s;
}

}  // namespace trainyard
