// Every operation by every algorithm on values: exact results on whole numbers, no races, as much received as sent.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <set>

#include "scenarios/collective_run.hpp"
#include "scenarios/seeds/seed_case.hpp"
#include "sim/error.hpp"
#include "sim/values.hpp"
#include "tests/support.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

using Lists = std::vector<std::vector<double>>;

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (int i = 0; i < kOperations; ++i) all.push_back(static_cast<Operation>(i));
  return all;
}

bool refused(const CollectiveRunOptions& o) {
  const Collective& found = collectives(o.operation).find(o.algorithm, {});
  return found.on_switch || (found.refuses && !found.refuses({0, o.ranks, &o.options.settings}).empty());
}

/// [begin, end) of part `i` of `of`.
std::pair<int, int> part(int length, int i, int of) {
  const auto at = Values::range(length, {0, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(of)});
  return {static_cast<int>(at.first), static_cast<int>(at.second)};
}

std::vector<double> slice(const std::vector<double>& of, std::pair<int, int> at) {
  return {of.begin() + at.first, of.begin() + at.second};
}

void append(std::vector<double>& to, const std::vector<double>& more) { to.insert(to.end(), more.begin(), more.end()); }

std::vector<double> reduced(const Lists& inputs, Reduction reduction) {
  std::vector<double> all = inputs.front();
  for (std::size_t rank = 1; rank < inputs.size(); ++rank)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double more = inputs[rank][i];
      if (reduction == Reduction::maximum)
        all[i] = std::max(all[i], more);
      else if (reduction == Reduction::product)
        all[i] *= more;
      else
        all[i] += more;
    }
  for (double& value : all)
    if (reduction == Reduction::average) value /= static_cast<double>(inputs.size());
  return all;
}

/// What each rank sends to each, in elements, of the values of an all-to-all(-v).
std::pair<int, int> outgoing(const CollectiveRunOptions& o, int from, int to) {
  if (o.operation == Operation::all_to_all)
    return part(static_cast<int>(o.values[static_cast<std::size_t>(from)].size()), to, o.ranks);
  const std::vector<double>& row = o.options.settings.amounts[static_cast<std::size_t>(from)];
  const int begin = static_cast<int>(std::accumulate(row.begin(), row.begin() + to, 0.0) / 8);
  return {begin, begin + static_cast<int>(row[static_cast<std::size_t>(to)] / 8)};
}

