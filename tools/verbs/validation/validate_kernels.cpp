#include <fmt/format.h>

#include <map>

#include "models/fitted/measured_kernels.hpp"
#include "models/hardware/attention_kernel.hpp"
#include "models/reading/shipped_files.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

const std::map<std::string, ErrorLimits> kGemmLimits{{"ampere", {.median = 0.05, .p90 = 0.17}},
                                                     {"hopper", {.median = 0.05, .p90 = 0.17}},
                                                     {"blackwell", {.median = 0.07, .p90 = 0.24}},
                                                     {"cdna4", {.median = 0.11, .p90 = 0.24}}};
constexpr ErrorLimits kAttentionLimits{.median = 0.1, .p90 = 0.25};
constexpr ErrorLimits kTrainingLimits{.median = 0.1, .p90 = 0.25}, kNarrowTrainingLimits{.median = 0.1, .p90 = 0.45};
constexpr const char* kTrainingAttention =
    "te-cudnn@26";  // entry of the catalog that is fitted to attention_training.csv
constexpr ErrorLimits kNarrowLimits{.median = 0.21, .p90 = 0.45};

KernelTable shipped_table(const char* name) {
  return KernelTable(shipped_file(fmt::format("scenarios/measured/tables/{}", name)));
}

ErrorSet errors_of_products(const Gpu& gpu, const KernelTable& table) {
  const MeasuredKernels products = read_products(table.csv, gpu, table.name_of_gpu(gpu));
  std::vector<MeasuredPoint> points;
  for (const MeasuredKernel& row : products.judged)
    points.push_back({fmt::format("{} x {} x {}", row.product->m, row.product->n, row.product->k),
                      predicted_time(gpu, row).value, row.measured.value});
  return error_set("gemm bf16 on " + gpu.name, std::move(points));
}

ErrorSet errors_of_attention(const Gpu& gpu, const KernelTable& table) {
  const MeasuredKernels rows = read_kernels(table.csv, Kernel::attention, gpu, table.name_of_gpu(gpu));
  std::vector<MeasuredPoint> points;
  for (const MeasuredKernel& row : rows.judged)
    points.push_back(
        {fmt::format("{:.4g} FLOP", row.work.flops.value), predicted_time(gpu, row).value, row.measured.value});
  return error_set("attention bf16 on " + gpu.name, std::move(points));
}

/// Kernels of a library's fused attention in training, by format: those that were left out of the fit.
void add_training_attention(std::vector<JudgedSet>& sets, const Gpu& gpu, const Catalog& catalog,
                            const KernelTable& table) {
  const std::string name = table.name_of_gpu(gpu);
  if (name.empty()) return;
  Gpu driven = gpu;
  Sources sources;
  read_attention_kernel(catalog.resolve("attention", Node::scalar_node(kTrainingAttention))).drive(driven, sources);
  std::map<AttentionFormat, std::vector<MeasuredPoint>> points;
  for (const MeasuredKernel& row : read_kernels(table.csv, Kernel::attention, gpu, name).judged) {
    const AttentionWork& shape = attention_of(row.work.kernel);
    points[shape.format].push_back(
        {fmt::format("{:.4g} FLOP {}", row.work.flops.value, shape.backward ? "backward" : "forward"),
         predicted_time(driven, row).value, row.measured.value});
  }
  const std::map<AttentionFormat, const char*> words{
      {AttentionFormat::wide, "bf16"}, {AttentionFormat::fp8, "fp8"}, {AttentionFormat::fp8_block, "mxfp8"}};
  for (auto& [format, of_format] : points)
    sets.push_back(judge_set(
        error_set(fmt::format("attention in training, {}, on {}", words.at(format), gpu.name), std::move(of_format)),
        format == AttentionFormat::wide ? kTrainingLimits : kNarrowTrainingLimits));
}

/// The cast of a product's first operand from 16 bits, whose format has a scale for some elements.
Work cast_of(const GemmShape& shape, Precision precision) {
  constexpr double scales = 1.0 / 16;  // bytes an element at most
  Work work;
  work.bytes = (element_size(Precision::bf16) + element_size(precision) + Bytes{scales}) * (shape.m * shape.k);
  work.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  work.precision = static_cast<std::uint8_t>(Precision::bf16);
  return work;
}

