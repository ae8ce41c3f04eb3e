
#include <algorithm>
#include <bit>

#include "models/fitted/nccl_way.hpp"

namespace trainyard {
namespace {

Seconds hop_of(const NcclNetwork& network, const NcclCall& call, int protocol) {
  const Seconds hop = network.hop[static_cast<std::size_t>(protocol)];
  return call.wires.value < 0 ? hop : hop - network.wires + call.wires;
}

/// What a ring or a tree by Simple gets of the adapters. The fitted shares are of rings through all GPUs of a node, which
/// NVLink and the adapters carry in turn; one GPU a node has only its adapter to fill, as two systems of GH200 do
/// (scenarios/measured/tables/nccl_sweeps.csv, gh200-2x1: 0.955 of 200 Gbit/s).
double share_by_simple(const NcclWay& way, const NcclNetwork& network, const NcclCall& call) {
  constexpr double kOwnAdapter = 0.955;
  if (way.share == nullptr) return 1;
  const double share = network.*way.share;
  return call.own_adapter && way.share != &NcclNetwork::share_pairs ? std::max(share, kOwnAdapter) : share;
}

NcclCost cost_of(const NcclWay& way, int protocol, const NcclInside& inside, const NcclNetwork& network,
                 const NcclCall& call) {
  const auto p = static_cast<std::size_t>(protocol);
  const double simple = share_by_simple(way, network, call) * way.of_share;
  const double share = protocol == kNcclSimple ? simple : p == 0 ? network.share_ll : network.share_ll128;
  const Seconds outside = way.leaving / (way.network * share);
  const Seconds transfer = std::max(outside, way.stay[p]);
  Seconds latency = way.startup[p] + hop_of(network, call, protocol) * way.hops;
  // Chunks are passed on from hop to hop: the last one leaves when all have left, and then goes the way to the end.
  if (protocol == kNcclSimple) latency += std::min(transfer, network.chunk_time * way.hops);
  return {latency + transfer, latency,       transfer.value > 0 ? way.wire / transfer : BytesPerSecond{0}, way.names[p],
          way.wire,           way.in_switch, transfer > outside ? inside.link_kind : LinkKind::hca};
}

/// A step of a ring inside a node by Simple, at least. In one node the switch's sums and LL128 hide those of Simple, so that a
/// fit can have none (the H100's all-reduce), which matters to rings over many nodes. NVLink and PCIe of NCCL's own cost
/// model (NVIDIA/nccl src/graph/tuning.cc at 5067397c, hwLatencies of rings).
Seconds least_simple_step(const NcclInside& inside) {
  return Seconds{inside.link_kind == LinkKind::pcie ? 5.7e-6 : 3.4e-6};
}

/// All GPUs in a line; of its steps those between nodes cost a hop.
NcclWay ring(const NcclInside& inside, const NcclCall& call) {
  const double once = call.operation == NcclOperation::all_reduce ? 2 : 1;
  const int local = call.fewest();
  NcclWay way{{"LL", "LL128", "Simple"}, {}, 0, {}, {}, {}, &NcclNetwork::share_ring, {}};
  way.wire = way.leaving = nccl_wire(call.operation, call.size, call.gpus);
  way.network = call.network;
  way.stay = staying_times(inside, way.wire);
  way.hops = once * (call.gpus - 1) * call.nodes / call.gpus;
  for (std::size_t p = 0; p < way.startup.size(); ++p) {
    const Seconds step =
        p == kNcclSimple ? std::max(inside.steps[p], least_simple_step(inside) * once) : inside.steps[p];
    const Seconds one = std::max(Seconds{0}, inside.protocols[p].startup - step * (local - 1));
    way.startup[p] = one + step * (static_cast<double>(call.gpus - 1) * (local - 1) / local);
  }
  return way;
}

/// What the busiest node of two complementary binary trees sends, each of half the buffer, over the buffer: of two nodes
/// each sends half up one tree and half down the other. From four on a node is inner in one tree (one up, two down) and
/// a leaf in the other (one up).
double tree_load(int nodes) { return nodes == 2 ? 1 : nodes == 3 ? 1.5 : 2; }

double levels(int nodes) { return static_cast<double>(std::bit_width(static_cast<unsigned>(nodes - 1))); }

/// What trees of three nodes and more get of the rate of two nodes, where each has one neighbour alone: inside a tree one
/// GPU of a node serves a parent and two children (NVIDIA/nccl src/graph/tuning.cc: busBw *= .85 for that pattern, which
/// src/graph/search.cc takes from Hopper on; earlier GPUs share it between two, and are assumed to get as little).
constexpr double kBranching = 0.85;

/// Up and down double binary trees over the nodes, with a chain through the GPUs of each (Jeaugey 2019).
NcclWay tree(const NcclInside& inside, const NcclCall& call) {
  // What a chain gets of a ring's rate: NVIDIA/nccl src/graph/tuning.cc (busBw * .92), up and down the same links.
  constexpr double kChain = 0.92, kBothWays = 2;
  NcclWay way{{"tree, LL", "tree, LL128", "tree, Simple"}, {}, 0, {}, {}, {}, &NcclNetwork::share_tree, {}};
  way.wire = way.leaving = call.size * tree_load(call.nodes);
  way.network = call.network;
  way.stay = staying_times(inside, call.size * (kBothWays / kChain));
  way.hops = 2 * levels(call.nodes);
  if (call.nodes > 2) way.of_share = kBranching;
  for (std::size_t p = 0; p < way.startup.size(); ++p) way.startup[p] = inside.protocols[p].startup;
  return way;
}

/// The same trees, with the sum inside a node made in its switch; Simple alone.
NcclWay nvls_tree(const NcclInside& inside, const NcclCall& call) {
  // Of the switch's rate in one node, while blocks go up and down the tree too: two nodes of H100 on InfiniBand of seven
  // sources have 249 GB/s of algorithm bandwidth, one node 259 (scenarios/measured/tables/nccl_sweeps.csv).
  constexpr double kWithTree = 0.96;
  NcclWay way = tree(inside, call);
  way.names.fill("NVLS tree");
  way.startup.fill(inside.in_switch.nvls.startup);
  way.stay.fill(nccl_in_switch_wire(call.size, call.fewest()) / (inside.in_switch.nvls.rate * kWithTree));
  way.in_switch = true;
  return way;
}

/// Parallel aggregated trees: a ring's bytes in steps that double, of one GPU a node. What a rank adds to the start-up,
/// how much shorter than a ring's their hops are, and what they get of a ring's rate, are the tuner's (NVIDIA/nccl
/// src/graph/tuning.cc at v2.29.7-1: nRanks * 2.8 us, interLat / 3.5).
NcclWay pat(const NcclInside& inside, const NcclCall& call) {
  constexpr Seconds kRank{2.8e-6};
  constexpr double kShorter = 3.5;
  NcclWay way = ring(inside, call);
  way.names.fill("PAT");
  way.hops = std::max(1.0, levels(call.nodes) / kShorter);
  for (Seconds& startup : way.startup) startup += kRank * call.gpus;
  way.of_share = call.version.pat_share();
  return way;
}

/// Each rank sends to others directly, over the adapters of its own. By PXN, over those of the node's GPU on the
/// receiver's rail, to which its NVLink takes the bytes: one root's messages leave by the adapters of all.
NcclWay pairs(const NcclInside& inside, const NcclNetwork& network, const NcclCall& call) {
  const int local = call.fewest();
  const double elsewhere = static_cast<double>(call.gpus - local) / call.gpus;
  const bool all = call.operation == NcclOperation::alltoall;
  NcclWay way{{"LL", "LL128", "Simple"}, {}, 1, {}, {}, {}, &NcclNetwork::share_pairs, {}};
  way.wire = nccl_wire(call.operation, call.size, call.gpus);
  way.stay = staying_times(inside, way.wire);
  if (call.pxn) way.names = {"LL, PXN", "LL128, PXN", "Simple, PXN"};
  way.network = all || (call.pxn && call.operation == NcclOperation::scatter) ? call.network
                : call.gpu_network.value > 0                                  ? call.gpu_network
                                             : call.network / static_cast<double>(local);
  way.leaving = call.operation == NcclOperation::sendrecv ? call.size : call.size * elsewhere;
  if (all) way.leaving = way.leaving * static_cast<double>(local);
  const double peers = call.operation == NcclOperation::sendrecv ? 1 : call.gpus - local;
  for (std::size_t p = 0; p < way.startup.size(); ++p)
    way.startup[p] = inside.protocols[p].startup + network.peer * (peers - 1);
  return way;
}

bool by_pairs(NcclOperation operation) {
  return operation == NcclOperation::alltoall || operation == NcclOperation::sendrecv ||
         operation == NcclOperation::gather || operation == NcclOperation::scatter;
}

}  // namespace

std::array<Seconds, 3> staying_times(const NcclInside& inside, Bytes bytes) {
  std::array<Seconds, 3> times{};
  for (std::size_t p = 0; p < times.size(); ++p)
    if (inside.protocols[p].rate.value > 0) times[p] = bytes / inside.protocols[p].rate;
  return times;
}

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
  const bool adds = call.in_switch && model.in_switch.from_gpus > 0 && local >= model.in_switch.from_gpus;
  if (adds) inside.in_switch = model.in_switch;
  inside.link_kind = model.link_kind;
  inside.from_hopper = model.in_switch.from_gpus > 0;
  return inside;
}

NcclCost nccl_cost_between(const NcclInside& inside, const NcclNetwork& network, const NcclCall& call) {
  NcclCost best;
  const auto offer = [&](const NcclWay& way, int first) {
    for (int p = first; p <= kNcclSimple; ++p) {
      if (p == kNcclLl128 && !call.version.ll128()) continue;
      const NcclCost cost = cost_of(way, p, inside, network, call);
      if (*best.protocol == '\0' || cost.time < best.time) best = cost;
    }
  };
  if (by_pairs(call.operation)) {
    offer(pairs(inside, network, call), 0);
    return best;
  }
  offer(ring(inside, call), 0);
  if (call.rings_only) return best;
  if (call.operation == NcclOperation::all_reduce) {
    if (call.version.trees()) offer(tree(inside, call), 0);
    if (inside.in_switch.from_gpus > 0 && call.version.nvls_between()) offer(nvls_tree(inside, call), kNcclSimple);
    for (const NcclWay& way : collnet_ways(inside, call)) offer(way, kNcclSimple);
  } else if (call.fewest() == 1 && call.version.pat()) {
    offer(pat(inside, call), kNcclSimple);
  }
  return best;
}

}  // namespace trainyard
