#include "scenarios/src/studies/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "sim/error.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostElements = 4096;

double usable_size(const BenchOptions& o, double size) {
  const double elements = std::floor(size / o.element.value);
  if (!has_rank_blocks(o.operation)) return elements * o.element.value;
  const double unit = std::max(1.0, std::floor(16 / o.element.value));
  return std::floor(elements / o.ranks / unit) * unit * o.ranks * o.element.value;
}

/// Returns a rank's input element. Inputs are small integers, so that sums and products are exact.
double input_element(int rank, std::size_t i, Reduction reduction) {
  if (reduction == Reduction::product) return (static_cast<std::size_t>(rank) * 7 + i) % 3 == 0 ? 2 : 1;
  return static_cast<double>((static_cast<std::size_t>(rank) * 31 + i * 17) % 97) - 48;
}

double reduced_element(const std::vector<std::vector<double>>& values, std::size_t i, Reduction reduction) {
  double result = values.front()[i];
  for (std::size_t rank = 1; rank < values.size(); ++rank) switch (reduction) {
      case Reduction::maximum:
        result = std::max(result, values[rank][i]);
        break;
      case Reduction::product:
        result *= values[rank][i];
        break;
      default:
        result += values[rank][i];
    }
  return reduction == Reduction::average ? result / static_cast<double>(values.size()) : result;
}

/// Computes the expected output of each rank by the operation's definition.
std::vector<std::vector<double>> expected_outputs(const CollectiveRunOptions& o) {
  const auto n = static_cast<std::size_t>(o.ranks), root = static_cast<std::size_t>(o.options.settings.root);
  std::vector<std::vector<double>> result(n);
  std::vector<double> sum, all_blocks;
  if (reduces(o.operation))
    for (std::size_t i = 0; i < o.values.front().size(); ++i)
      sum.push_back(reduced_element(o.values, i, o.options.settings.reduction));
  for (const std::vector<double>& block : o.values) all_blocks.insert(all_blocks.end(), block.begin(), block.end());
  const auto part = [n](const std::vector<double>& values, std::size_t rank) {
    return std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(values.size() * rank / n),
                               values.begin() + static_cast<std::ptrdiff_t>(values.size() * (rank + 1) / n));
  };
  for (std::size_t rank = 0; rank < n; ++rank) switch (o.operation) {
      case Operation::all_reduce:
        result[rank] = sum;
        break;
      case Operation::reduce:
        if (rank == root) result[rank] = sum;
        break;
      case Operation::reduce_scatter:
        result[rank] = part(sum, rank);
        break;
      case Operation::all_gather:
        result[rank] = all_blocks;
        break;
      case Operation::gather:
        if (rank == root) result[rank] = all_blocks;
        break;
      case Operation::broadcast:
        result[rank] = o.values[root];
        break;
      case Operation::scatter:
        result[rank] = part(o.values[root], rank);
        break;
      case Operation::send_recv:
        result[rank] = o.values[(rank + n - 1) % n];
        break;
      case Operation::all_to_all:
      case Operation::all_to_all_v:
        for (std::size_t from = 0; from < n; ++from) {
          const std::vector<double> block = part(o.values[from], rank);
          result[rank].insert(result[rank].end(), block.begin(), block.end());
        }
        break;
      case Operation::barrier:
        result[rank] = o.values[rank];
        break;
    }
  return result;
}

CollectiveRunOptions run_options(const BenchOptions& o, double size) {
  CollectiveRunOptions run;
  run.ranks = o.ranks;
  run.operation = o.operation;
  run.algorithm = o.algorithm;
  run.options.size = Bytes{size};
  run.options.settings = o.settings;
  run.options.mode = o.mode;
  run.groups = o.groups;
  run.keep_steps = false;
  run.software = o.software;
  run.folding = o.folding;
  run.slow = o.slow;
  return run;
}

/// True for the operations for which NCCL has several algorithms. The others are messages between pairs.
bool has_algorithms(Operation operation) {
  return std::ranges::none_of(std::array{Operation::send_recv, Operation::gather, Operation::scatter,
                                         Operation::all_to_all, Operation::all_to_all_v},
                              [operation](Operation pairs) { return pairs == operation; });
}

/// Names the algorithm and the protocol of a modelled collective ("NCCL, ring, LL128"), and counts its rings. Compares its
/// time with the one by which NCCL chooses.
void describe_modelled(BenchRow& row, const BenchOptions& o, Seconds time) {
  constexpr double kNoticed = 1.05;
  const NodeSpread spread = o.settings.spread(o.ranks);
  const ModelledCost cost = o.settings.model->cost(o.operation, Bytes{row.size_bytes}, spread);
  if (!cost.detail.empty()) row.algorithm = "NCCL, " + cost.detail;
  row.channels = cost.rings ? modelled_rings(o.settings, o.ranks) : 0;
  const Seconds alone = cost.rate.value > 0 ? cost.latency + cost.wire / cost.rate : cost.latency;
  if (spread.nodes > 1 && has_algorithms(o.operation) && time > alone * (kNoticed * o.settings.slowdown))
    row.chosen_by_us = alone.value * 1e6;
}

