#include "strategies/collectives/library_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/fitted/nccl_between.hpp"
#include "models/fitted/nccl_cost.hpp"
#include "models/hardware/adapter_rate.hpp"
#include "sim/error.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/collectives/node_rings.hpp"
#include "topologies/nodes/pcie_tree.hpp"
#include "topologies/routing.hpp"

namespace trainyard {
namespace {

NcclOperation nccl_operation(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::barrier:  // PyTorch's is an all-reduce of one element
      return NcclOperation::all_reduce;
    case Operation::all_gather:
      return NcclOperation::all_gather;
    case Operation::reduce_scatter:
      return NcclOperation::reduce_scatter;
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return NcclOperation::alltoall;
    case Operation::broadcast:
      return NcclOperation::broadcast;
    case Operation::reduce:
      return NcclOperation::reduce;
    case Operation::send_recv:
      return NcclOperation::sendrecv;
    case Operation::gather:
      return NcclOperation::gather;
    case Operation::scatter:
      return NcclOperation::scatter;
  }
  throw InternalError("unknown collective operation");
}

/// A GPU with the links that its node gives it. NCCL's rates depend on them.
Gpu wired_gpu(const NodeType& node) {
  Gpu gpu = node.gpu;
  gpu.nvlink = least_nvlink(node);
  if (node.pcie_rate.value <= 0) return gpu;
  int lanes = kFullWidth;
  if (has_lane_plan(node))
    for (const PcieSlot& slot : plan_lanes(node).slots)
      if (slot.kind == DeviceKind::gpu) lanes = std::min(lanes, slot.lanes);
  gpu.pcie = lane_rate(node, DeviceKind::gpu, lanes);
  return gpu;
}

std::string errors_text(double median, double p90, double large) {
  std::string text = fmt::format("median error {:.0f} %, 90th percentile {:.0f} %", median * 100, p90 * 100);
  if (large > 0) text += fmt::format(", from 64 MiB on {:.0f} %", large * 100);
  return text;
}

bool exchanges_in_pairs(NcclOperation operation) { return operation == NcclOperation::alltoall; }

/// Applies a machine's own ratios to the fitted model.
void apply_ratios(const NcclRatios& ratios, NcclModel& model) {
  if (ratios == NcclRatios{}) return;
  const auto change = [&ratios](NcclProtocol& protocol) {
    protocol.startup = protocol.startup * ratios.startup;
    protocol.rate = protocol.rate * ratios.rate;
  };
  for (auto& [operation, curves] : model.curves)
    for (NcclCurve& curve : curves)
      for (const auto protocol : {&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple}) change(curve.*protocol);
  change(model.in_switch.nvls);
  NcclNetwork& network = model.between;
  for (Seconds* time : {&network.hop[0], &network.hop[1], &network.hop[2], &network.peer, &network.chunk_time})
    *time = *time * ratios.network_startup;
  network.wires = std::min(network.wires, *std::ranges::min_element(network.hop));
  for (double* share :
       {&network.share_ll, &network.share_ll128, &network.share_ring, &network.share_tree, &network.share_pairs})
    *share = std::min(1.0, *share * ratios.network_rate);
}

/// True if a message leaves by the adapter beside the GPU that has the receiver's place in the sender's node. That GPU
/// must be reached by NVLink, and its adapter must be near it (NVIDIA/nccl src/graph/search.cc, NCCL_P2P_PXN_LEVEL=2,
/// the default).
bool relays_by_rail(const NodeType& node, const NcclChoice& choice, NodeSpread spread) {
  return choice.pxn && choice.version.pxn() && spread.nodes > 1 && spread.fewest > 1 && node.hcas > 1 &&
         node.network.gpudirect && (node.interconnect == "nvswitch" || has_full_mesh(node));
}

/// The island of the nodes of one type, and the latency of its cables to the first nodes.
struct TypeIsland {
  int island = 0;
  Seconds cables;
};

/// Returns the latency of the cables between the islands of a group, on the way that its data take: a ring crosses them
/// twice a round, a tree up and down, and a message between two ranks once. 0 s: all ranks are in one island.
Seconds latency_of_cables(const std::vector<TypeIsland>& types, NcclOperation operation, bool is_ring) {
  std::vector<TypeIsland> islands;  // each once
  for (const TypeIsland& type : types)
    if (islands.empty() || islands.back().island != type.island) islands.push_back(type);
  if (islands.size() < 2) return {};
  Seconds all, longest, next;
  for (const TypeIsland& island : islands) {
    all += island.cables;
    next = std::max(next, std::min(longest, island.cables));
    longest = std::max(longest, island.cables);
  }
  const double rounds = operation == NcclOperation::all_reduce ? 2 : 1;
  return is_ring ? all * (2 * rounds) : (longest + next) * rounds;
}

/// NCCL in a cluster, or in a part of it. If nodes differ, all wait for the slowest: NCCL agrees on the minimum of
/// what its nodes can do (NVIDIA/nccl src/init.cc, initTransportsRank: minima of channels, speeds and types over all
/// ranks).
class Nccl : public CollectiveModel, public std::enable_shared_from_this<Nccl> {
 public:
  /// `type_of_node` gives, for each node, its index in `types`.
  Nccl(std::vector<NcclNode> types, std::vector<std::size_t> type_of_node, std::vector<TypeIsland> islands)
      : types_(std::move(types)), type_of_node_(std::move(type_of_node)), islands_(std::move(islands)) {}

