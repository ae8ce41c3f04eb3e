#include "scenarios/src/search/undisturbed.hpp"

#include <algorithm>
#include <memory>

#include "scenarios/src/planning/plan.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/folded_program.hpp"
#include "strategies/step/forward_only.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

// Sums come in another order than in the simulation of all ranks.
constexpr double kRounding = 1e-9;

/// Prices kernels, and has no links.
class UndisturbedMachine : public Machine, private Contention {
 public:
  UndisturbedMachine(const ClusterSpec& cluster, const SoftwareStack& software,
                     const std::vector<std::vector<Work>>& fused, Actor actors) {
    for (const NodeType* type : cluster.types()) {
      ClusterSpec node = cluster;
      node.nodes = 1;
      node.node = *type;
      node.others.clear();
      node.taken_out.clear();
      node.fabric = nullptr;
      nodes_.push_back(std::make_unique<ClusterMachine>(node, software));
      nodes_.back()->fuse(fused);
    }
    for (Actor actor = 0; actor < actors; ++actor) nowhere_.owners.push_back(actor);
  }

  std::span<const Link> links() const override { return {}; }
  Cost price(const Work& work, Actor) const override {
    Cost least = nodes_.front()->price(work, 0);
    for (const auto& node : nodes_) {
      const Cost cost = node->price(work, 0);
      least.duration = std::min(least.duration, cost.duration);
      least.launched = std::min(least.launched, cost.launched);
      least.host = std::min(least.host, cost.host);
    }
    return least;
  }
  Route route(Actor, Actor, PathClass) const override { return {}; }
  const KnownGroup* known_group(const GroupFlow&) const override { return &nowhere_; }
  const Contention* contention() const override { return this; }
  double speed(Actor, Kind, KindSet) const override { return 1; }
  std::span<const LinkId> ports(Actor) const override { return {}; }

 private:
  std::vector<std::unique_ptr<ClusterMachine>> nodes_;  // one of each type
  KnownGroup nowhere_;
};

bool is_modelled(const LaneGroups& lane) { return lane.groups.front().settings.fidelity == Fidelity::modelled; }

/// Leaves out what other ranks would have to run for, and what nobody looks at.
void simplify(TrainingPlan& plan) {
  plan.series = plan.nameless = true;
  plan.first_fused = kFirstFused;
  for (LaneGroups& lane : plan.lanes) {
    if (lane.used() && !is_modelled(lane)) lane = {};
    plan.series = plan.series && lane.alike;
  }
  if (!plan.offload.copies()) return;
  GroupFlow copy;
  copy.edges = {{0, 0, 1}};
  copy.by_engines = true;
  std::array<GroupFlow, kHostWays> ways;
  ways.fill(copy);
  plan.offload.ways.assign(static_cast<std::size_t>(plan.ranks()), ways);
}

/// Peers and groups as if there were these ranks alone.
folding::ClassView view_of(std::size_t rank, const std::vector<int>& ranks, const std::vector<ActorOutline>& outlines) {
  const ActorOutline& own = outlines[rank];
  folding::ClassView view;
  for (const Actor peer : own.slots) {
    const auto at = std::find(ranks.begin(), ranks.end(), peer);
    view.peers.push_back(static_cast<Actor>(at == ranks.end() ? rank : static_cast<std::size_t>(at - ranks.begin())));
  }
  view.sending.resize(own.slots.size());
  view.receiving.resize(own.slots.size());
  view.group_flows.resize(kLanes + kHostWays);
  for (const ActorOutline::Meeting& meeting : own.meetings) {
    const auto joins = [&meeting](const ActorOutline& outline) {
      return std::ranges::find(outline.meetings, meeting.group, &ActorOutline::Meeting::group) !=
             outline.meetings.end();
    };
    view.meetings[meeting.group] = {meeting.group, static_cast<std::uint32_t>(std::ranges::count_if(outlines, joins))};
    view.group_flows[meeting.slot] = meeting.flow;
  }
  return view;
}

/// Of the programs of these ranks, s.
double time_of(const ClusterSpec& cluster, const SoftwareStack& software, TrainingPlan plan,
               const std::vector<int>& ranks) {
  simplify(plan);
  Names names;
  const TrainingPrograms source(plan, names);
  std::vector<ActorOutline> outlines;
  for (const int rank : ranks) outlines.push_back(source.outline(rank));
  Programs programs;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    programs.push_back(folding::folded_program(source.program(ranks[i]), view_of(i, ranks, outlines)));
  UndisturbedMachine machine(cluster, software, source.tables().fused().runs(), static_cast<Actor>(ranks.size()));
  return run_programs(machine, std::move(programs)).end.value * (1 - kRounding);
}

}  // namespace

double undisturbed_step(const Scenario& s, TrainingPlan plan) {
  const std::vector<int> ranks = plan.mesh.group(0, Axis::pipeline);
  plan = lay_out_ranks(s, std::move(plan), ranks);
  // Compressed gradients are fewer bytes and further kernels: neither counts.
  if (s.plan.compression) plan.lane(Lane::gradients) = plan.lane(Lane::expert_gradients) = {};
  return time_of(s.cluster, s.software, std::move(plan), ranks);
}

double undisturbed_passes(const Scenario& s, TrainingPlan plan) {
  plan.overhead_kernel = plan.micro_batch_kernel = 0;
  leave_out_updates(plan);
  SoftwareStack launched = s.software;
  if (launched.host.runs_ahead) launched.kernel_dispatch = Seconds{0};
  return time_of(s.cluster, launched, std::move(plan), {0});
}

}  // namespace trainyard
