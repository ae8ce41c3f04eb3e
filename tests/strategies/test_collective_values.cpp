// All algorithms of all operations on values: results on whole numbers are exact, there are no races, and all sent
// bytes are received.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/shipped_files.hpp"
#include "sim/process/parallel.hpp"
#include "strategies/collectives/collective_file.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/strategies/collective_cases.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace strategies_test_collective_values {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Returns the error of the run, or "" if there is none.
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

/// Runs cases of every operation and algorithm on all processors, except those that an algorithm refuses. Returns the
/// first error, or "". `case_count` receives the number of cases.
std::string first_fault(const std::vector<int>& ranks, std::uint32_t cases_each, std::size_t* case_count = nullptr) {
  struct Case {
    Operation operation;
    std::string algorithm;
    int ranks;
    std::uint32_t seed;
    CollectiveRunOptions options() const { return random_case(operation, algorithm, ranks, seed); }
  };
  std::vector<Case> all;
  std::uint32_t seed = 0;
  for (const Operation operation : all_operations())
    for (const std::string& algorithm : collectives(operation).names()) {
      if (algorithm == "ring-literal") continue;  // its published listing has a race
      const std::size_t before = all.size();
      for (const int n : ranks)
        for (std::uint32_t i = 0; i < cases_each; ++i) {
          Case candidate{operation, algorithm, n, ++seed};
          if (!refused(candidate.options())) all.push_back(std::move(candidate));
        }
      if (case_count && !collectives(operation).find(algorithm, {}).on_switch) CHECK(all.size() > before);
    }
  if (case_count) *case_count = all.size();
  const std::vector<std::string> faults = all_in_parallel(all.size(), processors(), [&all](std::size_t i) {
    const CollectiveRunOptions o = all[i].options();
    try {
      return fault(o);
    } catch (const std::exception& e) {
      return in_words(o) + e.what();
    }
  });
  const auto first = std::find_if(faults.begin(), faults.end(), [](const std::string& text) { return !text.empty(); });
  return first == faults.end() ? "" : *first;
}

/// A rank that enters a barrier after some seconds.
class LateAtBarrier : public CoroutineProgram {
 public:
  LateAtBarrier(const Collective& barrier, GroupPlace place, double seconds)
      : CoroutineProgram(peers_of(barrier, place), 3),
        barrier_(barrier),
        place_(place),
        peers_(peers_of(barrier, place)),
        seconds_(seconds) {}

 protected:
  Ops run() override {
    const Op late = compute(seconds_);
    co_yield out_.emit(late);
    call_.start = out_.last_operation(0);
    const Local me(out_, place_, peers_, call_, Bytes{0});
    co_yield collective_ops(barrier_, me, Bytes{0});
  }

 private:
  const Collective& barrier_;
  GroupPlace place_;
  std::vector<int> peers_;
  double seconds_;
  CollectiveCall call_;
  Emitter out_;
};

/// Returns the time at which the first of n ranks leaves a barrier that one rank enters a second late.
double first_to_leave(const std::string& algorithm, int n, int late_rank) {
  const Collective& barrier = collectives(Operation::barrier).find(algorithm, {});
  TableMachine machine;
  const LinkId link = machine.link(kRate);
  for (Actor from = 0; from < n; ++from)
    for (Actor to = 0; to < n; ++to) machine.connect(from, to, {{link}});
  Simulation simulation(machine);
  for (int rank = 0; rank < n; ++rank)
    simulation.add(rank, std::make_unique<LateAtBarrier>(barrier, GroupPlace{rank, n}, rank == late_rank ? 1.0 : 0.0));
  Ends ends;
  simulation.observe(ends);
  simulation.run();
  double first = 1e9;
  for (int rank = 0; rank < n; ++rank) first = std::min(first, std::max(ends.last(rank, 1), ends.last(rank, 2)));
  return json(first);
}

