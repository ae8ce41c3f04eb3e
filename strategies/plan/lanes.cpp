// The groups of ranks of a mesh that exchange data with each other.
#include <algorithm>

#include "sim/error.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {
namespace {

std::vector<int> nodes_of(const std::vector<int>& members, const std::vector<int>& node_of_rank) {
  std::vector<int> nodes;
  for (const int member : members) nodes.push_back(node_of_rank[member]);
  return nodes;
}

/// True if collectives of the two groups take the same time.
bool alike(const LaneGroup& a, const LaneGroup& b) {
  return a.members.size() == b.members.size() && a.settings.per_node == b.settings.per_node &&
         a.settings.node_sizes == b.settings.node_sizes && a.settings.model == b.settings.model;
}

/// Returns the ranks that hold the same share of states as `rank`: one in each ZeRO group.
std::vector<int> copies_of(const TrainingPlan& plan, int rank, bool experts) {
  const std::vector<int> all = experts ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
  const std::size_t part = zero_group(plan, rank, experts).size();
  const auto index = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  std::vector<int> members;
  for (std::size_t i = index % part; i < all.size(); i += part) members.push_back(all[i]);
  return members;
}

std::vector<int> members_of(const TrainingPlan& plan, Lane lane, int rank) {
  switch (lane) {
    case Lane::gradients:
    case Lane::parameters:
      return zero_group(plan, rank, false);
    case Lane::expert_gradients:
    case Lane::expert_parameters:
      return zero_group(plan, rank, true);
    case Lane::copies:
      return copies_of(plan, rank, false);
    case Lane::expert_copies:
      return copies_of(plan, rank, true);
    case Lane::tensor:
      return plan.mesh.group(rank, Axis::tensor);
    case Lane::context:
      return plan.mesh.group(rank, plan.mesh.splits_context() ? Axis::ring : Axis::context);
    case Lane::ulysses:
      return plan.mesh.group(rank, Axis::ulysses);
    case Lane::expert:
    case Lane::expert_return:
      return plan.mesh.group(rank, Axis::expert);
    case Lane::expert_tensor:
      return plan.mesh.group(rank, Axis::expert_tensor);
    case Lane::maxima:
      return plan.agree_on_maxima == AgreeOnMaxima::tensor_ranks ? plan.mesh.group(rank, Axis::tensor)
                                                                 : plan.mesh.stage(rank);
    case Lane::tied: {
      const std::vector<int> stages = plan.mesh.group(rank, Axis::pipeline);
      const int last = plan.schedule ? plan.schedule->place_of(plan.virtual_stages() - 1, plan.pipeline).stage : 0;
      const int ends[] = {stages.front(), stages[last]};
      if (ends[0] == ends[1] || (ends[0] != rank && ends[1] != rank)) return {rank};
      return {ends[0], ends[1]};
    }
  }
  throw InternalError("an unknown lane");
}

bool needed(const TrainingPlan& plan, Lane lane) {
  const bool shared_out = plan.zero != ZeroStage::none, hybrid = shared_out && plan.zero_group > 0;
  const bool experts = std::any_of(plan.network->layers.begin(), plan.network->layers.end(), [](const Layer& layer) {
    return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                       [](const auto& p) { return p.expert && !p.frozen; });
  });
  switch (lane) {
    case Lane::gradients:
      return true;
    case Lane::expert_gradients:
      return experts;
    case Lane::parameters:
      return shared_out;
    case Lane::expert_parameters:
      return shared_out && experts;
    case Lane::copies:
      return hybrid;
    case Lane::expert_copies:
      return hybrid && experts;
    case Lane::tied:
      return plan.tied && plan.mesh.widths.empty();  // otherwise by messages between the stages
    case Lane::maxima:
      return plan.agree_on_maxima != AgreeOnMaxima::nobody;
    case Lane::tensor:
      return plan.mesh.tensor > 1 || !plan.mesh.widths.empty();
    case Lane::context:
      return plan.mesh.context > 1;
    case Lane::ulysses:
      return plan.mesh.splits_context();
    case Lane::expert:  // otherwise every rank would look up its group among all replicas
      return plan.mesh.expert > 1;
    case Lane::expert_return:
      return plan.mesh.expert > 1 && !unlike_expert_ranks(plan.sharding).empty();
    case Lane::expert_tensor:
      return plan.mesh.expert_tensor > 1;
  }
  throw InternalError("an unknown lane");
}

