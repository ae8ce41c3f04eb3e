// Where a loop generates: on all GPUs before they train, on nodes that only generate, or on both (hybrid).
#include <nlohmann/json.hpp>
#include <set>

#include "models/reading/catalog.hpp"
#include "scenarios/src/post_training/asynchrony.hpp"
#include "scenarios/src/search/loop_search.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/loop_plan_report.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_loop_placements {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

const std::pair<std::string, std::string> kHybrid{"post_training.generation.hybrid", "true"};

Overrides on_nodes(int all, int only_generate, const Overrides& more = {}) {
  Overrides changes{{"cluster.nodes", std::to_string(all)},
                    {"post_training.generation.nodes", std::to_string(only_generate)}};
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

Overrides with_hybrid(Overrides changes) {
  changes.push_back(kHybrid);
  return changes;
}

std::string text_of(const PostTrainingResult& r) { return post_training_fields().json(r).dump(); }

}  // namespace

TEST_CASE("a hybrid without nodes that only generate is colocated", "[post-training]") {
  for (const Overrides& more :
       {Overrides{}, Overrides{{"post_training.started_prompts", "80"}},
        Overrides{{"post_training.dynamic_sampling", "{useful: 0.5}"}}, Overrides{{"post_training.stack", "verl"}},
        Overrides{{"cluster.nodes", "3"}, {"post_training.critic", "{model: llama-3-8b, nodes: 1}"}}}) {
    const std::string colocated = text_of(simulated_loop(more));
    CHECK(text_of(simulated_loop(with_hybrid(more))) == colocated);
    Overrides stated = more;
    stated.emplace_back("post_training.generation.nodes", "0");
    CHECK(text_of(simulated_loop(stated)) == colocated);
    CHECK(text_of(simulated_loop(with_hybrid(stated))) == colocated);
  }
}

TEST_CASE("a hybrid generates as a colocated loop of its machine, and trains as a split one", "[post-training]") {
  for (const auto& [all, only_generate] : {std::pair{2, 1}, {3, 1}, {3, 2}, {5, 1}, {5, 4}})
    for (const Overrides& more :
         {Overrides{}, Overrides{{"post_training.started_prompts", "80"}},
          Overrides{{"post_training.dynamic_sampling", "{useful: 0.5}"}},
          Overrides{{"post_training.tools", "{calls: 2, wait: 3 s, variation: 1}"}},
          Overrides{{"post_training.generation.tensor_parallel", "2"}, {"post_training.stack", "verl"}}}) {
      CAPTURE(all, only_generate, more);
      const Overrides changes = on_nodes(all, only_generate, more);
      const PostTrainingResult hybrid = simulated_loop(with_hybrid(changes)), split = simulated_loop(changes);
      const PostTrainingResult colocated = simulated_loop(on_nodes(all, 0, more));
      CHECK(hybrid.generation == colocated.generation);
      CHECK(hybrid.generation <= split.generation);
      CHECK(hybrid.training == split.training);
      CHECK(hybrid.log_probabilities == split.log_probabilities);
      CHECK(hybrid.reload > split.reload);
      CHECK(hybrid.step_time.value == Approx(hybrid.summed_parts().value).epsilon(1e-12));
      CHECK(hybrid.gpus == 8 * all);
      CHECK(hybrid.generation_gpus == 8 * all);
      CHECK(hybrid.colocated_gpus == 8 * (all - only_generate));
      CHECK(hybrid.training_gpus == hybrid.colocated_gpus);
      CHECK(split.colocated_gpus == 0);
      CHECK(colocated.colocated_gpus == colocated.training_gpus);
    }
}

