// Measurements of the machine itself: collectives of nccl-tests, and matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "models/fitted/measured_kernels.hpp"
#include "models/fitted/measured_table.hpp"
#include "models/fitted/nccl_cost.hpp"
#include "models/fitted/nccl_log.hpp"
#include "scenarios/src/studies/measured/part_fitter.hpp"
#include "scenarios/src/traces/kineto_comparison.hpp"
#include "sim/error.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {
namespace {

// Spreads of ln(measured / predicted). Those of NCCL come from the errors of systems that were left out of the fit in
// turn: half of the errors are within 7 to 8 %, and nine tenths within 27 %
// (models/catalog/nccl-networks/infiniband.yaml). Nine of 55 systems of several nodes reach less than half of the
// bandwidth of their wires (`validate collectives`), so the prior of rates is as wide as that of start-ups. It is
// unverified that start-ups, rates and products of a machine differ from the catalog's by so much.
constexpr double kStartupPrior = 0.3, kRatePrior = 0.3, kCollectiveError = 0.1;
constexpr double kProductPrior = 0.08, kProductError = 0.08;

/// A collective of a log, and the choice of NCCL with which it ran.
struct LoggedCollective {
  NcclRow row;
  NcclChoice choice;
};

/// Reads the logs of the scenario's GPU. nccl.csv may hold logs of several GPUs.
std::vector<NcclLog> logs_of_gpu(const std::string& file, const Gpu& gpu) {
  std::vector<NcclLog> logs = read_nccl_logs(file, {});
  std::vector<std::string> names;
  for (const NcclLog& log : logs) names.push_back(log.gpu);
  std::erase_if(logs, [&gpu](const NcclLog& log) {
    return !log.gpu.empty() && log.gpu != gpu.name && log.gpu != gpu.measured_as && !other_gpu(gpu, log.gpu, 0).empty();
  });
  if (logs.empty())
    throw UserError(
        fmt::format("{}: measured on {}; expected the scenario's GPU, {}", file, fmt::join(names, ", "), gpu.name));
  return logs;
}

std::vector<LoggedCollective> read_collectives(const std::vector<std::string>& files, const Scenario& s) {
  const NodeType& node = s.cluster.node;
  if (!s.cluster.others.empty())
    throw UserError("anchor: nccl-tests of nodes of several types cannot be fitted; a cluster of one type expected");
  std::vector<LoggedCollective> all;
  for (const std::string& file : files)
    for (const NcclLog& log : logs_of_gpu(file, node.gpu)) {
      NcclChoice choice = s.software.nccl_choice;
      if (!log.version.empty()) choice.version = parse_nccl_version(log.version);
      choice.launch = log.launch;
      for (NcclRow row : log.rows) {
        row.nodes = std::max(row.nodes, (row.gpus + node.gpus - 1) / node.gpus);
        if (row.gpus % row.nodes != 0 || row.nodes > s.cluster.nodes)
          throw UserError(fmt::format("{}: {} GPUs on {} node{}; the scenario's cluster has {} node{} of {} GPUs", file,
                                      row.gpus, row.nodes, row.nodes == 1 ? "" : "s", s.cluster.nodes,
                                      s.cluster.nodes == 1 ? "" : "s", node.gpus));
        all.push_back({row, choice});
      }
    }
  return all;
}

std::vector<double> predict_collectives(const std::vector<LoggedCollective>& logged, const Scenario& s) {
  std::vector<double> times;
  std::optional<NcclNode> node;
  for (std::size_t i = 0; i < logged.size(); ++i) {
    const auto& [row, choice] = logged[i];
    const bool has_same_choice =
        i > 0 && logged[i - 1].choice.version == choice.version && logged[i - 1].choice.launch == choice.launch;
    if (!has_same_choice) node = nccl_nodes(s.cluster, choice).front();
    const NcclCall call = node->call(row.operation, row.size, {row.gpus, row.nodes, row.gpus / row.nodes});
    times.push_back(nccl_cost(node->model(call), call).time.value);
  }
  return times;
}

/// Returns the changes of the node that state the sizes of the collectives, in a node and between nodes.
Overrides measured_sizes(const std::vector<LoggedCollective>& logged) {
  Overrides sets;
  for (const bool crosses_nodes : {false, true}) {
    Bytes least{HUGE_VAL}, most;
    for (const auto& [row, choice] : logged) {
      if ((row.nodes > 1) != crosses_nodes) continue;
      least = std::min(least, row.size);
      most = std::max(most, row.size);
    }
    if (most.value <= 0) continue;
    const std::string key = std::string("cluster.node.nccl.") + (crosses_nodes ? "network_measured" : "measured");
    sets.emplace_back(key + ".least", fmt::format("{:.0f} B", least.value));
    sets.emplace_back(key + ".most", fmt::format("{:.0f} B", most.value));
  }
  return sets;
}

}  // namespace