/// True if the lane's collectives send rows to experts, or back.
bool is_of_rows(Lane lane) { return lane == Lane::expert || lane == Lane::expert_return; }

/// Returns the rows of each expert rank relative to the fullest one's; empty if ranks are alike.
std::vector<double> loads_of_ranks(const TrainingPlan& plan) {
  std::vector<double> loads = unlike_expert_ranks(plan.sharding);
  const double most = loads.empty() ? 1 : *std::max_element(loads.begin(), loads.end());
  for (double& load : loads) load /= most;
  return loads;
}

/// True if the lane's collectives are all-to-alls; otherwise they go round rings.
bool exchanges_all_to_all(const TrainingPlan& plan, Lane lane) {
  if (lane == Lane::ulysses) return true;
  if (!is_of_rows(lane) && lane != Lane::context) return false;
  const Axis axis = is_of_rows(lane) ? Axis::expert : Axis::context;
  return std::ranges::any_of(plan.network->layers, [axis](const Layer& layer) {
    return std::ranges::any_of(layer.forward_exchanges, [axis](const Exchange& exchange) {
      return exchange.axis == axis && exchange.kind == ExchangeKind::all_to_all;
    });
  });
}

LaneGroups groups_of(const TrainingPlan& plan, Lane lane, const std::vector<int>& node_of_rank,
                     const CollectiveSettings& settings) {
  const Operation pattern = exchanges_all_to_all(plan, lane) ? Operation::all_to_all : Operation::all_reduce;
  LaneGroups lanes;
  lanes.of_rank.assign(static_cast<std::size_t>(plan.ranks()), -1);
  lanes.index_of_rank = lanes.of_rank;
  std::vector<std::size_t> first_of_kind;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    if (lanes.of_rank[rank] >= 0) continue;
    LaneGroup group{members_of(plan, lane, rank), settings};
    if (group.members.size() < 2) continue;
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      lanes.of_rank[group.members[i]] = static_cast<int>(lanes.groups.size());
      lanes.index_of_rank[group.members[i]] = static_cast<int>(i);
    }
    group.settings.place(nodes_of(group.members, node_of_rank));
    if (static_cast<int>(group.members.size()) != plan.ranks()) group.settings.rings.clear();
    if (settings.fidelity == Fidelity::modelled)
      group.settings.flow = std::make_shared<ModelledFlow>(modelled_flow(pattern, group.settings, group.members));
    const auto kind = std::find_if(first_of_kind.begin(), first_of_kind.end(),
                                   [&](std::size_t first) { return alike(lanes.groups[first], group); });
    lanes.kinds.push_back(static_cast<int>(kind - first_of_kind.begin()));
    if (kind == first_of_kind.end()) first_of_kind.push_back(lanes.groups.size());
    lanes.groups.push_back(std::move(group));
  }
  lanes.has_one_kind = first_of_kind.size() <= 1;
  return lanes;
}

}  // namespace

const char* name_of(Lane lane) {
  static constexpr std::array<const char*, kLanes> names{
      "gradients",     "parameters", "copies",        "expert gradients", "expert parameters",
      "expert copies", "tensor",     "context",       "expert",           "expert tensor",
      "tied weight",   "maxima",     "expert return", "ulysses"};
  return names.at(static_cast<std::size_t>(lane));
}

void make_lanes(TrainingPlan& plan, const std::vector<int>& node_of_rank, const LaneChoice& gradients,
                const LaneChoice& others, const Place& where) {
  for (int i = 0; i < kLanes; ++i) {
    const auto lane = static_cast<Lane>(i);
    LaneGroups& groups = plan.lane(lane);
    groups = {};
    if (!needed(plan, lane)) continue;
    const bool of_gradients = lane == Lane::gradients || lane == Lane::expert_gradients;
    const LaneChoice& choice = of_gradients ? gradients : others;
    CollectiveSettings settings = choice.settings;
    if (is_of_rows(lane) && choice.dispatcher) settings.model = choice.dispatcher;
    if (is_of_rows(lane)) settings.loads = loads_of_ranks(plan);
    settings.returns = lane == Lane::expert_return;
    groups = groups_of(plan, lane, node_of_rank, settings);
    for (const LaneGroup& group : groups.groups)
      for (int o = 0; o < kOperations; ++o)
        if (const Collective* algorithm = choice.algorithms[o]) {
          require_fits(*algorithm, {0, static_cast<int>(group.members.size()), &group.settings}, where);
          groups.algorithm[o] = algorithm;
        }
  }
}

}  // namespace trainyard
