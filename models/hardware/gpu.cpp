#include "models/hardware/gpu.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainyard {
namespace {

constexpr std::array<const char*, kPrecisions> kPrecisionNames{"fp64", "fp32", "tf32", "fp16", "bf16",
                                                               "fp8",  "fp6",  "fp4",  "int8"};
constexpr std::array<double, kPrecisions> kElementBytes{8, 4, 4, 2, 2, 1, 0.75, 0.5, 1};
constexpr std::array<const char*, kKernels> kKernelNames{"gemm",          "attention",       "attention_backward",
                                                         "elementwise",   "optimizer",       "embedding",
                                                         "convolution",   "convolution_3x3", "scan",
                                                         "scan_backward", "strided"};
constexpr std::array<const char*, 4> kChipKindNames{"gpu", "tpu", "asic", "fpga"};
constexpr double kLeastShare = 1e-6;  // a smaller efficiency or relative speed is surely a mistake

double share(Fields& fields, Key key) { return fields.number(key, kLeastShare, 1, 1); }

void read_peak(Gpu& gpu, Fields& fields) {
  bool has_peak = false;
  for (int p = 0; p < kPrecisions; ++p) {
    auto& rate = gpu.peak[p];
    rate = fields.flops_rate(kPrecisionNames[p], FlopsPerSecond{0});
    has_peak = has_peak || rate.value > 0;
  }
  fields.finish();
  if (!has_peak)
    fail(fields.place(),
         fmt::format("{}: no precision given; known: {}", fields.what(), fmt::join(kPrecisionNames, ", ")));
}

void read_efficiency(Gpu& gpu, Fields& fields) {
  for (std::size_t k = 0; k < kKernels; ++k)
    fields.read_map(kKernelNames[k], [&](Fields& shares) {
      const auto kind = static_cast<Kernel>(k);
      const bool convolution = kind == Kernel::convolution || kind == Kernel::convolution_3x3;
      gpu.efficiency[k] = {shares.number("flops", kLeastShare, convolution ? kMostCountedFlops : 1, 1),
                           share(shares, "memory")};
    });
  const auto default_to = [&](Kernel kernel, Kernel other) {
    if (!fields.has(name_of(kernel)))
      gpu.efficiency[static_cast<std::size_t>(kernel)] = gpu.efficiency[static_cast<std::size_t>(other)];
  };
  default_to(Kernel::convolution, Kernel::gemm);
  default_to(Kernel::convolution_3x3, Kernel::convolution);
  default_to(Kernel::scan, Kernel::elementwise);
  default_to(Kernel::scan_backward, Kernel::scan);
  default_to(Kernel::strided, Kernel::elementwise);
}

/// Adapts the `gemm` model to the chip's peak. `gemm.rated_peak` is the 16-bit peak of the chip to which the model was
/// fitted. On a chip with another peak, the figures that depend on the clock of the SMs are scaled by the ratio of the
/// peaks: the rate of the L2 cache, and the duration after which power limits the clock.
void fit_to_peak(Gpu& gpu, FlopsPerSecond rated) {
  const FlopsPerSecond bf16 = gpu.peak[static_cast<std::size_t>(Precision::bf16)],
                       peak = bf16.value > 0 ? bf16 : gpu.peak[static_cast<std::size_t>(Precision::fp16)];
  if (rated.value <= 0 || peak.value <= 0) return;
  gpu.gemm.l2_feed = gpu.gemm.l2_feed * (peak / rated);
  gpu.gemm.throttle_after = gpu.gemm.throttle_after / (peak / rated);
}

void read_power_limit(Gpu& gpu, Fields& fields) {
  fields.read(
      {"clock_by_power", "Under a power limit the clock is proportional to the power above idle to this exponent."},
      gpu.clock_by_power, kLeastShare, 1);
  gpu.power_limit = fields.power(
      {"power_limit", "Power limit set for the board (nvidia-smi --power-limit); 0: power.busy."}, Watts{0});
  if (gpu.power_limit.value == 0) return;
  if (!gpu.power.is_given() || gpu.power.idle >= gpu.power.busy)
    fields.refuse("power_limit", "needs power.busy and power.idle, between which it lies");
  if (gpu.power_limit <= gpu.power.idle || gpu.power_limit > gpu.power.busy)
    fields.refuse("power_limit", fmt::format("expected above {:g} W, which it draws idle, and at most {:g} W",
                                             gpu.power.idle.value, gpu.power.busy.value));
}

/// Reads the figures of a datasheet that the roofline does not need.
void read_build(Gpu& gpu, Fields& fields) {
  constexpr int most_sms = 4096;
  gpu.sms = fields.integer_within({"sms", "Number of SMs, of AMD's compute units or of a TPU's TensorCores."}, 1,
                                  most_sms, 0);
  gpu.l2 = fields.bytes({"l2", "Size of the L2 cache."}, Bytes{0});
  gpu.clock = fields.frequency({"clock", "Highest boost clock."}, Hertz{0});
  // An entry with a `base` may remove these with null.
  gpu.power =
      read_power(fields, "The most power that the board may draw: energy counts it; power_limit slows the clock.",
                 "Power without work.");
  read_power_limit(gpu, fields);
  gpu.reconfigure = fields.seconds({"reconfigure", "Time to configure an FPGA for a training."}, Seconds{0});
  if (gpu.reconfigure.value > 0 && gpu.kind != ChipKind::fpga) fields.refuse("reconfigure", "only for kind fpga");
  fields.read_map("chip_links", [&gpu](Fields& links) {
    constexpr int most_links = 64;
    gpu.chip_links = {
        links.integer_within(
            {"count", "Number of links to neighbours without switch or NVLink: ICI of TPUs, Infinity Fabric."}, 1,
            most_links),
        links.bandwidth({"rate", "Rate of one such link, each way."})};
  });
}

/// Multiplies the rates of arithmetic by a relative clock, except those of the `gemm` model. Attention has a clock of
/// its own.
void scale_clock(Gpu& gpu, double clock, double attention_clock) {
  for (std::size_t k = 0; k < gpu.efficiency.size(); ++k) {
    const Kernel kernel = static_cast<Kernel>(k);
    const bool is_attention = kernel == Kernel::attention || kernel == Kernel::attention_backward;
    gpu.efficiency[k].flops *= is_attention ? attention_clock : clock;
  }
  AttentionModel& a = gpu.attention;
  for (double* rate : {&a.forward, &a.backward, &a.softmax, &a.fp8.forward, &a.fp8.backward, &a.fp8_block.forward,
                       &a.fp8_block.backward})
    *rate *= attention_clock;
}

/// Times of a kernel's arithmetic and of its memory traffic.
struct Roofline {
  Seconds arithmetic, memory;
};

Roofline roofline(const Gpu& gpu, const Work& work) {
  if (!is_kernel(work.kernel) || work.precision >= kPrecisions)
    throw InternalError(fmt::format("work of kernel {} and precision {}", work.kernel, work.precision));
  const Gpu::Efficiency& efficiency = gpu.efficiency[static_cast<std::size_t>(kind_of(work.kernel))];
  Seconds arithmetic{0};
  if (work.flops.value > 0) {
    const FlopsPerSecond peak = gpu.peak[work.precision];
    if (peak.value <= 0) {
      std::vector<std::string> precisions;
      for (std::size_t p = 0; p < kPrecisions; ++p)
        if (gpu.peak[p].value > 0) precisions.emplace_back(kPrecisionNames[p]);
      throw UserError(fmt::format("gpu {} has no {}; it has {}", gpu.name, kPrecisionNames[work.precision],
                                  fmt::join(precisions, ", ")));
    }
    arithmetic = work.flops / (peak * efficiency.flops);
  }
  const Seconds memory = work.bytes.value > 0 ? work.bytes / (gpu.memory_bandwidth * efficiency.memory) : Seconds{0};
  return {arithmetic, memory};
}

/// Does the work run on tensor cores? Their kernels of at most 16 bits can be priced by shape.
bool uses_tensor_cores(const Gpu& gpu, const Work& work) {
  return work.flops.value > 0 && work.precision < kPrecisions && kElementBytes[work.precision] <= 2 &&
         gpu.peak[work.precision].value > 0;
}
bool has_product_shape(const Gpu& gpu, const Work& work) {
  return gpu.gemm.is_given && work.kernel >= kFirstShape && uses_tensor_cores(gpu, work);
}
bool has_attention_shape(const Gpu& gpu, const Work& work) {
  return gpu.attention.is_given && work.kernel >= kFirstAttention && work.kernel < kFirstShape &&
         uses_tensor_cores(gpu, work);
}

AttentionTime priced_attention(const Gpu& gpu, const Work& work) {
  return attention_time(gpu.attention, {gpu.peak[work.precision], gpu.memory_bandwidth, gpu.l2, std::max(gpu.sms, 1)},
                        attention_of(work.kernel), work.flops, work.bytes);
}

/// Ratio of the sustained share of the peak in that precision to the one in 16 bits. Products in 6 and in 8 bits use the
/// same units. `in_blocks`: see `GemmShape`.
double narrow_share(const GemmModel& gemm, std::uint8_t precision, bool in_blocks) {
  switch (static_cast<Precision>(precision)) {
    case Precision::fp8:
      return in_blocks ? gemm.fp8 * gemm.fp8_block : gemm.fp8;
    case Precision::fp6:
      return gemm.fp8;
    case Precision::fp4:
      return gemm.fp4;
    default:
      return 1;
  }
}

/// Time of a product's tiles if the memory has that bandwidth.
GemmTime product_time(const Gpu& gpu, const Work& work, BytesPerSecond bandwidth) {
  const bool in_blocks = shape_of(work.kernel).in_blocks;
  const FlopsPerSecond peak = gpu.peak[work.precision] * narrow_share(gpu.gemm, work.precision, in_blocks);
  return gemm_time(gpu.gemm, {peak, bandwidth, gpu.l2, std::max(gpu.sms, 1)}, work.kernel,
                   Bytes{kElementBytes[work.precision]});
}

struct PricedProduct {
  GemmTime time;
  Seconds extra_traffic;  ///< time to move other bytes than operands and result, such as gradients that it adds to
  PricedProduct(const Gpu& gpu, const Work& work) : time(product_time(gpu, work, gpu.memory_bandwidth)) {
    const GemmShape& shape = shape_of(work.kernel);
    const Bytes element{kElementBytes[work.precision]};
    const Bytes counted = element * ((shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) * shape.count);
    if (work.bytes > counted)
      extra_traffic = (work.bytes - counted) /
                      (gpu.memory_bandwidth * gpu.efficiency[static_cast<std::size_t>(Kernel::elementwise)].memory);
  }
};

}  // namespace

