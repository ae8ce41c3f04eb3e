#include "models/fitted/nccl_cost.hpp"

#include <fmt/format.h>

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
/// takes as long as the launch.
NcclCost wait_for_launch(NcclCost cost, Seconds launch) {
  if (cost.time >= launch) return cost;
  cost.latency += launch - cost.time;
  cost.time = launch;
  return cost;
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

}  // namespace trainyard
