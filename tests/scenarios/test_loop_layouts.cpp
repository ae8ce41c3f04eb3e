// The search of `plan` for the split, the layouts of engines and training, the batch and the staleness of a loop.
#include <fmt/format.h>

#include <limits>
#include <regex>
#include <set>

#include "models/reading/document_text.hpp"
#include "scenarios/src/search/loop_layouts.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/plan_question.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/loop_plan_report.hpp"

namespace scenarios_test_loop_layouts {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// A loop that is small enough to simulate all of its layouts.
Scenario small_loop(const Overrides& overrides = {}) {
  Overrides all{{"post_training.prompts", "16"},
                {"post_training.samples_per_prompt", "8"},
                {"plan.global_batch_size", "64"},
                {"post_training.stack",
                 "{base: nemo-rl, loop_sample: 94.5 ms}"}};  // 12 s of the loop, beside which halves are short
  all.insert(all.end(), overrides.begin(), overrides.end());
  return loop_scenario(all);
}

const std::vector<PlanSpaceOptions::Axis> kFewLayouts{{"plan.tensor_parallel", {"1", "2"}},
                                                      {"plan.pipeline_parallel", {"1", "2"}},
                                                      {"plan.micro_batch_size", {"1", "2"}},
                                                      {"plan.recompute", {"full"}},
                                                      {"post_training.generation.tensor_parallel", {"1", "2"}}};

/// The least time of an answer over all of these layouts, each simulated as a whole.
double enumerated_best(const Scenario& s, const std::vector<std::string>& schedules) {
  double best = std::numeric_limits<double>::infinity();
  for (const std::string& schedule : schedules)
    for (const char* nodes : {"null", "1"})
      for (const char* engine : {"1", "2"})
        for (const char* tensor : {"1", "2"})
          for (const char* pipeline : {"1", "2"})
            for (const char* sequence : {"false", "true"})
              for (const char* micro : {"1", "2"}) {
                if ((std::string(nodes) == "null") != (schedule == "colocated")) continue;
                const bool hybrid = schedule == "hybrid", synchronous = hybrid || schedule == "colocated";
                const Overrides changes{{"post_training.generation.nodes", nodes},
                                        {"post_training.generation.hybrid", hybrid ? "true" : "false"},
                                        {"post_training.schedule", synchronous ? "synchronous" : schedule},
                                        {"post_training.generation.tensor_parallel", engine},
                                        {"plan.tensor_parallel", tensor},
                                        {"plan.sequence_parallel", sequence},
                                        {"plan.pipeline_parallel", pipeline},
                                        {"plan.micro_batch_size", micro}};
                try {
                  const Result r = simulate_here(read_again(s, changes), {.critical_path = false});
                  const double headroom = default_headroom(s);
                  if (r.fits && leaves_headroom(r.memory.peak, r.memory.capacity, headroom))
                    best = std::min(best, r.post_training->step_time.value);
                } catch (const UserError&) {  // no such layout
                }
              }
  return best;
}

}  // namespace

TEST_CASE("plan finds the layouts of a loop that a list of all of them has as the best", "[post-training][plan]") {
  const Scenario s = small_loop();
  const LoopAnswer answer = search_loop_layouts(s, {kFewLayouts});
  REQUIRE(answer.best() != nullptr);
  CHECK(answer.proved);
  CHECK(answer.best()->step_time == Approx(enumerated_best(s, {"colocated", "hybrid", "synchronous"})).epsilon(1e-9));
  // The scenario's own loop is in the answer and no better.
  REQUIRE(answer.scenario_loop);
  CHECK(answer.scenario_loop->samples_per_s <= answer.best()->samples_per_s);
}

TEST_CASE("plan finds the best layouts one step off, and run has the same step", "[post-training][plan]") {
  const Scenario s = small_loop({{"post_training.generation.nodes", "1"}, {"post_training.schedule", "one-step-off"}});
  const LoopAnswer answer = search_loop_layouts(s, {kFewLayouts});
  REQUIRE(answer.best() != nullptr);
  CHECK(answer.proved);
  CHECK(answer.best()->step_time ==
        Approx(enumerated_best(s, {"colocated", "hybrid", "synchronous", "one-step-off"})).epsilon(1e-9));
  for (const LoopRow& row : answer.rows) {
    if (!row.error.empty()) continue;
    CAPTURE(row.engine, row.training, row.schedule);
    CHECK(simulate_here(read_again(s, row.changes), {.critical_path = false}).post_training->step_time.value ==
          row.step_time);
  }
}

