#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {
namespace {

/// Generations by their years. CDNA 3 (RCCL, a port of NCCL) counts as Hopper's generation.
constexpr std::array<std::pair<std::string_view, int>, 11> kGenerations{{{"kepler", 0},
                                                                         {"maxwell", 1},
                                                                         {"pascal", 2},
                                                                         {"volta", 3},
                                                                         {"turing", 4},
                                                                         {"ampere", 5},
                                                                         {"ada", 6},
                                                                         {"hopper", 7},
                                                                         {"cdna3", 7},
                                                                         {"blackwell", 8},
                                                                         {"blackwell-gb202", 8}}};

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

NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu) {
  NcclModel scaled = model;
  const double model_link = model.link.value * 1e-9;
  const auto describe_scaling = [&](const std::string& link) {
    scaled.scaled = fmt::format("scaled from {} by {}/{:.4g} GB/s", model.name, link, model_link);
  };
  if (gpu.kind == ChipKind::tpu) throw UserError(fmt::format("gpu {}: a TPU has no NCCL", gpu.name));
  if (gpu.nvlink.value > 0) {
    const double factor = gpu.nvlink / model.link *
                          (before_nvlink_3(gpu.architecture) && !before_nvlink_3(model.architecture) ? kNvlink2 : 1);
    change_protocols(scaled, [&](NcclCurve& curve) { scale_rates(curve, factor); });
    scaled.in_switch.nvls.rate = scaled.in_switch.nvls.rate * factor;
    describe_scaling(fmt::format("NVLink {:.4g}", gpu.nvlink.value * 1e-9));
    // Switches sum from Hopper's on.
    if (generation(gpu.architecture) < generation("hopper")) scaled.in_switch = {};
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
  if (gpu.pcie.value <= 0)
    throw UserError(fmt::format("gpu {}: no nvlink, chip_links or pcie, so NCCL cannot be scaled to it", gpu.name));
  scaled.link_kind = LinkKind::pcie;
  for (auto& [operation, curves] : scaled.curves) {
    const NcclCurve two_gpus = curves.front();
    for (NcclCurve& curve : curves)
      scale_to_pcie(curve, two_gpus, gpu.pcie / model.link, steps_of(operation, curve.gpus));
  }
  describe_scaling(fmt::format("PCIe {:.4g}", gpu.pcie.value * 1e-9));
  return scaled;
}

BytesPerSecond nccl_link(const Gpu& gpu) {
  if (gpu.nvlink.value > 0) return gpu.nvlink;
  return gpu.chip_links.count > 0 ? gpu.chip_links.rate * gpu.chip_links.count : gpu.pcie;
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