TEST_CASE("the manual has the steps of Qwen3 32B by placement", "[post-training]") {
  const auto step = [](const char* only_generate, const char* hybrid) {
    return simulated_loop(
               {{"post_training.generation.nodes", only_generate}, {"post_training.generation.hybrid", hybrid}},
               "post-training-qwen3-32b-64xh100")
        .step_time.value;
  };
  constexpr double rounding = 0.5;  // s
  CHECK(step("0", "false") == Approx(223).margin(rounding));
  CHECK(step("2", "true") == Approx(254).margin(rounding));
  CHECK(step("4", "true") == Approx(316).margin(rounding));
  CHECK(step("6", "true") == Approx(503).margin(rounding));
  CHECK(step("2", "false") == Approx(432).margin(rounding));
  CHECK(step("4", "false") == Approx(351).margin(rounding));
  CHECK(step("6", "false") == Approx(500).margin(rounding));
}

TEST_CASE("the answers of both kinds of engines of a hybrid are those of the step", "[post-training]") {
  for (const auto& [all, only_generate] : {std::pair{2, 1}, {3, 1}, {5, 3}}) {
    const Scenario s = loop_scenario(with_hybrid(on_nodes(all, only_generate)));
    const PostTrainingResult r = *simulate_here(s, {.critical_path = false}).post_training;
    const auto answers = static_cast<std::size_t>(s.post_training->samples());
    double apart_answers = 0;  // number of answers of the first engines, whose GPUs only generate
    for (std::size_t i = 0; i < answers; ++i)
      if (dealt_share(i, answers, static_cast<std::size_t>(r.engines)) < static_cast<std::size_t>(8 * only_generate))
        ++apart_answers;
    CHECK(apart_answers > 0);
    CHECK(r.colocated_answers > 0);
    CHECK(apart_answers + r.colocated_answers == static_cast<double>(answers));
  }
  CHECK(simulated_loop(on_nodes(3, 1)).colocated_answers == 0);
  CHECK(simulated_loop(on_nodes(3, 0)).colocated_answers == 64 * 32);
}

TEST_CASE("weights of a hybrid go to both kinds of engines by their own libraries, and the slower one counts",
          "[post-training]") {
  const Overrides changes = on_nodes(3, 1);
  const PostTrainingResult split = simulated_loop(changes), hybrid = simulated_loop(with_hybrid(changes)),
                           colocated = simulated_loop(on_nodes(3, 0));
  CHECK(hybrid.weights == std::max(split.weights, colocated.weights));
  CHECK(hybrid.weights_network == std::max(split.weights_network, colocated.weights_network));
  // The slower library counts, whichever it is.
  const auto rate = [&](const char* apart, const char* shared) {
    Overrides all = with_hybrid(changes);
    all.emplace_back("post_training.stack",
                     std::string("{base: nemo-rl, apart_transfer: ") + apart + ", colocated_transfer: " + shared + "}");
    return simulated_loop(all).weights;
  };
  CHECK(rate("verl-nccl", "nemo-rl-colocated") == std::max(rate("verl-nccl", "verl-nccl"), hybrid.weights));
  CHECK(rate("nemo-rl-apart", "nemo-rl-apart") == split.weights);
  // A library that the scenario states sends to all GPUs.
  Overrides doubling = with_hybrid(changes);
  doubling.emplace_back("post_training.weights", "{start: 1 s, rate: 1 PB/s, per_doubling: 1 s, doubled_from: 6}");
  CHECK(simulated_loop(doubling).weights.value == Approx(3 + hybrid.weights_network.value));
  // Each node that generates reads them from a store.
  const std::pair<std::string, std::string> store{"post_training.weights_storage", "lustre-fsx-200"};
  CHECK(simulated_loop(with_hybrid(on_nodes(3, 1, {store}))).store_read ==
        simulated_loop(on_nodes(3, 0, {store})).store_read);
}

TEST_CASE("states leave the GPUs of a hybrid that train, which have the memory of a colocated loop",
          "[post-training]") {
  const Overrides changes = on_nodes(3, 1);
  const PostTrainingResult hybrid = simulated_loop(with_hybrid(changes)), split = simulated_loop(changes),
                           colocated = simulated_loop();  // the two nodes that train
  CHECK(hybrid.moved_states == colocated.moved_states);
  CHECK(hybrid.reload == colocated.reload);
  REQUIRE(hybrid.phases.size() == 1);
  CHECK(hybrid.phases[0].needed == colocated.phases[0].needed);
  CHECK(hybrid.phases[0].needed < split.phases[0].needed);
  CHECK(hybrid.memory.capacity == colocated.memory.capacity);
}

