#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "scenarios/src/collectives/collective_run.hpp"
#include "sim/observers/values.hpp"

namespace trainyard::test {

// Random cases of collectives, and their expected results.

using Lists = std::vector<std::vector<double>>;

inline std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (int i = 0; i < kOperations; ++i) all.push_back(static_cast<Operation>(i));
  return all;
}

/// True if the algorithm refuses the ranks and settings of `o`, or needs a switch.
inline bool refused(const CollectiveRunOptions& o) {
  const Collective& found = collectives(o.operation).find(o.algorithm, {});
  return found.on_switch || (found.refuses && !found.refuses({0, o.ranks, &o.options.settings}).empty());
}

/// Returns the range [begin, end) of part `i` of a buffer of `length` elements that is cut into `parts` parts.
inline std::pair<int, int> part(int length, int i, int parts) {
  const auto range = Values::range(length, {0, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(parts)});
  return {static_cast<int>(range.first), static_cast<int>(range.second)};
}

inline std::vector<double> slice(const std::vector<double>& values, std::pair<int, int> range) {
  return {values.begin() + range.first, values.begin() + range.second};
}

inline void append(std::vector<double>& list, const std::vector<double>& values) {
  list.insert(list.end(), values.begin(), values.end());
}

inline std::vector<double> reduced(const Lists& inputs, Reduction reduction) {
  std::vector<double> all = inputs.front();
  for (std::size_t rank = 1; rank < inputs.size(); ++rank)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double input = inputs[rank][i];
      if (reduction == Reduction::maximum)
        all[i] = std::max(all[i], input);
      else if (reduction == Reduction::product)
        all[i] *= input;
      else
        all[i] += input;
    }
  for (double& value : all)
    if (reduction == Reduction::average) value /= static_cast<double>(inputs.size());
  return all;
}

/// Returns the range of elements that rank `from` sends to rank `to` in an all-to-all(-v).
inline std::pair<int, int> outgoing(const CollectiveRunOptions& o, int from, int to) {
  if (o.operation == Operation::all_to_all)
    return part(static_cast<int>(o.values[static_cast<std::size_t>(from)].size()), to, o.ranks);
  const std::vector<double>& row = o.options.settings.amounts[static_cast<std::size_t>(from)];
  const int begin = static_cast<int>(std::accumulate(row.begin(), row.begin() + to, 0.0) / 8);
  return {begin, begin + static_cast<int>(row[static_cast<std::size_t>(to)] / 8)};
}

/// Returns the result that each rank must have, by the definition of the operation (MPI 4.0, chapter 6).
inline Lists expected(const CollectiveRunOptions& o) {
  const auto n = static_cast<std::size_t>(o.ranks), root = static_cast<std::size_t>(o.options.settings.root);
  const int length = static_cast<int>(o.values.front().size());
  std::vector<double> gathered;
  for (const std::vector<double>& input : o.values) append(gathered, input);
  const std::vector<double> sum = reduces(o.operation) ? reduced(o.values, o.options.settings.reduction) : gathered;
  Lists results(n);
  for (std::size_t rank = 0; rank < n; ++rank) {
    const int r = static_cast<int>(rank);
    switch (o.operation) {
      case Operation::all_reduce:
      case Operation::all_gather:
        results[rank] = sum;
        break;
      case Operation::reduce_scatter:
        results[rank] = slice(sum, part(length, r, o.ranks));
        break;
      case Operation::all_to_all:
      case Operation::all_to_all_v:
        for (int from = 0; from < o.ranks; ++from)
          append(results[rank], slice(o.values[static_cast<std::size_t>(from)], outgoing(o, from, r)));
        break;
      case Operation::broadcast:
        results[rank] = o.values[root];
        break;
      case Operation::scatter:
        results[rank] = slice(o.values[root], part(length, r, o.ranks));
        break;
      case Operation::reduce:
      case Operation::gather:
        if (rank == root) results[rank] = sum;
        break;
      case Operation::send_recv:
        results[rank] = o.values[(rank + n - 1) % n];
        break;
      case Operation::barrier:
        results[rank] = o.values[rank];
    }
  }
  return results;
}

