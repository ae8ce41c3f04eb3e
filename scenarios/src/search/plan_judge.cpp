#include "scenarios/src/search/plan_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/search/undisturbed.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
// Networks that are remembered: plans of a group share one, and groups that are bounded one after the other.
constexpr std::size_t kMostShares = 4;

}  // namespace

PlanJudge::PlanJudge(const Scenario& of, const PlanSpace& space) : of_(of), space_(space) {
  for (const NodeType* type : of.cluster.types()) capacity_ = std::max(capacity_, type->gpu.memory_capacity.value);
}

/// All that a network's layers depend on.
std::string PlanJudge::share_key(const Scenario& s) const {
  const Sharding& h = s.plan.sharding;
  std::string splits;
  for (const LinearSplit split : h.linear_splits) splits += fmt::format(" {}", static_cast<int>(split));
  for (const bool again : h.remade) splits += again ? " remade" : " kept";
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}{}", s.micro_batch_size, s.plan.splits_model(),
                     s.plan.ends_apart(), h.tensor, h.sequence, h.context, static_cast<int>(h.context_exchange),
                     h.expert, h.expert_tensor, h.expert_imbalance, h.expert_capacity, h.overlap, h.user_buffers,
                     static_cast<int>(h.recompute), static_cast<int>(h.linear_split), splits);
}

std::shared_ptr<const Network> PlanJudge::share(const Scenario& s) {
  const std::string key = share_key(s);
  const auto known = std::ranges::find(shares_, key, &Share::key);
  if (known == shares_.end()) {
    if (shares_.size() == kMostShares) shares_.pop_front();
    Share made{key, nullptr, ""};
    try {
      if (s.plan.splits_model()) {
        made.network = share_of_rank(s);
      } else {
        made.network = std::make_shared<const Network>(network_of(s.model, s.micro_batch_size, s.precision));
      }
    } catch (const UserError& e) {
      made.error = e.what();
    }
    shares_.push_back(std::move(made));
  }
  const Share& share = known == shares_.end() ? shares_.back() : *known;
  if (!share.network) throw UserError(share.error);
  return share.network;
}

namespace {

bool one_divides(int a, int b) { return a % b == 0 || b % a == 0; }

/// Do all groups of each axis and of replicas lie on nodes in the same way?
bool groups_lie_alike(const Scenario& s) {
  const Mesh& mesh = s.plan.mesh;
  const int gpus = s.cluster.node.gpus;
  if (!s.cluster.others.empty() || mesh.order != Mesh{}.order || !one_divides(gpus, mesh.tensor)) return false;
  const int block = mesh.tensor * mesh.context * mesh.data;
  const int shared = mesh.tensor * std::max(1, s.plan.zero_group);
  return one_divides(gpus, mesh.tensor * mesh.context) && one_divides(gpus, block) && one_divides(gpus, shared) &&
         one_divides(gpus, std::max(mesh.expert_tensor, 1)) &&
         one_divides(gpus, (mesh.expert_tensor > 0 ? mesh.expert_tensor : mesh.tensor) * mesh.expert);
}

/// The same layers on as few ranks as tell how they exchange: what replicas and stages do besides does not matter.
Scenario with_plain_replicas(Scenario s) {
  PlanChoice& plan = s.plan;
  plan.mesh.pipeline = plan.chunks = 1;
  plan.pairs_passes = false;
  plan.layers.clear();
  plan.balanced = false;
  const Mesh& mesh = plan.mesh;
  const int spread = mesh.expert * std::max(1, mesh.expert_tensor),
            over = mesh.context * (mesh.expert_tensor > 0 ? mesh.tensor : 1);
  plan.mesh.data = std::max(1, spread / std::gcd(spread, over));
  plan.zero = ZeroStage::none;
  plan.zero_group = 0;
  plan.offload = {};
  plan.compression.reset();
  s.global_batch_size = s.micro_batch_size * plan.mesh.data;
  return s;
}

/// The least that a forward and a backward pass of all layers take a rank, s. Where a forward and a backward pass
/// alternate, exchanges of one may go on beside the other.
double least_of_passes(const Scenario& s, const std::shared_ptr<const Network>& network) {
  const Scenario plain = with_plain_replicas(s);
  TrainingPlan passes = lay_out_stages(plain, network);
  if (groups_lie_alike(s) && !s.plan.pairs_passes) passes = lay_out_ranks(plain, std::move(passes), {0});
  return undisturbed_passes(plain, std::move(passes));
}

/// What layers keep of a micro-batch: the most of one, and of all that surely stay on the GPU.
std::pair<double, double> activations_of(const Network& network, bool on_host) {
  double most = 0, all = 0;
  for (const Layer& layer : network.layers) {
    most = std::max(most, (layer.activations() + layer.forward_transient).value);
    if (!on_host) all += layer.activations().value;
  }
  return {most, all};
}

}  // namespace

