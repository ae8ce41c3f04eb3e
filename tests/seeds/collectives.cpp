// CHAIN-*, PRIM-01, CPLX-*, BURST-01: results of the operations, and costs of their algorithms.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/collectives/collective_run.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

using RankValues = std::vector<std::vector<double>>;

CollectiveRunOptions options(Operation operation, const std::string& algorithm, int ranks, double bytes) {
  CollectiveRunOptions o = test::collective_options(operation, algorithm, ranks, Bytes{bytes});
  o.options.settings.chunk = Bytes{1e18};  // only the algorithm cuts the buffer
  return o;
}

constexpr double kSize = 1e9;  // bytes; a link has as many bytes/s, so times are in units of S/B
CollectiveRun unit_run(Operation operation, const std::string& algorithm, int ranks) {
  return run_collective(star_cluster(ranks, BytesPerSecond{kSize}), options(operation, algorithm, ranks, kSize));
}
/// Returns the average number of messages under way. Each moves at the rate of a link.
double active_senders(const CollectiveRun& run) { return run.total / (run.time * kSize); }

SeedFigures chain_01(const Node& inputs) {
  SeedFigures got;
  for (const double n : numbers_of(inputs, "n")) {
    const CollectiveRun run = unit_run(Operation::reduce, "chain", static_cast<int>(n));
    got[fmt::format("aggregate_time {}", n)] = run.time;
    got[fmt::format("active_senders {}", n)] = active_senders(run);
  }
  return got;
}

SeedFigures chain_02(const Node& inputs) {
  SeedFigures got;
  for (const double n : numbers_of(inputs, "n")) {
    const CollectiveRun reduce = unit_run(Operation::reduce_scatter, "ring", static_cast<int>(n));
    got[fmt::format("reduce_time {}", n)] = reduce.time;
    got[fmt::format("full_allreduce {}", n)] = unit_run(Operation::all_reduce, "ring", static_cast<int>(n)).time;
    got[fmt::format("active_senders {}", n)] = active_senders(reduce);
  }
  return got;
}

SeedFigures chain_03(const Node& inputs) {
  const int n = static_cast<int>(number_of(inputs, "n"));
  CollectiveRunOptions o = options(Operation::all_reduce, "ring-reversed", n, kSize);
  o.values = RankValues(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(n), 1.0));
  const CollectiveRun run = run_collective(star_cluster(n, BytesPerSecond{kSize}), o);
  SeedFigures got{{"steps", n - 1}};
  const auto& buffers = run.steps[static_cast<std::size_t>(n) - 2];
  // A chunk has the number of the node where it began to move.
  for (int chunk = 0; chunk < n; ++chunk)
    for (int node = 0; node < n; ++node)
      if (buffers[static_cast<std::size_t>(node)][static_cast<std::size_t>(chunk)] == n)
        got[fmt::format("chunk_of_node_{}_complete_at", (n - chunk) % n)] = node;
  return got;
}

RankValues results(Operation operation, const std::string& algorithm, RankValues values,
                   Reduction reduction = Reduction::sum) {
  const int n = static_cast<int>(values.size());
  CollectiveRunOptions o = options(operation, algorithm, n, 8.0 * n);
  o.values = std::move(values);
  o.options.settings.reduction = reduction;
  return run_collective(star_cluster(n, BytesPerSecond{kSize}), o).values;
}

std::string words(const std::vector<double>& values) { return fmt::format("{}", fmt::join(values, " ")); }

