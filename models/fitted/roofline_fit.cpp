#include "models/fitted/roofline_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "models/fitted/held_out.hpp"
#include "models/fitted/measured_table.hpp"

namespace trainyard {
namespace {

using Row = MeasuredKernel;
using Rows = MeasuredKernels;

constexpr std::size_t kFewestRows = 8;  // on each side
constexpr double kTinyTime = 1e-7;      // seconds at the peaks; a launch takes some microseconds

using ReadWork = std::function<Work(const MeasuredTable&)>;

Work make_work(Kernel kernel, double flops, double bytes) {
  Work work;
  work.flops = Flops{flops};
  work.bytes = Bytes{bytes};
  work.kernel = static_cast<std::uint16_t>(kernel);
  work.precision = static_cast<std::uint8_t>(Precision::bf16);
  return work;
}

ReadWork gemm_reader(const MeasuredTable& table) {
  return [m = table.column("m"), n = table.column("n"), k = table.column("k")](const MeasuredTable& row) {
    const double rows = row.positive(m), columns = row.positive(n), inner = row.positive(k);
    return make_work(Kernel::gemm, 2 * rows * columns * inner, 2 * (rows * inner + inner * columns + rows * columns));
  };
}

ReadWork attention_reader(const MeasuredTable& table) {
  struct Columns {
    std::size_t batch, heads, kv_heads, head_dim, seq, causal;
  };
  const Columns c{table.column("batch"),    table.column("heads"), table.column("kv_heads"),
                  table.column("head_dim"), table.column("seq"),   table.column("causal")};
  return [c](const MeasuredTable& row) {
    const std::string& causal = row.text(c.causal);
    if (causal != "0" && causal != "1") row.refuse(fmt::format("causal: \"{}\" is neither 0 nor 1", causal), c.causal);
    const double tokens = row.positive(c.batch) * row.positive(c.seq), dim = row.positive(c.head_dim);
    const double heads = row.positive(c.heads), kv_heads = row.positive(c.kv_heads);
    const double square = 2 * 2 * tokens * row.positive(c.seq) * heads * dim;  // scores, then their weighted sum
    const double queries = row.positive(c.seq), masked = causal == "1" ? 2 : 1;
    Work work = make_work(Kernel::attention, square / masked, 2 * tokens * dim * 2 * (heads + kv_heads));
    work.kernel = kernel_of(AttentionWork{row.positive(c.batch) * heads, queries, queries * queries / masked, queries,
                                          causal == "1", false});
    return work;
  };
}

struct Constants {
  double flops_efficiency = 1, memory_efficiency = 1;
};

/// Time of the work without the launch floor, in seconds.
double roofline(const Work& work, const Gpu& gpu, const Constants& c) {
  return std::max(work.flops.value / (gpu.peak[work.precision].value * c.flops_efficiency),
                  work.bytes.value / (gpu.memory_bandwidth.value * c.memory_efficiency));
}

}  // namespace

Rows read_kernels(const std::filesystem::path& csv, Kernel kernel, const Gpu& model, std::string_view gpu) {
  if (kernel != Kernel::gemm && kernel != Kernel::attention)
    throw UserError(
        fmt::format("no table of measured {} kernels can be fitted; known: gemm, attention", name_of(kernel)));
  MeasuredTable table(csv);
  const ReadWork read = kernel == Kernel::gemm ? gemm_reader(table) : attention_reader(table);
  const std::size_t gpu_column = table.column("gpu"), type = table.column("dtype"), time = table.column("latency_us");
  Rows rows;
  std::set<std::string> gpus;
  while (table.next()) {
    gpus.insert(table.text(gpu_column));
    if (table.text(gpu_column) != gpu || table.text(type) != "bfloat16") continue;
    const Row row{read(table), Seconds{table.positive(time) * 1e-6}};
    // FLOPs and bytes stand for the shape: a shape and its transpose are not on two sides.
    const bool fit = goes_to_fit(fmt::format("{},{}", exact(row.work.flops.value), exact(row.work.bytes.value)));
    if (row.work.flops >= kLeastFittedWork) (fit ? rows.fitted : rows.judged).push_back(row);
    if (fit && roofline(row.work, model, {}) < kTinyTime) rows.tiny.push_back(row);
  }
  if (!gpus.contains(std::string(gpu)))
    throw UserError(
        fmt::format("{}: no rows of gpu \"{}\"{}", table.name(), gpu, hint(gpu, {gpus.begin(), gpus.end()})));
  if (std::min(rows.fitted.size(), rows.judged.size()) < kFewestRows)
    throw UserError(fmt::format("{}: too few bfloat16 rows of gpu {} of {} FLOP or more to fit and to judge: {} and {}",
                                table.name(), gpu, exact(kLeastFittedWork.value), rows.fitted.size(),
                                rows.judged.size()));
  return rows;
}

namespace {

double mean_log_error(const std::vector<Row>& rows, const Gpu& gpu, const Constants& c, double launch) {
  double sum = 0;
  for (const Row& row : rows) sum += std::abs(std::log((launch + roofline(row.work, gpu, c)) / row.measured.value));
  return sum / static_cast<double>(rows.size());
}

/// The best point of a grid over all efficiencies, then of ever narrower grids round the best, until the grid is finer
/// than any figure that would be written down.
Constants search(const std::vector<Row>& rows, const Gpu& gpu, double launch) {
  constexpr int kSide = 25, kRounds = 24;
  constexpr double kLeast = 0.02, kNarrower = 0.4;
  Constants centre{0.5, 0.5}, best = centre;
  double best_error = mean_log_error(rows, gpu, best, launch), width = 1;
  for (int round = 0; round < kRounds; ++round) {
    const auto at = [&](double middle, int i) {
      return std::clamp(middle + width * (static_cast<double>(i) / (kSide - 1) - 0.5), kLeast, 1.0);
    };
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        const Constants c{at(centre.flops_efficiency, i), at(centre.memory_efficiency, j)};
        const double error = mean_log_error(rows, gpu, c, launch);
        if (error >= best_error) continue;
        best = c;
        best_error = error;
      }
    centre = best;
    width *= kNarrower;
  }
  return best;
}

/// What the quickest tenth of the tiny kernels takes beyond its work; the others are slow for reasons of their own
/// (split-K, odd shapes).
double launch_floor(const std::vector<Row>& tiny, const Gpu& gpu, const Constants& c) {
  std::vector<double> beyond;
  for (const Row& row : tiny) beyond.push_back(row.measured.value - roofline(row.work, gpu, c));
  std::sort(beyond.begin(), beyond.end());
  return std::max(0.0, sorted_quantile(beyond, 0.1));
}

}  // namespace

