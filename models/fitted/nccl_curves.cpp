#include "models/fitted/nccl_curves.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

/// Returns the operation whose measured curves are used for an operation. Some operations were not measured: a pipelined
/// broadcast goes round the ring once like an all-gather, and a reduce like a reduce-scatter; send-receive, gather and
/// scatter are made like all-to-all.
NcclOperation measured_operation(NcclOperation operation) {
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

/// The start-up measured for a single number of GPUs gives no slope. On the measured A100, H100 and B200, 0.26 to 0.38
/// of an all-reduce's start-up at 8 GPUs comes before the first hop.
constexpr double kShareBeforeHops = 0.3;

/// Start-up as a linear function of the number of GPUs.
struct StartupLine {
  Seconds one_gpu;  ///< extrapolated to one GPU
  Seconds slope;    ///< for each additional GPU
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
  const auto above = std::ranges::find_if(curves, [&](const NcclCurve& c) { return c.gpus >= gpus; });
  if (above == curves.begin() ||
      above == curves.end()) {  // the rate stays, the start-up follows the line through the nearest two
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
  const double rate_share =
      (1.0 / a.gpus - 1.0 / gpus) / (1.0 / a.gpus - 1.0 / b.gpus);  // rates: linear in 1/n, as wire bytes
  return {pa.startup + (pb.startup - pa.startup) * share, pa.rate + (pb.rate - pa.rate) * rate_share};
}

/// Returns the size from which NCCL uses Simple: the geometric mean of those at the two nearest measured numbers of
/// GPUs. 0: NCCL never uses Simple at one of these numbers, and is assumed not to use it at this one.
Bytes switch_size_at(const std::vector<NcclCurve>& curves, int gpus) {
  const auto above = std::ranges::find_if(curves, [&](const NcclCurve& c) { return c.gpus >= gpus; });
  if (above == curves.end()) return curves.back().ll128_until;
  if (above == curves.begin() || above->gpus == gpus) return above->ll128_until;
  return Bytes{std::sqrt((above - 1)->ll128_until.value * above->ll128_until.value)};
}

NcclCurve curve_at(const std::vector<NcclCurve>& curves, int gpus) {
  const auto same = std::ranges::find_if(curves, [&](const NcclCurve& c) { return c.gpus == gpus; });
  if (same != curves.end()) return *same;
  return {gpus, protocol_at(curves, gpus, &NcclCurve::ll), protocol_at(curves, gpus, &NcclCurve::ll128),
          protocol_at(curves, gpus, &NcclCurve::simple), switch_size_at(curves, gpus)};
}

/// Derives the curves of an operation that was not measured from those of another: `hops` times the hops, the same
/// rates.
std::vector<NcclCurve> curves_with_hops(std::vector<NcclCurve> curves, double hops) {
  const std::vector<NcclCurve> measured = curves;
  for (std::size_t i = 0; i < curves.size(); ++i)
    for (const auto protocol : {&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple}) {
      const StartupLine line = startup_line(measured, i, protocol);
      (curves[i].*protocol).startup = line.one_gpu + line.slope * (hops * (curves[i].gpus - 1));
    }
  return curves;
}

std::vector<NcclCurve> curves_of(const NcclModel& model, NcclOperation operation) {
  const auto measured = model.curves.find(operation);
  if (measured != model.curves.end()) return measured->second;
  const auto reduced = model.curves.find(NcclOperation::all_reduce);
  const bool halves = operation != NcclOperation::all_reduce;  // all others go round the ring once
  if (halves && reduced != model.curves.end()) return curves_with_hops(reduced->second, 0.5);
  const std::vector<NcclCurve>& any = model.curves.begin()->second;
  return halves ? any : curves_with_hops(any, 2);
}

/// A send goes to one peer, so it has the start-up of two GPUs. In a two-GPU all-to-all half of the bytes stay on the
/// GPU, but all bytes of a send leave it, so the rate is that of the largest measured number of GPUs.
NcclCurve sendrecv_curve(const std::vector<NcclCurve>& curves) {
  NcclCurve curve = curve_at(curves, 2);
  for (const auto protocol : {&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple})
    (curve.*protocol).rate = (curves.back().*protocol).rate;
  return curve;
}

/// Sets the rates if the node's links are the limit: Simple has the rate of the links, LL at most half of it, because
/// LL sends 4 bytes of flag with 4 of data.
void limit_rates(NcclCurve& curve, BytesPerSecond machine) {
  constexpr double kLlShare = 0.5;
  curve.simple.rate = machine;
  curve.ll.rate = std::min(curve.ll.rate, machine * kLlShare);
  curve.ll128.rate = std::min(curve.ll128.rate, machine * kLlShare);
}

}  // namespace

NcclCurve nccl_curve(const NcclModel& model, NcclOperation operation, int gpus, BytesPerSecond machine) {
  const std::vector<NcclCurve> curves = curves_of(model, measured_operation(operation));
  NcclCurve curve = operation == NcclOperation::sendrecv ? sendrecv_curve(curves) : curve_at(curves, gpus);
  if (machine.value > 0) limit_rates(curve, machine);
  return curve;
}

Seconds nccl_step(const NcclModel& model, NcclOperation operation, int gpus, NcclProtocol NcclCurve::*protocol) {
  const std::vector<NcclCurve> curves = curves_of(model, measured_operation(operation));
  const auto above = std::ranges::find_if(curves, [&](const NcclCurve& c) { return c.gpus >= gpus; });
  const std::size_t upper =
      above == curves.end() ? curves.size() - 1 : static_cast<std::size_t>(above - curves.begin());
  return startup_line(curves, std::max<std::size_t>(upper, curves.size() > 1 ? 1 : 0), protocol).slope;
}

}  // namespace trainyard