SeedFigures prim_01(const Node&) {
  const RankValues one_element{{1}, {2}, {3}, {4}};
  const RankValues list{{1, 2, 3, 4}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  const RankValues tens{{1, 2, 3, 4}, {10, 20, 30, 40}, {100, 200, 300, 400}, {1000, 2000, 3000, 4000}};
  SeedFigures got;
  got["send_recv"] = words(results(Operation::send_recv, "ring-shift", {{1}, {2}})[1]);
  got["gather_root"] = words(results(Operation::gather, "sequential", one_element)[0]);
  got["reduce_sum_root"] = words(results(Operation::reduce, "sequential", one_element)[0]);
  got["reduce_mean_root"] = words(results(Operation::reduce, "sequential", one_element, Reduction::average)[0]);
  const auto put_values = [&got](const char* name, const RankValues& values) {
    std::string text;
    for (const auto& rank_values : values) text += (text.empty() ? "" : " | ") + words(rank_values);
    got[name] = text;
  };
  put_values("scatter", results(Operation::scatter, "sequential", list));
  put_values("broadcast", results(Operation::broadcast, "sequential", one_element));
  put_values("allreduce", results(Operation::all_reduce, "ring", one_element));
  put_values("allgather", results(Operation::all_gather, "ring", one_element));
  put_values("reduce_scatter", results(Operation::reduce_scatter, "ring", tens));
  return got;
}

/// Adds the steps, the peak traffic of a rank and the total traffic of an all-reduce. Counts steps by messages without
/// bytes, which take 5 us each.
void add_costs(SeedFigures& got, const std::string& name, const std::string& algorithm, int members, int workers,
               bool through_server) {
  const Picoseconds alpha{5000000};
  const double steps = run_collective(star_cluster(members, BytesPerSecond{kSize}, alpha),
                                      options(Operation::all_reduce, algorithm, members, 0))
                           .time;
  const CollectiveRun run = unit_run(Operation::all_reduce, algorithm, members);
  double peak = 0;
  for (std::size_t rank = 0; rank < run.sent.size(); ++rank)
    peak = std::max(
        peak, through_server ? run.sent[rank] + run.received[rank] : std::max(run.sent[rank], run.received[rank]));
  got[fmt::format("{} steps {}", name, workers)] = steps / alpha.seconds().value;
  got[fmt::format("{} peak {}", name, workers)] = peak / kSize;
  got[fmt::format("{} total {}", name, workers)] = run.total / kSize;
}

SeedFigures cplx_01(const Node& inputs) {
  SeedFigures got;
  for (const double count : numbers_of(inputs, "N")) {
    const int n = static_cast<int>(count);
    add_costs(got, "sequential", "sequential", n, n, false);
    add_costs(got, "parameter-server", "parameter-server", n + 1, n, true);  // the server is an extra member
    add_costs(got, "ring", "ring", n, n, false);
    add_costs(got, "parallel", "parallel", n, n, false);
    add_costs(got, "recursive-doubling", "recursive-doubling", n, n, false);
    add_costs(got, "halving-doubling", "halving-doubling", n, n, false);
    add_costs(got, "reduce-broadcast", "reduce-broadcast", n, n, false);
  }
  return got;
}

SeedFigures cplx_02(const Node& inputs) {
  const int n = static_cast<int>(number_of(inputs, "N"));
  const Picoseconds alpha = to_picoseconds(Seconds{number_of(inputs, "alpha_us") * 1e-6});
  const ClusterSpec star = star_cluster(n, BytesPerSecond{number_of(inputs, "B_GBps") * 1e9}, alpha);
  SeedFigures got;
  for (const double kb : numbers_of(inputs, "S_kB"))
    for (const char* algorithm : {"ring", "recursive-doubling", "halving-doubling"})
      got[fmt::format("{}_ms {} kB", algorithm, kb)] =
          run_collective(star, options(Operation::all_reduce, algorithm, n, kb * 1e3)).time * 1e3;
  return got;
}

SeedFigures burst_01(const Node& inputs) {
  const int n = static_cast<int>(number_of(inputs, "n")), tensors = static_cast<int>(number_of(inputs, "tensors"));
  const double bytes_each = number_of(inputs, "MB_each") * 1e6;
  const Picoseconds alpha = to_picoseconds(Seconds{number_of(inputs, "alpha_us") * 1e-6});
  const ClusterSpec star = star_cluster(n, BytesPerSecond{number_of(inputs, "GBps") * 1e9}, alpha);
  CollectiveRunOptions one_by_one = options(Operation::all_reduce, "ring", n, bytes_each);
  one_by_one.options.times = tensors;
  return {
      {"fused_ms", run_collective(star, options(Operation::all_reduce, "ring", n, bytes_each * tensors)).time * 1e3},
      {"unfused_ms", run_collective(star, one_by_one).time * 1e3}};
}

const RegisterSeed collective_seeds[] = {{"CHAIN-01", chain_01}, {"CHAIN-02", chain_02}, {"CHAIN-03", chain_03},
                                         {"PRIM-01", prim_01},   {"CPLX-01", cplx_01},   {"CPLX-02", cplx_02},
                                         {"BURST-01", burst_01}};

}  // namespace
}  // namespace trainyard
