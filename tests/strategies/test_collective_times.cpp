// Times of collectives on an idle star of full-duplex links, against closed forms: a message of S bytes takes the
// latency and S/B, and log2 is rounded up. Most of the forms are from Thakur, Rabenseifner & Gropp 2005.
#include <algorithm>
#include <bit>
#include <functional>

#include "scenarios/src/collectives/collective_run.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/support.hpp"

namespace strategies_test_collective_times {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr double kBytes = 6e6, kLatency = 2e-6;
constexpr Bytes kWhole{1e18};  // a chunk larger than any message

CollectiveRun run_of(Operation operation, const std::string& algorithm, int n, double bytes, Bytes chunk = kWhole,
                     double latency = kLatency, Fidelity fidelity = Fidelity::messages) {
  CollectiveRunOptions o = collective_options(operation, algorithm, n, Bytes{bytes});
  o.options.settings.chunk = chunk;
  o.options.settings.fidelity = fidelity;
  return run_collective(star_cluster(n, kRate, to_picoseconds(Seconds{latency})), o);
}

/// Returns the number of latencies that an all-reduce takes in `pieces` pieces so small that only latencies count.
double latencies(const char* algorithm, int n, int pieces) {
  const Bytes piece{1e-9};
  return run_of(Operation::all_reduce, algorithm, n, piece.value * pieces, piece).time / kLatency;
}

int log2_up(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }
int log2_down(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

/// Returns the time of a message with a share of the data.
double message(double share = 1) { return kLatency + share * kBytes / kRate.value; }
/// Returns the time of `count` latencies, and of a share of the data on a link.
double steps(int count, double share) { return count * kLatency + share * kBytes / kRate.value; }

/// Returns the number of consecutive messages until one piece has reached all ranks of a complete binary tree. The
/// paths to the ranks are the binary numbers up to n: a 0 leads to the left child, which is served first, a 1 to the
/// right child, one message later.
int tree_down(int n) {
  int most = 0;
  for (unsigned v = 1; v <= static_cast<unsigned>(n); ++v)
    most = std::max(most, static_cast<int>(std::bit_width(v)) + std::popcount(v) - 2);
  return most;
}
/// Returns the number of consecutive messages until one piece of all ranks has reached the root. The left spine
/// decides: each of its ranks receives from its left child, then from its right one.
int tree_up(int n) {
  int sum = 0;
  for (int child = 2; child <= n; child *= 2) sum += child == n ? 1 : 2;
  return sum;
}
/// Returns the number of messages between one piece and the next: an inner rank has one for each child.
int tree_rate(int n) { return std::min(2, n - 1); }

struct Form {
  Operation operation;
  const char* algorithm;
  std::function<double(int)> seconds;
};

double share(int n) { return (n - 1.0) / n; }

/// Returns the closed forms of algorithms that never cut a message because of its size.
std::vector<Form> forms() {
  const auto bruck_share = [](int n) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += std::popcount(static_cast<unsigned>(j));
    return sum / n;
  };
  const auto halving = [](int n) {
    if (is_power_of_two(n)) return steps(log2_up(n), share(n));
    const int active_ranks = 1 << log2_down(n), extra_ranks = n - active_ranks;
    double sum = message() + message(1.0 / n);
    for (int m = 1; m < active_ranks; m *= 2) sum += message((m + std::min(m, extra_ranks)) / static_cast<double>(n));
    return sum;
  };
  using enum Operation;
  return {
      {broadcast, "sequential", [](int n) { return (n - 1) * message(); }},
      {broadcast, "binomial-tree", [](int n) { return log2_up(n) * message(); }},
      {broadcast, "chain", [](int n) { return (n - 1) * message(); }},
      {broadcast, "binary-tree", [](int n) { return tree_down(n) * message(); }},
      {broadcast, "scatter-all-gather", [](int n) { return steps(log2_up(n) + n - 1, 2 * share(n)); }},
      {reduce, "sequential", [](int n) { return (n - 1) * message(); }},
      {reduce, "binomial-tree", [](int n) { return log2_up(n) * message(); }},
      {reduce, "chain", [](int n) { return (n - 1) * message(); }},
      {reduce, "binary-tree", [](int n) { return tree_up(n) * message(); }},
      {scatter, "sequential", [](int n) { return steps(n - 1, share(n)); }},
      {scatter, "binomial-tree", [](int n) { return steps(log2_up(n), share(n)); }},
      {scatter, "direct", [](int n) { return steps(1, share(n)); }},
      {gather, "sequential", [](int n) { return steps(n - 1, share(n)); }},
      {gather, "binomial-tree", [](int n) { return steps(log2_up(n), share(n)); }},
      {gather, "direct", [](int n) { return steps(1, share(n)); }},
      {all_gather, "bruck", [](int n) { return steps(log2_up(n), share(n)); }},
      {all_gather, "gather-broadcast", [](int n) { return steps(2 * (n - 1), share(n) + n - 1); }},
      {reduce_scatter, "recursive-halving", halving},
      {all_to_all, "bruck", [=](int n) { return steps(log2_up(n), bruck_share(n)); }},
      {all_to_all, "ring", [](int n) { return steps(n - 1, (n - 1) / 2.0); }},
      {all_reduce, "sequential", [](int n) { return 2 * (n - 1) * message(); }},
      {all_reduce, "recursive-doubling",
       [](int n) { return (log2_down(n) + (is_power_of_two(n) ? 0 : 2)) * message(); }},
      {all_reduce, "reduce-broadcast", [](int n) { return 2 * log2_up(n) * message(); }},
      {all_reduce, "chain-pipelined", [](int n) { return 2 * (n - 1) * message(); }},
      {all_reduce, "binary-tree", [](int n) { return (tree_up(n) + tree_down(n)) * message(); }},
      {barrier, "sequential", [](int n) { return steps(2 * (n - 1), 0); }},
      {barrier, "binary-tree", [](int n) { return steps(tree_up(n) + tree_down(n), 0); }},
      {barrier, "dissemination", [](int n) { return steps(log2_up(n), 0); }},
      {send_recv, "ring-shift", [](int) { return message(); }},
  };
}

}  // namespace