/// Returns the number of elements of a rank's input whose values a check moves: those of the real size, but at most
/// 4,096, in equal blocks. `element`: size of an element.
std::size_t moved_elements(const CollectiveRunOptions& o, Bytes element) {
  const auto n = static_cast<std::size_t>(o.ranks);
  const bool sends_one_block = o.operation == Operation::all_gather || o.operation == Operation::gather;
  const double real = std::floor(o.options.size / element);
  if (!has_rank_blocks(o.operation))
    return static_cast<std::size_t>(std::clamp(real, 0.0, static_cast<double>(kMostElements)));
  const std::size_t most = std::max<std::size_t>(1, kMostElements / n);
  const auto block =
      static_cast<std::size_t>(std::clamp(std::floor(real / static_cast<double>(n)), 0.0, static_cast<double>(most)));
  return sends_one_block ? block : block * n;
}

/// Counts the elements that differ from the operation's definition. The messages of the collective move arrays of
/// `moved_elements`. If they do so out of place, each changed element of an input counts too.
long wrong_elements(const ClusterSpec& cluster, const CollectiveRunOptions& options, Bytes element) {
  CollectiveRunOptions o = options;
  const auto n = static_cast<std::size_t>(o.ranks);
  std::size_t elements = moved_elements(o, element);
  if (collectives(o.operation).find(o.algorithm, {}).equal_chunks) elements -= elements % n;
  o.values.clear();
  for (int rank = 0; rank < o.ranks; ++rank) {
    std::vector<double>& values = o.values.emplace_back();
    for (std::size_t i = 0; i < elements; ++i) values.push_back(input_element(rank, i, o.options.settings.reduction));
  }
  const CollectiveRun run = run_collective(cluster, o);
  const std::vector<std::vector<double>> expected = expected_outputs(o);
  long wrong = 0;
  const auto compare = [&wrong](const std::vector<double>& got, const std::vector<double>& want) {
    wrong += std::labs(static_cast<long>(got.size()) - static_cast<long>(want.size()));
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) wrong += got[i] == want[i] ? 0 : 1;
  };
  for (std::size_t rank = 0; rank < n; ++rank) compare(run.values[rank], expected[rank]);
  for (std::size_t rank = 0; rank < run.inputs.size(); ++rank) compare(run.inputs[rank], o.values[rank]);
  return wrong;
}

}  // namespace

const JsonFields<BenchRow>& bench_fields() {
  using R = BenchRow;
  const auto compared = [](const R& r) { return r.measured_us.has_value(); };
  static const JsonFields<R> fields =
      JsonFields<R>()
          .value("size_bytes", "bytes", &R::size_bytes, "size of the data, as nccl-tests counts it")
          .value("count", "", &R::count, "number of elements, as nccl-tests counts them")
          .value("time_us", "us", &R::time_us, "time of the collective")
          .value("algbw_GBps", "GB/s", &R::algbw_GBps, "algorithm bandwidth: size over time")
          .value("busbw_GBps", "GB/s", &R::busbw_GBps, "bus bandwidth: what a link carries, as nccl-tests defines it")
          .value("wrong", "", &R::wrong, "number of wrong elements, out of place; null if no values are moved")
          .value("wrong_in_place", "", &R::wrong_in_place,
                 "number of wrong elements, in place; null if no values are moved")
          .value("algorithm", "", &R::algorithm, "algorithm; of NCCL with its protocol: \"NCCL, ring, Simple\"")
          .value("channels", "", &R::channels,
                 "number of parts of the data that move at the same time, such as rings; 0: NCCL takes no ring")
          .value("time_interval_us", "us", &R::time_interval_us,
                 "lower and upper end of the interval that holds a measured time with a probability of 80 %")
          .when(&R::time_interval_us, "with fidelity modelled")
          .value("measured_us", "us", &R::measured_us, "measured time")
          .value("error", "share", &R::error, "simulated over measured time, minus one")
          .when_since("measured_us", compared, "with --compare")
          .value("flow_us", "us", &R::flow_us, "time by the default transport")
          .when(&R::flow_us, "with --transport packets")
          .value("chosen_by_us", "us", &R::chosen_by_us,
                 "time without contention, by which NCCL chooses its algorithm and protocol")
          .when(&R::chosen_by_us, "with fidelity modelled, if contention between nodes makes the time over 5 % longer");
  return fields;
}

