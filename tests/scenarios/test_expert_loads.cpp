// Uneven experts: each rank of the expert axis has its own load, and all-to-alls carry the bytes of each pair.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/expert_loads.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "sim/json_text.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_expert_loads {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

/// The busiest of eight ranks has twice the mean, the others 6/7 of it.
const std::string kUneven = "[14, 6, 6, 6, 6, 6, 6, 6]";

Scenario mixtral(const std::string& experts, const std::string& more = "", int nodes = 2) {
  return read_scenario_text("cluster: {nodes: " + std::to_string(nodes) +
                                ", node: dgx-h100, fabric: rail-optimized}\n"
                                "model: {base: mixtral-8x7b, num_hidden_layers: 4}\nsoftware: megatron-core\n"
                                "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 2048, precision: bf16, "
                                "expert_parallel: {size: 8, " +
                                experts + "}" + (more.empty() ? "" : ", " + more) + "}\n",
                            "experts.yaml");
}

/// The answer in JSON, without the time that the simulation took.
std::string answer_of(const Scenario& s) {
  nlohmann::json answer = parse_json(to_json(simulate(s)).dump());
  answer.erase("wall_s");
  return answer.dump();
}

/// Returns the time of each rank's kernels in s.
std::vector<double> compute_of_ranks(const Scenario& s) {
  const Plan step_plan = plan(s);
  const StepRun run(s, step_plan, {});
  std::vector<double> seconds;
  for (Actor rank = 0; rank < s.ranks(); ++rank)
    seconds.push_back(run.window.parts(run.actor_of_rank(rank)).work.at("compute").value);
  return seconds;
}

double row_bytes(const Result& r) { return r.bytes_by_content.at("activations"); }

/// Returns the edges of a lane's first group with their weights, and with swapped ends if `is_reversed`.
std::set<std::tuple<Actor, Actor, int>> edges_of(const Plan& step_plan, Lane lane, bool is_reversed) {
  std::set<std::tuple<Actor, Actor, int>> edges;
  for (const GroupFlow::Edge& e : step_plan.training.lane(lane).groups.front().settings.flow->edges)
    edges.insert(is_reversed ? std::tuple{e.to, e.from, e.weight} : std::tuple{e.from, e.to, e.weight});
  return edges;
}

/// Returns the error of reading and planning a scenario.
std::string error_of(const std::string& experts) {
  return test::user_error([&] { plan(mixtral(experts)); });
}

}  // namespace

TEST_CASE("equal loads give the answer of an even plan, byte for byte", "[expert-loads]") {
  for (const char* collectives : {"modelled", "flows", "messages"}) {
    CAPTURE(collectives);
    const std::string more = std::string("collectives: ") + collectives;
    const std::string even = answer_of(mixtral("imbalance: 1", more));
    CHECK(answer_of(mixtral("load: [1, 1, 1, 1, 1, 1, 1, 1]", more)) == even);
    CHECK(answer_of(mixtral("load: {kind: zipf, exponent: 0}", more)) == even);
    CHECK(answer_of(mixtral("load: even", more)) == even);
  }
}

TEST_CASE("a common factor of all loads changes nothing", "[expert-loads]") {
  CHECK(answer_of(mixtral("load: [28, 12, 12, 12, 12, 12, 12, 12]")) == answer_of(mixtral("load: " + kUneven)));
}

TEST_CASE(
    "unequal loads keep the sum of dispatched bytes, and the step is between those of even and of all busiest ranks",
    "[expert-loads]") {
  for (const auto& [collectives, rounding] : {std::pair{"modelled", 1e-4}, {"flows", 1e-9}, {"messages", 1e-9}}) {
    CAPTURE(collectives);
    const std::string more = std::string("collectives: ") + collectives;
    const Result even = simulate(mixtral("imbalance: 1", more)), uneven = simulate(mixtral("load: " + kUneven, more)),
                 busy = simulate(mixtral("imbalance: 2", more));
    CHECK(row_bytes(uneven) == Approx(row_bytes(even)).epsilon(rounding));
    CHECK(row_bytes(busy) == Approx(2 * row_bytes(even)).epsilon(1e-3));
    CHECK(uneven.step_time.value > even.step_time.value);
    CHECK(uneven.step_time.value <= busy.step_time.value * (1 + 1e-3));
    REQUIRE(uneven.expert_load.has_value());
    CHECK(uneven.expert_load->most == Approx(2).epsilon(1e-12));
    CHECK(uneven.expert_load->least == Approx(6 / 7.0).epsilon(1e-12));
    CHECK(!even.expert_load.has_value());
    CHECK(!busy.expert_load.has_value());
    // The fullest device is that of the busiest rank.
    CHECK(uneven.memory.activations.value == Approx(busy.memory.activations.value).epsilon(1e-9));
  }
}

