#pragma once
#include "scenarios/src/collectives/collective_run.hpp"
#include "sim/observers/values.hpp"
#include "tests/support.hpp"

namespace trainyard::test {

/// Returns the inputs of each rank: whole numbers, so that sums are exact. In an all-gather a rank has a near-equal
/// block of `elements`.
inline std::vector<std::vector<double>> inputs_of(Operation operation, int ranks, Eigen::Index elements) {
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto range =
        Values::range(elements, {0, static_cast<std::uint16_t>(rank), static_cast<std::uint16_t>(ranks)});
    const Eigen::Index count = operation == Operation::all_gather ? range.second - range.first : elements;
    std::vector<double>& values = all.emplace_back();
    for (Eigen::Index i = 0; i < count; ++i) values.push_back(static_cast<double>((rank + 1) * (i + 3)));
  }
  return all;
}

/// Returns the expected result of each rank for an all-reduce, a reduce-scatter or an all-gather.
inline std::vector<std::vector<double>> results_of(Operation operation,
                                                   const std::vector<std::vector<double>>& inputs) {
  std::vector<double> all;
  if (operation == Operation::all_gather)
    for (const std::vector<double>& block : inputs) all.insert(all.end(), block.begin(), block.end());
  else
    for (std::size_t i = 0; i < inputs.front().size(); ++i) {
      all.push_back(0);
      for (const std::vector<double>& input : inputs) all.back() += input[i];
    }
  std::vector<std::vector<double>> results;
  const auto ranks = static_cast<std::uint16_t>(inputs.size());
  for (std::uint16_t rank = 0; rank < ranks; ++rank) {
    const auto range = Values::range(static_cast<Eigen::Index>(all.size()), {0, rank, ranks});
    if (operation == Operation::reduce_scatter)
      results.emplace_back(all.begin() + range.first, all.begin() + range.second);
    else
      results.push_back(all);
  }
  return results;
}

/// Checks a collective in place and out of place: results are right, there are no races, and out of place the inputs
/// are unchanged.
inline void check_values(const ClusterSpec& cluster, CollectiveRunOptions o) {
  for (const bool in_place : {true, false}) {
    CAPTURE(o.algorithm, name_of(o.operation), o.ranks, in_place);
    const Eigen::Index elements = 5 * o.ranks + 3;
    o.values = inputs_of(o.operation, o.ranks, elements);
    o.options.size = Bytes{8.0 * static_cast<double>(elements)};
    o.options.in_place = in_place;
    o.keep_steps = false;
    const CollectiveRun run = run_collective(cluster, o);
    CHECK(run.values == results_of(o.operation, o.values));
    CHECK(run.hazards.empty());
    if (!in_place) CHECK(run.inputs == o.values);
  }
}

constexpr Operation kBlockOperations[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather};

}  // namespace trainyard::test