void fit_collectives(PartFitter& fitter, const std::vector<std::string>& files) {
  const Scenario s = fitter.scenario();
  const std::vector<LoggedCollective> logged = read_collectives(files, s);
  PartRows rows;
  bool crosses_nodes = false;
  for (const auto& [row, choice] : logged) {
    rows.add(fmt::format("{} of {} GPUs, {}", name_of(row.operation), row.gpus, show(row.size)), row.time.value);
    crosses_nodes |= row.nodes > 1;
  }
  rows.words = fmt::format("{} collective{} of nccl-tests", logged.size(), logged.size() == 1 ? "" : "s");
  rows.predict = [&logged](const Scenario& trial) { return predict_collectives(logged, trial); };
  constexpr double least = 0.05, most = 20;
  const auto rule = [](const char* words, double prior, const char* key, double value, bool is_rate) {
    return ScaleRule{words, prior, {{std::string("cluster.node.nccl.") + key, value, least, most, is_rate, ""}}};
  };
  const NcclRatios& ratios = s.cluster.node.nccl;
  std::vector<ScaleRule> rules{rule("NCCL's start-ups in a node", kStartupPrior, "startup", ratios.startup, false),
                               rule("NCCL's transfers in a node", kRatePrior, "rate", ratios.rate, true)};
  if (crosses_nodes) {
    rules.push_back(
        rule("NCCL's start-ups between nodes", kStartupPrior, "network_startup", ratios.network_startup, false));
    rules.push_back(rule("NCCL's transfers between nodes", kRatePrior, "network_rate", ratios.network_rate, true));
  }
  fitter.fit(rows, rules,
             {.row_error = kCollectiveError, .most_rows = kMostPartRows * static_cast<double>(rules.size())},
             measured_sizes(logged));
}

namespace {

/// A column by which a table may state how long a product takes.
struct TimeColumn {
  const char* name;
  double seconds;  ///< length of one unit; 0: a rate in TFLOP/s
};
constexpr TimeColumn kTimeColumns[] = {{"time_us", 1e-6}, {"latency_us", 1e-6}, {"time_s", 1}, {"tflops", 0}};

const TimeColumn& time_column(const MeasuredTable& table) {
  std::vector<std::string> names;
  for (const TimeColumn& column : kTimeColumns) {
    if (table.has_column(column.name)) return column;
    names.emplace_back(column.name);
  }
  throw UserError(fmt::format("{}: no time of a product; expected a column {}", table.name(), fmt::join(names, ", ")));
}

Precision precision_of(const MeasuredTable& table, const char* column, const Gpu& gpu) {
  static const std::map<std::string, std::string> torch_names{
      {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}, {"float32", "fp32"}};
  const std::string& text = table.text(column);
  const auto torch = torch_names.find(text);
  try {
    const Precision precision = parse_precision(torch == torch_names.end() ? text : torch->second);
    if (gpu.peak[static_cast<std::size_t>(precision)].value > 0) return precision;
  } catch (const UserError& e) {
    table.refuse(fmt::format("{}: {}", column, e.what()), column);
  }
  table.refuse(fmt::format("{}: {} has no {}", column, gpu.name, text), column);
}

/// Reads the products of the GPU. Leaves out those that are faster than its peak, and adds their number to
/// `impossible`.
std::vector<MeasuredKernel> read_product_times(const std::string& file, const Gpu& gpu, std::size_t& impossible) {
  MeasuredTable table(file, {"m", "n", "k"});
  const char* precision = table.has_column("precision") ? "precision" : "dtype";
  table.column(precision);
  const TimeColumn& time = time_column(table);
  const bool has_gpu_column = table.has_column("gpu");
  std::vector<MeasuredKernel> products;
  std::size_t small_products = 0;
  while (table.next()) {
    if (has_gpu_column && table.text("gpu") != gpu.measured_as && !other_gpu(gpu, table.text("gpu"), 0).empty())
      continue;
    const GemmShape shape{table.positive("m"), table.positive("n"), table.positive("k")};
    const Flops flops{2 * shape.m * shape.n * shape.k};
    const Precision type = precision_of(table, precision, gpu);
    const double value = table.positive(time.name);
    const Seconds measured{time.seconds > 0 ? value * time.seconds : flops.value / (value * 1e12)};
    if (flops < kLeastFittedWork) {
      ++small_products;
      continue;
    }
    if (measured < flops / gpu.peak[static_cast<std::size_t>(type)]) {
      ++impossible;
      continue;
    }
    const Bytes bytes = element_size(type) * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
    products.push_back({{flops, bytes, kernel_of(shape), static_cast<std::uint8_t>(type)}, shape, measured});
  }
  if (products.empty())
    throw UserError(
        fmt::format("{}: no product of {} to fit to: {} of less than {:.0e} FLOP, {} faster than the chip's peak (is "
                    "the unit right?)",
                    file, gpu.name, small_products, kLeastFittedWork.value, impossible));
  return products;
}

}  // namespace