TEST_CASE("collectives take the times of their closed forms", "[collectives]") {
  for (const Form& form : forms())
    for (const int n : {2, 3, 4, 5, 6, 7, 8, 13, 16}) {
      CAPTURE(name_of(form.operation), form.algorithm, n);
      CHECK(run_of(form.operation, form.algorithm, n, kBytes).time == near(form.seconds(n)));
    }
  for (const int n : {2, 4, 8, 16})
    CHECK(run_of(Operation::all_gather, "recursive-doubling", n, kBytes).time == near(steps(log2_up(n), share(n))));
}

TEST_CASE("steady algorithms that are simulated as flows take the times of their closed forms", "[collectives]") {
  for (const Form& form : forms()) {
    if (!collectives(form.operation).find(form.algorithm, {}).steady) continue;
    for (const int n : {2, 4, 7, 8}) {
      CAPTURE(name_of(form.operation), form.algorithm, n);
      const std::string name = form.algorithm;
      if (name.starts_with("recursive") && !is_power_of_two(n)) continue;  // refused
      const CollectiveRun run = run_of(form.operation, name, n, kBytes, kWhole, kLatency, Fidelity::flows);
      CHECK(run.time == near(form.seconds(n)));
    }
  }
}

TEST_CASE("a pipeline of P pieces adds P - 1 times its longest stage", "[collectives]") {
  for (const int pieces : {1, 2, 6, 25})
    for (const int n : {2, 3, 4, 6, 7, 8, 11}) {
      CAPTURE(pieces, n);
      const Bytes chunk{kBytes / pieces};
      const double piece = message(1.0 / pieces);
      for (const Operation operation : {Operation::broadcast, Operation::reduce}) {
        CHECK(run_of(operation, "chain", n, kBytes, chunk).time == near((n - 2 + pieces) * piece));
        const int first_piece = operation == Operation::broadcast ? tree_down(n) : tree_up(n);
        const CollectiveRun tree = run_of(operation, "binary-tree", n, kBytes, chunk);
        CHECK(tree.time == near((first_piece + tree_rate(n) * (pieces - 1)) * piece));
        CHECK(tree.messages == static_cast<std::uint64_t>((n - 1) * pieces));
      }
    }
  // A size that is no multiple of the chunk is cut evenly.
  CHECK(run_of(Operation::broadcast, "chain", 5, kBytes, Bytes{4e6}).time == near((3 + 2) * message(0.5)));
}

