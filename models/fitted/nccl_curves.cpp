#include "models/fitted/nccl_curves.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

#include "models/fitted/nccl_model.hpp"

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
/// GPUs. With more GPUs than were measured it grows with the steps of the ring, because NCCL compares times, and each
/// step by Simple takes longer. The faster protocol at each size would leave two families of MLPerf on 72 GPUs a node
/// 5.7 and 4.4 % off, where this rule leaves 4.3 and 2.8 %. 0: NCCL never uses Simple at one of these numbers, and is
/// assumed not to use it at this one.
Bytes switch_size_at(const std::vector<NcclCurve>& curves, int gpus) {
  const auto above = std::ranges::find_if(curves, [&](const NcclCurve& c) { return c.gpus >= gpus; });
  if (above == curves.end()) {
    const NcclCurve& largest = curves.back();
    return largest.ll128_until * (static_cast<double>(gpus - 1) / (largest.gpus - 1));
  }
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

/// Generations by their years. CDNA 3 (RCCL, a port of NCCL) counts as Hopper's generation.
constexpr std::array<std::pair<std::string_view, int>, 12> kGenerations{{{"kepler", 0},
                                                                         {"maxwell", 1},
                                                                         {"pascal", 2},
                                                                         {"volta", 3},
                                                                         {"turing", 4},
                                                                         {"ampere", 5},
                                                                         {"ada", 6},
                                                                         {"hopper", 7},
                                                                         {"cdna3", 7},
                                                                         {"blackwell", 8},
                                                                         {"blackwell-gb202", 8},
                                                                         {"rubin", 9}}};

/// Generation of an architecture that is not in the list: the second newest, which most clusters have.
constexpr int kUnknownGeneration = 7;

int generation(const std::string& architecture) {
  for (const auto& [name, age] : kGenerations)
    if (same_name(name, architecture)) return age;
  return kUnknownGeneration;
}

/// Ratio of the latencies of a ring's step over PCIe and over NVLink in NCCL's own cost model: 1.0/0.47, 2.5/1.9,
/// 5.7/3.4 us for LL, LL128 and Simple (NVIDIA/nccl src/graph/tuning.cc at 01afd20a, hwLat).
constexpr double kPcieStepLl = 1.0 / 0.47;
/// Difference between a step of Simple and one of LL over PCIe, by the same figures. The start-up of Simple over NVLink
/// cannot be scaled to PCIe: it includes the start of many channels, which PCIe does not need.
constexpr Seconds kPcieSimpleOverLl{(5.7 - 1.0) * 1e-6};
/// LL sends 4 bytes of flag with 4 of data. LL128 is enabled on NVLink only (the same file).
constexpr double kLlShare = 0.5;

double mesh_rate(const Gpu::ChipLinks& links, int gpus) {
  return links.rate.value * std::min(gpus - 1, links.count);  // a ring over each link to another GPU
}

/// Rings reach a larger share of NVLink 1 and 2 than of the later ones: nccl-tests on a DGX-1 with V100 has 129 and 135
/// of 150 GB/s (scenarios/measured/tables/nccl_sweeps.csv), but the fit of the A100 has 0.75 of 300.
constexpr double kNvlink2 = 132.0 / 150 / 0.75;

bool before_nvlink_3(const std::string& architecture) { return generation(architecture) < generation("ampere"); }

template <class Change>
void change_protocols(NcclModel& model, Change change) {
  for (auto& [operation, curves] : model.curves)
    for (NcclCurve& curve : curves) change(curve);
}

void scale_rates(NcclCurve& curve, double factor) {
  for (const auto protocol : {&NcclCurve::ll, &NcclCurve::ll128, &NcclCurve::simple})
    (curve.*protocol).rate = (curve.*protocol).rate * factor;
}

/// Makes the steps of a ring longer by `factor`. The start-up of two GPUs is paid once and stays.
Seconds longer_steps(Seconds startup, Seconds two_gpus, double factor) {
  return startup + std::max(Seconds{0}, startup - two_gpus) * (factor - 1);
}

/// Scales a curve to PCIe and the host. Simple reaches the same share of the link as on NVLink. LL and LL128 keep their
/// rates, but have at most half of Simple's. The ring has `steps` steps in sequence.
void scale_to_pcie(NcclCurve& curve, const NcclCurve& two_gpus, double factor, int steps) {
  curve.simple.rate = curve.simple.rate * factor;
  const BytesPerSecond most = curve.simple.rate * kLlShare;
  curve.ll = {longer_steps(curve.ll.startup, two_gpus.ll.startup, kPcieStepLl), std::min(curve.ll.rate, most)};
  curve.ll128 = {longer_steps(curve.ll128.startup, two_gpus.ll128.startup, kPcieStepLl),
                 std::min(curve.ll128.rate, most)};
  curve.simple.startup = curve.ll.startup + kPcieSimpleOverLl * steps;
  curve.ll128_until = Bytes{0};
}

int steps_of(NcclOperation operation, int gpus) {
  if (operation == NcclOperation::alltoall) return 1;
  return (operation == NcclOperation::all_reduce ? 2 : 1) * (gpus - 1);
}

/// Does the fit `a` suit the GPU better than `b`? A fit with more operations does, because many logs have only one.
/// Among equals, the nearer generation does, and the older one of two at the same distance.
bool suits_better(const NcclModel& a, const NcclModel& b, const Gpu& gpu) {
  const auto distance = [&](const NcclModel& m) {
    const int years = generation(m.architecture) - generation(gpu.architecture);
    return 2 * std::abs(years) + (years > 0 ? 1 : 0);
  };
  if (a.curves.size() != b.curves.size()) return a.curves.size() > b.curves.size();
  return distance(a) < distance(b);
}

/// Takes the operations that a GPU's own fit lacks from the fit of another GPU, scaled.
void borrow_operations(NcclModel& model, const NcclModel& other, const Gpu& gpu) {
  const NcclModel scaled = nccl_scaled(other, gpu);
  std::vector<std::string> borrowed;
  for (const auto& [operation, curves] : scaled.curves)
    if (model.curves.emplace(operation, curves).second) borrowed.emplace_back(name_of(operation));
  if (!borrowed.empty()) model.scaled = fmt::format("{}: {}", fmt::join(borrowed, ", "), scaled.scaled);
}

}  // namespace

