// `trainyard size --network choose`: the clusters and numbers of spines that are compared, and plans for other networks.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "tests/network_questions.hpp"
#include "topologies/analysis/network_design.hpp"

namespace scenarios_test_size_spines {

using namespace trainyard;
using Catch::Matchers::Contains;
using test::networks_of;
using test::options_of;
using test::question;
using test::row_of;

TEST_CASE("choose tries numbers of spines, and searches a plan for a network that loses time", "[size]") {
  const std::string prices =
      "prices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 16, cable: 1000}}\n";
  SizeOptions options = options_of(128);
  options.purchase = true;
  options.networks = {"nonblocking", "16:1"};
  const SizeNetworks plain = networks_of(prices, options);
  const SizeNetwork &full = row_of(plain, "nonblocking"), &thin = row_of(plain, "16:1");
  CHECK(thin.spines < full.spines);
  CHECK(full.switches > full.spines);
  // A deadline between both: numbers of spines between them are tried, and the fewest in time are taken.
  REQUIRE(thin.days > full.days);
  options.days = full.days + 0.5 * (thin.days - full.days);
  options.tries_spines = true;
  const SizeAnswer answer = size_clusters(question(prices), "small", options);
  REQUIRE(answer.networks);
  const SizeNetworks& all = *answer.networks;
  CHECK(all.rows.size() > 2);
  const SizeNetwork* choice = all.choice();
  REQUIRE(choice);
  CHECK(choice->days <= options.days);
  CHECK(choice->switches <= full.switches);
  CHECK(std::ranges::any_of(
      all.rows, [](const SizeNetwork& row) { return row.network.find(" leaves and ") != std::string::npos; }));
  for (const SizeNetwork& row : all.rows) {
    CAPTURE(row.network, row.spines, row.days);
    if (row.network.find(" leaves and ") != std::string::npos)
      CHECK_THAT(row.network, Contains(fmt::format("{} leaves and {} spine", row.switches - row.spines, row.spines)));
    REQUIRE(row.price_of_cables);
    CHECK(*row.network_cost == Approx(*row.price_of_switches + *row.price_of_cables));
    CHECK(*row.price_of_switches == Approx(30000.0 * static_cast<double>(row.switches)));
    REQUIRE(row.good());
    if (row.missed.empty()) CHECK(*choice->cost <= *row.cost);
    if (row.has_own_plan) CHECK(row.plan != full.plan);
  }
  const Result r = trainyard::answer(read_scenario(answer.cheapest->document, "small")).result;
  CHECK(r.step_time.value == Approx(choice->step_time).epsilon(1e-9));
}

TEST_CASE("a tried network is chosen if none of the asked ones is, and no kept one is beaten in cost and time",
          "[size]") {
  const std::string prices =
      "prices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 16, cable: 1000}}\n";
  SizeOptions options = options_of(128);
  options.purchase = true;
  options.networks = {"nonblocking", "16:1"};
  options.tries_spines = true;
  const SizeNetworks free_choice = networks_of(prices, options);
  const SizeNetwork &full = row_of(free_choice, "nonblocking"), &thin = row_of(free_choice, "16:1");
  const auto check_rows = [&](const SizeNetworks& all) {
    for (const SizeNetwork& row : all.rows)
      for (const SizeNetwork& other : all.rows) {
        const bool is_asked = row.network == "nonblocking" || row.network == "16:1";
        CAPTURE(row.network, other.network);
        if (!is_asked && !row.chosen)
          CHECK_FALSE((*other.cost <= *row.cost && other.step_time <= row.step_time &&
                       (*other.cost < *row.cost || other.step_time < row.step_time)));
      }
  };
  check_rows(free_choice);
  REQUIRE(thin.days > full.days);
  // Nonblocking is beyond the budget, and 16:1 is late.
  options.days = full.days + 0.5 * (thin.days - full.days);
  options.budget = *full.cost - 1;
  const SizeNetworks all = networks_of(prices, options);
  CHECK(row_of(all, "nonblocking").missed == "budget");
  CHECK(row_of(all, "16:1").missed == "deadline");
  REQUIRE(all.choice());
  CHECK(all.choice()->missed.empty());
  CHECK_THAT(all.choice()->network, Contains(" leaves and "));
  check_rows(all);
}

TEST_CASE("a network that loses time has a plan of its own, which is faster on it, and the reason names it", "[size]") {
  SizeOptions options = options_of(64);
  options.purchase = true;
  options.work = 2e6;
  options.networks = {"nonblocking", "2:1", "32:1"};
  const Node document = parse_document(
      "cluster: {node: dgx-h100}\nmodel: llama-3-8b\nplan: {strategy: megatron, global_batch_size: 512, "
      "micro_batch_size: 1, seq_length: 8192, precision: bf16, training: {tokens: 1e9}, pipeline: {schedule: 1f1b}}\n"
      "software: megatron-core\nprices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, "
      "switch_ports: 16, cable: 1000}}\n",
      "small.yaml");
  const SizeAnswer answer = size_clusters(document, "small", options);
  REQUIRE(answer.networks);
  const SizeNetwork &full = row_of(*answer.networks, "nonblocking"), &two = row_of(*answer.networks, "2:1"),
                    &thin = row_of(*answer.networks, "32:1");
  CHECK_FALSE(full.has_own_plan);
  REQUIRE(thin.has_own_plan);
  CHECK(thin.plan != full.plan);
  CHECK(thin.chosen);
  CHECK_THAT(answer.networks->reason, Contains("its plan is another one than that of nonblocking (" + full.plan + ")"));
  // The plan of the cluster is slower on this network, and the found one is slower on the nonblocking one.
  const auto step_on = [](Node scenario, const SizeNetwork& network) {
    set_field(scenario, "cluster.fabric", network.fabric);
    return trainyard::answer(read_scenario(scenario, "small")).result.step_time.value;
  };
  const Node found = answer.networks->document;
  CHECK(step_on(found, thin) == Approx(thin.step_time).epsilon(1e-9));
  CHECK(step_on(found, full) > full.step_time);
  SizeOptions plain = options;
  plain.networks = {"nonblocking"};
  const SizeAnswer without = size_clusters(document, "small", plain);
  REQUIRE(without.cheapest);
  CHECK(step_on(without.cheapest->document, thin) > thin.step_time);
  if (!two.has_own_plan) CHECK(step_on(without.cheapest->document, two) == Approx(two.step_time).epsilon(1e-9));
}

TEST_CASE("the reason says which nodes nonblocking networks would take, and the parts have their prices", "[size]") {
  SizeAnswer answer;
  answer.currency = "EUR";
  SizeNetworks all;
  const auto add = [&](const char* network, int nodes, double cost, const char* plan) -> SizeNetwork& {
    SizeNetwork& row = all.rows.emplace_back(SizeNetwork{{"gpt2", "dgx-h100", nodes, network}, 8 * nodes});
    row.cost = cost;
    row.plan = plan;
    row.step_time = 2;
    return row;
  };
  add("nonblocking", 8, 100, "data 64");
  add("4:1", 8, 80, "data 64").chosen = true;
  CHECK_THAT(
      network_reason(answer, all, &all.rows.front()),
      Contains("; a step takes 2 s, 0.00 % against the 2 s of nonblocking, which costs 20 EUR more; nodes and plan "
               "are those of nonblocking"));
  all.rows.front().missed = "budget";
  CHECK_THAT(network_reason(answer, all, &all.rows.front()),
             Contains("; the table has no nonblocking network that meets the deadline"));
  add("nonblocking", 4, 90, "data 32");
  CHECK_THAT(network_reason(answer, all, &all.rows.front()),
             Contains("; with nonblocking, 4 x dgx-h100 would be the choice for 90 EUR"));
}

TEST_CASE("networks are compared on every cluster that could cost least by its price", "[size]") {
  SizeOptions options = options_of(64);
  options.purchase = true;
  options.networks = {"nonblocking", "2:1"};
  options.node_types = {"dgx-a100", "dgx-h100", "dgx-b200", "dgx-h200", "hgx-h20"};
  const SizeAnswer answer = size_clusters(
      question(
          "prices: {currency: EUR, purchase: {gpu: {a100-sxm4-80gb: 30000, h100-sxm5-80gb: 30100, b200-sxm-180gb: "
          "30200, h200-sxm-141gb: 30300, h20-sxm-96gb: 30400}, switch: 300000, switch_ports: 16, cable: 10000}}\n"),
      "small", options);
  REQUIRE(answer.networks);
  const SizeNetwork* choice = answer.networks->choice();
  REQUIRE(choice);
  std::set<std::string> compared;
  for (const SizeNetwork& row : answer.networks->rows) compared.insert(row.node);
  CHECK(compared.size() >= 3);
  for (const SizeRow& row : answer.rows) {
    CAPTURE(row.node, row.nodes);
    if (row.good() && meets_deadline(answer, row) && !compared.contains(row.node))
      CHECK(size_cost(answer, row) >= *choice->cost);
  }
}

TEST_CASE("a cluster that grows does so on each network, by the steps that run has there", "[size]") {
  const auto options = [] {
    SizeOptions all = options_of(64);
    all.purchase = true;
    all.networks = {"nonblocking", "4:1", "rail-only"};
    return all;
  }();
  const std::string prices =
      "prices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 16, cable: 1000, kwh: "
      "0.1, delivery: {dgx-h100: [{nodes: 2, after: 0.01 d}, {after: 0.02 d}]}}}\n";
  const SizeAnswer answer = size_clusters(question(prices), "small", options);
  REQUIRE(answer.networks);
  REQUIRE(answer.growth);
  const SizeNetwork* choice = answer.networks->choice();
  REQUIRE(choice);
  CHECK(choice->network == answer.counted_network);
  const SizeGrowth& growth = *answer.growth;
  REQUIRE(growth.phases.size() == 2);
  CHECK(growth.phases.back().begin_days == Approx(0.02));
  double share = 0, energy = 0;
  for (const SizePhase& phase : growth.phases) {
    const Node scenario = parse_document(phase.scenario, "phase.yaml");
    Node other = scenario;
    set_field(other, "cluster.fabric", choice->fabric);
    const Result r = trainyard::answer(read_scenario(scenario, "phase")).result;
    CHECK(r.step_time.value == Approx(phase.step_time).epsilon(1e-9));
    CHECK(trainyard::answer(read_scenario(other, "phase")).result.step_time.value == r.step_time.value);
    share += phase.share;
    energy += phase.share * r.training_energy();
  }
  CHECK(share == Approx(1));
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->energy == Approx(energy));
  CHECK(answer.cheapest->end_days == Approx(growth.end_days));
  CHECK(choice->days == Approx(growth.end_days));
  // Each network of the table counts the growth.
  for (const SizeNetwork& row : answer.networks->rows)
    if (row.has_nodes_of(*answer.cheapest)) CHECK(row.days < answer.cheapest->days() * 1.5 + 0.02);
}

TEST_CASE("a kind that is another one's network for these nodes says so, and is no choice", "[size]") {
  SizeOptions options = options_of(16);
  options.purchase = true;
  options.networks = {"nonblocking", "2:1"};
  const SizeNetworks all = networks_of(
      "prices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 64, cable: 1000}}\n",
      options);
  CHECK(row_of(all, "nonblocking").chosen);
  CHECK(row_of(all, "2:1").error == "the same switches and cables as nonblocking");
  CHECK_THAT(all.reason, !Catch::Contains("the next, 2:1"));
}

}  // namespace scenarios_test_size_spines