Precision parse_precision(const std::string& name) {
  for (std::size_t p = 0; p < kPrecisions; ++p)
    if (name == kPrecisionNames[p]) return static_cast<Precision>(p);
  throw UserError(fmt::format("unknown precision \"{}\"; known: {}", name, fmt::join(kPrecisionNames, ", ")));
}
const char* name_of(Precision p) { return kPrecisionNames.at(static_cast<std::size_t>(p)); }
Bytes element_size(Precision p) { return Bytes{kElementBytes.at(static_cast<std::size_t>(p))}; }
const char* name_of(ChipKind k) { return kChipKindNames.at(static_cast<std::size_t>(k)); }
bool is_kernel(std::uint16_t number) { return number < kKernels || number >= kFirstAttention; }
Kernel kind_of(std::uint16_t number) {
  if (number >= kFirstShape) return Kernel::gemm;
  if (number < kFirstAttention) return static_cast<Kernel>(number);
  return attention_of(number).backward ? Kernel::attention_backward : Kernel::attention;
}
const char* name_of(Kernel k) { return kKernelNames.at(static_cast<std::size_t>(k)); }

Gpu read_gpu(const Node& entry) {
  Fields fields(entry, entry_title("gpu", entry));
  Gpu gpu;
  gpu.name = fields.text("name", "custom-gpu");
  gpu.kind = fields.one_of({"kind", "Kind of the chip."}, {kChipKindNames.begin(), kChipKindNames.end()}, gpu.kind);
  gpu.architecture = fields.text(
      {"architecture", "Architecture, such as hopper: selects attention kernels and shares of convolutions."}, "");
  fields.text({"description", "Description in one line of text."}, "");
  gpu.measured_as = fields.text({"measured_as", "Name of the chip in the tables of measured kernels."}, "");
  fields.child("sources");
  fields.require_all({"peak", "memory_bandwidth", "memory_capacity"});
  fields.read_required_map("peak", [&gpu](Fields& peak) { read_peak(gpu, peak); });
  gpu.memory_bandwidth = fields.bandwidth({"memory_bandwidth", "Bandwidth of the chip's memory."});
  gpu.memory_capacity = fields.bytes({"memory_capacity", "Capacity of the chip's memory."});
  gpu.driver_memory =
      fields.bytes({"driver_memory", "Part of the capacity that the driver keeps from programs."}, Bytes{0});
  gpu.kernel_launch =
      fields.seconds({"kernel_launch", "Shortest time of a kernel, back to back in one stream."}, Seconds{0});
  constexpr double least_host_launch = 0.1, most_host_launch = 10;
  gpu.host_launch = fields.number(
      {"host_launch",
       "Host's time to launch a kernel by the chip's runtime, such as HIP, as a multiple of that by CUDA."},
      least_host_launch, most_host_launch, 1);
  fields.read_map("gemm", [&gpu](Fields& gemm) {
    gpu.gemm = read_gemm_model(gemm);
    fit_to_peak(gpu, gemm.flops_rate("rated_peak", FlopsPerSecond{0}));
  });
  fields.read_map("attention", [&gpu](Fields& attention) { gpu.attention = read_attention_model(attention); });
  fields.read_map("efficiency", [&gpu](Fields& efficiency) { read_efficiency(gpu, efficiency); });
  gpu.sustained_clock = fields.number(
      {"sustained_clock", "Ratio of the clock in runs of minutes to that in a short test; 0: 1 / (1 + gemm.throttle)."},
      kLeastShare, 1, 0);
  fields.read_map("interference", [&gpu](Fields& speeds) {
    gpu.compute_while_communicating =
        share(speeds, {"compute_while_communicating", "Relative speed of kernels while transfers run."});
    gpu.communication_while_computing =
        share(speeds, {"communication_while_computing", "Relative speed of transfers while kernels run."});
  });
  gpu.nvlink = fields.bandwidth(
      {"nvlink", "Rate of all NVLinks of the chip together, each way; 0: it has none; a mesh has nvlink.link_rate."},
      BytesPerSecond{0});
  gpu.pcie = fields.bandwidth({"pcie", "Rate of 16 PCIe lanes, each way."}, BytesPerSecond{0});
  read_build(gpu, fields);
  fields.finish();
  gpu.sources = figure_sources(entry, fields.what());
  if (gpu.power_limit.value > 0 && !entry.find("clock_by_power"))
    gpu.sources.push_back({fields.what() + ": clock_by_power", fmt::format("{:g}", gpu.clock_by_power),
                           "assumed: between 1/3, if the voltage follows the clock, and 1, if it is at its lowest",
                           true});
  return gpu;
}

