#include "models/fitted/nccl_cost.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "models/fitted/nccl_algorithm.hpp"
#include "models/fitted/nccl_between.hpp"
#include "models/fitted/nccl_curves.hpp"

namespace trainyard {
namespace {

NcclCost cost_by(const char* name, const NcclProtocol& p, Bytes wire, LinkKind links, bool rings) {
  return {p.time(wire), p.startup, p.rate, name, wire, false, links, rings};
}

NcclCost cost_in_node(const NcclModel& model, const NcclCall& call) {
  const Bytes wire = nccl_wire(call.operation, call.size, call.gpus);
  const NcclCurve curve = nccl_curve(model, call.operation, call.gpus, call.machine);
  const NcclInSwitch& in_switch = model.in_switch;
  const bool switched = call.operation == NcclOperation::all_reduce && call.in_switch && !call.rings_only &&
                        call.version.nvls() && in_switch.from_gpus > 0 && call.gpus >= in_switch.from_gpus;
  const bool rings = !sends_by_pairs(call.operation);
  const std::array<const char*, 3>& names = rings ? kRingNames : kPairNames;
  NcclCost best = cost_by(names[kNcclSimple], curve.simple, wire, model.link_kind, rings);
  if (switched) {
    best = cost_by("NVLS", in_switch.nvls, nccl_in_switch_wire(call.size, call.gpus), model.link_kind, false);
    best.in_switch = true;
  }
  if (curve.ll128_until.value > 0 && call.size > curve.ll128_until) return best;
  const NcclCost ll128 = cost_by(names[kNcclLl128], curve.ll128, wire, model.link_kind, rings);
  const NcclCost ll = cost_by(names[0], curve.ll, wire, model.link_kind, rings);
  if (call.version.ll128() && ll128.time <= best.time) best = ll128;
  if (ll.time <= best.time) best = ll;
  return best;
}

/// The host launches the next call while the GPUs execute this one. A call that takes less time than a launch therefore
/// takes as long as the launch, whatever the latency of the network.
NcclCost wait_for_launch(NcclCost cost, Seconds launch) {
  if (cost.time >= launch) return cost;
  cost.latency += launch - cost.time;
  cost.time = launch;
  cost.wires = Seconds{};
  return cost;
}

// CollNet: each node sends its sum into the network once, the switches of the network sum, and each node gets the total
// sum back. Latencies and rates relative to rings and trees are those of NCCL's tuner (NVIDIA/nccl src/graph/tuning.cc
// at v2.29.7-1).

/// Share of an adapter's rate that sums in switches reach: NVIDIA's rule of thumb for NCCL, 20 GB/s by an adapter of
/// 200 Gbit/s (NVIDIA/nccl issue 320). Graham et al. 2020, "SHARP Streaming-Aggregation Hardware Design and Evaluation"
/// (abstract in ISC's program), have about 96 % of point-to-point bandwidth.
constexpr double kAdapterShare = 20.0 / 25;

// Latencies to the switches and back, relative to a hop of a tree between nodes by Simple (hwLatencies, NET: 30, 31, 18
// and 14 us).
constexpr double kChainHops = 30.0 / 14, kDirectHops = 31.0 / 14, kNvlsHops = 18.0 / 14;

// Latencies inside a node (hwLatencies, NVLINK): a step of a chain; the exchange of all with all, and its growth for
// each additional GPU.
constexpr double kChainStep = 2.8, kDirectStep = 3.7, kDirectPeer = 0.4;

/// Shares of the node's links that the tuner assumes for chains and for exchanges of all with all (COLLNET: busBw *= .9
/// to 2.13; COLLNET_CHAIN: busBw *= .75 from 2.14 to 2.17).
double chain_share(NcclVersion version) {
  if (version < NcclVersion{2, 14}) return 0.9;
  return version < NcclVersion{2, 18} ? 0.75 : 1;
}
double direct_share(NcclVersion version) { return version < NcclVersion{2, 14} ? 0.9 : 1; }

/// Share of the links from Hopper on that exchanges of all with all reach (COLLNET_DIRECT: busBw *= .85).
constexpr double kDirectOnHopper = 0.85;

/// Share of the rate of a summing NVSwitch while the network sums too: the same as for trees (see nvls_tree).
constexpr double kWithNetwork = 0.96;

NcclAlgorithm network_algorithm(const char* name, const NcclCall& call, double hops) {
  NcclAlgorithm algorithm{{name, name, name}, {}, hops, call.size, call.network, {}, nullptr, call.size};
  algorithm.in_switch = true;
  algorithm.share_factor = kAdapterShare;
  return algorithm;
}

Seconds startup_without_steps(const NcclInside& inside, int local) {
  return std::max(Seconds{0}, inside.protocols[kNcclSimple].startup - inside.steps[kNcclSimple] * (local - 1));
}

/// A chain through the GPUs of a node to the GPU that sends, and back: all bytes cross each link twice.
NcclAlgorithm collnet_chain(const NcclInside& inside, const NcclCall& call) {
  NcclAlgorithm algorithm = network_algorithm("CollNet chain", call, kChainHops);
  algorithm.startup.fill(inside.protocols[kNcclSimple].startup);
  algorithm.link_times = link_times(inside, call.size * (2 / chain_share(call.version)));
  return algorithm;
}

/// Every GPU gives each sending GPU its part, and gets the sums back. If not every GPU has an adapter of its own, the
/// senders' links carry more (COLLNET_DIRECT: factor -= (factor-1)/2).
NcclAlgorithm collnet_direct(const NcclInside& inside, const NcclCall& call) {
  const int local = call.fewest();
  const double gpus_per_sender =
      std::max(1.0, static_cast<double>(local) / (call.adapters > 0 ? call.adapters : local));
  const double chain_steps = kChainStep * (local - 1), direct_steps = kDirectStep + kDirectPeer * (local - 1);
  NcclAlgorithm algorithm = network_algorithm("CollNet direct", call, kDirectHops);
  const Seconds fixed = startup_without_steps(inside, local);
  algorithm.startup.fill(fixed +
                         (inside.protocols[kNcclSimple].startup - fixed) * std::min(1.0, direct_steps / chain_steps));
  const double share = direct_share(call.version) * (inside.from_hopper ? kDirectOnHopper : 1);
  algorithm.link_times = link_times(inside, call.size * (2 * (gpus_per_sender - (gpus_per_sender - 1) / 2) / share));
  return algorithm;
}

/// The node's own NVSwitch sums the data of its GPUs before the network sums those of the nodes.
NcclAlgorithm nvls_collnet(const NcclInside& inside, const NcclCall& call) {
  NcclAlgorithm algorithm = network_algorithm("NVLS, SHARP", call, kNvlsHops);
  algorithm.startup.fill(inside.in_switch.nvls.startup);
  algorithm.link_times.fill(nccl_in_switch_wire(call.size, call.fewest()) /
                            (inside.in_switch.nvls.rate * kWithNetwork));
  return algorithm;
}

}  // namespace

NcclCost nccl_cost(const NcclModel& model, const NcclCall& call) {
  if (call.gpus < 1 || call.nodes < 1 || (call.local == 0 && call.gpus % call.nodes != 0))
    throw UserError(fmt::format("{}: {} GPUs in {} nodes: expected the same number in each, at least 1",
                                name_of(call.operation), call.gpus, call.nodes));
  if (!(call.size.value >= 0) || !std::isfinite(call.size.value))
    throw UserError(
        fmt::format("{}: a size of {} bytes: expected 0 or more", name_of(call.operation), call.size.value));
  if (model.curves.empty()) throw InternalError("an NCCL model without curves");
  if (call.gpus == 1) {  // in place nothing moves, but the kernel is launched
    const NcclCurve curve = nccl_curve(model, call.operation, 1);
    return wait_for_launch(
        {curve.ll.startup, curve.ll.startup, BytesPerSecond{0}, "copy", Bytes{0}, false, model.link_kind}, call.launch);
  }
  if (call.nodes == 1) return wait_for_launch(cost_in_node(model, call), call.launch);
  if (call.network.value <= 0)
    throw UserError(fmt::format("{} between {} nodes: no rate of the network", name_of(call.operation), call.nodes));
  return wait_for_launch(nccl_cost_between(nccl_inside(model, call), model.between, call), call.launch);
}

std::vector<NcclAlgorithm> collnet_algorithms(const NcclInside& inside, const NcclCall& call) {
  std::vector<NcclAlgorithm> algorithms;
  if (!call.sharp || call.operation != NcclOperation::all_reduce) return algorithms;
  if (call.version.collnet_chain()) algorithms.push_back(collnet_chain(inside, call));
  if (call.version.collnet_direct() && call.nvswitch && call.fewest() > 1)
    algorithms.push_back(collnet_direct(inside, call));
  if (call.version.nvls_between() && inside.in_switch.from_gpus > 0) algorithms.push_back(nvls_collnet(inside, call));
  return algorithms;
}

}  // namespace trainyard
