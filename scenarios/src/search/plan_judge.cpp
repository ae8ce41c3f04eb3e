#include "scenarios/src/search/plan_judge.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/search/step_floor.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {
namespace {

// Number of networks that are stored. The plans of a group share one, and so do groups whose bounds are computed one
// after the other. A large cluster has thousands of networks. One of wide rings has hundreds of exchanges in each layer,
// and 100 bytes for each of them: if all stored networks have more parts than kMostPartsOfShares, the oldest are dropped.
constexpr std::size_t kMostShares = 4, kMostPartsOfShares = 200000;

/// Returns the number of kernels, exchanges and tensors.
std::size_t parts_of(const Network& network) {
  std::size_t parts = 0;
  for (const Layer& layer : network.layers)
    parts += layer.forward.size() + layer.backward.size() + layer.forward_exchanges.size() +
             layer.backward_exchanges.size() + layer.saved_tensors.size() + layer.parameters.size();
  return parts;
}

/// Returns the scenario with the same layers, on the fewest ranks that show the layers' communication. The other work
/// of replicas and stages does not matter here, and may take long to lay out.
Scenario with_plain_replicas(Scenario s) {
  PlanChoice& plan = s.plan;
  if (!plan.all_reduce.algorithm) plan.all_reduce.algorithm = &usual_collective(Operation::all_reduce, s.cluster);
  if (!groups_lie_alike(s)) return s;
  plan.mesh.pipeline = plan.mesh.copies = plan.chunks = 1;
  plan.layers.clear();
  plan.balanced = false;
  const Mesh& mesh = plan.mesh;
  const int spread = mesh.expert * std::max(1, mesh.expert_tensor),
            available = mesh.context * (mesh.expert_tensor > 0 ? mesh.tensor : 1);
  plan.mesh.data = std::max(1, spread / std::gcd(spread, available));
  plan.zero = ZeroStage::none;
  plan.zero_group = 0;
  plan.offload = {};
  plan.compression.reset();
  plan.sharding.expert_imbalance = std::max(1.0, fullest_expert_rank(plan.sharding));
  plan.sharding.expert_loads.clear();
  s.global_batch_size = s.micro_batch_size * plan.mesh.data;
  return s;
}

/// Returns the bytes of a micro-batch's activations: the most that one layer needs, and the sum that surely stays on
/// the GPU.
std::pair<double, double> activations_of(const Network& network, bool on_host) {
  double most = 0, all = 0;
  for (const Layer& layer : network.layers) {
    most = std::max(most, (layer.activations() + layer.forward_transient).value);
    if (!on_host) all += layer.activations().value;
  }
  return {most, all};
}

}  // namespace

PlanJudge::PlanJudge(const Scenario& scenario, const PlanSpace& space) : scenario_(scenario), space_(space) {
  for (const NodeType* type : scenario.cluster.types())
    capacity_ = std::max(capacity_, type->gpu.memory_capacity.value);
}

PlanJudge::ShareKey PlanJudge::share_key(const Scenario& s) {
  return {s.micro_batch_size, s.plan.splits_model(), s.plan.ends_apart(), s.plan.sharding};
}

std::shared_ptr<const Network> PlanJudge::share(const Scenario& s) {
  const ShareKey key = share_key(s);
  auto found = std::ranges::find_if(shares_, [&key](const Share& share) { return share.key == key; });
  if (found == shares_.end()) {
    if (shares_.size() == kMostShares) shares_.pop_front();
    found = shares_.insert(shares_.end(), {key, nullptr, ""});
    try {
      if (s.plan.splits_model()) {
        found->network = share_of_rank(s);
      } else {
        found->network = std::make_shared<const Network>(network_of(s.model, s.micro_batch_size, s.precision));
      }
    } catch (const UserError& e) {
      found->error = e.what();
    }
    std::size_t parts = 0;
    for (const Share& stored : shares_) parts += stored.network ? parts_of(*stored.network) : 0;
    for (; shares_.size() > 1 && parts > kMostPartsOfShares; shares_.pop_front())  // the new one is the last
      parts -= shares_.front().network ? parts_of(*shares_.front().network) : 0;
  }
  if (!found->network) throw UserError(found->error);
  return found->network;
}

/// Tensor, context and expert ranks are neighbours. If all such groups lie on nodes in the same way, the numbers of
/// data ranks and stages do not matter for the bounds.
const PassFloors& PlanJudge::floors(const Scenario& s, const std::shared_ptr<const Network>& network) {
  const Mesh& mesh = s.plan.mesh;
  const bool groups_are_alike = groups_lie_alike(s);
  std::shared_ptr<const PassFloors>& entry =
      floors_[{share_key(s), s.plan.sharding.pairs_passes, s.plan.recomputed_blocks, groups_are_alike ? 0 : mesh.data,
               groups_are_alike ? 0 : mesh.pipeline}];
  if (entry) return *entry;
  entry = std::make_shared<const PassFloors>(s, plan(with_plain_replicas(s), network).training);
  return *entry;
}

JudgedPlan PlanJudge::judge(const PlanPoint& point) {
  JudgedPlan judged;
  try {
    const Scenario s = read_with_plan(scenario_, space_.section(point));
    const std::shared_ptr<const Network> network = share(s);
    const TrainingPlan training = lay_out_stages(s, network);
    for (const StagePlan& stage : training.stages) judged.tasks += static_cast<double>(stage.tasks.size());
    judged.memory = memory_of(s, training);
    if (judged.fits(capacity_)) judged.floor = step_floor(s, training, floors(s, network));
  } catch (const UserError& e) {
    judged.error = e.what();
  }
  return judged;
}

std::string PlanJudge::refusal(const PlanPoint& point) {
  try {
    const Scenario s = read_with_plan(scenario_, space_.section(point));
    lay_out_stages(s, share(s));
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

std::vector<double> PlanJudge::group_floors(const std::vector<PlanPoint>& groups) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> all(groups.size(), kNone);
  std::int64_t too_large = std::numeric_limits<std::int64_t>::max();  // smallest micro-batch known not to fit
  for (std::size_t i = 0; i < groups.size() && groups[i].micro_batch < too_large; ++i)
    for (const PlanPoint& point : space_.points(groups[i])) {
      std::optional<Scenario> s;
      try {
        s = read_with_plan(scenario_, space_.section(point));
      } catch (const UserError&) {  // another plan of the group may be readable
        continue;
      }
      try {
        const std::shared_ptr<const Network> network = share(*s);
        const auto [most, sum] = activations_of(*network, s->plan.offload.activations());
        if (most > capacity_) too_large = groups[i].micro_batch;
        if (std::max(most, sum / point.pipeline) <= capacity_)
          all[i] = floors(*s, network).micro_batch() * s->micro_batches() / point.pipeline * (1 - 1e-9);
      } catch (const UserError&) {  // no plan of the group can split the layers in this way
      }
      break;
    }
  return all;
}

Scenario PlanJudge::scenario(const PlanPoint& point) {
  Scenario s = read_with_plan(scenario_, space_.section(point));
  const auto [found, is_new] = whole_networks_.try_emplace(s.micro_batch_size);
  if (is_new) found->second = network_of(s.model, s.micro_batch_size, s.precision);
  s.network = found->second;
  return s;
}

PlanJudges::Loan PlanJudges::lend() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return Loan(new PlanJudge(first_), {this});
  Loan loan(idle_.back().release(), {this});
  idle_.pop_back();
  return loan;
}

void PlanJudges::GiveBack::operator()(PlanJudge* judge) const {
  const std::lock_guard lock(to->mutex_);
  to->idle_.emplace_back(judge);
}

}  // namespace trainyard
