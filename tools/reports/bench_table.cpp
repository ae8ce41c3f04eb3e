#include "tools/reports/bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "models/fitted/fitting.hpp"
#include "models/fitted/nccl_log.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Microseconds in the format of nccl-tests.
std::string microseconds(double us) { return fmt::format("{:.{}f}", us, us >= 10000 ? 0 : us >= 100 ? 1 : 2); }

std::string wrong_text(const std::optional<std::int64_t>& wrong) { return wrong ? std::to_string(*wrong) : "N/A"; }

std::string timing(const BenchRow& row, const std::optional<std::int64_t>& wrong) {
  return fmt::format("  {:>7}  {:>6.2f}  {:>6.2f}  {:>5}", microseconds(row.time_us), row.algbw_GBps, row.busbw_GBps,
                     wrong_text(wrong));
}

const char* reduction_word(Reduction reduction) {
  static constexpr const char* names[] = {"sum", "avg", "max", "prod"};
  return names[static_cast<std::size_t>(reduction)];
}

bool has_measured_times(const BenchTable& table) { return !table.rows.empty() && table.rows.front().measured_us; }

bool has_intervals(const BenchTable& table) {
  return !table.rows.empty() && table.rows.front().time_interval_us.has_value();
}

bool by_packets(const BenchTable& table) { return !table.rows.empty() && table.rows.front().flow_us; }

std::string head(const BenchTable& table) {
  const BenchOptions& o = table.options;
  std::string text = fmt::format(
      "# {} on {}: {}{}, {}\n", name_of(o.operation), table.machine, counted_noun(o.ranks, "rank"),
      o.groups.size() > 1 ? fmt::format(" in each of {} groups at the same time", o.groups.size()) : "",
      o.settings.fidelity == Fidelity::modelled
          ? "as NCCL does it, by a fitted model (values are not moved)"
          : fmt::format(
                "{}, as {}{}", o.algorithm, name_of(o.settings.fidelity),
                o.mode == Mode::rendezvous ? "" : fmt::format(" ({})", kModeNames[static_cast<std::size_t>(o.mode)])));
  if (o.settings.fidelity != Fidelity::modelled)
    text +=
        "# links and their latencies alone: no protocol of a library, no launch (those are in --fidelity modelled),\n"
        "# and so no interval: no measured time is that of such messages\n";
  if (!table.capped.empty()) text += fmt::format("# adapters: {}\n", table.capped);
  if (!table.scaled.empty()) text += fmt::format("# not fitted to this {}: {}\n", table.device, table.scaled);
  if (!table.judged.empty() && !has_intervals(table)) text += fmt::format("# error to expect: {}\n", table.judged);
  if (has_intervals(table)) {
    const int systems = CollectiveDoubt::shipped().systems(o.kind);
    text +=
        fmt::format("# 80 % of measured times lie between the columns from and to ({}: {})\n", o.kind,
                    systems == 0 ? "not measured, so the widest of all" : counted_noun(systems, "measured system")) +
        "# errors differ below 64 KiB, below 64 MiB and above, so from may fall where such a range begins\n";
    if (const NcclRatios::Sizes& sizes = o.measured; sizes.most.value > 0)
      text += fmt::format(
          "# from {} to {} the node is anchored to collectives of its own, and only their scatter is left\n",
          show(sizes.least), show(sizes.most));
  }
  if (by_packets(table)) text += fmt::format("# by TCP, packet by packet: {}\n", packets_in_words());
  text += "#\n";
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place\n",
                      "", "", "", "", "");
  const auto columns = "  {:>7}  {:>6}  {:>6}  {:>5}";
  const auto twice = [&columns](const char* a, const char* b, const char* c, const char* d) {
    const std::string half = fmt::format(fmt::runtime(columns), a, b, c, d);
    return half + half;
  };
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "size", "count", "type", "redop", "root",
                      twice("time", "algbw", "busbw", "#wrong"),
                      fmt::format("{}{}{}  algorithm", has_intervals(table) ? "     from       to" : "",
                                  has_measured_times(table) ? "  measured   error" : "",
                                  by_packets(table) ? "  by flows   packets" : ""));
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "(B)", "(elements)", "", "", "",
      twice("(us)", "(GB/s)", "(GB/s)", ""),
      fmt::format("{}{}{}", has_intervals(table) ? "     (us)     (us)" : "",
                  !has_measured_times(table) ? "" : "      (us)        ", by_packets(table) ? "      (us)" : ""));
  return text;
}