void fit_products(PartFitter& fitter, const std::vector<std::string>& files) {
  PartRows rows;
  // A table is measured on the bare chip in a short test, so the stack's figures do not count.
  rows.conditions = {{"software.long_runs", "false"}, {"software.slowdowns.products", "1"}};
  const Gpu gpu = fitter.scenario(rows.conditions).cluster.node.gpu;
  std::vector<MeasuredKernel> products;
  std::size_t impossible = 0;
  for (const std::string& file : files)
    for (MeasuredKernel& product : read_product_times(file, gpu, impossible)) products.push_back(std::move(product));
  for (const MeasuredKernel& product : products)
    rows.add(fmt::format("{:.0f} x {:.0f} x {:.0f} in {}", product.product->m, product.product->n, product.product->k,
                         name_of(static_cast<Precision>(product.work.precision))),
             product.measured.value);
  rows.words = fmt::format("{} matrix product{}", products.size(), products.size() == 1 ? "" : "s");
  if (impossible > 0) rows.words += fmt::format(" ({} faster than the chip's peak left out)", impossible);
  rows.predict = [&products](const Scenario& trial) {
    std::vector<double> times;
    for (const MeasuredKernel& product : products)
      times.push_back(kernel_time(trial.cluster.node.gpu, product.work).value);
    return times;
  };
  const std::string path = "cluster.node.gpu.";
  ScaleRule rule{"the GPU's matrix products", kProductPrior, {}};
  Overrides always;
  if (gpu.gemm.is_given) {
    const FlopsPerSecond bf16 = gpu.peak[static_cast<std::size_t>(Precision::bf16)],
                         peak = bf16.value > 0 ? bf16 : gpu.peak[static_cast<std::size_t>(Precision::fp16)];
    rule.keys = {{path + "gemm.peak", gpu.gemm.peak, 1e-6, 1, true, ""},
                 {path + "gemm.memory", gpu.gemm.memory, 1e-6, 1, true, ""},
                 {path + "gemm.l2_feed", gpu.gemm.l2_feed.value, 1, HUGE_VAL, true, " B/s"}};
    // The fitted shares refer to this chip's own peak.
    always = {{path + "gemm.rated_peak", fmt::format("{:.6g} FLOP/s", peak.value)},
              {path + "gemm.throttle_after", fmt::format("{:.6g} s", gpu.gemm.throttle_after.value)}};
  } else {
    const Gpu::Efficiency& share = gpu.efficiency[static_cast<std::size_t>(Kernel::gemm)];
    rule.keys = {{path + "efficiency.gemm.flops", share.flops, 1e-6, 1, true, ""},
                 {path + "efficiency.gemm.memory", share.memory, 1e-6, 1, true, ""}};
  }
  fitter.fit(rows, {rule}, {.row_error = kProductError, .most_rows = kMostPartRows}, always);
}

}  // namespace trainyard