TEST_CASE("each rank computes its own tokens, and the others wait for the busiest one", "[expert-loads]") {
  const Scenario s = mixtral("load: " + kUneven);
  const std::vector<double> even = compute_of_ranks(mixtral("imbalance: 1")), uneven = compute_of_ranks(s),
                            busy = compute_of_ranks(mixtral("imbalance: 2"));
  for (std::size_t rank = 0; rank < uneven.size(); ++rank) {
    CAPTURE(rank);
    if (rank % 8 == 0)
      CHECK(uneven[rank] == Approx(busy[rank]).epsilon(1e-6));
    else
      CHECK(uneven[rank] < even[rank]);
  }
  const Result r = simulate(s);
  const double idle_time = uneven[0] - uneven[1];
  REQUIRE(r.expert_load.has_value());
  CHECK(r.expert_load->longest_wait.value > 0.5 * idle_time);
  CHECK(r.expert_load->longest_wait.value < 1.3 * idle_time);
  CHECK(r.expert_load->mean_wait.value == Approx(14.0 / 16 * r.expert_load->longest_wait.value).epsilon(0.05));
}

TEST_CASE("rows come back over the edges on which they went to their experts", "[expert-loads]") {
  for (const char* more : {"tensor_parallel: 1", "tensor_parallel: 2, sequence_parallel: false"})
    for (const char* dispatcher : {"all-to-all", "deepep"}) {
      CAPTURE(more, dispatcher);
      const Plan step_plan = plan(mixtral(std::string("dispatcher: ") + dispatcher + ", load: " + kUneven, more));
      CHECK(step_plan.training.load_networks.size() == 1);
      CHECK(step_plan.training.load_number(0) == 0);
      // A rank of the sender's node relays all-to-all messages between nodes, so the edges back differ.
      if (std::string(dispatcher) == "all-to-all" && std::string(more) != "tensor_parallel: 1") continue;
      CHECK(edges_of(step_plan, Lane::expert, true) == edges_of(step_plan, Lane::expert_return, false));
    }
}

TEST_CASE("ranks with equal loads fold, and ranks with unequal loads do not", "[expert-loads][folding]") {
  const auto classes_of = [](const std::string& experts, const std::string& more, int nodes) {
    CAPTURE(experts, more);
    const Scenario s = mixtral(experts, more, nodes);
    const FoldCheck check = check_folding(s, plan(s));
    CHECK((check.difference.empty() || check.rounding_decides()));
    CHECK(check.unfolded_reason == "");
    return check.classes;
  };
  const int classes = classes_of("load: " + kUneven, "", 4);
  CHECK(classes > 1);
  CHECK(classes <= 8);
  CHECK(classes_of("load: [1, 2, 3, 4, 5, 6, 7, 8]", "", 4) == 8);
  CHECK(classes_of("load: [1, 2, 3, 4, 5, 6, 7, 8]", "collectives: messages", 4) == 8);
  // Flows make eight classes, because each rank has the busiest one at another place.
  CHECK(classes_of("load: " + kUneven, "collectives: flows", 4) == 8);
  classes_of("load: zipf, dispatcher: deepep", "data_parallel: {zero_stage: 1}", 4);
  classes_of("load: zipf, overlap: true", "", 4);
  classes_of("load: {kind: lognormal, sigma: 0.3}", "tensor_parallel: 2", 8);
  classes_of("load: zipf", "pipeline_parallel: 2", 8);
  classes_of("load: zipf", "mode: inference", 4);
}

