// TRAF-*: traffic of each rank; UNIT-01: bits and bytes; COLL-IDEN: all algorithms give the same sum.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/collectives/collective_run.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

CollectiveRun all_reduce(const std::string& algorithm, int ranks, double bytes,
                         std::vector<std::vector<double>> values = {}) {
  CollectiveRunOptions o = test::collective_options(Operation::all_reduce, algorithm, ranks, Bytes{bytes});
  o.values = std::move(values);
  return run_collective(star_cluster(ranks, BytesPerSecond{1e9}), o);
}

SeedFigures traf_01(const Node& inputs) {
  constexpr double s = 1e6;
  SeedFigures got;
  for (const double n : numbers_of(inputs, "n")) {
    const CollectiveRun run = all_reduce("gather-broadcast", static_cast<int>(n), s);
    got[fmt::format("total_in_units_of_s {}", n)] = run.total / s;
    got[fmt::format("into_master {}", n)] = run.received[0] / s;
    got[fmt::format("out_of_master {}", n)] = run.sent[0] / s;
  }
  return got;
}

SeedFigures traf_02(const Node& inputs) {
  constexpr double s = 1e6;
  SeedFigures got;
  for (const double n : numbers_of(inputs, "n")) {
    const CollectiveRun ring = all_reduce("ring", static_cast<int>(n), s);
    const CollectiveRun master = all_reduce("gather-broadcast", static_cast<int>(n), s);
    const double most = *std::max_element(ring.sent.begin(), ring.sent.end());
    got[fmt::format("per_node_tx {}", n)] = most / s;
    got[fmt::format("total {}", n)] = ring.total / s;
    // All traffic of the master, relative to what a node of the ring sends.
    got[fmt::format("ratio_master_peak_to_ring_peak {}", n)] = (master.sent[0] + master.received[0]) / most;
  }
  return got;
}

SeedFigures traf_03(const Node& inputs) {
  SeedFigures got;
  for (const double count : numbers_of(inputs, "n")) {
    const int n = static_cast<int>(count);
    // All values are 1, so a chunk is complete if it holds n.
    const CollectiveRun run =
        all_reduce("ring", n, 1e6,
                   std::vector<std::vector<double>>(static_cast<std::size_t>(n),
                                                    std::vector<double>(static_cast<std::size_t>(n), 1.0)));
    int reduced = 0, everywhere = 0, complete_after_n = 0;
    for (std::size_t step = 0; step < run.steps.size(); ++step) {
      bool has_each_chunk = true, has_all = true;
      for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(n); ++chunk) {
        bool somewhere = false;
        for (const auto& buffer : run.steps[step]) {
          somewhere |= buffer[chunk] == n;
          has_all &= buffer[chunk] == n;
        }
        has_each_chunk &= somewhere;
      }
      const int round = static_cast<int>(step) + 1;
      if (has_each_chunk && reduced == 0) reduced = round;
      if (has_all && everywhere == 0) everywhere = round;
      if (round == n)
        complete_after_n = static_cast<int>(std::count(run.steps[step][0].begin(), run.steps[step][0].end(), n));
    }
    got[fmt::format("rounds_until_each_chunk_fully_reduced {}", n)] = reduced;
    got[fmt::format("rounds_until_all_nodes_hold_everything {}", n)] = everywhere;
    got[fmt::format("complete_chunks_a_node_after_n_rounds {}", n)] = complete_after_n;
  }
  return got;
}

SeedFigures unit_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes size = fields.bytes("size");
  SeedFigures got;
  for (const char* key : {"bits", "bytes"}) {
    // On a star of two ranks, gather-broadcast sends the message there and back.
    CollectiveRunOptions o;
    o.algorithm = "gather-broadcast";
    o.options.size = size;
    got[fmt::format("ms_if_{}", key)] = run_collective(star_cluster(2, fields.bandwidth(key)), o).time * 1e3 / 2;
  }
  return got;
}

/// Returns true if the algorithm needs more than plain settings: rings, switches or nodes.
bool needs_settings(const std::string& algorithm, int ranks) {
  const Collective& found = collectives(Operation::all_reduce).find(algorithm, {});
  return found.refuses && !found.refuses({0, ranks}).empty();
}

SeedFigures coll_iden(const Node& inputs) {
  SeedFigures got;
  for (const std::string& algorithm : collectives(Operation::all_reduce).names()) {
    bool identical = true;
    for (const double count : numbers_of(inputs, "n")) {
      const auto n = static_cast<std::size_t>(count);
      if (needs_settings(algorithm, static_cast<int>(n))) continue;
      const std::size_t elements = 11;  // no multiple of any n, so that chunks differ in size
      std::vector<std::vector<double>> values(n, std::vector<double>(elements));
      std::vector<double> sum(elements, 0.0);
      for (std::size_t rank = 0; rank < n; ++rank)
        for (std::size_t e = 0; e < elements; ++e) sum[e] += values[rank][e] = static_cast<double>(rank * 1000 + e);
      // The literal ring overwrites a chunk with its neighbour, so its chunks must be of one size.
      if (algorithm == "ring-literal" && elements % n != 0) continue;
      const CollectiveRun run = all_reduce(algorithm, static_cast<int>(n), 1e6, values);
      identical &=
          std::all_of(run.values.begin(), run.values.end(), [&sum](const auto& result) { return result == sum; });
    }
    got[algorithm] = identical;
  }
  return got;
}

const RegisterSeed traffic_seeds[] = {
    {"TRAF-01", traf_01}, {"TRAF-02", traf_02}, {"TRAF-03", traf_03}, {"UNIT-01", unit_01}, {"COLL-IDEN", coll_iden}};

}  // namespace
}  // namespace trainyard
