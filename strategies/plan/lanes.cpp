// The groups of ranks of a mesh that exchange data with each other.
#include <algorithm>
#include <array>

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
  const int size = static_cast<int>(a.members.size());
  return a.members.size() == b.members.size() && a.settings.per_node == b.settings.per_node &&
         a.settings.node_sizes == b.settings.node_sizes && a.settings.model == b.settings.model &&
         modelled_rings(a.settings, size) == modelled_rings(b.settings, size) && a.settings.box == b.settings.box &&
         a.settings.slices == b.settings.slices;
}

/// Returns the ranks that hold the same share of states as `rank`: one in each ZeRO group.
template <bool experts>
std::vector<int> share_group(const TrainingPlan& plan, int rank) {
  const std::vector<int> all = experts ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
  const std::size_t part = zero_group(plan, rank, experts).size();
  const auto index = static_cast<std::size_t>(std::ranges::find(all, rank) - all.begin());
  std::vector<int> members;
  for (std::size_t i = index % part; i < all.size(); i += part) members.push_back(all[i]);
  return members;
}
template <bool experts>
std::vector<int> gradient_group(const TrainingPlan& plan, int rank) {
  if (!plan.all_reduces_gradients) return zero_group(plan, rank, experts);
  return experts ? plan.mesh.expert_replicas(rank) : plan.mesh.replicas(rank);
}
template <bool experts>
std::vector<int> state_group(const TrainingPlan& plan, int rank) {
  return zero_group(plan, rank, experts);
}
template <Axis axis>
std::vector<int> axis_group(const TrainingPlan& plan, int rank) {
  return plan.mesh.group(rank, axis);
}
std::vector<int> context_group(const TrainingPlan& plan, int rank) {
  return plan.mesh.group(rank, plan.mesh.splits_context() ? Axis::ring : Axis::context);
}
std::vector<int> maxima_group(const TrainingPlan& plan, int rank) {
  return plan.amax_reduction == AmaxReduction::tensor_ranks ? plan.mesh.group(rank, Axis::tensor)
                                                            : plan.mesh.stage(rank);
}
/// Returns the ranks of the first and the last stage with the same other coordinates; another stage's rank is alone.
std::vector<int> tied_group(const TrainingPlan& plan, int rank) {
  const std::vector<int> stages = plan.mesh.group(rank, Axis::pipeline);
  const int ends[] = {stages.front(), stages[plan.place_of(plan.virtual_stages() - 1).stage]};
  if (ends[0] == ends[1] || (ends[0] != rank && ends[1] != rank)) return {rank};
  return {ends[0], ends[1]};
}

bool shards_states(const TrainingPlan& plan) { return plan.zero != ZeroStage::none; }
bool has_state_copies(const TrainingPlan& plan) {
  return shards_states(plan) && plan.zero_group > 0 && !plan.all_reduces_gradients;
}
bool trains_experts(const TrainingPlan& plan) {
  return std::ranges::any_of(plan.network->layers, [](const Layer& layer) {
    return std::ranges::any_of(layer.parameters, [](const auto& p) { return p.expert && !p.frozen; });
  });
}

/// A kind of exchange: its name, the plans that need it, and the group of a rank.
struct LaneKind {
  const char* name;
  bool (*is_needed)(const TrainingPlan&);
  std::vector<int> (*members)(const TrainingPlan&, int rank);
};
using Plan = const TrainingPlan&;
constexpr std::array<LaneKind, kLanes> kKinds{{
    // in the order of `Lane`
    {"gradients", [](Plan) { return true; }, gradient_group<false>},
    {"parameters", shards_states, state_group<false>},
    {"copies", has_state_copies, share_group<false>},
    {"expert gradients", trains_experts, gradient_group<true>},
    {"expert parameters", [](Plan p) { return shards_states(p) && trains_experts(p); }, state_group<true>},
    {"expert copies", [](Plan p) { return has_state_copies(p) && trains_experts(p); }, share_group<true>},
    {"tensor", [](Plan p) { return p.mesh.tensor > 1 || !p.mesh.widths.empty(); }, axis_group<Axis::tensor>},
    {"context", [](Plan p) { return p.mesh.context > 1; }, context_group},
    // With one expert rank, every rank would look up its group among all replicas.
    {"expert", [](Plan p) { return p.mesh.expert > 1; }, axis_group<Axis::expert>},
    {"expert tensor", [](Plan p) { return p.mesh.expert_tensor > 1; }, axis_group<Axis::expert_tensor>},
    // Stages of unequal width sum the gradient of a tied weight by messages.
    {"tied weight", [](Plan p) { return p.tied && p.mesh.widths.empty(); }, tied_group},
    {"maxima", [](Plan p) { return p.amax_reduction != AmaxReduction::nobody; }, maxima_group},
    {"expert return", [](Plan p) { return p.mesh.expert > 1 && !unequal_expert_loads(p.sharding).empty(); },
     axis_group<Axis::expert>},
    {"ulysses", [](Plan p) { return p.mesh.splits_context(); }, axis_group<Axis::ulysses>},
}};
const LaneKind& kind_of(Lane lane) { return kKinds.at(static_cast<std::size_t>(lane)); }

/// True if the lane's collectives send rows to experts, or back.
bool is_of_rows(Lane lane) { return lane == Lane::expert || lane == Lane::expert_return; }