/// Groups of tensor, context and expert ranks are neighbours: where all lie on nodes alike, data ranks and stages do
/// not matter.
const PlanJudge::Passes& PlanJudge::passes(const Scenario& s) {
  const std::string key = share_key(s) + (s.plan.pairs_passes ? " pairs" : "") + (groups_lie_alike(s) ? " alike" : "") +
                          (s.plan.offload.activations() ? " on host" : "");
  const auto [at, fresh] = passes_.try_emplace(key);
  Passes& passes = at->second;
  if (!fresh) return passes;
  try {
    const std::shared_ptr<const Network> network = share(s);
    std::tie(passes.largest_layer, passes.activations) = activations_of(*network, s.plan.offload.activations());
    if (passes.largest_layer <= capacity_) passes.seconds = least_of_passes(s, network);
  } catch (const UserError&) {  // layers that cannot be split so, by any plan of the group
    passes.activations = kNone;
  }
  return passes;
}

JudgedPlan PlanJudge::judge(const PlanPoint& point) {
  JudgedPlan judged;
  try {
    const Scenario s = read_with_plan(of_, space_.section(point));
    const std::shared_ptr<const Network> network = share(s);
    TrainingPlan training = lay_out_stages(s, network);
    for (const StagePlan& stage : training.stages) judged.tasks += static_cast<double>(stage.tasks.size());
    judged.memory = memory_of(s, training);
    if (judged.fits(capacity_)) judged.floor = undisturbed_step(s, std::move(training));
  } catch (const UserError& e) {
    judged.error = e.what();
  }
  return judged;
}

std::string PlanJudge::refusal(const PlanPoint& point) {
  try {
    const Scenario s = read_with_plan(of_, space_.section(point));
    lay_out_stages(s, share(s));
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

std::vector<double> PlanJudge::group_floors(const std::vector<PlanPoint>& groups) {
  std::vector<double> all(groups.size(), kNone);
  std::int64_t too_large = std::numeric_limits<std::int64_t>::max();  // micro-batches from here on
  for (std::size_t i = 0; i < groups.size() && groups[i].micro_batch < too_large; ++i)
    for (const PlanPoint& point : space_.points(groups[i])) {
      std::optional<Scenario> s;
      try {
        s = read_with_plan(of_, space_.section(point));
      } catch (const UserError&) {  // another plan of the group may be one
        continue;
      }
      const Passes& of = passes(*s);
      if (of.largest_layer > capacity_) too_large = groups[i].micro_batch;
      if (std::max(of.largest_layer, of.activations / point.pipeline) <= capacity_)
        all[i] = of.seconds * s->micro_batches() / point.pipeline;
      break;
    }
  return all;
}

Scenario PlanJudge::scenario(const PlanPoint& point) {
  Scenario s = read_with_plan(of_, space_.section(point));
  const auto [at, fresh] = whole_.try_emplace(s.micro_batch_size);
  if (fresh) at->second = network_of(s.model, s.micro_batch_size, s.precision);
  s.network = at->second;
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