  ModelledCost cost(Operation operation, Bytes size, NodeSpread spread) const override {
    const NcclOperation nccl = nccl_operation(operation);
    const Bytes bytes = operation == Operation::barrier ? Bytes{4} : size;
    NcclCost slowest;
    for (const NcclNode& node : types_) {
      const NcclCall call = node.call(nccl, bytes, spread);
      const NcclCost cost = nccl_cost(node.model(call), call);
      if (&node == &types_.front() || cost.time > slowest.time) slowest = cost;
    }
    const Seconds cables = latency_of_cables(islands_, nccl, slowest.rings);
    return {slowest.latency + cables, slowest.wire,  slowest.rate,          slowest.protocol,
            slowest.limited_by,       slowest.rings, slowest.wires + cables};
  }

  bool relays(NodeSpread spread) const override {
    return std::ranges::all_of(
        types_, [spread](const NcclNode& node) { return node.call(NcclOperation::alltoall, Bytes{0}, spread).pxn; });
  }

  /// NCCL tries the same adapter first (NCCL_CROSS_NIC=2, the default), which the last GPU of a node reaches by PXN.
  bool keeps_rails(NodeSpread spread) const override {
    return relays(spread) && std::ranges::all_of(types_, &NcclNode::is_by_rails);
  }

  std::shared_ptr<const CollectiveModel> model_for(const std::vector<int>& nodes) const override {
    if (types_.size() == 1) return shared_from_this();
    std::vector<bool> used(types_.size());
    for (const int node : nodes) used[type_of_node_.at(static_cast<std::size_t>(node))] = true;
    return parts_.find(used, [&] {
      std::vector<NcclNode> part;
      std::vector<TypeIsland> islands;
      for (std::size_t i = 0; i < types_.size(); ++i) {
        if (!used[i]) continue;
        part.push_back(types_[i]);
        islands.push_back(islands_[i]);
      }
      return std::make_shared<Nccl>(std::move(part), std::vector<std::size_t>{}, std::move(islands));
    });
  }

 private:
  std::vector<NcclNode> types_;
  std::vector<std::size_t> type_of_node_;
  std::vector<TypeIsland> islands_;  // indexed by type
  /// Models of parts of the cluster, by the types of nodes that they use.
  SharedResults<std::vector<bool>, std::shared_ptr<const CollectiveModel>> parts_;
};

std::string judged_between(const NcclNetwork& network) {
  if (network.median_error == 0)
    return fmt::format("between nodes by {}: no system was left out to judge", network.name);
  return fmt::format("between nodes by {}, {} left out of the fit in turn: {}", network.name,
                     counted_noun(network.systems, "system"),
                     errors_text(network.median_error, network.p90_error, network.large_error));
}

/// Adds the sources that are not in the list yet.
void add_sources(Sources& all, const Sources& more) {
  for (const FigureSource& source : more)
    if (std::ranges::none_of(all, [&](const FigureSource& listed) { return listed.figure == source.figure; }))
      all.push_back(source);
}

/// Adds words to a list, unless they are empty or in it already.
void add_words(std::string& list, const std::string& words) {
  if (list.find(words) == std::string::npos) list += (list.empty() ? "" : "; ") + words;
}

// Fractions of the rate of PCIe lanes that NCCL reaches, from the large sizes of
// scenarios/measured/tables/nccl_sweeps.csv (medians over systems).
/// Peer to peer below one root complex or switch: RTX 4090 0.80, MI210 0.75, V100 0.67 and 0.71, A100 pairs 0.75.
constexpr double kPeerShare = 0.75;
/// Peer to peer between sockets: RTX 4090 behind two EPYC 0.65, pairs of A100 0.75 and 0.82.
constexpr double kFarPeerShare = 0.72;
/// Through host memory, by loads and stores of kernels: RTX 4090 0.48, 5090 0.43, V100 0.35 to 0.49, 2080 Ti 0.51.
constexpr double kHostShare = 0.44;

double share_of(const Path& path) {
  if (path.means == "through host memory") return kHostShare;
  return path.locality == "SYS" ? kFarPeerShare : kPeerShare;
}

ClusterSpec one_node(const ClusterSpec& cluster) {
  ClusterSpec single = cluster;
  single.nodes = 1;
  single.others.clear();
  single.fabric = nullptr;
  single.taken_out.clear();
  return single;
}

ModelledFlow flow_in(const NodeType& node, const std::vector<Actor>& members, Operation operation) {
  CollectiveSettings settings;
  if (!node.nvlink_mesh.empty()) settings.rings = NodeRings(node).through(members);
  return modelled_flow(operation, settings, members);
}

}  // namespace