/// A number format in the table of products of fewer bits.
struct NarrowFormat {
  const char* dtype;
  Precision precision;
  bool casts;  ///< the measured times are taken to include the cast of the first operand, as those of fp8 do
};
constexpr NarrowFormat kNarrowFormats[] = {
    {"fp8_block", Precision::fp8, true},    {"nvfp4", Precision::fp4, true},
    {"fp8_uncast", Precision::fp8, false},  {"fp8_block_uncast", Precision::fp8, false},
    {"int8_uncast", Precision::fp8, false}, {"mxfp4_uncast", Precision::fp4, false}};

/// Products of fewer bits, whose shares of the peak are one figure for each format (`GemmModel::fp8`, `fp4`).
void add_narrow(std::vector<JudgedSet>& sets, const Gpu& gpu, const KernelTable& table) {
  const std::string name = table.name_of_gpu(gpu);
  if (name.empty()) return;
  for (const NarrowFormat& format : kNarrowFormats) {
    if (gpu.peak[static_cast<std::size_t>(format.precision)].value <= 0) continue;
    std::vector<MeasuredPoint> points;
    for (const MeasuredKernel& row : read_narrow_products(table.csv, name, format.dtype, format.precision)) {
      const GemmShape& shape = shape_of(row.work.kernel);
      const Seconds cast = format.casts ? kernel_time(gpu, cast_of(shape, format.precision)) : Seconds{0};
      points.push_back({fmt::format("{} x {} x {}", shape.m, shape.n, shape.k), (predicted_time(gpu, row) + cast).value,
                        row.measured.value});
    }
    if (points.empty()) continue;
    sets.push_back(
        judge_set(error_set(fmt::format("gemm {} on {}", format.dtype, gpu.name), std::move(points)), kNarrowLimits));
  }
}

std::vector<JudgedSet> judged_sets(std::string& unmeasured) {
  const Catalog catalog;
  const KernelTable products = shipped_table("gemm.csv"), narrow = shipped_table("gemm_narrow.csv"),
                    attention = shipped_table("attention.csv"), training = shipped_table("attention_training.csv");
  std::vector<JudgedSet> sets;
  for (const std::string& name : catalog.names("gpu")) {
    const Gpu gpu = read_gpu(catalog.resolve("gpu", Node::scalar_node(name)));
    add_training_attention(sets, gpu, catalog, training);
    add_narrow(sets, gpu, narrow);
    if (products.name_of_gpu(gpu).empty()) {
      unmeasured += fmt::format("{}{} ({})", unmeasured.empty() ? "" : ", ", name,
                                gpu.gemm.is_given ? gpu.architecture : "roofline");
      continue;
    }
    sets.push_back(judge_set(errors_of_products(gpu, products), kGemmLimits.at(gpu.architecture)));
    if (attention.name_of_gpu(gpu).empty()) continue;
    sets.push_back(judge_set(errors_of_attention(gpu, attention), kAttentionLimits));
  }
  return sets;
}

}  // namespace

int validate_kernels(const ValidationRequest& request) {
  std::string unmeasured;
  const std::vector<JudgedSet> sets = judged_sets(unmeasured);
  TextTable rows{"kernel", ">measured", ">predicted", ">error"};
  for (const JudgedSet& set : sets)
    for (const MeasuredPoint& p : set.errors.points) {
      const std::string& name = set.errors.name;
      rows.rows.push_back({name.substr(0, name.find(' ')) + " " + p.id + name.substr(name.find(" on ")),
                           show(Seconds{p.measured}), show(Seconds{p.predicted}), signed_percent(p.error())});
    }
  return report(request, "",
                fmt::format("{}shapes left out of the fit: scenarios/measured/tables, gemm.csv, attention.csv and "
                            "attention_training.csv; products of fewer bits: all shapes of gemm_narrow.csv\n"
                            "{}not measured, by the constants of their architecture: {}\n",
                            request.points ? rows.text() + "\n" : "",
                            error_table(sets, {"mean", "median", "p90", "worst", "signed mean"}, "none"), unmeasured),
                sets);
}

}  // namespace trainyard