/// What the operation is to give each rank, by its definition (MPI 4.0, chapter 6).
Lists expected(const CollectiveRunOptions& o) {
  const auto n = static_cast<std::size_t>(o.ranks), root = static_cast<std::size_t>(o.options.settings.root);
  const int length = static_cast<int>(o.values.front().size());
  std::vector<double> gathered;
  for (const std::vector<double>& of : o.values) append(gathered, of);
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

/// Whole numbers; small enough for the product of 33 of them.
void put_in_values(CollectiveRunOptions& o, int elements, std::mt19937& dice) {
  const auto n = static_cast<std::size_t>(o.ranks);
  const bool blocks = o.operation == Operation::all_gather || o.operation == Operation::gather;
  if (o.operation == Operation::all_to_all) elements = (elements + o.ranks - 1) / o.ranks * o.ranks;
  if (o.operation == Operation::all_to_all_v) o.options.settings.amounts.assign(n, std::vector<double>(n));
  for (std::size_t rank = 0; rank < n; ++rank) {
    const auto own = part(elements, static_cast<int>(rank), o.ranks);
    int count = blocks ? own.second - own.first : elements;
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

/// A case of an algorithm: everything else by the seed.
CollectiveRunOptions random_case(Operation operation, const std::string& algorithm, int ranks, std::uint32_t seed) {
  std::mt19937 dice(seed);
  const auto one_of = [&dice](const auto& choices) { return choices[dice() % choices.size()]; };
  CollectiveRunOptions o;
  o.ranks = ranks;
  o.operation = operation;
  o.algorithm = algorithm;
  o.keep_steps = false;
  o.options.in_place = dice() % 2 == 0;
  o.options.mode = dice() % 4 == 0 ? Mode::eager : Mode::rendezvous;
  CollectiveSettings& settings = o.options.settings;
  settings.root = static_cast<int>(dice() % static_cast<unsigned>(ranks));
  settings.reduction = one_of(std::array{Reduction::sum, Reduction::average, Reduction::maximum, Reduction::product});
  settings.channels = one_of(std::array{1, 1, 2, 3});
  settings.chunk = Bytes{one_of(std::array{8.0, 40.0, 100.0, 1e6})};
  put_in_values(o, one_of(std::array{0, 1, ranks - 1, ranks, 2 * ranks + 3, 5 * ranks, 61}), dice);
  return o;
}

std::string in_words(const CollectiveRunOptions& o) {
  const CollectiveSettings& s = o.options.settings;
  return fmt::format(
      "{} by {}: {} ranks, root {}, {}, {} B in pieces of {}, {} channels, {}, {}: ", name_of(o.operation), o.algorithm,
      o.ranks, s.root, name_of(s.reduction), o.options.size.value, s.chunk.value, s.channels,
      o.options.in_place ? "in place" : "out of place", o.options.mode == Mode::eager ? "eager" : "rendezvous");
}

/// What is wrong with it, or "".
std::string fault(const CollectiveRunOptions& o) {
  const CollectiveRun run = run_collective_here(star_cluster(o.ranks, kRate), o);
  if (run.values != expected(o)) return in_words(o) + "wrong values";
  if (!run.hazards.empty()) return in_words(o) + run.hazards.front();
  if (!o.options.in_place && run.inputs != o.values) return in_words(o) + "the input has changed";
  const double sent = std::accumulate(run.sent.begin(), run.sent.end(), 0.0);
  const double received = std::accumulate(run.received.begin(), run.received.end(), 0.0);
  if (sent != near(received) || sent != near(run.total))
    return in_words(o) + fmt::format("{} B sent, {} received, {} in all", sent, received, run.total);
  return "";
}

/// Cases of every operation and algorithm, each in a process of its own; those that an algorithm refuses are left out.
std::string first_fault(const std::vector<int>& ranks, std::uint32_t cases_each, std::size_t* done = nullptr) {
  std::vector<CollectiveRunOptions> all;
  std::uint32_t seed = 0;
  for (const Operation operation : all_operations())
    for (const std::string& algorithm : collectives(operation).names()) {
      if (algorithm == "ring-literal") continue;  // whose listing races
      std::size_t of_this = 0;
      for (const int n : ranks)
        for (std::uint32_t i = 0; i < cases_each; ++i) {
          CollectiveRunOptions o = random_case(operation, algorithm, n, ++seed);
          if (refused(o)) continue;
          all.push_back(std::move(o));
          ++of_this;
        }
      if (done) CHECK(of_this > 0);
    }
  if (done) *done = all.size();
  const std::vector<std::string> faults = in_children(all.size(), processors(), [&all](std::size_t i) {
    try {
      return fault(all[i]);
    } catch (const std::exception& e) {
      return in_words(all[i]) + e.what();
    }
  });
  const auto at = std::find_if(faults.begin(), faults.end(), [](const std::string& text) { return !text.empty(); });
  return at == faults.end() ? "" : *at;
}

CollectiveRunOptions four_ranks(Operation operation, const std::string& algorithm) {
  CollectiveRunOptions o;
  o.ranks = 4;
  o.operation = operation;
  o.algorithm = algorithm;
  o.options.size = Bytes{8};
  o.options.in_place = false;
  for (int i = 0; i < 4; ++i) o.values.push_back({i + 1.0});
  return o;
}

CollectiveRun run_of(const CollectiveRunOptions& o) {
  return run_collective(star_cluster(std::max(o.ranks, 1), kRate), o);
}

}  // namespace

TEST_CASE("every algorithm of every operation gives its exact values without races", "[collectives]") {
  std::size_t cases = 0;
  CHECK(first_fault({1, 2, 3, 4, 5, 7, 8, 12, 16, 19, 33}, 2, &cases) == "");
  CHECK(cases > 700);
}

TEST_CASE("every algorithm of every operation, many cases of 1 to 33 ranks", "[.deep]") {
  std::vector<int> ranks(33);
  std::iota(ranks.begin(), ranks.end(), 1);
  CHECK(first_fault(ranks, 40) == "");
}

TEST_CASE("the primitives of four ranks that hold 1 to 4 (PRIM-01)", "[collectives]") {
  const Lists all(4, {1, 2, 3, 4}), tens(4, {10});
  for (const std::string& algorithm : collectives(Operation::gather).names())
    CHECK(run_of(four_ranks(Operation::gather, algorithm)).values == Lists{{1, 2, 3, 4}, {}, {}, {}});
  for (const char* algorithm : {"sequential", "binomial-tree", "chain", "binary-tree"}) {
    CollectiveRunOptions o = four_ranks(Operation::reduce, algorithm);
    CHECK(run_of(o).values == Lists{{10}, {}, {}, {}});
    o.options.settings.reduction = Reduction::average;
    CHECK(run_of(o).values == Lists{{2.5}, {}, {}, {}});
    CHECK(run_of(four_ranks(Operation::broadcast, algorithm)).values == Lists(4, {1}));
  }
  CHECK(run_of(four_ranks(Operation::all_reduce, "recursive-doubling")).values == tens);
  CHECK(run_of(four_ranks(Operation::all_gather, "bruck")).values == all);
  CollectiveRunOptions scatter = four_ranks(Operation::scatter, "binomial-tree");
  scatter.values = {{5, 6, 7, 8}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  CHECK(run_of(scatter).values == Lists{{5}, {6}, {7}, {8}});
  CHECK(run_of(four_ranks(Operation::send_recv, "ring-shift")).values == Lists{{4}, {1}, {2}, {3}});
  // One to one: rank 1 has what rank 0 sent.
  CollectiveRunOptions pair = four_ranks(Operation::send_recv, "ring-shift");
  pair.ranks = 2;
  pair.values.resize(2);
  CHECK(run_of(pair).values == Lists{{2}, {1}});
  pair.operation = Operation::broadcast;
  pair.algorithm = "sequential";
  const CollectiveRun one_way = run_of(pair);
  CHECK(one_way.values == Lists{{1}, {1}});
  CHECK(one_way.messages == 1);
  CHECK(one_way.sent[1] == 0);
}

TEST_CASE("ranges of blocks go round the end of a buffer", "[collectives]") {
  // Ten elements are blocks of 2, 3, 2 and 3; of root 3, ranks 3 and 0 are one subtree.
  CollectiveRunOptions o = four_ranks(Operation::gather, "binomial-tree");
  o.options.size = Bytes{80};
  o.options.settings.root = 1;
  o.values = {{0, 1}, {2, 3, 4}, {5, 6}, {7, 8, 9}};
  const CollectiveRun run = run_of(o);
  CHECK(run.values[1] == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(run.messages == 3);
}

TEST_CASE("collectives that cannot be are refused in words", "[collectives]") {
  CollectiveRunOptions o;
  o.operation = Operation::broadcast;
  o.algorithm = "binominal-tree";
  CHECK_THROWS_WITH(run_of(o),
                    "broadcast: unknown broadcast algorithm \"binominal-tree\"; did you mean \"binomial-tree\"?");
  o.algorithm = "chain";
  o.ranks = 4;
  o.options.settings.root = 4;
  CHECK_THROWS_WITH(run_of(o), "broadcast: root 4 of a broadcast of 4 ranks; 0 to 3");
  o.options.settings.root = -1;
  CHECK_THROWS_WITH(run_of(o), "broadcast: root -1 of a broadcast of 4 ranks; 0 to 3");
  o.ranks = 0;
  CHECK_THROWS_WITH(run_of(o), "broadcast of 0 ranks; at least 1");
  o.operation = Operation::all_gather;
  o.algorithm = "recursive-doubling";
  o.ranks = 6;
  CHECK_THROWS_WITH(run_of(o),
                    "all-gather: all-gather by recursive-doubling: 6 ranks are no power of two; take bruck or ring");
  o.algorithm = "gather-broadcast";
  o.options.settings.fidelity = Fidelity::flows;
  CHECK_THROWS_WITH(run_of(o),
                    "all-gather: all-gather by gather-broadcast cannot be simulated as flows: its ranks wait for each "
                    "other; take fidelity messages");
}
