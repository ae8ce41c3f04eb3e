#include "models/fitted/nccl_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace trainyard {
namespace {

constexpr std::array<const char*, kNcclOperations> kNcclNames{
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv", "gather", "scatter"};

/// The operation whose curves stand for one that was not measured. A pipelined broadcast goes round the ring once as an
/// all-gather does, a reduce as a reduce-scatter; send and receive, gather and scatter are made as all-to-all is.
NcclOperation measured_like(NcclOperation operation) {
  switch (operation) {
    case NcclOperation::broadcast:
      return NcclOperation::all_gather;
    case NcclOperation::reduce:
      return NcclOperation::reduce_scatter;
    case NcclOperation::sendrecv:
    case NcclOperation::gather:
    case NcclOperation::scatter:
      return NcclOperation::alltoall;
    default:
      return operation;
  }
}

/// Start-up of one number of GPUs alone tells no slope. Of the A100, H100 and B200 that were measured, 0.26 to 0.38 of an
/// all-reduce's start-up at 8 GPUs is there before the first hop.
constexpr double kShareBeforeHops = 0.3;

/// The part that every additional GPU adds, and what is there without one.
struct StartupLine {
  Seconds one;  ///< extrapolated to one GPU
  Seconds slope;
};

StartupLine startup_line(const std::vector<NcclCurve>& curves, std::size_t upper, NcclProtocol NcclCurve::*protocol) {
  const Seconds s = (curves[upper].*protocol).startup;
  const int hops = curves[upper].gpus - 1;
  if (upper == 0) return {s * kShareBeforeHops, s * (1 - kShareBeforeHops) / hops};
  const NcclCurve& below = curves[upper - 1];
  const Seconds slope =
      std::max(Seconds{0}, (s - (below.*protocol).startup) / static_cast<double>(curves[upper].gpus - below.gpus));
  return {std::max(Seconds{0}, s - slope * hops), slope};
}

NcclProtocol protocol_at(const std::vector<NcclCurve>& curves, int gpus, NcclProtocol NcclCurve::*protocol) {
  const auto above = std::find_if(curves.begin(), curves.end(), [&](const NcclCurve& c) { return c.gpus >= gpus; });
  if (above == curves.begin() || above == curves.end()) {  // rates stay, start-ups follow the line of the nearest two
    const NcclCurve& nearest = above == curves.end() ? curves.back() : curves.front();
    const std::size_t upper = above == curves.end() ? curves.size() - 1 : std::min<std::size_t>(1, curves.size() - 1);
    const Seconds slope = startup_line(curves, upper, protocol).slope;
    const Seconds startup = (nearest.*protocol).startup + slope * static_cast<double>(gpus - nearest.gpus);
    return {std::max((nearest.*protocol).startup * kShareBeforeHops, startup), (nearest.*protocol).rate};
  }
  const NcclCurve &a = *(above - 1), &b = *above;
  const NcclProtocol &pa = a.*protocol, &pb = b.*protocol;
  const double share =
      static_cast<double>(gpus - a.gpus) / (b.gpus - a.gpus);  // start-ups: linear in the ring's length
  const double left =
      (1.0 / a.gpus - 1.0 / gpus) / (1.0 / a.gpus - 1.0 / b.gpus);  // rates: linear in 1/n, as wire bytes
  return {pa.startup + (pb.startup - pa.startup) * share, pa.rate + (pb.rate - pa.rate) * left};
}

/// The switch to Simple between two that were measured; where one of them never switched, neither does this.
Bytes until_at(const std::vector<NcclCurve>& curves, int gpus) {
  const auto above = std::find_if(curves.begin(), curves.end(), [&](const NcclCurve& c) { return c.gpus >= gpus; });
  if (above == curves.end()) return curves.back().ll128_until;
  if (above == curves.begin() || above->gpus == gpus) return above->ll128_until;
  return Bytes{std::sqrt((above - 1)->ll128_until.value * above->ll128_until.value)};
}

NcclCurve curve_at(const std::vector<NcclCurve>& curves, int gpus) {
  const auto same = std::find_if(curves.begin(), curves.end(), [&](const NcclCurve& c) { return c.gpus == gpus; });
  if (same != curves.end()) return *same;
  return {gpus, protocol_at(curves, gpus, &NcclCurve::ll), protocol_at(curves, gpus, &NcclCurve::ll128),
          protocol_at(curves, gpus, &NcclCurve::simple), until_at(curves, gpus)};
}

/// An operation without rows of its own, by one that has some: half or twice the hops of a ring, the same rates.
std::vector<NcclCurve> curves_with_hops(std::vector<NcclCurve> curves, double hops) {
  const std::vector<NcclCurve> from = curves;
  for (std::size_t i = 0; i < curves.size(); ++i)
    for (const auto protocol : {&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple}) {
      const StartupLine line = startup_line(from, i, protocol);
      (curves[i].*protocol).startup = line.one + line.slope * (hops * (curves[i].gpus - 1));
    }
  return curves;
}

std::vector<NcclCurve> curves_of(const NcclModel& model, NcclOperation operation) {
  const auto at = model.curves.find(operation);
  if (at != model.curves.end()) return at->second;
  const auto reduced = model.curves.find(NcclOperation::all_reduce);
  const bool halves = operation != NcclOperation::all_reduce;  // all others go round the ring once
  if (halves && reduced != model.curves.end()) return curves_with_hops(reduced->second, 0.5);
  const std::vector<NcclCurve>& any = model.curves.begin()->second;
  return halves ? any : curves_with_hops(any, 2);
}

NcclCost cost_by(const char* name, const NcclProtocol& p, Bytes wire, LinkKind links) {
  return {p.time(wire), p.startup, p.rate, name, wire, false, links};
}

/// A send goes to one peer (the start-up of two GPUs), but no byte of it stays at home as half of a two-GPU all-to-all
/// does: the rate is that of the most GPUs measured.
NcclCurve sendrecv_curve(const std::vector<NcclCurve>& curves) {
  NcclCurve curve = curve_at(curves, 2);
  for (const auto protocol : {&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple})
    (curve.*protocol).rate = (curves.back().*protocol).rate;
  return curve;
}

NcclCost cost_in_node(const NcclModel& model, const NcclCall& call, int gpus) {
  const Bytes wire = nccl_wire(call.operation, call.size, gpus);
  const std::vector<NcclCurve> curves = curves_of(model, measured_like(call.operation));
  const NcclCurve curve =
      call.operation == NcclOperation::sendrecv ? sendrecv_curve(curves) : curve_at(curves, std::max(gpus, 2));
  const NcclInSwitch& in_switch = model.in_switch;
  const bool switched = call.operation == NcclOperation::all_reduce && call.in_switch && in_switch.from_gpus > 0 &&
                        gpus >= in_switch.from_gpus;
  NcclCost best = cost_by("Simple", curve.simple, wire, model.link_kind);
  if (switched) {
    best = cost_by("NVLS", in_switch.nvls, nccl_in_switch_wire(call.size, gpus), model.link_kind);
    best.in_switch = true;
  }
  if (curve.ll128_until.value > 0 && call.size > curve.ll128_until) return best;
  for (const NcclCost& other :
       {cost_by("LL128", curve.ll128, wire, model.link_kind), cost_by("LL", curve.ll, wire, model.link_kind)})
    if (other.time <= best.time) best = other;
  return best;
}

/// Steps between nodes, one after another. NCCL's double binary trees carry small all-reduces there and back (Jeaugey
/// 2019); the others have rings only.
double hops_between(NcclOperation operation, int nodes) {
  if (operation == NcclOperation::sendrecv || operation == NcclOperation::alltoall) return 1;
  if (operation == NcclOperation::gather || operation == NcclOperation::scatter) return 1;
  const auto levels = static_cast<double>(std::bit_width(static_cast<unsigned>(nodes - 1)));
  return operation == NcclOperation::all_reduce ? 2 * levels : nodes - 1;
}

/// Bytes that leave a node. Rings cross it once, whatever their number: a GPU's bytes. Point to point, all that its GPUs
/// have for others elsewhere.
Bytes leaving_node(const NcclCall& call, Bytes wire) {
  const int local = call.fewest();
  const double elsewhere = static_cast<double>(call.gpus - local) / call.gpus;
  switch (call.operation) {
    case NcclOperation::alltoall:
      return call.size * (local * elsewhere);
    case NcclOperation::sendrecv:
      return call.size;  // to the next rank: one of a node's sends leaves it
    case NcclOperation::gather:
    case NcclOperation::scatter:
      return call.size * elsewhere;
    default:
      return wire;
  }
}

/// The node's part with its own bytes, then the hops; bytes at the slower of network and node.
NcclCost cost_between_nodes(const NcclModel& model, const NcclCall& call) {
  NcclCall empty = call;
  empty.size = Bytes{0};
  const int local = call.fewest();
  const Bytes wire = nccl_wire(call.operation, call.size, call.gpus);
  const NcclCost inside = local > 1 ? cost_in_node(model, empty, local) : cost_in_node(model, empty, 2);
  const Seconds hop = call.hop.value > 0 ? call.hop : model.between.hop;
  const Seconds latency = inside.latency + hop * hops_between(call.operation, call.nodes);
  const NcclCurve curve = curve_at(curves_of(model, measured_like(call.operation)), std::max(local, 2));
  const Seconds outside = leaving_node(call, wire) / (call.network * model.between.rate_share);
  const Seconds transfer = local > 1 ? std::max(outside, wire / curve.simple.rate) : outside;
  return {latency + transfer,
          latency,
          transfer.value > 0 ? wire / transfer : BytesPerSecond{0},
          "Simple",
          wire,
          false,
          transfer > outside ? model.link_kind : LinkKind::hca};
}

}  // namespace

const char* name_of(NcclOperation o) { return kNcclNames.at(static_cast<std::size_t>(o)); }

NcclOperation parse_nccl_operation(const std::string& name) {
  for (std::size_t i = 0; i < kNcclNames.size(); ++i)
    if (same_name(name, kNcclNames[i])) return static_cast<NcclOperation>(i);
  if (same_name(name, "all-to-all")) return NcclOperation::alltoall;
  throw UserError(fmt::format("unknown operation \"{}\"{}", name, hint(name, {kNcclNames.begin(), kNcclNames.end()})));
}

Bytes nccl_wire(NcclOperation operation, Bytes size, int gpus) {
  const double others = static_cast<double>(gpus - 1) / gpus;
  switch (operation) {
    case NcclOperation::all_reduce:
      return size * (2 * others);
    case NcclOperation::broadcast:
    case NcclOperation::reduce:
    case NcclOperation::sendrecv:
      return gpus > 1 ? size : Bytes{0};
    default:
      return size * others;
  }
}

Bytes nccl_in_switch_wire(Bytes size, int gpus) { return size * (1 + 1.0 / gpus); }

BytesPerSecond nccl_bus_bandwidth(NcclOperation operation, Bytes size, int gpus, Seconds time) {
  return nccl_wire(operation, size, gpus) / time;
}

NcclCost nccl_cost(const NcclModel& model, const NcclCall& call) {
  if (call.gpus < 1 || call.nodes < 1 || (call.local == 0 && call.gpus % call.nodes != 0))
    throw UserError(fmt::format("{}: {} GPUs in {} nodes: expected the same number in each, at least 1",
                                name_of(call.operation), call.gpus, call.nodes));
  if (!(call.size.value >= 0) || !std::isfinite(call.size.value))
    throw UserError(
        fmt::format("{}: a size of {} bytes: expected 0 or more", name_of(call.operation), call.size.value));
  if (model.curves.empty()) throw InternalError("an NCCL model without curves");
  if (call.gpus == 1) {  // in place nothing moves, but the kernel is launched
    const NcclCurve one = curve_at(curves_of(model, measured_like(call.operation)), 1);
    return {one.ll.startup, one.ll.startup, BytesPerSecond{0}, "copy", Bytes{0}, false, model.link_kind};
  }
  if (call.nodes == 1) return cost_in_node(model, call, call.gpus);
  if (call.network.value <= 0)
    throw UserError(fmt::format("{} between {} nodes: no rate of the network", name_of(call.operation), call.nodes));
  return cost_between_nodes(model, call);
}

}  // namespace trainyard
