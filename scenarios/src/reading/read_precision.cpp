#include "scenarios/src/reading/read_precision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trainyard {
namespace {

/// A name of a plan's precision that states the scaling too, in the words of Megatron Bridge and TransformerEngine.
struct ScaledPrecision {
  const char* name;
  Fp8Scaling scaling;
};
constexpr std::array<ScaledPrecision, 6> kScaledPrecisions{{{"mxfp8", Fp8Scaling::block},
                                                            {"fp8-cs", Fp8Scaling::current},
                                                            {"fp8-ds", Fp8Scaling::delayed},
                                                            {"nvfp4", Fp8Scaling::nvfp4},
                                                            {"mxfp4", Fp8Scaling::mxfp4},
                                                            {"mxfp6", Fp8Scaling::mxfp6}}};

/// The names that a plan can state. Bare formats of fewer than 8 bits are not among them: their scaling must be known.
std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisions; ++i)
    if (const auto p = static_cast<Precision>(i); p != Precision::fp6 && p != Precision::fp4)
      names.emplace_back(name_of(p));
  for (const ScaledPrecision& scaled : kScaledPrecisions) names.emplace_back(scaled.name);
  return names;
}

/// Returns true if the chip multiplies in the precision of that name. A chip without a stated architecture has all
/// scalings of the formats that it has. NVFP4 is NVIDIA's. Blackwell, CDNA 4 and Trainium 3 were the first chips of their
/// makers to multiply with scales of blocks of 32 (Open Compute Project 2023, Microscaling Formats).
bool has_precision(const Gpu& gpu, const std::string& name, Precision format) {
  if (gpu.peak[static_cast<std::size_t>(format)].value == 0) return false;
  const std::string& made = gpu.architecture;
  const bool nvidia = made.starts_with("blackwell") || made.starts_with("rubin");
  if (name == "nvfp4") return made.empty() || nvidia;
  if (name == "mxfp8") return made.empty() || nvidia || made == "cdna4" || made == "trainium-3";
  return true;
}

const ScaledPrecision* find_scaled(const std::string& name) {
  const auto* found =
      std::ranges::find_if(kScaledPrecisions, [&name](const ScaledPrecision& p) { return name == p.name; });
  return found == kScaledPrecisions.end() ? nullptr : found;
}

/// Returns the format of products in a precision by its name.
Precision named_precision(const std::string& name) {
  const ScaledPrecision* scaled = find_scaled(name);
  return scaled ? format_of(scaled->scaling) : parse_precision(name);
}

/// Returns the names of a chip's precisions. Formats of fewer than 8 bits have those of their scalings.
std::vector<std::string> precisions_of(const Gpu& gpu) {
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisions; ++i)
    if (const auto p = static_cast<Precision>(i); p != Precision::fp6 && p != Precision::fp4 && gpu.peak[i].value > 0)
      names.emplace_back(name_of(p));
  for (const char* name : {"mxfp8", "mxfp6", "mxfp4", "nvfp4"})
    if (has_precision(gpu, name, named_precision(name))) names.emplace_back(name);
  return names;
}

/// Refuses a precision that the chip does not have, with the nearest that it has: as many bits, then more.
[[noreturn]] void refuse_precision(const Fields& plan, const Gpu& gpu, const std::string& name) {
  const std::vector<std::string> supported = precisions_of(gpu);
  std::string nearest;
  const std::vector<std::string> narrow{"nvfp4", "mxfp4", "mxfp6", "mxfp8", "fp8"},
      wide{"bf16", "fp16", "tf32", "fp32"};
  const bool four = name == "nvfp4" || name == "mxfp4";
  for (const auto* names : {&narrow, &wide})
    for (const std::string& other : *names) {
      const bool fits = names == &wide || four || (name.starts_with("mx") && other.find("fp4") == std::string::npos) ||
                        (name.starts_with("fp8") && other == "fp8");
      if (nearest.empty() && fits && std::ranges::find(supported, other) != supported.end()) nearest = other;
    }
  plan.refuse("precision",
              fmt::format("{} has no {}; it has {}; nearest: {}", gpu.name, name, fmt::join(supported, ", "), nearest));
}

/// Returns the precision of weights and activations in memory. With fp8 or fewer bits that is bf16, and `fp8` of the
/// scenario is set: only matrix products are in fp8, or in the format of the stack's scaling, which the name may state.
Precision precision_of(Scenario& s, Fields& plan) {
  const std::string name =
      plan.choice({"precision",
                   "Number format of weights and activations in matrix products, for example fp8; master weights are "
                   "kept in fp32. fp8-cs, fp8-ds and mxfp8 are fp8 with current, delayed and block scaling."},
                  precision_names(), "bf16");
  const Precision precision = named_precision(name);
  const ScaledPrecision* scaled = find_scaled(name);
  s.fp8 = scaled || precision == Precision::fp8;
  if (!scaled && format_of(s.software.fp8_scaling) != Precision::fp8) s.software.fp8_scaling = Fp8Scaling::delayed;
  if (scaled) {
    s.software.fp8_scaling = scaled->scaling;
    if (plan.has("fp8_scaling"))
      plan.refuse("fp8_scaling", fmt::format("only with precision fp8; {} states the scaling", name));
  }
  try {
    if (!s.fp8) require_training_precision(precision);
  } catch (const UserError& e) {
    plan.refuse("precision", e.what());
  }
  for (const NodeType* type : s.cluster.types())
    if (!has_precision(type->gpu, name, precision)) refuse_precision(plan, type->gpu, name);
  s.stated_precision = scaled ? name : "";
  return s.fp8 ? Precision::bf16 : precision;
}