TEST_CASE("pipelined all-reduces go up and down at the same time", "[collectives]") {
  for (const int pieces : {1, 2, 7, 20})
    for (const int n : {2, 3, 4, 6, 7, 8, 11}) {
      CAPTURE(pieces, n);
      CHECK(latencies("chain-pipelined", n, pieces) == near(2 * (n - 1) + pieces - 1));
      CHECK(latencies("binary-tree", n, pieces) == near(tree_up(n) + tree_down(n) + tree_rate(n) * (pieces - 1)));
    }
  // Sums and results share links, so that bytes bound the times: an inner rank sends 2 S on the chain, 3 S on the tree.
  const Bytes chunk{kBytes / 200};
  const double transfer = kBytes / kRate.value;
  const double chain = run_of(Operation::all_reduce, "chain-pipelined", 8, kBytes, chunk, 0).time;
  CHECK(chain > 2 * transfer);
  CHECK(chain < 2 * transfer * (1 + 2 * 7 / 200.0));
  const double tree = run_of(Operation::all_reduce, "binary-tree", 15, kBytes, chunk, 0).time;
  CHECK(tree > 3 * transfer);
  CHECK(tree < 4 * transfer * (1 + 2 * 3 / 200.0));
  // Sums and results of two ranks use opposite directions, so that they share no link.
  CHECK(run_of(Operation::all_reduce, "chain-pipelined", 2, kBytes, Bytes{kBytes / 8}).time ==
        near(9 * message(1 / 8.0)));
}

TEST_CASE("the double binary tree halves the load of inner ranks", "[collectives]") {
  const auto rounds = [](int n, int pieces) { return latencies("double-binary-tree", n, 2 * pieces); };
  for (const int pieces : {1, 2, 7}) {
    CAPTURE(pieces);
    CHECK(rounds(2, pieces) == near(2 + pieces - 1));
    for (int levels = 2; levels <= 4; ++levels) {  // full trees, and trees with one rank more
      CHECK(rounds((1 << levels) - 1, pieces) == near(4 * (levels - 1) + 2 * (pieces - 1)));
      CHECK(rounds(1 << levels, pieces) == near(4 * (levels - 1) + 2 + 2 * (pieces - 1)));
    }
    CHECK(rounds(6, pieces) == near(4 + 3 + 2 * (pieces - 1)));
  }
  const double transfer = kBytes / kRate.value;
  for (const int n : {2, 3, 4, 5, 6, 8, 9, 15, 16, 33}) {
    const CollectiveRun run = run_of(Operation::all_reduce, "double-binary-tree", n, kBytes, Bytes{kBytes / 400}, 0);
    CAPTURE(n, run.time / transfer);
    CHECK(run.total == near(2 * (n - 1) * kBytes));
    for (const double sent : run.sent) CHECK(sent < 2 * kBytes * (1 + 1e-9));
    // Flows that share a link prevent the ideal of 2 S/B, but the time stays below the 3 S/B of a single tree.
    CHECK(run.time > 2 * share(n) * transfer * (1 - 1e-9));
    CHECK(run.time < 2.7 * transfer);
  }
}

TEST_CASE("all-reduce variants: steps, bytes of the busiest node, bytes in all (CPLX-01)", "[collectives]") {
  struct Row {
    const char* algorithm;
    std::function<double(int)> steps, peak, total;
  };
  const auto all_once = [](int n) { return 2.0 * (n - 1); };
  const auto log2 = [](int n) { return static_cast<double>(log2_up(n)); };
  const Row rows[] = {
      {"sequential", all_once, [](int n) { return n - 1.0; }, all_once},
      {"ring", all_once, [](int n) { return 2 * share(n); }, all_once},
      {"recursive-doubling", log2, log2, [](int n) { return n * static_cast<double>(log2_up(n)); }},
      {"halving-doubling", [](int n) { return 2.0 * log2_up(n); }, [](int n) { return 2 * share(n); }, all_once},
      {"reduce-broadcast", [](int n) { return 2.0 * log2_up(n); }, log2, all_once},
  };
  for (const Row& row : rows)
    for (const int n : {2, 4, 8, 16, 64}) {
      CAPTURE(row.algorithm, n);
      CHECK(run_of(Operation::all_reduce, row.algorithm, n, 0).time / kLatency == near(row.steps(n)));
      const CollectiveRun run = run_of(Operation::all_reduce, row.algorithm, n, 1 << 20);
      double peak = 0;
      for (const double bytes : run.sent) peak = std::max(peak, bytes);
      for (const double bytes : run.received) peak = std::max(peak, bytes);
      CHECK(peak / (1 << 20) == row.peak(n));
      CHECK(run.total / (1 << 20) == row.total(n));
    }
}

TEST_CASE("an un-chunked chain has one sender at a time (CHAIN-01)", "[collectives]") {
  for (const int n : {2, 4, 8, 16}) {
    CHECK(run_of(Operation::reduce, "chain", n, 1e9, kWhole, 0).time == near(n - 1));
    CHECK(run_of(Operation::all_reduce, "chain", n, 1e9, Bytes{1e6}, 0).time == near(2 * (n - 1)));
  }
}

}  // namespace strategies_test_collective_times
