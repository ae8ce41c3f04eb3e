#include "models/fitted/nccl_between.hpp"

#include <algorithm>
#include <bit>

#include "models/fitted/nccl_curves.hpp"

namespace trainyard {

std::array<Seconds, 3> link_times(const NcclInside& inside, Bytes bytes) {
  std::array<Seconds, 3> times{};
  for (std::size_t p = 0; p < times.size(); ++p)
    if (inside.protocols[p].rate.value > 0) times[p] = bytes / inside.protocols[p].rate;
  return times;
}

bool sends_by_pairs(NcclOperation operation) {
  return operation == NcclOperation::alltoall || operation == NcclOperation::sendrecv ||
         operation == NcclOperation::gather || operation == NcclOperation::scatter;
}

namespace {

Seconds wires_of(const NcclNetwork& network, const NcclCall& call) {
  return call.wires.value < 0 ? network.wires : call.wires;
}

Seconds hop_of(const NcclNetwork& network, const NcclCall& call, int protocol) {
  return network.hop[static_cast<std::size_t>(protocol)] - network.wires + wires_of(network, call);
}

/// Share of the adapters' rate that a ring or a tree reaches by Simple. The fitted shares are those of rings through
/// all GPUs of a node, which NVLink and the adapters carry in turn. With one GPU a node only the adapter carries the
/// ring, as on two systems of GH200 (scenarios/measured/tables/nccl_sweeps.csv, gh200-2x1: 0.955 of 200 Gbit/s).
double share_by_simple(const NcclAlgorithm& algorithm, const NcclNetwork& network, const NcclCall& call) {
  constexpr double kOwnAdapter = 0.955;
  if (algorithm.share == nullptr) return 1;
  const double share = network.*algorithm.share;
  return call.own_adapter && algorithm.share != &NcclNetwork::share_pairs ? std::max(share, kOwnAdapter) : share;
}

NcclCost cost_of(const NcclAlgorithm& algorithm, int protocol, const NcclInside& inside, const NcclNetwork& network,
                 const NcclCall& call) {
  const auto p = static_cast<std::size_t>(protocol);
  const double simple = share_by_simple(algorithm, network, call) * algorithm.share_factor;
  const double share = protocol == kNcclSimple ? simple : p == 0 ? network.share_ll : network.share_ll128;
  Seconds outside = algorithm.outgoing / (algorithm.network * share);
  if (protocol == kNcclSimple) outside = std::max(outside, algorithm.channels_time);
  const Seconds transfer = std::max(outside, algorithm.link_times[p]);
  Seconds latency = algorithm.startup[p] + hop_of(network, call, protocol) * algorithm.hops;
  // Chunks are forwarded from hop to hop: the last chunk leaves after all others and then takes all hops.
  if (protocol == kNcclSimple) latency += std::min(transfer, network.chunk_time * algorithm.hops);
  return {latency + transfer,
          latency,
          transfer.value > 0 ? algorithm.wire / transfer : BytesPerSecond{0},
          algorithm.names[p],
          algorithm.wire,
          algorithm.in_switch,
          transfer > outside ? inside.link_kind : LinkKind::hca,
          algorithm.rings,
          wires_of(network, call) * algorithm.hops};
}

/// Least latency of a step of a ring inside a node by Simple. In one node, sums in the switch and LL128 hide the steps
/// of Simple, so that a fit may find 0 for them (the H100's all-reduce); but they matter to rings over many nodes. The
/// figures are those of NVLink and PCIe in NCCL's own cost model (NVIDIA/nccl src/graph/tuning.cc at 5067397c,
/// hwLatencies of rings).
Seconds least_simple_step(const NcclInside& inside) {
  return Seconds{inside.link_kind == LinkKind::pcie ? 5.7e-6 : 3.4e-6};
}

/// A ring through all GPUs. Steps between nodes cost a hop of the network.
NcclAlgorithm ring(const NcclInside& inside, const NcclCall& call) {
  const double rounds = call.operation == NcclOperation::all_reduce ? 2 : 1;  // round the ring
  const int local = call.fewest();
  NcclAlgorithm algorithm{kRingNames, {}, 0, {}, {}, {}, &NcclNetwork::share_ring, {}};
  algorithm.rings = true;
  algorithm.wire = algorithm.outgoing = nccl_wire(call.operation, call.size, call.gpus);
  algorithm.network = call.network;
  algorithm.link_times = link_times(inside, algorithm.wire);
  algorithm.hops = rounds * (call.gpus - 1) * call.nodes / call.gpus;
  for (std::size_t p = 0; p < algorithm.startup.size(); ++p) {
    const Seconds step =
        p == kNcclSimple ? std::max(inside.steps[p], least_simple_step(inside) * rounds) : inside.steps[p];
    const Seconds one_gpu = std::max(Seconds{0}, inside.protocols[p].startup - step * (local - 1));
    algorithm.startup[p] = one_gpu + step * (static_cast<double>(call.gpus - 1) * (local - 1) / local);
  }
  return algorithm;
}

/// Bytes that the busiest node of two complementary binary trees sends, relative to the buffer. Each tree carries half
/// of the buffer. With two nodes, each sends half up one tree and half down the other. From four nodes on, a node is
/// inner in one tree (one up, two down) and a leaf in the other (one up).
double tree_load(int nodes) { return nodes == 2 ? 1 : nodes == 3 ? 1.5 : 2; }

double levels(int nodes) { return static_cast<double>(std::bit_width(static_cast<unsigned>(nodes - 1))); }

/// Rate of trees of three or more nodes relative to that of two nodes, in which each node has one neighbour. In larger
/// trees one GPU of a node serves a parent and two children (NVIDIA/nccl src/graph/tuning.cc: busBw *= .85 for that
/// pattern; src/graph/search.cc uses it from Hopper on). On earlier GPUs two GPUs share this work; the same factor is
/// assumed for them.
constexpr double kBranching = 0.85;

/// Returns the rate at which the channels of a tree over two nodes sum by Simple: half of what they carry up and down. A
/// tree has as many channels as the ring: one for each adapter, or two if a channel has 25 GB/s, and from Hopper on with
/// more than four adapters 50 GB/s (NVIDIA/nccl src/init.cc, and src/graph/search.cc: ncclTopoDupChannels). Headers take
/// 4 % of an adapter's rate, so that one of 200 Gbit/s has 24 GB/s.
BytesPerSecond channels_rate(const NcclInside& inside, const NcclCall& call) {
  constexpr double kPayload = 0.96, kFew = 4;
  constexpr BytesPerSecond kTwo{25e9}, kTwoFromHopper{50e9};
  const BytesPerSecond adapter =
      call.adapter.value > 0 ? call.adapter : call.network / static_cast<double>(call.fewest());
  const double adapters = call.network / adapter;
  const bool two = adapter * kPayload >= (inside.from_hopper && adapters > kFew ? kTwoFromHopper : kTwo);
  return inside.tree_channel * (adapters * (two ? 2 : 1) / 2);
}

/// Up and down double binary trees over the nodes, with a chain through the GPUs of each (Jeaugey 2019).
NcclAlgorithm tree(const NcclInside& inside, const NcclCall& call) {
  // Rate of a chain relative to that of a ring: NVIDIA/nccl src/graph/tuning.cc (busBw * .92); data go up and down the
  // same links.
  constexpr double kChain = 0.92, kBothWays = 2;
  NcclAlgorithm algorithm{{"tree, LL", "tree, LL128", "tree, Simple"}, {}, 0, {}, {}, {}, &NcclNetwork::share_tree, {}};
  algorithm.wire = algorithm.outgoing = call.size * tree_load(call.nodes);
  algorithm.network = call.network;
  algorithm.link_times = link_times(inside, call.size * (kBothWays / kChain));
  algorithm.hops = 2 * levels(call.nodes);
  if (call.nodes > 2) algorithm.share_factor = kBranching;
  if (call.nodes == 2 && inside.tree_channel.value > 0)
    algorithm.channels_time = call.size / channels_rate(inside, call);
  for (std::size_t p = 0; p < algorithm.startup.size(); ++p) algorithm.startup[p] = inside.protocols[p].startup;
  return algorithm;
}

/// NVLS tree: the trees between nodes of `tree`, with sums inside a node made in its switch. Protocol Simple only.
NcclAlgorithm nvls_tree(const NcclInside& inside, const NcclCall& call) {
  // Share of the switch's rate in one node that remains while blocks go up and down the tree. In seven sources, two
  // nodes of H100 on InfiniBand have 249 GB/s of algorithm bandwidth, one node 259
  // (scenarios/measured/tables/nccl_sweeps.csv).
  constexpr double kWithTree = 0.96;
  NcclAlgorithm algorithm = tree(inside, call);
  algorithm.names.fill("NVLS tree");
  algorithm.channels_time = Seconds{};
  algorithm.startup.fill(inside.in_switch.nvls.startup);
  algorithm.link_times.fill(nccl_in_switch_wire(call.size, call.fewest()) / (inside.in_switch.nvls.rate * kWithTree));
  algorithm.in_switch = true;
  return algorithm;
}

/// Parallel aggregated trees of one GPU a node: the bytes of a ring in steps of doubling length. Three figures are the
/// tuner's: the start-up of a rank, the latency of a hop and the rate relative to a ring's (NVIDIA/nccl
/// src/graph/tuning.cc at v2.29.7-1: nRanks * 2.8 us, interLat / 3.5).
NcclAlgorithm pat(const NcclInside& inside, const NcclCall& call) {
  constexpr Seconds kRank{2.8e-6};
  constexpr double kShorter = 3.5;
  NcclAlgorithm algorithm = ring(inside, call);
  algorithm.names.fill("PAT");
  algorithm.rings = false;
  algorithm.hops = std::max(1.0, levels(call.nodes) / kShorter);
  for (Seconds& startup : algorithm.startup) startup += kRank * call.gpus;
  algorithm.share_factor = call.version.pat_share();
  return algorithm;
}

/// Each rank sends to others directly, over its own adapters. With PXN, NVLink takes the bytes to the node's GPU on the
/// receiver's rail, and they leave by the adapters of that GPU: the messages of one root use the adapters of all GPUs.
NcclAlgorithm pairs(const NcclInside& inside, const NcclNetwork& network, const NcclCall& call) {
  const int local = call.fewest();
  const double elsewhere = static_cast<double>(call.gpus - local) / call.gpus;
  const bool is_all_to_all = call.operation == NcclOperation::alltoall;
  NcclAlgorithm algorithm{kPairNames, {}, 1, {}, {}, {}, &NcclNetwork::share_pairs, {}};
  algorithm.wire = nccl_wire(call.operation, call.size, call.gpus);
  algorithm.link_times = link_times(inside, algorithm.wire);
  if (call.pxn) algorithm.names = {"LL, PXN", "LL128, PXN", "Simple, PXN"};
  algorithm.network = is_all_to_all || (call.pxn && call.operation == NcclOperation::scatter) ? call.network
                      : call.gpu_network.value > 0                                            ? call.gpu_network
                                                   : call.network / static_cast<double>(local);
  algorithm.outgoing = call.operation == NcclOperation::sendrecv ? call.size : call.size * elsewhere;
  if (is_all_to_all) algorithm.outgoing = algorithm.outgoing * static_cast<double>(local);
  const double peers = call.operation == NcclOperation::sendrecv ? 1 : call.gpus - local;
  for (std::size_t p = 0; p < algorithm.startup.size(); ++p)
    algorithm.startup[p] = inside.protocols[p].startup + network.peer * (peers - 1);
  return algorithm;
}

// Fitted by `trainyard fit nccl --launch` to scenarios/measured/tables/nccl_sweeps.csv. NCCL's time is between the 4.2
// us a GPU of a DGX A100 (NVIDIA/nccl-tests issue 123: 16.9, 20.8, 25.2, 29.5 and 33.7 us with -g 4 to 8) and 6.1 us in
// a virtual machine with V100.
constexpr Seconds kNccl{4.6e-6};
constexpr Seconds kRccl{14.9e-6};

/// perChMaxTreeBws of two nodes in NVIDIA/nccl src/graph/tuning.cc at v2.29; Volta's and Ampere's stand there since v2.10.
/// RCCL has others.
BytesPerSecond tree_channel(const std::string& architecture) {
  if (uses_rccl(architecture)) return {};
  if (architecture.starts_with("blackwell")) return BytesPerSecond{42.8e9};
  if (same_name(architecture, "hopper")) return BytesPerSecond{41.4e9};
  const bool is_ampere = same_name(architecture, "ampere") || same_name(architecture, "ada");
  return BytesPerSecond{is_ampere ? 23.6e9 : 18.5e9};
}

}  // namespace

NcclInside nccl_inside(const NcclModel& model, const NcclCall& call) {
  constexpr std::array kProtocols{&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple};
  const int local = call.fewest();
  const NcclCurve curve = nccl_curve(model, call.operation, local, call.machine);
  NcclInside inside;
  for (std::size_t p = 0; p < kProtocols.size(); ++p) {
    inside.protocols[p] = curve.*kProtocols[p];
    if (local == 1) inside.protocols[p].rate = {};  // nothing stays in the node
    inside.steps[p] = nccl_step(model, call.operation, local, kProtocols[p]);
  }
  const bool sums_in_switch = call.in_switch && model.in_switch.from_gpus > 0 && local >= model.in_switch.from_gpus;
  if (sums_in_switch) inside.in_switch = model.in_switch;
  inside.link_kind = model.link_kind;
  inside.from_hopper = model.in_switch.from_gpus > 0;
  inside.tree_channel = tree_channel(model.architecture);
  return inside;
}

NcclCost nccl_cost_between(const NcclInside& inside, const NcclNetwork& network, const NcclCall& call) {
  NcclCost best;
  const auto offer = [&](const NcclAlgorithm& algorithm, int first) {
    for (int p = first; p <= kNcclSimple; ++p) {
      if (p == kNcclLl128 && !call.version.ll128()) continue;
      const NcclCost cost = cost_of(algorithm, p, inside, network, call);
      if (*best.protocol == '\0' || cost.time < best.time) best = cost;
    }
  };
  if (sends_by_pairs(call.operation)) {
    offer(pairs(inside, network, call), 0);
    return best;
  }
  offer(ring(inside, call), 0);
  if (call.rings_only) return best;
  if (call.operation == NcclOperation::all_reduce) {
    if (call.version.trees()) offer(tree(inside, call), 0);
    if (inside.in_switch.from_gpus > 0 && call.version.nvls_between()) offer(nvls_tree(inside, call), kNcclSimple);
    for (const NcclAlgorithm& algorithm : collnet_algorithms(inside, call)) offer(algorithm, kNcclSimple);
  } else if (call.fewest() == 1 && call.version.pat()) {
    offer(pat(inside, call), kNcclSimple);
  }
  return best;
}

bool uses_rccl(const std::string& architecture) {
  return architecture.starts_with("cdna") || architecture.starts_with("rdna");
}

Seconds nccl_launch_time(const std::string& architecture) { return uses_rccl(architecture) ? kRccl : kNccl; }

}  // namespace trainyard