TEST_CASE("plan without stated values finds a loop that is no slower than the scenario's", "[post-training][plan]") {
  const Scenario s = small_loop({{"post_training.generation.nodes", "1"}, {"post_training.schedule", "one-step-off"}});
  const LoopAnswer answer = search_loop_layouts(s, {});
  REQUIRE(answer.best() != nullptr);
  CHECK(answer.best()->samples_per_s >= answer.scenario_loop->samples_per_s);
  CHECK(answer.best()->prompts == 16);
  CHECK(answer.best()->staleness <= 1);
  // Half and twice the prompts, and staler answers, come apart.
  REQUIRE(answer.alternatives.size() == 3);
  CHECK(answer.alternatives[0].prompts == 8);
  CHECK(answer.alternatives[1].prompts == 32);
  CHECK(answer.alternatives[2].staleness > 1);
  // The answer does not depend on the limit of work, as long as the search ends before it.
  const LoopAnswer longer = search_loop_layouts(s, {{}, 10 * answer.work});
  CHECK(longer.best()->step_time == answer.best()->step_time);
}

// Regression: plan recommended a training half that `run` calls at risk to run out of memory.
TEST_CASE("plan of a loop recommends only what leaves the headroom, unless the user needs none",
          "[post-training][plan]") {
  const char* const name = "post-training-llama3-8b-8xh100";
  const std::vector<PlanSpaceOptions::Axis> few{{"plan.tensor_parallel", {"1"}},
                                                {"plan.pipeline_parallel", {"1", "2"}},
                                                {"plan.micro_batch_size", {"1"}},
                                                {"plan.recompute", {"none", "full"}},
                                                {"post_training.generation.tensor_parallel", {"1"}}};
  const Scenario s = loop_scenario({}, name);
  const LoopAnswer safe = search_loop_layouts(s, {few}), tight = search_loop_layouts(s, {few, 0, 0.0});
  REQUIRE((safe.best() && tight.best()));
  const LoopRow &best = *safe.best(), &at_risk = *tight.best();
  CHECK(best.headroom == default_headroom(s));
  CHECK(best.peak <= (1 - best.headroom) * best.capacity);
  for (const LoopRow& row : {best, at_risk}) {
    CAPTURE(row.training);
    const Result r = simulate_here(read_again(s, row.changes), {.critical_path = false});
    CHECK(row.peak == r.memory.peak.value);
    CHECK(row.capacity == r.memory.capacity.value);
    CHECK(row.risk == r.risk);
  }
  CHECK(at_risk.step_time < best.step_time);
  CHECK(at_risk.risk > 0.05);
  CHECK(at_risk.peak > (1 - best.headroom) * at_risk.capacity);
  CHECK_THAT(loop_plan_screen(safe, 3),
             Contains(fmt::format("; {:.1f} of 80.0 GiB a GPU\n", best.peak / (1U << 30))) &&
                 Contains(fmt::format("{:.1f} % of its memory stay free", best.headroom * 100)));
  CHECK_THAT(std::regex_replace(loop_plan_screen(tight, 3), std::regex("\\s+"), " "),
             Contains(fmt::format("which run out of memory with a probability of {:.0f} %", at_risk.risk * 100)));
  // A loop of the scenario that does not leave it is shown, and is no answer.
  const Scenario own = read_again(s, at_risk.changes);
  const LoopAnswer other = search_loop_layouts(own, {few});
  REQUIRE(other.best());
  CHECK(other.best()->step_time == Approx(best.step_time));
  CHECK(other.scenario_loop->step_time == Approx(at_risk.step_time));
  const std::string words = "the training half takes";
  CHECK_THAT(loop_plan_screen(other, 3), Contains("its own loop has a step of ") && Contains(words));
  for (const LoopRow& row : search_loops(own, {}).rows) CHECK_THAT(row.error, Contains(words));
}

TEST_CASE("plan says that --vary leaves the scenario's loop out where that loop is faster than all varied ones",
          "[post-training][plan]") {
  const Scenario s = small_loop({{"post_training.generation.nodes", "1"}, {"post_training.schedule", "one-step-off"}});
  const auto words = [](const LoopAnswer& a) {
    return fmt::format("its own loop has a step of {}, {:.3g} answers/s", show(Seconds{a.scenario_loop->step_time}),
                       a.scenario_loop->samples_per_s);
  };
  const char* const left_out = "; --vary leaves it out\n";
  const LoopAnswer without = search_loop_layouts(
      s, {{{"plan.pipeline_parallel", {"8"}}, {"post_training.generation.tensor_parallel", {"8"}}}});
  REQUIRE(without.best() != nullptr);
  CHECK(without.scenario_loop->samples_per_s > without.best()->samples_per_s);
  CHECK(without.scenario_loop->step_time ==
        Approx(simulate_here(s, {.critical_path = false}).post_training->step_time.value).epsilon(1e-9));
  CHECK_THAT(loop_plan_screen(without, 3), Contains(words(without)) && Contains(left_out));
  const LoopAnswer with = search_loop_layouts(s, {{{"post_training.generation.tensor_parallel", {"8"}}}});
  REQUIRE(with.best() != nullptr);
  CHECK(with.scenario_loop->samples_per_s < with.best()->samples_per_s);
  CHECK_THAT(loop_plan_screen(with, 3), Contains(words(with)) && !Contains(left_out));
}

