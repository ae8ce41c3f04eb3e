#include "models/fitted/measured_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/fitted/measured_table.hpp"
#include "models/networks/layers/scan_kernels.hpp"

namespace trainyard {
namespace {

/// A row of the table, and its place "file:line".
struct TableRow {
  MeasuredKernel kernel;
  GemmShape shape;  // gemm only
  std::string place;
};

Work make_work(Kernel kernel, double flops, double bytes) {
  Work work;
  work.flops = Flops{flops};
  work.bytes = Bytes{bytes};
  work.kernel = static_cast<std::uint16_t>(kernel);
  work.precision = static_cast<std::uint8_t>(Precision::bf16);
  return work;
}

bool read_product(const MeasuredTable& table, TableRow& row) {
  const GemmShape& s = row.shape = {table.positive("m"), table.positive("n"), table.positive("k")};
  row.kernel.work = make_work(Kernel::gemm, 2 * s.m * s.n * s.k, 2 * (s.m * s.k + s.k * s.n + s.m * s.n));
  return true;
}

bool read_attention(const MeasuredTable& table, TableRow& row) {
  const std::string& causal = table.text("causal");
  if (causal != "0" && causal != "1") table.refuse(fmt::format("causal: \"{}\" is neither 0 nor 1", causal), "causal");
  const double batch = table.positive("batch"), queries = table.positive("seq"), dim = table.positive("head_dim");
  const double heads = table.positive("heads"), kv_heads = table.positive("kv_heads");
  const double tokens = batch * queries, masked = causal == "1" ? 2 : 1;
  const double square = 2 * 2 * tokens * queries * heads * dim;  // scores, then their weighted sum
  row.kernel.work = make_work(Kernel::attention, square / masked, 2 * tokens * dim * 2 * (heads + kv_heads));
  row.kernel.work.kernel =
      kernel_of(AttentionWork{batch * heads, queries, queries * queries / masked, queries, causal == "1" ? 1 : 0});
  return true;
}

/// Reads a row of attention's kernels in training. FLOPs, bytes and shape are those that a network counts for them.
bool read_training_attention(const MeasuredTable& table, TableRow& row) {
  const auto word = [&](const char* column, const std::vector<std::string>& words) {
    const auto found = std::ranges::find(words, table.text(column));
    if (found == words.end())
      table.refuse(fmt::format("{}: \"{}\" is none of {}", column, table.text(column), fmt::join(words, ", ")), column);
    return found - words.begin();
  };
  const bool causal = word("causal", {"0", "1"}) == 1, windowed = !table.text("window").empty();
  const double queries = table.positive("seq"), heads = table.positive("heads");
  const double width = table.positive("head_dim"), values = table.positive("value_dim");
  AttentionWork shape{table.positive("batch") * heads, queries};
  shape.longest = windowed ? std::min(table.positive("window"), queries) : queries;
  shape.pairs = causal ? queries * shape.longest - shape.longest * shape.longest / 2 : queries * queries;
  shape.edges = !causal ? 0 : shape.longest < queries ? 2 : 1;
  shape.backward = word("pass", {"forward", "backward"}) == 1;
  shape.format = static_cast<AttentionFormat>(word("dtype", {"bfloat16", "fp8", "mxfp8"}));
  const double product = 2 * shape.heads * shape.pairs, tokens = shape.heads * queries;
  const Bytes size = element_size(shape.format == AttentionFormat::wide ? Precision::bf16 : Precision::fp8);
  const Bytes inputs = size * tokens * (width + table.positive("kv_heads") / heads * (width + values));
  const Bytes moved = (inputs + size * tokens * values) * (shape.backward ? 2.0 : 1.0) + Bytes{4 * tokens};
  row.kernel.work =
      make_work(Kernel::attention, product * (shape.backward ? 3 * width + 2 * values : width + values), moved.value);
  row.kernel.work.kernel = kernel_of(shape);
  return true;
}

/// Returns the recurrence of a row of linear_attention.csv that holds a convolution, or a scan with all its kernels.
/// Other rows are left out: kernels that generate text, and convolutions of gated delta nets, whose times are shorter
/// than the memory takes for all their channels.
ScanKind kind_of_scan(const MeasuredTable& table) {
  const std::string &family = table.text("family"), &kernel = table.text("kernel");
  if (family == "mamba2" && kernel == "causal_conv1d_fn") return ScanKind::mamba2;
  if (family == "gdn" && kernel == "chunk_gated_delta_rule") return ScanKind::gated_delta;
  if (family == "kda" && (kernel == "chunk_kda" || kernel == "causal_conv1d_fn_qkv3")) return ScanKind::kimi_delta;
  return ScanKind::none;
}

bool read_scan(const MeasuredTable& table, TableRow& row) {
  ScanShape s;
  s.kind = kind_of_scan(table);
  if (s.kind == ScanKind::none) return false;
  constexpr double kDeltaChunk = 64;  // flash-linear-attention takes so many tokens; the table does not state it
  s.tokens = table.positive("batch") * table.positive("seq_len");
  s.heads = table.positive("heads_v");
  s.head_dim = table.positive("head_dim_v");
  s.groups = table.positive("groups_or_k_heads");
  s.state = table.positive("state_or_k_dim");
  s.chunk = table.text("chunk").empty() ? kDeltaChunk : table.positive("chunk");
  s.taps = table.positive("d_conv");
  const bool convolves = table.text("kernel").starts_with("causal_conv1d");
  Work& total = row.kernel.work = make_work(Kernel::scan, 0, 0);
  for (const KernelCall& call :
       convolves ? convolution_forward(s, Precision::bf16) : scan_forward(s, Precision::bf16)) {
    total.bytes += call.work.bytes;
    total.flops += call.work.flops;
  }
  return true;
}

/// Format of the tables of one kind of kernel: the columns besides gpu and latency_us, and the reader of a row. The
/// reader returns false for a row of another kernel.
struct TableFormat {
  std::vector<const char*> columns;
  bool (*read)(const MeasuredTable&, TableRow&);
  bool takes_all_types = false;  ///< false: rows of another dtype are skipped
};

bool has_training_attention(const MeasuredTable& table) { return table.has_column("pass"); }

TableFormat format_of(Kernel kernel, const MeasuredTable& table) {
  if (kernel == Kernel::attention && has_training_attention(table))
    return {{"pass", "batch", "heads", "kv_heads", "head_dim", "value_dim", "seq", "causal", "window", "dtype"},
            read_training_attention,
            true};
  switch (kernel) {
    case Kernel::gemm:
      return {{"m", "n", "k", "dtype"}, read_product};
    case Kernel::attention:
      return {{"batch", "heads", "kv_heads", "head_dim", "seq", "causal", "dtype"}, read_attention};
    case Kernel::scan:
      return {{"family", "kernel", "heads_v", "head_dim_v", "groups_or_k_heads", "state_or_k_dim", "chunk", "d_conv",
               "batch", "seq_len"},
              read_scan,
              true};
    default:
      throw UserError(
          fmt::format("no table of measured {} kernels can be fitted; known: gemm, attention, scan", name_of(kernel)));
  }
}

std::vector<TableRow> read_rows(MeasuredTable table, Kernel kernel, std::string_view gpu,
                                std::string_view dtype = "bfloat16") {
  TableFormat format = format_of(kernel, table);
  format.columns.insert(format.columns.end(), {"gpu", "latency_us"});
  for (const char* name : format.columns) table.column(name);
  std::vector<TableRow> rows;
  std::set<std::string> gpus;
  while (table.next()) {
    gpus.insert(table.text("gpu"));
    if (table.text("gpu") != gpu || (!format.takes_all_types && table.text("dtype") != dtype)) continue;
    TableRow row;
    if (!format.read(table, row)) continue;
    row.kernel.measured = Seconds{table.positive("latency_us") * 1e-6};
    row.place = fmt::format("{}:{}", table.name(), table.line());
    rows.push_back(std::move(row));
  }
  if (!gpus.contains(std::string(gpu)))
    throw UserError(
        fmt::format("{}: no rows of gpu \"{}\"{}", table.name(), gpu, hint(gpu, {gpus.begin(), gpus.end()})));
  return rows;
}

FlopsPerSecond bf16_peak(const Gpu& gpu) { return gpu.peak[static_cast<std::size_t>(Precision::bf16)]; }

/// Is the work as large as that of kernels of a training step? Scans move bytes for at least `kLeastFittedScan`.
bool is_long_enough(const Work& work, const Gpu& gpu) {
  if (kind_of(work.kernel) == Kernel::scan) return work.bytes / gpu.memory_bandwidth >= kLeastFittedScan;
  return work.flops >= kLeastFittedWork;
}

}  // namespace

KernelTable::KernelTable(const std::filesystem::path& file) : csv(file) {
  MeasuredTable table(csv, {"gpu"});
  has_attention = table.has_column("heads");
  while (table.next()) gpus.insert(table.text("gpu"));
}

std::string KernelTable::name_of_gpu(const Gpu& gpu) const {
  for (const std::string& name : {gpu.measured_as, gpu.name})
    if (gpus.contains(name)) return name;
  return "";
}

MeasuredKernels read_kernels(const std::filesystem::path& csv, Kernel kernel, const Gpu& gpu, std::string_view name) {
  constexpr std::size_t kFewestRows = 8;  // in each half
  constexpr Seconds kTinyTime{1e-7};      // at the datasheet's peaks; a launch takes some microseconds
  MeasuredKernels rows;
  MeasuredTable table(csv);
  rows.in_training = kernel == Kernel::attention && has_training_attention(table);
  for (const TableRow& row : read_rows(std::move(table), kernel, name)) {
    const Work& work = row.kernel.work;
    // FLOPs and bytes stand for the shape, so that a shape and its transpose are in the same half.
    const bool fit = is_fitted(fmt::format("{},{}", exact(work.flops.value), exact(work.bytes.value)));
    if (rows.in_training || is_long_enough(work, gpu)) (fit ? rows.fitted : rows.judged).push_back(row.kernel);
    if (fit && std::max(work.flops / bf16_peak(gpu), work.bytes / gpu.memory_bandwidth) < kTinyTime)
      rows.tiny.push_back(row.kernel);
  }
  if (std::min(rows.fitted.size(), rows.judged.size()) < kFewestRows)
    throw UserError(fmt::format("{}: too few bfloat16 rows of gpu {} of {} FLOP or more to fit and to judge: {} and {}",
                                csv.string(), name, exact(kLeastFittedWork.value), rows.fitted.size(),
                                rows.judged.size()));
  return rows;
}

MeasuredKernels read_products(const std::filesystem::path& csv, const Gpu& gpu, std::string_view name) {
  constexpr std::size_t kFewestProducts = 50;  // in each half: five for each constant
  MeasuredKernels rows;
  for (TableRow& row : read_rows(MeasuredTable(csv), Kernel::gemm, name)) {
    const auto& [work, product, measured] = row.kernel;
    if (measured < work.flops / bf16_peak(gpu)) {
      rows.impossible.push_back(fmt::format("{}: {:.3g} FLOP in {}, above the {} of {}", row.place, work.flops.value,
                                            show(measured), show(bf16_peak(gpu)), gpu.name));
      continue;
    }
    row.kernel.product = row.shape;
    const bool fit = is_fitted(fmt::format("{},{},{}", row.shape.m, row.shape.n, row.shape.k));
    (fit ? rows.fitted : rows.judged).push_back(std::move(row.kernel));
  }
  if (std::min(rows.fitted.size(), rows.judged.size()) < kFewestProducts)
    throw UserError(
        fmt::format("{}: too few bfloat16 rows of gpu {} to fit and to judge: {} and {}, expected {} or more of each",
                    csv.string(), name, rows.fitted.size(), rows.judged.size(), kFewestProducts));
  return rows;
}

std::vector<MeasuredKernel> read_narrow_products(const std::filesystem::path& csv, std::string_view name,
                                                 std::string_view dtype, Precision precision) {
  std::vector<MeasuredKernel> kernels;
  for (TableRow& row : read_rows(MeasuredTable(csv), Kernel::gemm, name, dtype)) {
    GemmShape s = row.shape;
    s.in_blocks = dtype.starts_with("fp8_block");
    Work& work = row.kernel.work;
    work.bytes = element_size(precision) * (s.m * s.k + s.k * s.n + s.m * s.n);
    work.precision = static_cast<std::uint8_t>(precision);
    work.kernel = kernel_of(s);
    kernels.push_back(std::move(row.kernel));
  }
  return kernels;
}

Seconds product_time(const Gpu& gpu, const GemmShape& shape) {
  const GemmChip chip{bf16_peak(gpu), gpu.memory_bandwidth, gpu.l2, std::max(gpu.sms, 1)};
  return gpu.kernel_launch + gemm_time(gpu.gemm, chip, shape, element_size(Precision::bf16)).total;
}

Seconds predicted_time(const Gpu& gpu, const MeasuredKernel& row) {
  return row.product ? product_time(gpu, *row.product) : kernel_time(gpu, row.work);
}

double mean_log_error(const std::vector<MeasuredKernel>& rows, const Gpu& gpu) {
  double sum = 0;
  for (const MeasuredKernel& row : rows) sum += std::abs(std::log(predicted_time(gpu, row) / row.measured));
  return sum / static_cast<double>(rows.size());
}

FitErrors kernel_errors(const std::vector<MeasuredKernel>& rows, const Gpu& gpu) {
  std::vector<double> errors;
  for (const MeasuredKernel& row : rows) errors.push_back(std::abs(predicted_time(gpu, row) / row.measured - 1));
  return fit_errors(std::move(errors));
}

}  // namespace trainyard