NcclNode::NcclNode(const ClusterSpec& cluster, const NodeType& type, const Catalog& catalog, const std::string& network,
                   const NcclChoice& choice)
    : spec_(std::make_shared<ClusterSpec>(cluster)), choice_(choice) {
  spec_->node = type;
  const Gpu gpu = wired_gpu(type);
  linked_ = nccl_model_for(gpu, catalog, network);
  if (const int most = most_measured_gpus(linked_); most < type.gpus) {
    measured_gpus_ = most;
    linked_.scaled += fmt::format("{}measured with up to {} GPUs of a node, extrapolated to {}",
                                  linked_.scaled.empty() ? "" : "; ", most, type.gpus);
  }
  Gpu lanes = gpu;
  lanes.nvlink = {};
  lanes.chip_links = {};
  const bool mixed = gpu.nvlink.value > 0 && type.interconnect != "nvswitch" && gpu.pcie.value > 0;
  by_lanes_ = mixed ? nccl_model_for(lanes, catalog, network) : linked_;
  apply_ratios(type.nccl, linked_);
  apply_ratios(type.nccl, by_lanes_);
  const Picoseconds wires = type.hca_latency + type.hca_latency + cluster.switch_latency + cluster.distance;
  wires_ = wires.seconds();
}

std::string NcclNode::judged_inside() const {
  const int gpus = spec_->node.gpus;
  if (gpus < 2) return "";
  const NcclCall all = call(NcclOperation::all_reduce, Bytes{0}, {gpus, 1, gpus});
  if (all.machine.value > 0)
    return fmt::format("by PCIe, whose shares of the lanes are medians over the same systems: {}",
                       errors_text(kLanesErrors.median, kLanesErrors.p90, kLanesErrors.large));
  if (!linked_.scaled.empty()) return "no system of such links left out to judge";
  return fmt::format("sizes left out of the fit of {}: {}", linked_.gpu,
                     errors_text(linked_.median_error, linked_.p90_error, 0));
}

NcclCall NcclNode::call(NcclOperation operation, Bytes size, NodeSpread spread) const {
  NcclCall call;
  call.operation = operation;
  call.size = size;
  call.gpus = spread.ranks;
  call.nodes = spread.nodes;
  call.local = spread.fewest;
  const NodeType& type = spec_->node;
  const int a_gpu = std::max(1, type.gpus > 0 ? type.hcas / type.gpus : 1);
  const BytesPerSecond adapter = adapter_rate(type);
  call.network = adapter * std::min(type.hcas, a_gpu * spread.fewest);
  call.gpu_network = adapter * a_gpu;
  call.adapter = adapter;
  call.own_adapter = spread.fewest == 1 && type.hcas > 1 && type.network.gpudirect;
  call.wires = wires_;
  call.machine = machine_.find({spread.fewest, exchanges_in_pairs(operation)}, [&] {
    return machine_rate(*spec_, spread.fewest,
                        exchanges_in_pairs(operation) ? Operation::all_to_all : Operation::all_reduce) *
           spec_->node.nccl.rate;
  });
  call.version = choice_.version;
  call.sharp = spec_->sharp;
  call.nvswitch = type.interconnect == "nvswitch";
  call.adapters = std::min(type.hcas, spread.fewest);
  call.pxn = relays_by_rail(type, choice_, spread);
  if (choice_.launch != NcclLaunch::ahead)
    call.launch =
        nccl_launch_time(type.gpu.architecture) * (choice_.launch == NcclLaunch::by_thread ? spread.fewest : 1);
  return call;
}