TEST_CASE("a loop that is read with another plan is the one that is read anew", "[post-training][plan]") {
  const Scenario s = small_loop(
      {{"post_training.tools", "{calls: 2, wait: 3 s, tokens: 20}"}, {"post_training.answer_tokens.most", "3900"}});
  const Overrides longer{{"plan.seq_length", "8192"}, {"plan.global_batch_size", "32"}};
  Node plan = *s.document.find("plan");
  for (const auto& [path, value] : longer) set_field(plan, path.substr(5), value);
  const Scenario changed = read_with_plan(s, plan), anew = read_again(s, longer);
  const PostTrainingChoice &a = *changed.post_training, &b = *anew.post_training;
  CHECK(a.packs->tokens == b.packs->tokens);
  CHECK(a.packs->sequences == b.packs->sequences);
  CHECK(a.packs->sequences != s.post_training->packs->sequences);
  CHECK(a.training_samples == 32);
  CHECK(a.answers == b.answers);
  CHECK(a.calls.size() == b.calls.size());
  CHECK(yaml_text(a.training_document) == yaml_text(b.training_document));
  CHECK(changed.global_batch_size == anew.global_batch_size);
}

TEST_CASE("a hybrid loop has the same layouts whether or not splits are searched beside it", "[post-training][plan]") {
  const auto hybrids = [](const std::vector<std::string>& values) {
    std::vector<PlanSpaceOptions::Axis> vary = kFewLayouts;
    vary.push_back({"post_training.generation.nodes", {"1"}});
    vary.push_back({"post_training.generation.hybrid", values});
    std::pair<double, std::string> fastest{std::numeric_limits<double>::infinity(), ""};
    for (const LoopRow& row : search_loop_layouts(small_loop(), {vary}).rows)
      if (row.error.empty() && row.hybrid) fastest = std::min(fastest, {row.step_time, row.engine + row.training});
    return fastest;
  };
  CHECK(hybrids({"true"}) == hybrids({"false", "true"}));
}

TEST_CASE("a search for layouts ends at its limit of work and says so", "[post-training][plan]") {
  const LoopAnswer answer = search_loop_layouts(small_loop(), {{}, 1});
  CHECK_FALSE(answer.proved);
  REQUIRE(answer.best() != nullptr);
  CHECK(answer.open_bound > 0);
  CHECK(answer.open_bound <= answer.best()->step_time);
  CHECK(answer.alternatives.empty());
}

TEST_CASE("a search varies batch and staleness as the user states them", "[post-training][plan]") {
  std::vector<PlanSpaceOptions::Axis> vary = kFewLayouts;
  vary.push_back({"post_training.prompts", {"8", "16"}});
  vary.push_back({"post_training.staleness", {"0", "1"}});
  const LoopAnswer answer = search_loop_layouts(small_loop(), {vary});
  std::set<std::pair<std::int64_t, std::string>> found;
  for (const LoopRow& row : answer.rows)
    if (row.error.empty()) found.emplace(row.prompts, row.schedule);
  for (const std::int64_t prompts : {8, 16})
    for (const char* schedule : {"synchronous", "one-step-off", "asynchronous"})
      CHECK(found.contains({prompts, schedule}));
  const std::string screen = loop_plan_screen(answer, 10);
  CHECK_THAT(screen, Contains("16 x 8") && Contains("8 x 8") && Contains("batch: prompts of a step x answers to each"));
  CHECK_THAT(loop_plan_screen(search_loop_layouts(small_loop(), {kFewLayouts}), 10), !Contains("batch: prompts"));
  CHECK_THROWS_WITH(search_loop_layouts(small_loop(), {{{"post_training.prompt", {"8"}}}}),
                    Contains("expected a field of plan, or post_training.prompts"));
  CHECK_THROWS_WITH(search_loop_layouts(small_loop(), {{{"post_training.staleness", {"-1"}}}}),
                    Contains("a number of steps expected"));
}

}  // namespace scenarios_test_loop_layouts
