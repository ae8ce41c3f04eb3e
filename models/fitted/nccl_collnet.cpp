// CollNet: each node sends its sum into the network once, whose switches add, and gets the sum of all back. What the
// tuner gives it over rings and trees is from NVIDIA/nccl src/graph/tuning.cc at v2.29.7-1.
#include <algorithm>

#include "models/fitted/nccl_way.hpp"

namespace trainyard {
namespace {

/// What streams that the switches add reach of an adapter: NVIDIA's rule of thumb for NCCL, 20 GB/s by one of 200 Gbit/s
/// (NVIDIA/nccl issue 320). Graham et al. 2020, "SHARP Streaming-Aggregation Hardware Design and Evaluation" (abstract in
/// ISC's program), have about 96 % of point-to-point bandwidth.
constexpr double kOfAdapter = 20.0 / 25;

// The way to the switches and back, over a hop of a tree between nodes by Simple (hwLatencies, NET: 30, 31, 18 and 14 us).
constexpr double kChainHops = 30.0 / 14, kDirectHops = 31.0 / 14, kNvlsHops = 18.0 / 14;

// Inside a node (hwLatencies, NVLINK): a step of a chain; the one exchange of all with all, and what each more adds.
constexpr double kChainStep = 2.8, kDirectStep = 3.7, kDirectPeer = 0.4;

/// What the tuner gives chains of the node's links, and exchanges of all with all (COLLNET: busBw *= .9 to 2.13;
/// COLLNET_CHAIN: busBw *= .75 from 2.14 to 2.17).
double chain_share(NcclVersion version) {
  if (version < NcclVersion{2, 14}) return 0.9;
  return version < NcclVersion{2, 18} ? 0.75 : 1;
}
double direct_share(NcclVersion version) { return version < NcclVersion{2, 14} ? 0.9 : 1; }

/// Of Hopper's and later links, exchanges of all with all get so much (COLLNET_DIRECT: busBw *= .85).
constexpr double kDirectOnHopper = 0.85;

/// Of the rate of an NVSwitch that adds, while the network adds too: as for trees (see nvls_tree).
constexpr double kWithNetwork = 0.96;

NcclWay by_network(const char* name, const NcclCall& call, double hops) {
  NcclWay way{{name, name, name}, {}, hops, call.size, call.network, {}, nullptr, call.size};
  way.in_switch = true;
  way.of_share = kOfAdapter;
  return way;
}

Seconds without_steps(const NcclInside& inside, int local) {
  return std::max(Seconds{0}, inside.protocols[kNcclSimple].startup - inside.steps[kNcclSimple] * (local - 1));
}

/// A chain through the GPUs of a node to the one that sends, and back: all bytes twice by each link.
NcclWay collnet_chain(const NcclInside& inside, const NcclCall& call) {
  NcclWay way = by_network("CollNet chain", call, kChainHops);
  way.startup.fill(inside.protocols[kNcclSimple].startup);
  way.stay = staying_times(inside, call.size * (2 / chain_share(call.version)));
  return way;
}

/// Every GPU gives each sender its part, and gets the sums back. Where not every GPU has an adapter of its own, the
/// senders' links carry more (COLLNET_DIRECT: factor -= (factor-1)/2).
NcclWay collnet_direct(const NcclInside& inside, const NcclCall& call) {
  const int local = call.fewest();
  const double a_sender = std::max(1.0, static_cast<double>(local) / (call.adapters > 0 ? call.adapters : local));
  const double chain_steps = kChainStep * (local - 1), direct_steps = kDirectStep + kDirectPeer * (local - 1);
  NcclWay way = by_network("CollNet direct", call, kDirectHops);
  const Seconds once = without_steps(inside, local);
  way.startup.fill(once + (inside.protocols[kNcclSimple].startup - once) * std::min(1.0, direct_steps / chain_steps));
  const double share = direct_share(call.version) * (inside.from_hopper ? kDirectOnHopper : 1);
  way.stay = staying_times(inside, call.size * (2 * (a_sender - (a_sender - 1) / 2) / share));
  return way;
}

/// The node's own switch adds too.
NcclWay nvls_collnet(const NcclInside& inside, const NcclCall& call) {
  NcclWay way = by_network("NVLS, SHARP", call, kNvlsHops);
  way.startup.fill(inside.in_switch.nvls.startup);
  way.stay.fill(nccl_in_switch_wire(call.size, call.fewest()) / (inside.in_switch.nvls.rate * kWithNetwork));
  return way;
}

}  // namespace

std::vector<NcclWay> collnet_ways(const NcclInside& inside, const NcclCall& call) {
  std::vector<NcclWay> ways;
  if (!call.sharp || call.operation != NcclOperation::all_reduce) return ways;
  if (call.version.collnet_chain()) ways.push_back(collnet_chain(inside, call));
  if (call.version.collnet_direct() && call.nvswitch && call.fewest() > 1) ways.push_back(collnet_direct(inside, call));
  if (call.version.nvls_between() && inside.in_switch.from_gpus > 0) ways.push_back(nvls_collnet(inside, call));
  return ways;
}

}  // namespace trainyard