bool runs_nccl(const Gpu& gpu) {
  return gpu.kind == ChipKind::gpu && std::ranges::none_of(std::array{"cdna", "rdna", "xe"}, [&](const char* other) {
           return gpu.architecture.starts_with(other);
         });
}

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

NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu) {
  const BytesPerSecond gpu_link = nccl_link(gpu);
  NcclModel scaled = model;
  const double model_link = model.link.value * 1e-9;
  const auto describe_scaling = [&](const std::string& link) {
    scaled.scaled = fmt::format("scaled from {} by {}/{:.4g} GB/s", model.name, link, model_link);
  };
  if (gpu.nvlink.value > 0) {
    const double factor = gpu_link / model.link *
                          (before_nvlink_3(gpu.architecture) && !before_nvlink_3(model.architecture) ? kNvlink2 : 1);
    change_protocols(scaled, [&](NcclCurve& curve) { scale_rates(curve, factor); });
    scaled.in_switch.nvls.rate = scaled.in_switch.nvls.rate * factor;
    describe_scaling(fmt::format("NVLink {:.4g}", gpu_link.value * 1e-9));
    // NVIDIA's switches sum from Hopper's on.
    if (generation(gpu.architecture) < generation("hopper") || !runs_nccl(gpu)) scaled.in_switch = {};
    return scaled;
  }
  scaled.in_switch = {};
  if (gpu.chip_links.count > 0) {
    scaled.link_kind = LinkKind::ici;
    change_protocols(scaled, [&](NcclCurve& curve) {
      scale_rates(curve, mesh_rate(gpu.chip_links, curve.gpus) / model.link.value);
    });
    describe_scaling(fmt::format("{} links of {:.4g}", gpu.chip_links.count, gpu.chip_links.rate.value * 1e-9));
    return scaled;
  }
  if (gpu_link.value <= 0)
    throw UserError(fmt::format("gpu {}: no nvlink, chip_links or pcie, so NCCL cannot be scaled to it", gpu.name));
  scaled.link_kind = LinkKind::pcie;
  for (auto& [operation, curves] : scaled.curves) {
    const NcclCurve two_gpus = curves.front();
    for (NcclCurve& curve : curves)
      scale_to_pcie(curve, two_gpus, gpu_link / model.link, steps_of(operation, curve.gpus));
  }
  describe_scaling(fmt::format("PCIe {:.4g}", gpu_link.value * 1e-9));
  return scaled;
}

BytesPerSecond nccl_link(const Gpu& gpu) {
  if (gpu.kind == ChipKind::tpu)
    throw UserError(fmt::format("gpu {}: a TPU has no NCCL; expected an algorithm, for example torus", gpu.name));
  if (gpu.nvlink.value > 0) return gpu.nvlink;
  return gpu.chip_links.count > 0 ? gpu.chip_links.rate * gpu.chip_links.count : gpu.pcie;
}

int most_measured_gpus(const NcclModel& model) {
  int most = 0;
  for (const auto& [operation, curves] : model.curves) most = std::max(most, curves.back().gpus);
  return most;
}

NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network) {
  const auto named = [](const std::string& name) { return Node::scalar_node(name, Place::named("NCCL's model")); };
  NcclModel model, nearest;
  for (const std::string& name : catalog.names("nccl")) {
    NcclModel fit = read_nccl_model(catalog.resolve("nccl", named(name)));
    if (fit.gpu == gpu.name && fit.link == nccl_link(gpu))
      model = std::move(fit);
    else if (nearest.curves.empty() || suits_better(fit, nearest, gpu))
      nearest = std::move(fit);
  }
  if (model.curves.empty() && nearest.curves.empty()) throw UserError("the catalog has no fit of NCCL (nccls/*.yaml)");
  if (model.curves.empty()) {
    model = nccl_scaled(nearest, gpu);
  } else {
    model.link_kind = gpu.nvlink.value > 0       ? LinkKind::nvlink
                      : gpu.chip_links.count > 0 ? LinkKind::ici
                                                 : LinkKind::pcie;
    if (!nearest.curves.empty()) borrow_operations(model, nearest, gpu);
  }
  model.between = read_nccl_network(catalog.resolve("nccl-network", named(network)));
  return model;
}

}  // namespace trainyard