CollectiveRunOptions four_ranks(Operation operation, const std::string& algorithm) {
  CollectiveRunOptions o = collective_options(operation, algorithm, 4, Bytes{8});
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

TEST_CASE("every algorithm of every operation gives its exact values in many cases of 1 to 33 ranks", "[.deep]") {
  std::vector<int> ranks(33);
  std::iota(ranks.begin(), ranks.end(), 1);
  CHECK(first_fault(ranks, 40) == "");
}

TEST_CASE("the primitives give four ranks that hold 1 to 4 their results (PRIM-01)", "[collectives]") {
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
  // A ring shift of two ranks exchanges their values, and a broadcast sends those of rank 0 in one direction only.
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

TEST_CASE("no rank leaves a barrier before all ranks have entered it", "[collectives]") {
  for (const std::string& algorithm : collectives(Operation::barrier).names())
    for (const int n : {2, 3, 5, 8})
      for (int late_rank = 0; late_rank < n; ++late_rank) {
        CAPTURE(algorithm, n, late_rank);
        CHECK(first_to_leave(algorithm, n, late_rank) >= 1);
      }
}

TEST_CASE("a subtree's range of blocks may wrap around the end of a buffer", "[collectives]") {
  // Ten elements are cut into blocks of 2, 3, 2 and 3. With root 1, ranks 3 and 0 are one subtree.
  CollectiveRunOptions o = four_ranks(Operation::gather, "binomial-tree");
  o.options.size = Bytes{80};
  o.options.settings.root = 1;
  o.values = {{0, 1}, {2, 3, 4}, {5, 6}, {7, 8, 9}};
  const CollectiveRun run = run_of(o);
  CHECK(run.values[1] == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(run.messages == 3);
}

TEST_CASE("impossible collectives are refused with a reason", "[collectives]") {
  CollectiveRunOptions o;
  o.operation = Operation::broadcast;
  o.algorithm = "binominal-tree";
  CHECK_THROWS_WITH(run_of(o),
                    "broadcast: unknown broadcast algorithm \"binominal-tree\"; did you mean \"binomial-tree\"?");
  o.algorithm = "chain";
  o.ranks = 4;
  o.options.settings.root = 4;
  CHECK_THROWS_WITH(run_of(o), "broadcast: root 4 of a broadcast of 4 ranks; expected 0 to 3");
  o.options.settings.root = -1;
  CHECK_THROWS_WITH(run_of(o), "broadcast: root -1 of a broadcast of 4 ranks; expected 0 to 3");
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
  o.operation = Operation::all_reduce;
  o.algorithm = "halving-doubling";
  CHECK_THROWS_WITH(run_of(o),
                    "all-reduce: all-reduce by halving-doubling: 6 ranks are no power of two, so that some wait for "
                    "others; take fidelity messages");
}

namespace {

using Catch::Matchers::Contains;

std::string step_line(int step, int from, int to, const std::string& chunk, const std::string& keys = "") {
  return fmt::format("  - {{step: {}, from: {}, to: {}, chunk: {}{}}}\n", step, from, to, chunk, keys);
}

/// Returns a file of the steps of a ring all-reduce of n ranks.
std::string ring_file(int n) {
  std::string text = fmt::format("collective: all-reduce\nranks: {}\nsteps:\n", n);
  for (int step = 0; step < 2 * (n - 1); ++step)
    for (int rank = 0; rank < n; ++rank)
      text += step_line(step, rank, (rank + 1) % n, std::to_string((rank + 2 * n - step) % n),
                        step < n - 1 ? ", reduce: true" : "");
  return text;
}

/// Returns a file of recursive doubling of four ranks: in each of two steps, pairs of ranks exchange all data.
std::string doubling_file() {
  std::string text = "collective: all-reduce\nranks: 4\nchunks: 1\nsteps:\n";
  for (const int mask : {1, 2})
    for (int rank = 0; rank < 4; ++rank) text += step_line(mask, rank, rank ^ mask, "0", ", reduce: true");
  return text;
}

/// Returns a file in which every rank sends to every other rank in one step.
std::string direct_file(Operation operation, int n) {
  std::string text = fmt::format("collective: {}\nranks: {}\nsteps:\n", name_of(operation), n);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) {
      if (operation == Operation::all_to_all)
        text += step_line(0, from, to, std::to_string(to), fmt::format(", into: {}", from));
      else if (from != to && operation == Operation::all_gather)
        text += step_line(0, from, to, std::to_string(from));
      else if (from != to)
        text += step_line(0, from, to, std::to_string(to), ", reduce: true");
    }
  return text;
}

/// Returns MSCCL's XML of two ranks. `first` and `second` are their blocks of steps.
std::string xml_of_two(const std::string& first, const std::string& second, const char* coll = "allreduce") {
  return fmt::format(
      "<algo name=\"x\" ngpus=\"2\" coll=\"{}\" inplace=\"0\">\n"
      "<gpu id=\"0\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"2\">\n{}</gpu>\n"
      "<gpu id=\"1\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"2\">\n{}</gpu>\n</algo>\n",
      coll, first, second);
}
std::string xml_block(int id, int peer, const std::string& steps) {
  return fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"0\">\n{}</tb>\n", id, peer, peer, steps);
}
std::string xml_step(const std::string& type, const std::string& from, int from_offset, const std::string& into,
                     int into_offset, const std::string& dep = "depid=\"-1\" deps=\"-1\"", int count = 1) {
  return fmt::format(
      "<step s=\"0\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" {} "
      "hasdep=\"0\"/>\n",
      type, from, from_offset, into, into_offset, count, dep);
}

}  // namespace

TEST_CASE("collectives from files give exact values without races", "[collectives][collective-file]") {
  const test::TemporaryFolder folder;
  // Each of two ranks owns one half of the data: it sends the other half away, adds up and returns its own half, and
  // receives the sum of the other half.
  const auto half_steps = [](int rank) {
    return xml_block(0, 1 - rank,
                     xml_step("s", "i", 1 - rank, "i", 1 - rank) + xml_step("rrcs", "i", rank, "o", rank) +
                         xml_step("r", "o", 1 - rank, "o", 1 - rank));
  };
  // Each rank sends all its data into the other's scratch, and a second block adds it up there.
  const auto scratch_steps = [](int rank) {
    return xml_block(0, 1 - rank,
                     xml_step("s", "i", 0, "s", 0, "depid=\"-1\" deps=\"-1\"", 2) +
                         xml_step("r", "i", 0, "s", 0, "depid=\"-1\" deps=\"-1\"", 2)) +
           fmt::format("<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\">\n{}{}</tb>\n",
                       xml_step("cpy", "i", 0, "o", 0, "depid=\"0\" deps=\"1\"", 2),
                       xml_step("re", "s", 0, "o", 0, "depid=\"-1\" deps=\"-1\"", 2));
  };
  const std::string xml_exchange_0 = xml_block(0, 1,
                                               xml_step("s", "i", 1, "o", 0) + xml_step("r", "i", 0, "o", 1) +
                                                   xml_step("cpy", "i", 0, "o", 0)),
                    xml_exchange_1 = xml_block(0, 0,
                                               xml_step("s", "i", 0, "o", 1) + xml_step("r", "i", 1, "o", 0) +
                                                   xml_step("cpy", "i", 1, "o", 1));
  struct Case {
    Operation operation;
    int ranks;
    std::string file;
  };
  std::vector<Case> cases{
      {Operation::all_reduce, 4, folder.write("doubling.yaml", doubling_file())},
      {Operation::all_reduce, 4, shipped_file("scenarios/all-reduce-ring-4.xml")},
      {Operation::all_reduce, 2, folder.write("halves.xml", xml_of_two(half_steps(0), half_steps(1)))},
      {Operation::all_reduce, 2, folder.write("aside.xml", xml_of_two(scratch_steps(0), scratch_steps(1)))},
      {Operation::all_to_all, 2, folder.write("exchange.xml", xml_of_two(xml_exchange_0, xml_exchange_1, "alltoall"))}};
  for (const int n : {2, 3, 5, 8}) {
    cases.push_back({Operation::all_reduce, n, folder.write(fmt::format("ring{}.yaml", n), ring_file(n))});
    for (const Operation o : {Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all})
      cases.push_back({o, n, folder.write(fmt::format("{}{}.yaml", name_of(o), n), direct_file(o, n))});
  }
  for (const Case& file_case : cases)
    for (std::uint32_t seed = 1; seed <= 12; ++seed)
      CHECK(fault(random_case(file_case.operation, file_case.file, file_case.ranks, seed)) == "");
}

TEST_CASE("a file of the steps of an algorithm takes the time of that algorithm", "[collectives][collective-file]") {
  const test::TemporaryFolder folder;
  const auto time = [](Operation operation, const std::string& algorithm, int n) {
    CollectiveRunOptions o = random_case(operation, "ring", n, 1);
    o.algorithm = algorithm;
    o.options = {};
    o.options.size = Bytes{8.0 * 4096};
    o.values.assign(static_cast<std::size_t>(n), std::vector<double>(4096, 1.0));
    if (operation == Operation::all_gather) o.values.assign(static_cast<std::size_t>(n), std::vector<double>(4096 / n));
    return run_of(o).time;
  };
  for (const int n : {2, 4, 8}) {
    const std::string ring = folder.write(fmt::format("ring{}.yaml", n), ring_file(n));
    CHECK(time(Operation::all_reduce, ring, n) == time(Operation::all_reduce, "ring", n));
    for (const Operation o : {Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all}) {
      const std::string file = folder.write(fmt::format("{}{}.yaml", name_of(o), n), direct_file(o, n));
      CHECK(time(o, file, n) == near(time(o, "direct", n)));
    }
  }
  CHECK(time(Operation::all_reduce, shipped_file("scenarios/all-reduce-ring-4.xml"), 4) ==
        near(time(Operation::all_reduce, "ring", 4)));
}

TEST_CASE("a wrong file of a collective is refused at its line", "[collectives][collective-file]") {
  const test::TemporaryFolder folder;
  const auto error = [&](const std::string& text, Operation operation = Operation::all_reduce,
                         const char* name = "wrong.yaml") {
    const std::string file = folder.write(name, text);
    return user_error_in(file, [&] { read_collective(operation, file); });
  };
  const std::string header = "collective: all-reduce\nranks: 2\nchunks: 1\nsteps:\n";
  CHECK(error(header + step_line(0, 0, 1, "0", ", reduce: true") + step_line(1, 1, 0, "0")).empty());
  CHECK_THAT(
      error(header + step_line(0, 0, 1, "0") + step_line(1, 1, 0, "0")),
      Contains(":6:5: all-reduce: rank 0 ends with chunk 0 of rank 0 in its chunk 0; expected chunk 0 of rank 0 + "
               "chunk 0 of rank 1"));
  CHECK_THAT(error(header + step_line(0, 0, 1, "s0", ", into: 0")),
             Contains(":5:5: rank 0 sends chunk 0 of its scratch, which holds nothing yet"));
  CHECK_THAT(error(header + step_line(0, 0, 1, "1")), Contains("steps.chunk: \"1\"; expected a chunk, 0 to 0"));
  CHECK_THAT(error(header + step_line(0, 0, 2, "0")), Contains(":5:"));
  CHECK_THAT(error(header + step_line(0, 0, 1, "0"), Operation::all_gather),
             Contains(":1:13: collective.collective: the file states all-reduce, but all-gather is asked"));
  CHECK_THAT(error(header + step_line(0, 0, 1, "0") + step_line(0, 1, 1, "0")),
             Contains(":6:5: step 0 writes the same chunk of rank 1 in line 5"));
  CHECK_THAT(
      error(xml_of_two(xml_block(0, 1, xml_step("r", "i", 0, "o", 0)), xml_block(0, 0, xml_step("r", "i", 0, "o", 0))),
            Operation::all_reduce, "wrong.xml"),
      Contains(":4:1: deadlock: this step of gpu 0, block 0 never runs: it waits for a message from gpu 1"));
  CHECK_THAT(error(xml_of_two(xml_block(0, 1, xml_step("s", "i", 0, "o", 0)), ""), Operation::all_reduce, "wrong.xml"),
             Contains(":4:1: gpu 1 never receives what this step of gpu 0 sends"));
  CHECK_THAT(error(xml_of_two(xml_block(0, 1, xml_step("sr", "i", 0, "o", 0)), ""), Operation::all_reduce, "wrong.xml"),
             Contains(":4:1: type=\"sr\"; expected s, r, rcs"));
  CHECK_THAT(
      error(xml_of_two("<tb id=\"0\" send=\"1\" recv=\"1\" chan=\"0\">\n<stp s=\"0\" type=\"nop\"/>\n</tb>\n", ""),
            Operation::all_reduce, "wrong.xml"),
      Contains(":4:1: <stp> in <tb>; expected <step>"));
  CollectiveRunOptions o = four_ranks(Operation::all_reduce, folder.write("ring3.yaml", ring_file(3)));
  CHECK_THROWS_WITH(run_of(o), Contains("the file is for 3 ranks, and the group has 4"));
  o.algorithm = "nowhere.yaml";
  CHECK_THROWS_WITH(run_of(o), Contains("all-reduce: all-reduce algorithm nowhere.yaml: no such file"));
}

}  // namespace strategies_test_collective_values