/// Takes the stack's figures for products in fp8, and their scaling from the plan or else from the stack. Products with
/// one scale per row are slower than with one per tensor. `cluster_is_set`: the GPUs of the cluster are slowed down
/// already.
void set_fp8(Scenario& s, Fields& plan, bool cluster_is_set) {
  if (!s.fp8 && plan.has("fp8_scaling")) plan.refuse("fp8_scaling", "only with precision fp8");
  if (s.fp8) s.software.parallel.user_buffers = s.software.parallel.user_buffers_fp8;
  Fp8Scaling& scaling = s.software.fp8_scaling;
  if (format_of(scaling) != Precision::fp8) return;  // the plan's precision states the scaling
  std::vector<std::string> words = fp8_scalings();
  words.emplace_back("tensor");
  const std::string word =
      plan.choice({"fp8_scaling",
                   "Scaling factors of fp8 products: one for each tensor, from the maxima of earlier steps (delayed) "
                   "or from its own maximum (current), or one for each row or block. tensor: current if the stack uses "
                   "that, else delayed. Default: the stack's."},
                  words, words[static_cast<std::size_t>(scaling)]);
  if (word != "tensor")
    scaling = parse_fp8_scaling(word);
  else if (scaling != Fp8Scaling::current)
    scaling = Fp8Scaling::delayed;
  if (!s.fp8 || cluster_is_set || scaling != Fp8Scaling::row) return;
  const auto set = [&](NodeType& type) { type.gpu.gemm.fp8 /= s.software.slowdowns.rowwise_fp8; };
  set(s.cluster.node);
  for (NodeGroup& group : s.cluster.others) set(group.type);
}

/// Returns the highest rate of counted FLOPs of a kernel as a multiple of the peak. It may exceed 1 if the chip's entry
/// says so. For 3 x 3 convolutions it exceeds 1 by as much as any library saves, because a measured time may come from
/// a faster library than the entry's.
double most_of_peak(const Gpu& gpu, Kernel kind) {
  const double catalogued = std::max(1.0, gpu.efficiency[static_cast<std::size_t>(kind)].flops);
  return kind == Kernel::convolution_3x3 ? std::max(catalogued, kMostCountedFlops) : catalogued;
}

/// Returns the shortest possible time of `samples` samples on `devices` devices: every kernel runs at the peak, or
/// above it if its library computes fewer multiplications than are counted.
Seconds least_time(const Scenario& s, double samples, int devices) {
  double seconds = 0;
  const auto add = [&](const Work& work) {
    double rate = 0;
    for (const NodeType* type : s.cluster.types())
      for (const Precision p : {s.precision, s.multiplied_in()})
        rate = std::max(
            rate, type->gpu.peak[static_cast<std::size_t>(p)].value * most_of_peak(type->gpu, kind_of(work.kernel)));
    seconds += work.flops.value / rate;
  };
  for (const Layer& layer : s.network.layers) {
    for (const KernelCall& call : layer.forward) add(call.work);
    for (std::size_t k = 0; k < layer.backward.size() && !s.plan.inference; ++k) add(layer.backward[k].work);
  }
  return Seconds{seconds * samples / static_cast<double>(std::max<std::int64_t>(1, s.network.samples)) / devices};
}

}  // namespace

std::string Scenario::precision_word() const {
  const std::string narrower = fp8 ? narrower_than_fp8(software.fp8_scaling) : "";
  return narrower.empty() ? name_of(multiplied_in()) : narrower;
}

std::string Scenario::precision_title() const { return stated_precision.empty() ? precision_word() : stated_precision; }

void read_precision(Scenario& s, Fields& plan, bool cluster_is_set) {
  s.precision = precision_of(s, plan);
  set_fp8(s, plan, cluster_is_set);
}

void require_precision(const Scenario& s, Fields& fields) {
  const std::string name = fields.choice(
      {"precision",
       "Precision of that step, for example bf16. Default: the plan's. A different precision in the plan is an error."},
      precision_names(), s.precision_word());
  if (named_precision(name) != s.multiplied_in())
    fields.refuse("precision", fmt::format("a time in {}, but plan.precision is {}", name, s.precision_word()));
}

void require_possible(const Scenario& s, Seconds time, double samples, int devices, const Place& place,
                      const std::string& what) {
  const Seconds least = least_time(s, samples, devices);
  if (time >= least || s.plan.sharding.expert_capacity > 0) return;
  fail(place, fmt::format("{}: {} for {} samples on {} is {:.0f} % of the {} peak; expected {} or more, or the "
                          "precision and the number of devices of that time",
                          what, show(time), samples, counted_noun(devices, "device"), least / time * 100,
                          s.precision_word(), show(least)));
}

}  // namespace trainyard