/// Gives every rank whole numbers from 1 to 3 as inputs: even a product over 33 ranks is exact.
inline void put_in_values(CollectiveRunOptions& o, int elements, std::mt19937& dice) {
  const auto n = static_cast<std::size_t>(o.ranks);
  const bool has_one_block_each = o.operation == Operation::all_gather || o.operation == Operation::gather;
  if (o.operation == Operation::all_to_all) elements = (elements + o.ranks - 1) / o.ranks * o.ranks;
  if (o.operation == Operation::all_to_all_v) o.options.settings.amounts.assign(n, std::vector<double>(n));
  for (std::size_t rank = 0; rank < n; ++rank) {
    const auto block = part(elements, static_cast<int>(rank), o.ranks);
    int count = has_one_block_each ? block.second - block.first : elements;
    if (o.operation == Operation::all_to_all_v) {
      std::vector<double>& row = o.options.settings.amounts[rank];
      for (double& bytes : row) bytes = 8.0 * static_cast<double>(dice() % 4);
      count = static_cast<int>(std::accumulate(row.begin(), row.end(), 0.0) / 8);
    }
    std::vector<double>& values = o.values.emplace_back();
    for (int i = 0; i < count; ++i) values.push_back(1.0 + static_cast<double>(dice() % 3));
  }
  o.options.size = Bytes{8.0 * elements};
}

/// Returns a random case of an algorithm on `ranks` ranks: the seed decides its settings, its size and its inputs.
inline CollectiveRunOptions random_case(Operation operation, const std::string& algorithm, int ranks,
                                        std::uint32_t seed) {
  std::mt19937 dice(seed);
  const auto pick = [&dice](const auto& choices) { return choices[dice() % choices.size()]; };
  CollectiveRunOptions o;
  o.ranks = ranks;
  o.operation = operation;
  o.algorithm = algorithm;
  o.keep_steps = false;
  o.options.in_place = dice() % 2 == 0 || operation == Operation::barrier;
  o.options.mode = std::array{Mode::eager, Mode::get, Mode::rendezvous, Mode::rendezvous}[dice() % 4];
  CollectiveSettings& settings = o.options.settings;
  settings.root = static_cast<int>(dice() % static_cast<unsigned>(ranks));
  settings.reduction = pick(std::array{Reduction::sum, Reduction::average, Reduction::maximum, Reduction::product});
  settings.channels = pick(std::array{1, 1, 2, 3});
  // A random divisor of the number of ranks, so that all nodes have the same size.
  for (int per_node = 2; per_node < ranks; ++per_node)
    if (ranks % per_node == 0 && dice() % 2 == 0) settings.per_node = per_node;
  if (algorithm.find("multi-ring") != std::string::npos)
    for (int rings = 1 + static_cast<int>(dice() % 3); rings > 0; --rings) {
      std::vector<int> order(static_cast<std::size_t>(ranks));
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice() % i]);
      settings.rings.push_back({RingOrder(order), 1 + static_cast<int>(dice() % 3)});
    }
  settings.chunk = Bytes{pick(std::array{8.0, 40.0, 100.0, 1e6})};
  put_in_values(o, pick(std::array{0, 1, ranks - 1, ranks, 2 * ranks + 3, 5 * ranks, 61}), dice);
  settings.meshed = dice() % 2 == 0;
  return o;
}

inline std::string in_words(const CollectiveRunOptions& o) {
  const CollectiveSettings& s = o.options.settings;
  return fmt::format(
      "{} by {}: {} ranks, root {}, {}, {} B in pieces of {}, {} channels, {}, {}: ", name_of(o.operation), o.algorithm,
      o.ranks, s.root, name_of(s.reduction), o.options.size.value, s.chunk.value, s.channels,
      o.options.in_place ? "in place" : "out of place", kModeNames[static_cast<std::size_t>(o.options.mode)]);
}

}  // namespace trainyard::test