/// States that NCCL's choices know nothing of contention, for the size whose time contention changes most.
std::string choice_without_contention(const BenchTable& table) {
  const BenchRow* worst = nullptr;
  const auto factor = [](const BenchRow& row) { return row.time_us / *row.chosen_by_us; };
  for (const BenchRow& row : table.rows)
    if (row.chosen_by_us && (worst == nullptr || factor(row) > factor(*worst))) worst = &row;
  if (worst == nullptr) return "";
  return fmt::format("# NCCL chooses by times without contention: {} us for {:.0f} B, which take {} us here\n",
                     microseconds(*worst->chosen_by_us), worst->size_bytes, microseconds(worst->time_us));
}

std::vector<double> errors_of(const BenchTable& table) {
  std::vector<double> errors;
  for (const BenchRow& row : table.rows)
    if (row.error) errors.push_back(std::abs(*row.error));
  std::ranges::sort(errors);
  return errors;
}

const JsonFields<BenchTable>& table_fields() {
  using T = BenchTable;
  static const JsonFields<T> fields =
      JsonFields<T>()
          .value(
              "operation", "", [](const T& t) { return std::string(name_of(t.options.operation)); },
              "name of the collective")
          .value("machine", "", &T::machine, "name of the machine")
          .value(
              "ranks", "", [](const T& t) { return t.options.ranks; }, "number of ranks of a group")
          .value(
              "fidelity", "", [](const T& t) { return std::string(name_of(t.options.settings.fidelity)); },
              "how the collective is simulated: messages, flows or modelled")
          .value(
              "mode", "", [](const T& t) { return std::string(kModeNames[static_cast<std::size_t>(t.options.mode)]); },
              "how messages move: rendezvous, eager, put or get")
          .when([](const T& t) { return t.options.settings.fidelity == Fidelity::messages; }, "with fidelity messages")
          .value("scaled", "", &T::scaled, "from which fit and by which rates a modelled collective is scaled")
          .when(&T::scaled, "if the model was not fitted to this device")
          .value("capped_adapters", "", &T::capped, "adapters between nodes, and what limits them to which rate")
          .when(&T::capped, "if a slot or the port of a switch is slower than an adapter")
          .value("unfinished", "", &T::unfinished, "how many sizes are done")
          .when(&T::unfinished, "if a signal ended the benchmark")
          .list("rows", &T::rows, bench_fields(), "a row for each size");
  return fields;
}

const RegisterJsonReference bench_table_json{"bench", "times of a collective by size, as in nccl-tests", table_fields};

/// The operation in the terms of nccl-tests. No value: nccl-tests does not have it.
std::optional<NcclOperation> nccl_tests_operation(Operation operation) {
  static const std::map<Operation, NcclOperation> names{{Operation::all_reduce, NcclOperation::all_reduce},
                                                        {Operation::all_gather, NcclOperation::all_gather},
                                                        {Operation::reduce_scatter, NcclOperation::reduce_scatter},
                                                        {Operation::all_to_all, NcclOperation::alltoall},
                                                        {Operation::broadcast, NcclOperation::broadcast},
                                                        {Operation::reduce, NcclOperation::reduce},
                                                        {Operation::send_recv, NcclOperation::sendrecv},
                                                        {Operation::gather, NcclOperation::gather},
                                                        {Operation::scatter, NcclOperation::scatter}};
  const auto found = names.find(operation);
  return found == names.end() ? std::nullopt : std::optional<NcclOperation>(found->second);
}