KernelErrors kernel_errors(const std::vector<Row>& rows, const Gpu& gpu) {
  std::vector<double> all;
  for (const Row& row : rows) all.push_back(std::abs(kernel_time(gpu, row.work) / row.measured - 1));
  return kernel_errors(std::move(all));
}

RooflineFit fit_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                         std::string_view gpu_name_in_csv) {
  if (gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0)
    throw UserError(fmt::format("gpu {} has no bf16, and the table's rows are bf16", gpu.name));
  const Rows rows = read_kernels(csv, kernel, gpu, gpu_name_in_csv);
  Gpu judged = gpu;
  judged.attention = {};  // by a share of the peak, whatever the shape
  auto& efficiency = judged.efficiency[static_cast<std::size_t>(kernel)];
  double launch = gpu.kernel_launch.value;
  // Attention's own floor lies higher, but a GPU has one, and GEMM's is nearer to that of the many small kernels.
  const bool own_launch = kernel == Kernel::gemm && rows.tiny.size() >= kFewestRows;
  constexpr int kTurns = 4;  // floor and efficiencies hardly depend on each other
  for (int turn = 0; turn < (own_launch ? kTurns : 1); ++turn) {
    const Constants best = search(rows.fitted, gpu, launch);
    efficiency = {best.flops_efficiency, best.memory_efficiency};
    if (own_launch) launch = launch_floor(rows.tiny, gpu, best);
  }
  judged.kernel_launch = Seconds{launch};
  const KernelErrors held_out = kernel_errors(rows.judged, judged), in_sample = kernel_errors(rows.fitted, judged);
  return {gpu.name,
          kernel,
          efficiency.flops,
          efficiency.memory,
          judged.kernel_launch,
          static_cast<int>(rows.fitted.size()),
          static_cast<int>(rows.judged.size()),
          held_out.median,
          held_out.mean,
          held_out.p90,
          in_sample.median,
          in_sample.mean,
          in_sample.p90};
}

std::vector<JudgedKernel> judge_roofline(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu,
                                         std::string_view gpu_name_in_csv) {
  std::vector<JudgedKernel> judged;
  for (const Row& row : read_kernels(csv, kernel, gpu, gpu_name_in_csv).judged)
    judged.push_back({row.work, kernel_time(gpu, row.work), row.measured});
  return judged;
}

}  // namespace trainyard