std::vector<double> bench_sizes(const BenchOptions& o) {
  if (!(o.factor > 1))
    throw UserError(fmt::format("-f {}: the factor from one size to the next must be above 1", o.factor));
  if (!(o.first.value > 0)) throw UserError(fmt::format("-b {}: the first size must be above 0", show(o.first)));
  if (o.last < o.first)
    throw UserError(fmt::format("-e {}: the last size must be at least the first, {}", show(o.last), show(o.first)));
  if (o.operation == Operation::barrier) return {std::floor(o.first.value)};  // a barrier moves no data: one row
  std::vector<double> sizes;
  for (double size = o.first.value; size <= o.last.value * (1 + 1e-12); size *= o.factor) {
    sizes.push_back(std::floor(size));
    if (sizes.size() > 10000) throw UserError(fmt::format("-f {}: over 10,000 sizes", o.factor));
  }
  return sizes;
}

PacketCost packet_cost(const ClusterSpec& cluster, const BenchOptions& o, double size) {
  CollectiveRunOptions options = run_options(o, usable_size(o, size));
  if (o.algorithm == "auto")
    options.algorithm =
        tune(o.operation, options.options.size, cluster, o.ranks, o.settings, o.software, true).best().algorithm->name;
  const CollectiveRun run = run_collective(cluster, options);
  return {run.crossings, static_cast<double>(run.messages)};
}

double fold_difference(const ClusterSpec& cluster, const BenchOptions& o, double size) {
  CollectiveRunOptions options = run_options(o, usable_size(o, size));
  options.folding = Folding::automatic;
  const CollectiveRun folded = run_collective(cluster, options);
  options.folding = Folding::off;
  const CollectiveRun unfolded = run_collective(cluster, options);
  double worst = 0;
  const auto compare = [&worst](double a, double b) {
    worst = std::max(worst, std::abs(a - b) / std::max({std::abs(a), std::abs(b), 1e-300}));
  };
  compare(folded.time, unfolded.time);
  for (std::size_t rank = 0; rank < unfolded.sent.size(); ++rank) {
    compare(folded.sent[rank], unfolded.sent[rank]);
    compare(folded.received[rank], unfolded.received[rank]);
  }
  for (const auto& [link, bytes] : unfolded.links) {  // a link that is missing in the other run carries nothing there
    const auto found = folded.links.find(link);
    compare(found == folded.links.end() ? 0 : found->second, bytes);
  }
  return folded.links.size() == unfolded.links.size() ? worst : 1;
}

BenchRow bench_row(const ClusterSpec& cluster, const BenchOptions& o, double size, std::optional<Seconds> measured) {
  BenchRow row;
  row.size_bytes = usable_size(o, size);
  row.count = row.size_bytes / o.element.value / (has_rank_blocks(o.operation) ? o.ranks : 1);
  row.algorithm = o.algorithm;
  CollectiveRunOptions run = run_options(o, row.size_bytes);
  if (o.algorithm == "auto") {
    const Tuning tuned = tune(o.operation, Bytes{row.size_bytes}, cluster, o.ranks, o.settings, o.software, true);
    row.algorithm = run.algorithm = tuned.best().algorithm->name;
    run.options.settings.channels = tuned.best().channels;
  }
  if (o.settings.fidelity != Fidelity::modelled)
    row.channels = collectives(o.operation).find(run.algorithm, {}).channels_of({0, o.ranks, &run.options.settings});
  run.options.in_place = o.operation != Operation::all_to_all_v;
  if (o.transport == TransportKind::packets) row.flow_us = run_collective(cluster, run).time * 1e6;
  run.transport = o.transport;
  run.port_buffer = o.port_buffer;
  const double time = o.modelled ? o.modelled->time(Bytes{row.size_bytes}).value : run_collective(cluster, run).time;
  row.time_us = time * 1e6;
  if (o.settings.fidelity == Fidelity::modelled) describe_modelled(row, o, Seconds{time});
  if (!o.kind.empty() && time > 0) {
    const Bytes bytes{row.size_bytes};
    const StepRange range = CollectiveDoubt::shipped().range(o.kind, bytes, o.measured.hold(bytes));
    row.time_interval_us = {row.time_us * range.low, row.time_us * range.high};
  }
  const double bandwidth = time > 0 ? row.size_bytes / time : 0;
  row.algbw_GBps = bandwidth * 1e-9;
  row.busbw_GBps = bandwidth * bus_factor(o.operation, o.ranks) * 1e-9;
  if (o.operation == Operation::barrier) row.size_bytes = row.count = row.algbw_GBps = row.busbw_GBps = 0;
  if (measured) {
    row.measured_us = measured->value * 1e6;
    row.error = time / measured->value - 1;
  }
  if (!o.check || o.settings.fidelity != Fidelity::messages || o.operation == Operation::barrier) return row;
  run.transport = kDefaultTransport;
  run.groups.resize(std::min<std::size_t>(run.groups.size(), 1));
  if (run.options.in_place) row.wrong_in_place = wrong_elements(cluster, run, o.element);
  run.options.in_place = false;
  row.wrong = wrong_elements(cluster, run, o.element);
  return row;
}

}  // namespace trainyard