Gpu within_power_limit(Gpu gpu) {
  if (gpu.power_limit.value == 0) return gpu;
  const double power_share = (gpu.power_limit - gpu.power.idle) / (gpu.power.busy - gpu.power.idle);
  const double clock = std::pow(power_share, gpu.clock_by_power);
  scale_clock(gpu, clock, clock);
  gpu.gemm.clock *= clock;
  gpu.gemm.sustained *= clock;
  gpu.gemm.sustained_fp8 *= clock;
  gpu.gemm.sustained_fp4 *= clock;
  gpu.power.busy = gpu.power_limit;
  gpu.power_limit = Watts{0};
  return gpu;
}

Gpu sustained_gpu(Gpu gpu) {
  const double clock = gpu.sustained_clock > 0 ? gpu.sustained_clock : 1 / (1 + gpu.gemm.throttle);
  scale_clock(gpu, clock, gpu.sustained_attention > 0 ? gpu.sustained_attention : clock);
  gpu.gemm.clock = gpu.gemm.sustained > 0 ? gpu.gemm.sustained : gpu.gemm.clock * clock;
  if (gpu.gemm.sustained_fp8 > 0) gpu.gemm.fp8 *= gpu.gemm.sustained_fp8 / gpu.gemm.clock;
  if (gpu.gemm.sustained_fp4 > 0) gpu.gemm.fp4 *= gpu.gemm.sustained_fp4 / gpu.gemm.clock;
  gpu.gemm.throttle = 0;
  gpu.sustained_clock = gpu.sustained_attention = 1;
  return gpu;
}

Seconds kernel_time(const Gpu& gpu, const Work& work) {
  if (has_product_shape(gpu, work)) {
    const PricedProduct product(gpu, work);
    return gpu.kernel_launch + product.time.total + product.extra_traffic;
  }
  if (has_attention_shape(gpu, work)) return gpu.kernel_launch + priced_attention(gpu, work).total;
  const Roofline limits = roofline(gpu, work);
  return gpu.kernel_launch + std::max(limits.arithmetic, limits.memory);
}

Seconds memory_time(const Gpu& gpu, const Work& work) {
  if (has_product_shape(gpu, work)) {
    const PricedProduct product(gpu, work);
    if (product.time.by_memory) return product.time.total + product.extra_traffic;
    const BytesPerSecond unlimited = gpu.memory_bandwidth * 1e6;
    const Seconds arithmetic = product_time(gpu, work, unlimited).total;
    return product.time.total - arithmetic + product.extra_traffic;
  }
  if (has_attention_shape(gpu, work)) return priced_attention(gpu, work).memory;
  const Roofline limits = roofline(gpu, work);
  return limits.memory > limits.arithmetic ? limits.memory : Seconds{0};
}

}  // namespace trainyard