TEST_CASE("the pools of a hybrid are its parts", "[post-training]") {
  const PostTrainingResult r = simulated_loop(with_hybrid(on_nodes(4, 1, {{"post_training.critic", "{nodes: 1}"}})));
  REQUIRE(r.pools.size() == 3);
  CHECK(r.pools[0].name == "generation");
  CHECK(r.pools[1].name == "both");
  CHECK(r.pools[0].gpus == 8);
  CHECK(r.pools[1].gpus == 16);
  CHECK(r.pools[2].gpus == 8);
  for (const PostTrainingResult::Pool& pool : r.pools) {
    double end = 0;
    for (const PostTrainingResult::Pool::Part& part : pool.parts) {
      CHECK(part.begin.value == Approx(end).epsilon(1e-12));
      end = part.end.value;
    }
    CHECK(end == Approx(r.step_time.value).epsilon(1e-9));
  }
  for (std::size_t pool : {0, 1}) {
    CHECK(r.pools[pool].parts[0].name == "generation");
    CHECK(r.pools[pool].parts[0].end.value == Approx(r.generation.value));
  }
  const Scenario s = loop_scenario(with_hybrid(on_nodes(2, 1)));
  Answer a = answer(s, AnswerOptions{.simulation = {}, .factor = 2});
  CHECK(a.result.post_training->unmeasured == "a hybrid placement");
  const std::string screen = post_training_screen(s, a.result, a.what_ifs);
  CHECK_THAT(screen, Contains("8 GPUs only generate,") && Contains("and 8 generate, then train") &&
                         Contains("1024 answers on GPUs that train") &&
                         Contains("sent as nemo-rl-apart and nemo-rl-colocated do"));
  std::set<std::string> resources;
  for (const WhatIf& w : a.what_ifs) resources.insert(w.resource_class);
  CHECK(resources.contains("nodes that generate"));
  CHECK(resources.contains("nodes that train"));
  for (const WhatIf& w : a.what_ifs)
    CHECK(simulate(read_again(s, parse_overrides(w.sets))).post_training->step_time.value ==
          Approx(w.step_time.value).epsilon(1e-9));
}

TEST_CASE("a table of splits of a hybrid has hybrids", "[post-training]") {
  const Scenario s = loop_scenario(with_hybrid(on_nodes(3, 1)));
  const std::vector<PostTrainingSplit> splits = post_training_splits(s);
  REQUIRE(splits.size() == 2);
  for (const PostTrainingSplit& split : splits) {
    REQUIRE(split.error.empty());
    CHECK(split.generation_gpus == 24);
    CHECK(split.training_gpus == 8 * (3 - split.nodes));
    CHECK(split.step_time == simulated_loop(with_hybrid(on_nodes(3, split.nodes))).step_time);
  }
}

TEST_CASE("failures of a hybrid stop the GPUs that train, and cost engines of the others",
          "[post-training][failures]") {
  const auto lost = [](const char* what) {
    return simulate_training(
        loop_scenario(with_hybrid(on_nodes(
            3, 1,
            {{"post_training.length", "{steps: 1000}"},
             {"faults", std::string("{failures: [{at: 550 steps, what: ") + what +
                            "}], checkpoint: {every: 100 steps, write: 2 s, load: 10 s}, restart: {detect: 20 s, "
                            "restart: 40 s}}"}}))),
        {.critical_path = false});
  };
  const Result trains = lost("node 0"), generates = lost("node 2");
  const FailureResult& f = *generates.failures;
  REQUIRE(f.pools.size() == 2);
  CHECK(f.pools[0].name == "both");
  CHECK(f.pools[0].gpus == 16);
  CHECK(f.pools[1].name == "generation");
  CHECK(f.pools[1].gpus == 8);
  CHECK(f.pools[1].failures == 1);
  CHECK(f.pools[1].lost.value > 0);
  CHECK(trains.failures->pools[0].failures == 1);
  CHECK(trains.failures->pools[0].lost.value > 50 * trains.post_training->step_time.value);  // repeated steps
  CHECK(trains.failures->end > f.end);
  for (const Result* r : {&trains, &generates}) {
    double sum = r->failures->useful.value + r->failures->unfinished.value;
    for (const FailureResult::Pool& pool : r->failures->pools) sum += pool.lost.value;
    CHECK(sum == Approx(r->failures->end.value).epsilon(1e-9));
  }
}

