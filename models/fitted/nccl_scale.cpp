#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {
namespace {

/// Generations in the order of their years. CDNA 3 (RCCL, a port of NCCL) is of Hopper's.
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

/// Of an architecture that is not in the list: as the newest but one, which most clusters have.
constexpr int kUnknownGeneration = 7;

int generation(const std::string& architecture) {
  for (const auto& [name, age] : kGenerations)
    if (same_name(name, architecture)) return age;
  return kUnknownGeneration;
}

/// Latencies of a step of a ring in NCCL's own cost model, PCIe over NVLink: 1.0/0.47, 2.5/1.9, 5.7/3.4 us of LL, LL128 and
/// Simple (NVIDIA/nccl src/graph/tuning.cc at 01afd20a, hwLat).
constexpr double kPcieStepLl = 1.0 / 0.47;
/// By PCIe a step of Simple takes so much longer than one of LL, by the same figures: the start-up of NVLink's Simple has
/// that of its many channels in it, which PCIe does not need.
constexpr Seconds kPcieSimpleOverLl{(5.7 - 1.0) * 1e-6};
/// LL sends 4 bytes of flag with 4 of data; LL128 is for NVLink alone (the same file: enabled on NVLink only).
constexpr double kLlShare = 0.5;

double mesh_rate(const Gpu::ChipLinks& links, int gpus) {
  return links.rate.value * std::min(gpus - 1, links.count);  // a ring over each link to another GPU
}

/// Rings get more of NVLink 1 and 2 than of the later ones: nccl-tests on a DGX-1 with V100 has 129 and 135 of 150 GB/s
/// (scenarios/measured/tables/nccl_sweeps.csv), where the fit of the A100 has 0.75 of 300.
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

/// Steps of a ring take longer, what is paid once does not.
Seconds longer_steps(Seconds startup, Seconds of_two, double factor) {
  return startup + std::max(Seconds{0}, startup - of_two) * (factor - 1);
}

/// Through PCIe and the host: Simple at the link's share that NCCL gets of NVLink; below it LL in the place of both others,
/// at its own rate while the link carries that. `steps` of the ring, one after another.
void put_on_pcie(NcclCurve& curve, const NcclCurve& of_two, double factor, int steps) {
  curve.simple.rate = curve.simple.rate * factor;
  const BytesPerSecond most = curve.simple.rate * kLlShare;
  curve.ll = {longer_steps(curve.ll.startup, of_two.ll.startup, kPcieStepLl), std::min(curve.ll.rate, most)};
  curve.ll128 = {longer_steps(curve.ll128.startup, of_two.ll128.startup, kPcieStepLl),
                 std::min(curve.ll128.rate, most)};
  curve.simple.startup = curve.ll.startup + kPcieSimpleOverLl * steps;
  curve.ll128_until = Bytes{0};
}

int steps_of(NcclOperation operation, int gpus) {
  if (operation == NcclOperation::alltoall) return 1;
  return (operation == NcclOperation::all_reduce ? 2 : 1) * (gpus - 1);
}

/// Is `a` nearer to the GPU's generation than `b`? First whose fit has more operations: a log has often one. Of two
/// equally far, the older.
bool nearer(const NcclModel& a, const NcclModel& b, const Gpu& gpu) {
  const auto distance = [&](const NcclModel& m) {
    const int years = generation(m.architecture) - generation(gpu.architecture);
    return 2 * std::abs(years) + (years > 0 ? 1 : 0);
  };
  if (a.curves.size() != b.curves.size()) return a.curves.size() > b.curves.size();
  return distance(a) < distance(b);
}

/// A GPU's own log may hold one operation; the others are those of the generation, scaled.
void borrow_operations(NcclModel& model, const NcclModel& from, const Gpu& gpu) {
  const NcclModel scaled = nccl_scaled(from, gpu);
  std::vector<std::string> borrowed;
  for (const auto& [operation, curves] : scaled.curves)
    if (model.curves.emplace(operation, curves).second) borrowed.emplace_back(name_of(operation));
  if (!borrowed.empty()) model.scaled = fmt::format("{}: {}", fmt::join(borrowed, ", "), scaled.scaled);
}

}  // namespace

NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu) {
  NcclModel scaled = model;
  const double own = model.link.value * 1e-9;
  const auto says = [&](const std::string& link) {
    scaled.scaled = fmt::format("scaled from {} by {}/{:.4g} GB/s", model.name, link, own);
  };
  if (gpu.kind == ChipKind::tpu) throw UserError(fmt::format("gpu {}: a TPU has no NCCL", gpu.name));
  if (gpu.nvlink.value > 0) {
    const double factor = gpu.nvlink / model.link *
                          (before_nvlink_3(gpu.architecture) && !before_nvlink_3(model.architecture) ? kNvlink2 : 1);
    change_protocols(scaled, [&](NcclCurve& curve) { scale_rates(curve, factor); });
    scaled.in_switch.nvls.rate = scaled.in_switch.nvls.rate * factor;
    says(fmt::format("NVLink {:.4g}", gpu.nvlink.value * 1e-9));
    // Switches add from Hopper's on.
    if (generation(gpu.architecture) < generation("hopper")) scaled.in_switch = {};
    return scaled;
  }
  scaled.in_switch = {};
  if (gpu.chip_links.count > 0) {
    scaled.link_kind = LinkKind::ici;
    change_protocols(scaled, [&](NcclCurve& curve) {
      scale_rates(curve, mesh_rate(gpu.chip_links, curve.gpus) / model.link.value);
    });
    says(fmt::format("{} links of {:.4g}", gpu.chip_links.count, gpu.chip_links.rate.value * 1e-9));
    return scaled;
  }
  if (gpu.pcie.value <= 0)
    throw UserError(fmt::format("gpu {}: no nvlink, chip_links or pcie, so NCCL cannot be scaled to it", gpu.name));
  scaled.link_kind = LinkKind::pcie;
  for (auto& [operation, curves] : scaled.curves) {
    const NcclCurve of_two = curves.front();
    for (NcclCurve& curve : curves) put_on_pcie(curve, of_two, gpu.pcie / model.link, steps_of(operation, curve.gpus));
  }
  says(fmt::format("PCIe {:.4g}", gpu.pcie.value * 1e-9));
  return scaled;
}

BytesPerSecond nccl_link(const Gpu& gpu) {
  if (gpu.nvlink.value > 0) return gpu.nvlink;
  return gpu.chip_links.count > 0 ? gpu.chip_links.rate * gpu.chip_links.count : gpu.pcie;
}

NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network) {
  const auto named = [](const std::string& name) { return Node::of_text(name, Place::of("NCCL's model")); };
  NcclModel model, nearest;
  for (const std::string& name : catalog.names("nccl")) {
    NcclModel fit = read_nccl_model(catalog.resolve("nccl", named(name)));
    if (fit.gpu == gpu.name && fit.link == nccl_link(gpu))
      model = std::move(fit);
    else if (nearest.curves.empty() || nearer(fit, nearest, gpu))
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