TEST_CASE("distributions give experts reproducible loads", "[expert-loads]") {
  ExpertLoads zipf;
  zipf.kind = ExpertLoads::Kind::zipf;
  std::vector<double> loads = loads_of(zipf, 8), other = loads;
  CHECK(loads == loads_of(zipf, 8));
  zipf.seed = 2;
  CHECK(loads != loads_of(zipf, 8));
  std::sort(loads.begin(), loads.end(), std::greater<>());
  for (std::size_t i = 0; i < loads.size(); ++i) CHECK(loads[i] == Approx(1.0 / static_cast<double>(i + 1)));
  ExpertLoads lognormal;
  lognormal.kind = ExpertLoads::Kind::lognormal;
  lognormal.sigma = 0.25;
  double sum = 0, squares = 0;
  const std::vector<double> many = loads_of(lognormal, 10000);
  for (const double load : many) {
    sum += std::log(load);
    squares += std::log(load) * std::log(load);
  }
  CHECK(sum / 10000 == Approx(0).margin(0.01));
  CHECK(squares / 10000 == Approx(0.0625).epsilon(0.05));
}

TEST_CASE("a table of tokens gives the same answer as the list of its sums", "[expert-loads]") {
  const test::TemporaryFolder folder;
  std::string table = "# two steps\nexpert,tokens\n";
  for (const int half : {0, 1})
    for (int expert = 7; expert >= 0; --expert)
      table += std::to_string(expert) + "," + (expert == 0 ? std::to_string(5 + 4 * half) : "3") + "\n";
  const std::string file = folder.write("tokens.csv", table).string();
  CHECK(answer_of(mixtral("load: {file: " + file + "}")) == answer_of(mixtral("load: " + kUneven)));

  const auto refusal = [&](const std::string& text) {
    return error_of("load: {file: " + folder.write("bad.csv", text).string() + "}");
  };
  CHECK_THAT(refusal("layer,rows\n0,5\n"), Contains("bad.csv:1:1: no column \"expert\""));
  CHECK_THAT(refusal("expert,tokens\n0,5\n1,x\n"), Contains("bad.csv:3:3: tokens: \"x\"; expected a number"));
  CHECK_THAT(refusal("expert,tokens\n-1,5\n"), Contains("bad.csv:2:1: expert: \"-1\"; expected a whole number from 0"));
  CHECK_THAT(refusal("expert,tokens\n0,5\n2,1\n"), Contains("experts.yaml:4") && Contains("no row of expert 1"));
  CHECK_THAT(error_of("load: {file: none.csv}"), Contains("none.csv") && Contains("no such file"));
}

TEST_CASE("loads that no router gives are refused at their place", "[expert-loads]") {
  CHECK_THAT(
      error_of("load: [1, 2, 3]"),
      Contains("experts.yaml:4") && Contains("plan.expert_parallel.load: 3 loads; expected 8, one for each expert"));
  CHECK_THAT(error_of("load: [1, 1, 1, 1, 1, 1, 1, -1]"), Contains("\"-1\"; expected a number, 0 or more"));
  CHECK_THAT(error_of("load: [0, 0, 0, 0, 0, 0, 0, 0]"), Contains("all loads are 0"));
  CHECK_THAT(error_of("load: [0, 1, 1, 1, 1, 1, 1, 1]"), Contains("an expert rank without tokens"));
  CHECK_THAT(error_of("load: zipf, imbalance: 1.2"), Contains("plan.expert_parallel.load") && Contains("leave one"));
  CHECK_THAT(error_of("load: {kind: zipf, exponent: 3}"),
             Contains("a token goes to 2 of 8 experts, so at most 4 times is possible"));
  CHECK_THAT(error_of("load: {kind: zipf, sigma: 0.1}"), Contains("load.sigma: with kind lognormal only"));
  CHECK_THAT(error_of("load: {kind: zipf, values: [1]}"), Contains("exclude each other"));
  CHECK_THAT(error_of("load: zip"), Contains("zipf"));
  CHECK_THAT(
      test::user_error([] {
        read_scenario_text(
            "cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 1, expert_parallel: {load: zipf}}\n",
            "dense.yaml");
      }),
      Contains("dense.yaml:3") && Contains("has no experts"));
}

}  // namespace scenarios_test_expert_loads