TEST_CASE("hybrids that cannot be are refused with what can", "[post-training][errors]") {
  const auto hybrid = [](int all, int only_generate, const Overrides& more) {
    return with_hybrid(on_nodes(all, only_generate, more));
  };
  for (const char* schedule : {"one-step-off", "asynchronous"})
    for (const int only_generate : {0, 1})
      check_loop_refused(hybrid(3, only_generate, {{"post_training.schedule", schedule}}),
                         "post_training.schedule: with generation.hybrid the GPUs that train generate before, and not "
                         "beside; expected synchronous, or hybrid: false with generation.nodes");
  check_loop_refused(hybrid(3, 3, {}), "3 of 3 nodes generate, and none is left to train; expected at most 2");
  check_loop_refused(hybrid(3, 1, {{"post_training.generation.tensor_parallel", "16"}}),
                     "16 GPUs an engine do not divide both the 8 GPUs that only generate and the 16 that train too, in "
                     "nodes of 8; nearest: 8");
  CHECK_NOTHROW(loop_scenario(hybrid(4, 2, {{"post_training.generation.tensor_parallel", "16"}})));
  check_loop_refused(on_nodes(3, 1, {{"post_training.generation.hybrid", "1"}}), "expected true or false");
}

TEST_CASE("placements that are searched have hybrids, which run has too", "[post-training][plan]") {
  const Scenario s = loop_scenario({{"cluster.nodes", "5"}});
  const LoopAnswer answer = search_loops(s, {});
  std::size_t hybrids = 0;
  for (const LoopRow& row : answer.rows) {
    if (!row.hybrid || !row.error.empty()) continue;
    ++hybrids;
    CHECK(row.schedule == "synchronous");
    CHECK(row.generation_nodes > 0);
    if (row.engine_gpus == 1)
      CHECK(row.step_time ==
            Approx(simulated_loop(with_hybrid(on_nodes(5, row.generation_nodes))).step_time.value).epsilon(1e-9));
  }
  CHECK(hybrids > 0);
  CHECK_THAT(loop_plan_screen(answer, answer.rows.size()),
             Contains("synchronous, hybrid") && Contains("; hybrid: the others generate too"));
  // The screen counts the placements that are refused, and has the first one's reason.
  const auto is_refused = [](const LoopRow& row) { return !row.error.empty(); };
  CHECK(answer.impossible == std::ranges::count_if(answer.rows, is_refused));
  LoopAnswer one_refused = answer;
  one_refused.rows.push_back(one_refused.rows.front());
  one_refused.rows.back().error = "engines do not fit";
  std::erase_if(one_refused.rows,
                [&](const LoopRow& row) { return is_refused(row) && row.error != "engines do not fit"; });
  one_refused.impossible = 1;
  CHECK_THAT(loop_plan_screen(one_refused, 1), Contains("impossible: 1 placement; the first: engines do not fit\n"));
  LoopAnswer none = one_refused;
  none.rows.erase(none.rows.begin(), none.rows.end() - 1);
  CHECK_THAT(loop_plan_screen(none, 1), Contains("no tried placement is possible\n"));
  REQUIRE_FALSE(answer.rows[0].hybrid);
  CHECK_THAT(loop_plan_screen(answer, 1), !Contains("hybrid"));
}

}  // namespace scenarios_test_loop_placements
