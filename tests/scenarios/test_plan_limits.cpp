// A search of plans that ends early: at a limit of work, after a time or at a signal. Its progress has the best plan.
#include <fmt/format.h>

#include <set>

#include "sim/process/job.hpp"
#include "tests/scenarios/small_plans.hpp"
#include "tests/support.hpp"

namespace scenarios_test_plan_limits {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a limit of work ends a search with the best plan so far, and the answer says so", "[search]") {
  PlanAnswerOptions options = few_plans();
  const PlanAnswer complete_answer = answer_plan(question_of(kSmall), options);
  CHECK(complete_answer.ended == SearchEnd::proved);
  options.search.work = 1;
  const PlanAnswer limited_answer = answer_plan(question_of(kSmall), options);
  REQUIRE(limited_answer.search.best());
  CHECK(limited_answer.ended == SearchEnd::work);
  CHECK_FALSE(limited_answer.search.proved);
  CHECK(limited_answer.search.work < complete_answer.search.work);
  CHECK(limited_answer.search.best()->outcome.step_time >= complete_answer.search.best()->outcome.step_time);
  CHECK(json_of_answer(answer_plan(question_of(kSmall), options)) == json_of_answer(limited_answer));
  options.search.work = 1e12;
  CHECK(json_of_answer(answer_plan(question_of(kSmall), options)) == json_of_answer(complete_answer));
}

TEST_CASE("the end of the wall time and a signal leave the best plan so far, and the answer says so", "[search]") {
  PlanAnswerOptions options = few_plans();
  options.seconds = 1;
  options.search.progress = [](const std::string& text) {
    while (text.find(" judged,") != std::string::npos && !time_is_over()) continue;
  };
  const PlanAnswer timed_answer = answer_plan(question_of(kSmall), options);
  CHECK(timed_answer.ended == SearchEnd::time);
  CHECK_FALSE(timed_answer.search.proved);
  REQUIRE(timed_answer.search.best());  // the scenario's own plan comes first
  CHECK_THAT(json_of_answer(timed_answer), Catch::Contains("\"ended\":\"time\""));
  CHECK_FALSE(is_interrupted());
  Job job;
  const JobScope scope(job);
  options.seconds = 0;
  options.search.progress = [&job](const std::string& text) {
    if (text.find(" judged,") != std::string::npos) job.stopped = true;
  };
  const PlanAnswer stopped_answer = answer_plan(question_of(kSmall), options);
  CHECK(stopped_answer.ended == SearchEnd::interrupt);
  CHECK(stopped_answer.search.best());
  CHECK_FALSE(stopped_answer.search.proved);
}

TEST_CASE("every progress line has the best plan so far, from the first plan that fits to the end", "[search]") {
  PlanAnswerOptions options = few_plans();
  options.upgrades = true;
  std::vector<std::string> lines;
  options.search.progress = [&lines](const std::string& text) { lines.push_back(text); };
  const PlanAnswer answer = answer_plan(question_of(kSmall), options);  // the scenario's own plan comes first
  REQUIRE(answer.search.best());
  const std::string best = fmt::format("best {:.4g} s", answer.search.best()->outcome.step_time);
  std::set<std::string> kinds;
  for (const std::string& text : lines) {
    CHECK_THAT(text, Catch::Contains("best "));
    for (const char* kind : {"groups of plans bounded", "simulated", "rule of thumb", "2x memory", "each choice"})
      if (text.find(kind) != std::string::npos) kinds.insert(kind);
    // Plans on faster machines are not reported as the best.
    if (text.find("2x ") != std::string::npos) CHECK_THAT(text, Catch::StartsWith(best + "; 2x "));
  }
  CHECK(kinds.size() == 5);
  CHECK_THAT(lines.back(), Catch::Contains(best));
}

TEST_CASE("a search under a limit of work goes on until it has a plan that fits", "[search]") {
  // Each of the two layers has 13 billion parameters: the first groups have few tensor ranks, and none of them fits.
  const std::string large =
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_embd: 32768, n_head: 256, n_layer: 2}\nsoftware: "
      "megatron-core\n"
      "plan: {global_batch_size: 8, seq_length: 512, pipeline: {schedule: 1f1b}}\n";
  PlanAnswerOptions options;
  options.space.vary = {{"plan.data_parallel.zero_stage", {"0"}}};
  options.neighbours = options.rule = options.without_headroom = false;
  options.search.work = 1;
  const PlanAnswer answer = answer_plan(question_of(large), options);
  CHECK(answer.search.best());
  CHECK(answer.ended == SearchEnd::work);
}

}  // namespace scenarios_test_plan_limits