/// Returns the rows of each expert rank relative to the fullest one's; empty if ranks are alike.
std::vector<double> loads_of_ranks(const TrainingPlan& plan) {
  std::vector<double> loads = unequal_expert_loads(plan.sharding);
  const double most = loads.empty() ? 1 : *std::ranges::max_element(loads);
  for (double& load : loads) load /= most;
  return loads;
}

/// True if layers run the operation over the lane.
bool layers_exchange(const TrainingPlan& plan, Lane lane, Operation operation) {
  const Lane of_axis = lane == Lane::expert_return ? Lane::expert : lane;
  return std::ranges::any_of(plan.network->layers, [&](const Layer& layer) {
    const auto exchanges = [&](const std::vector<Exchange>& all) {
      return std::ranges::any_of(all, [&](const Exchange& exchange) {
        return operation_of(exchange.kind) == operation && lane_of(exchange.axis) == of_axis;
      });
    };
    return exchanges(layer.forward_exchanges) || exchanges(layer.backward_exchanges);
  });
}

/// True if the lane's collectives are all-to-alls; otherwise they go round rings.
bool exchanges_all_to_all(const TrainingPlan& plan, Lane lane) {
  return lane == Lane::ulysses ||
         ((is_of_rows(lane) || lane == Lane::context) && layers_exchange(plan, lane, Operation::all_to_all));
}

/// True if ranks of the lane may run the operation. In an all-to-all every rank has every other one as a peer, so it is
/// listed only where it is used.
bool is_run(const TrainingPlan& plan, Lane lane, Operation operation) {
  if (operation == Operation::broadcast)
    return plan.broadcasts_parameters && (lane == Lane::parameters || lane == Lane::expert_parameters);
  const bool of_gradients = lane == Lane::gradients || lane == Lane::expert_gradients;
  if (operation == Operation::all_to_all && (of_gradients || is_of_rows(lane) || lane == Lane::ulysses)) return true;
  const bool is_of_layers = operation == Operation::all_to_all || operation == Operation::send_recv;
  return !is_of_layers || layers_exchange(plan, lane, operation);
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
    LaneGroup group{kind_of(lane).members(plan, rank), settings};
    if (group.members.size() < 2) continue;
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      lanes.of_rank[group.members[i]] = static_cast<int>(lanes.groups.size());
      lanes.index_of_rank[group.members[i]] = static_cast<int>(i);
    }
    group.settings.place(nodes_of(group.members, node_of_rank), group.members);
    group.settings.place_on_chips(group.members);
    if (settings.fidelity == Fidelity::modelled)
      group.settings.flow = std::make_shared<ModelledFlow>(modelled_flow(pattern, group.settings, group.members));
    const auto kind =
        std::ranges::find_if(first_of_kind, [&](std::size_t first) { return alike(lanes.groups[first], group); });
    lanes.kinds.push_back(static_cast<int>(kind - first_of_kind.begin()));
    if (kind == first_of_kind.end()) first_of_kind.push_back(lanes.groups.size());
    lanes.groups.push_back(std::move(group));
  }
  lanes.has_one_kind = first_of_kind.size() <= 1;
  return lanes;
}

}  // namespace

Lane lane_of(Axis axis) {
  if (axis == Axis::tensor) return Lane::tensor;
  if (axis == Axis::context || axis == Axis::ring) return Lane::context;
  if (axis == Axis::ulysses) return Lane::ulysses;
  if (axis == Axis::expert) return Lane::expert;
  if (axis == Axis::expert_tensor) return Lane::expert_tensor;
  throw InternalError("layers exchange nothing over that axis");
}

Operation operation_of(ExchangeKind kind) {
  static constexpr std::array operations{Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                         Operation::all_to_all, Operation::send_recv};
  return operations.at(static_cast<std::size_t>(kind));
}

const char* name_of(Lane lane) { return kind_of(lane).name; }

void make_lanes(TrainingPlan& plan, const std::vector<int>& node_of_rank, const LaneChoice& gradients,
                const LaneChoice& others, const Place& where) {
  for (int i = 0; i < kLanes; ++i) {
    const auto lane = static_cast<Lane>(i);
    LaneGroups& groups = plan.lane(lane);
    groups = {};
    if (!kind_of(lane).is_needed(plan)) continue;
    const bool of_gradients = lane == Lane::gradients || lane == Lane::expert_gradients;
    const bool of_shards = lane == Lane::parameters || lane == Lane::expert_parameters;
    const bool gathers = plan.zero != ZeroStage::none && gradients.algorithms[static_cast<int>(Operation::all_gather)];
    const LaneChoice& choice = of_gradients || (of_shards && gathers) ? gradients : others;
    CollectiveSettings settings = choice.settings;
    if (is_of_rows(lane) && choice.dispatcher) settings.model = choice.dispatcher;
    if (is_of_rows(lane)) settings.loads = loads_of_ranks(plan);
    settings.returns = lane == Lane::expert_return;
    groups = groups_of(plan, lane, node_of_rank, settings);
    for (int o = 0; o < kOperations; ++o) {
      const Collective* algorithm = choice.algorithms[o];
      if (!algorithm || groups.groups.empty() || !is_run(plan, lane, static_cast<Operation>(o))) continue;
      for (const LaneGroup& group : groups.groups)
        require_fits(*algorithm, {0, static_cast<int>(group.members.size()), &group.settings}, where);
      groups.algorithm[o] = algorithm;
    }
  }
}

}  // namespace trainyard