std::vector<NcclLog> logs_with(const std::string& log, Operation operation) {
  NcclLogHints hints;
  if (const auto wanted = nccl_tests_operation(operation)) hints.otherwise = name_of(*wanted);
  return read_nccl_logs(log, hints);
}

}  // namespace

std::string bench_text(const BenchTable& table) {
  const BenchOptions& o = table.options;
  std::string text = head(table);
  double bus = 0;
  long wrong = 0;
  bool checked = false;
  for (const BenchRow& row : table.rows) {
    text += fmt::format("{:>12.0f}  {:>12.0f}  {:>8}  {:>6}  {:>6}{}{}", row.size_bytes, row.count, table.type,
                        reduces(o.operation) ? reduction_word(o.settings.reduction) : "none",
                        has_root(o.operation) ? o.settings.root : -1, timing(row, row.wrong),
                        timing(row, row.wrong_in_place));
    if (row.time_interval_us)
      text += fmt::format("  {:>7}  {:>7}", microseconds((*row.time_interval_us)[0]),
                          microseconds((*row.time_interval_us)[1]));
    if (row.measured_us)
      text += fmt::format("  {:>8}  {:>7}", microseconds(*row.measured_us), signed_percent(*row.error));
    if (row.flow_us)
      text += fmt::format("  {:>8}  {:>8}", microseconds(*row.flow_us), signed_percent(row.time_us / *row.flow_us - 1));
    text +=
        fmt::format("  {}{}\n", row.algorithm, row.channels > 1 ? fmt::format(" of {} channels", row.channels) : "");
    bus += row.busbw_GBps;
    checked |= row.wrong.has_value();
    wrong += row.wrong.value_or(0) + row.wrong_in_place.value_or(0);
  }
  text += choice_without_contention(table);
  if (!table.unfinished.empty()) text += fmt::format("# Unfinished           : {}\n", table.unfinished);
  text += checked ? fmt::format("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED")
                  : "# Out of bounds values : not checked, no values were moved\n";
  text += fmt::format("# Avg bus bandwidth    : {:.4g}\n",
                      bus / static_cast<double>(std::max<std::size_t>(1, table.rows.size())));
  if (const std::vector<double> errors = errors_of(table); !errors.empty())
    text += fmt::format("# Error of {} sizes     : median {:.1f} %, worst {:.1f} % (simulated / measured - 1)\n",
                        errors.size(), sorted_quantile(errors, 0.5) * 100, errors.back() * 100);
  return text;
}

nlohmann::ordered_json bench_json(const BenchTable& table) { return table_fields().json(table); }

NcclLaunch launch_in(const std::string& log, Operation operation) { return logs_with(log, operation).front().launch; }

std::map<double, Seconds> measured_times(const std::string& log, const BenchOptions& o, int nodes) {
  std::map<double, std::pair<double, int>> sums;
  std::set<std::string> others;
  const std::optional<NcclOperation> wanted = nccl_tests_operation(o.operation);
  for (const NcclLog& part : logs_with(log, o.operation))
    for (const NcclRow& row : part.rows) {
      // A row of a log that does not state the number of nodes has 1.
      if (row.operation == wanted && row.gpus == o.ranks && (row.nodes == nodes || row.nodes == 1)) {
        auto& [sum, count] = sums[row.size.value];
        sum += row.time.value;
        ++count;
      } else {
        others.insert(fmt::format("{} on {}", name_of(row.operation), counted_noun(row.gpus, "GPU")));
      }
    }
  if (sums.empty())
    throw UserError(fmt::format("{}: has no {} of {}; it has {}", log, name_of(o.operation),
                                counted_noun(o.ranks, "GPU"), fmt::join(others, ", ")));
  std::map<double, Seconds> times;
  for (const auto& [size, sum] : sums) times[size] = Seconds{sum.first / sum.second};
  return times;
}

}  // namespace trainyard
