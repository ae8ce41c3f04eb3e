// The accuracy of plan choices: measured plans, ranked by their simulated steps.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/src/search/plan_accuracy.hpp"
#include "sim/json_text.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tools/topo_shell.hpp"

namespace scenarios_test_plan_accuracy {

using namespace trainyard;
using namespace trainyard::test;
using nlohmann::json;

namespace {

// Four plans of one batch, one of them twice, and a fifth of another batch.
const char* const kPlansOfFamily = R"(
family: five
source: "a test"
limits: {plan_rank: 0.5, plan_regret: 0.2}
scenario:
  cluster: {nodes: 1, node: dgx-a100}
  model: {config: gpt2.json}
  plan: {global_batch_size: 64}
columns: [id, plan.global_batch_size, plan.micro_batch_size, plan.tensor_parallel, measured.step_time]
rows:
  - [one, ~, 1, ~, 10 s]
  - [two, ~, 2, ~, 12 s]
  - [two again, ~, 2, ~, 14 s]
  - [four, ~, 4, ~, 11 s]
  - [split, ~, 1, 2, 20 s]
  - [large, 128, 4, ~, 18 s]
)";

RunPrediction predicted(const std::string& id, double time, double measured, double tokens = 64) {
  RunPrediction run;
  run.id = id;
  run.step_time = time;
  run.measured.step_time = Seconds{measured};
  run.tokens = tokens;
  return run;
}

std::map<std::pair<std::string, std::string>, json> accuracy_of(const std::string& words) {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard("validate plans " + words + " --json -");
  REQUIRE(answer.exit == 0);
  const json all = parse_json(answer.out);
  std::map<std::pair<std::string, std::string>, json> by_name;
  for (const json& family : all.at("families")) by_name[{family.at("family"), family.at("scope")}] = family;
  return by_name;
}

}  // namespace

TEST_CASE("regret and order are counted among measured plans of one batch, and of any", "[plan-accuracy]") {
  const TemporaryFolder folder;
  const std::vector<MeasuredFamily> families{MeasuredFamily(folder.write("five.yaml", kPlansOfFamily))};
  FamilyPrediction prediction{families[0], {}};
  prediction.runs = {predicted("one", 11, 10),  predicted("two", 12, 12),   predicted("two again", 12, 14),
                     predicted("four", 10, 11), predicted("split", 15, 20), predicted("large", 19, 18, 128)};
  const std::vector<PlanAccuracy> accuracies = plan_accuracy(families, {prediction}, true);
  REQUIRE(accuracies.size() == 2);
  const PlanAccuracy& within_batch = accuracies[0];
  CHECK(within_batch.scope == PlanScope::one_batch);
  REQUIRE(within_batch.groups.size() == 1);  // the other batch has only one plan
  CHECK(within_batch.plans == 4);
  const std::vector<MeasuredPlan>& plans = within_batch.groups[0].plans;
  CHECK(plans[0].id == "one");
  CHECK(plans[0].plan == "data 8, micro-batch 1");
  CHECK(plans[2].id == "two");
  CHECK(plans[2].runs == 2);
  CHECK(plans[2].measured == Approx(13.0 / 64).epsilon(1e-12));
  // The measured order is one, four, two, split; the predicted order is four, one, two, split. Spearman's rank
  // correlation is then 1 - 6 * 2 / (4 * 15).
  CHECK(within_batch.rank == Approx(0.8).epsilon(1e-12));
  CHECK(plans[within_batch.groups[0].chosen].id == "four");
  CHECK(within_batch.mean_regret == Approx(0.1).epsilon(1e-12));
  CHECK(within_batch.worst_regret == Approx(0.1).epsilon(1e-12));
  CHECK(within_batch.near_best == 0);
  CHECK_FALSE(within_batch.reaches_goals());
  CHECK(within_batch.within_limits());
  // The plan "two" took 12 s and 14 s. It is slower than both "one" and "four", by up to 14 / 11.
  CHECK(within_batch.scatter == Approx(14.0 / 11 - 1).epsilon(1e-12));
  CHECK_FALSE(within_batch.agrees());
  const PlanAccuracy& across_batches = accuracies[1];
  CHECK(across_batches.scope == PlanScope::any_batch);
  CHECK(across_batches.plans == 5);
  CHECK(across_batches.groups[0].plans.front().id == "large");
  CHECK(across_batches.groups[0].plans.front().plan == "data 8, micro-batch 4, batch 128");
  CHECK(across_batches.mean_regret == 0);

  prediction.runs[3].fits = false;  // a plan that does not fit is not chosen
  CHECK(plan_accuracy(families, {prediction}, false)[0].mean_regret == 0);
  prediction.runs[3].fits = true;
  std::string text = kPlansOfFamily;
  text.replace(text.find("plan_regret: 0.2"), 16, "plan_regret: 0.05");
  const std::vector<MeasuredFamily> strict_families{MeasuredFamily(folder.write("held.yaml", text))};
  CHECK_FALSE(plan_accuracy(strict_families, {prediction}, false)[0].within_limits());
}

TEST_CASE("for the families that the manual names, the chosen plan is near the best measured one", "[plan-accuracy]") {
  const auto all = accuracy_of(
      "--family korthikanti-small --family simumax-b200-deepseekv2 --family simumax-b200-dense "
      "--family vtrain-multi-18.4B --family vtrain-multi-39.1B --family mpt-a100_80gb");
  for (const char* family :
       {"korthikanti-small", "simumax-b200-deepseekv2", "simumax-b200-dense", "vtrain-multi-39.1B"}) {
    CAPTURE(family);
    const json& accuracy = all.at({family, "one batch"});
    CHECK(accuracy.at("worst_regret").get<double>() <= 0.03);
    CHECK(accuracy.at("near_best") == accuracy.at("groups"));
  }
  // These families have only two or three plans per batch, within one per cent of each other: all batches are compared.
  for (const char* family : {"simumax-b200-deepseekv2", "simumax-b200-dense", "mpt-a100_80gb"}) {
    CAPTURE(family);
    CHECK(all.at({family, "any batch"}).at("rank_correlation").get<double>() >= 0.9);
  }
  // This family misses the goals: the measured times of tensor 2 and 4 jump, the predicted ones do not.
  CHECK_FALSE(all.at({"vtrain-multi-18.4B", "one batch"}).at("reaches_goals").get<bool>());
  CHECK(all.at({"vtrain-multi-39.1B", "one batch"}).at("scatter").get<double>() > 0.03);
}

TEST_CASE("the best plan of small networks on one node is chosen within the family's limits",
          "[plan-accuracy][.deep]") {
  const auto all = accuracy_of("");
  CHECK(all.at({"vtrain-single", "one batch"}).at("groups") == 72);
  CHECK(all.at({"vtrain-single", "any batch"}).at("worst_regret").get<double>() <= 0.03);
}

}  // namespace scenarios_test_plan_accuracy