std::vector<NcclNode> nccl_nodes(const ClusterSpec& cluster, const NcclChoice& choice) {
  const Catalog catalog;
  std::vector<NcclNode> nodes;
  for (const ClusterSpec& part : cluster.parts())  // its switches have the latency of its own fabric
    for (const NodeType* type : part.types()) {
      if (type->network.grpc && cluster.nodes > 1)
        throw UserError(fmt::format(
            "NCCL opens sockets of its own and does not go over gRPC, the transport of {}; expected transport: tcp, or "
            "plan.collectives: messages",
            type->name));
      std::string network = type->network.nccl_network;
      if (network.empty()) network = type->network.tcp ? "tcp" : "infiniband";
      NcclNode node(part, *type, catalog, network, choice);
      const NcclNetwork& entry = node.linked().between;
      const std::string other = !type->network.gpudirect   ? entry.without_gpudirect
                                : type->hcas >= type->gpus ? entry.own_adapters
                                                           : "";
      nodes.push_back(other.empty() ? std::move(node) : NcclNode(part, *type, catalog, other, choice));
    }
  return nodes;
}

LibraryModel library_model(const ClusterSpec& cluster, const NcclChoice& choice) {
  LibraryModel library;
  std::vector<NcclNode> types = nccl_nodes(cluster, choice);
  for (const NcclNode& type : types) {
    const NcclModel& model = type.linked();
    add_words(library.scaled, model.scaled);
    if (type.measured_gpus() > 0 && (library.measured_gpus == 0 || type.measured_gpus() < library.measured_gpus))
      library.measured_gpus = type.measured_gpus();
    add_sources(library.sources, model.sources);
    if (cluster.nodes > 1) add_sources(library.sources, model.between.sources);
    add_words(library.errors.inside, type.judged_inside());
    if (cluster.nodes < 2) continue;
    std::string between = judged_between(model.between);
    if (cluster.sharp)
      between += fmt::format("; sums in its switches (SHARP), three early systems in no fit: {}",
                             errors_text(kSharpErrors.median, kSharpErrors.p90, kSharpErrors.large));
    add_words(library.errors.between, between);
  }
  std::vector<std::size_t> type_of_node(static_cast<std::size_t>(cluster.nodes), 0);
  auto first = type_of_node.end();
  for (std::size_t i = cluster.others.size(); i > 0; --i) {
    const auto end = first;
    first -= cluster.others[i - 1].count;
    std::fill(first, end, i);
  }
  std::vector<TypeIsland> islands(types.size());
  for (std::size_t i = 0; i < cluster.others.size(); ++i)
    if (const NodeGroup& group = cluster.others[i]; group.island)
      islands[i + 1] = {static_cast<int>(i) + 1, group.links.latency.seconds()};
  library.model = std::make_shared<Nccl>(std::move(types), std::move(type_of_node), std::move(islands));
  return library;
}

BytesPerSecond machine_rate(const ClusterSpec& cluster, int gpus, Operation operation) {
  const NodeType& node = cluster.node;
  if (gpus < 2 || node.interconnect == "nvswitch" || cluster.joins_chips()) return {};
  const ClusterSpec spec = one_node(cluster);
  DeviceGraph graph = build_cluster(spec);
  Routing routing(graph, spec);
  const std::vector<DeviceId> devices = graph.devices_of_kind(DeviceKind::gpu, 0);
  std::vector<Actor> members;
  for (int i = 0; i < std::min(gpus, node.gpus); ++i) members.push_back(i);
  const ModelledFlow flow = flow_in(node, members, operation);
  // For each link: its bytes at full rate, if each edge of weight 1 carries one byte.
  std::vector<double> load(graph.links().size());
  bool by_lanes = false;
  for (const GroupFlow::Edge& edge : flow.edges) {
    const DeviceId from = devices[static_cast<std::size_t>(edge.from)], to = devices[static_cast<std::size_t>(edge.to)];
    // NCCL takes the path of fewest hops, which is NVLink where a pair of GPUs has it, however fast PCIe is
    // (NVIDIA/nccl src/graph/paths.cc, ncclTopoSetPaths).
    if (routing.path(from, to, PathClass::nvlink).reachable) continue;
    const Path path = routing.path(from, to, PathClass::automatic);
    if (!path.reachable || path.locality == name_of(LinkKind::ici)) continue;
    by_lanes = true;
    for (const PathLeg& leg : path.legs)
      for (const LinkUse& use : leg.links)
        load[static_cast<std::size_t>(use.link)] +=
            use.weight * edge.weight / (graph.is_wire(use.link) ? share_of(path) : 1);
  }
  if (!by_lanes) return {};
  double seconds_per_byte = 0;
  for (std::size_t link = 0; link < load.size(); ++link)
    seconds_per_byte = std::max(seconds_per_byte, load[link] / graph.links()[link].capacity.value);
  return BytesPerSecond{flow.ways / seconds_per_byte};
}

}  // namespace trainyard
