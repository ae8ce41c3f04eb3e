// The all-reduce that a plan states: by name, as a map, or auto.
#include <catch2/catch.hpp>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_collective_choice {

using namespace trainyard;

namespace {

constexpr const char* kText =
    "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\n"
    "model: {base: gpt2, n_layer: 2}\n"
    "plan:\n"
    "  global_batch_size: 16\n"
    "  micro_batch_size: 1\n"
    "  seq_length: 64\n"
    "  precision: bf16\n"
    "  data_parallel: {all_reduce: ring}\n";

Scenario scenario_with(const std::string& all_reduce) {
  return read_scenario_text(kText, "plan.yaml", {{"plan.data_parallel.all_reduce", all_reduce}});
}

std::string error_of(const std::string& all_reduce) {
  return test::user_error([&] { scenario_with(all_reduce); });
}

double step_time(const std::string& all_reduce) { return simulate(scenario_with(all_reduce)).step_time.value; }

}  // namespace

TEST_CASE("a plan names its all-reduce or describes it as a map, and a key can be set in addition to the name",
          "[collectives]") {
  const Scenario named_ring = read_scenario_text(kText, "plan.yaml", {{"plan.data_parallel.all_reduce.channels", "8"}});
  CHECK(named_ring.plan.all_reduce.algorithm->name == "ring");
  CHECK(named_ring.plan.all_reduce.settings.channels == 8);
  CHECK(named_ring.plan.all_reduce.settings.per_node == 8);
  CHECK(simulate(named_ring).all_reduce.channels == 8);
  CHECK(simulate(named_ring).step_time.value < step_time("ring"));  // eight adapters per node, not one
  CHECK(scenario_with("hierarchical").plan.all_reduce.algorithm->name == "hierarchical");
  CHECK(step_time("hierarchical") < step_time("ring"));
}

TEST_CASE("auto tries the algorithms for a bucket, and takes the fastest", "[collectives]") {
  const Scenario s = scenario_with("auto");
  const Plan step_plan = plan(s);
  REQUIRE(step_plan.tuned);
  const Tuning& tuned = *step_plan.tuned;
  CHECK(step_plan.all_reduce.algorithm == tuned.best().algorithm);
  CHECK(tuned.candidates.size() > 10);
  const Result r = simulate(s, step_plan);
  CHECK(r.all_reduce.algorithm == tuned.best().algorithm->name);
  CHECK(r.all_reduce.tuned.size() == tuned.candidates.size());
  for (const auto& candidate : r.all_reduce.tuned)
    CHECK(candidate.seconds.value >= r.all_reduce.tuned.front().seconds.value);
}

TEST_CASE("a step with flows is close to one with messages, and NCCL's model follows faster links", "[collectives]") {
  const double messages = step_time("{algorithm: hierarchical}"),
               flows = step_time("{algorithm: hierarchical, fidelity: flows}");
  CHECK(flows == Approx(messages).epsilon(0.02));
  const Scenario modelled = read_scenario_text(kText, "plan.yaml",
                                               {{"plan.data_parallel.all_reduce", "{fidelity: modelled}"},
                                                {"cluster.node", "{base: dgx-a100, hca: {count: 1}}"}});
  CHECK(simulate(modelled).all_reduce.algorithm.starts_with("NCCL, "));
  CHECK(!schedule(plan(modelled), 0, 1000000).lines.empty());
  CHECK(simulate(read_again(modelled, faster(modelled, "HCA", 2))).step_time.value <
        simulate(modelled).step_time.value);
}

TEST_CASE("an impossible all-reduce of a plan is refused with the reason", "[collectives]") {
  const std::string place = "--set plan.data_parallel.all_reduce: ";
  CHECK(error_of("{algorithm: ring, fidelity: modelled}") ==
        place + "with fidelity: modelled, NCCL chooses for itself: leave out algorithm and channels");
  CHECK(error_of("{algorithm: hierarchical, channels: 8}") ==
        place + "hierarchical runs on its own channels; channels: 8 would change nothing");
  const std::string key = place.substr(0, place.size() - 2);
  for (const std::string name : {"ring", "halving-doubling", "torus-2d"})
    CHECK(error_of("{algorithm: " + name + ", chunk: 1 MiB}") ==
          key + ".chunk: it would change nothing in " + name +
              "; it is for algorithms that pass data on in pieces, such as double-binary-tree");
  for (const std::string name : {"chain-pipelined", "binary-tree", "double-binary-tree"})
    CHECK_NOTHROW(scenario_with("{algorithm: " + name + ", chunk: 1 MiB}"));
  CHECK(error_of("{algorithm: ring, torus: [2, 8]}") ==
        key + ".torus: it would change nothing in ring; it is for algorithms of a torus, such as torus-2d");
  for (const char* torus : {"[2, 8]", "[4, 4]"})
    CHECK_NOTHROW(scenario_with(std::string("{algorithm: torus-2d, torus: ") + torus + "}"));
  CHECK(error_of("ring-literal") ==
        place + "ring-literal is only for teaching (trainyard teach, bench), not for a plan");
  CHECK(error_of("nvls") == place +
                                "nvls needs switches that add, which work only in a collective that runs alone "
                                "(trainyard bench); as part of a step: {fidelity: modelled}");
  CHECK(error_of("{algorithm: chain, fidelity: flows}") ==
        place +
            "all-reduce by chain cannot be simulated as flows: its ranks wait for each other; take fidelity messages");
  CHECK(error_of("{algorithm: torus-2d, torus: [3, 5]}") ==
        "--set plan.data_parallel.all_reduce.torus: 3 x 5 is not 16 ranks");
  CHECK(error_of("rign") == place + "unknown all-reduce algorithm \"rign\"; did you mean \"ring\"?");
}

}  // namespace scenarios_test_collective_choice
