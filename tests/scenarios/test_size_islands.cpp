// Owned nodes and bought ones of another type in `trainyard size`: alone, in one job, or with a job on each.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/running/node_power.hpp"
#include "scenarios/src/sizing/size_islands.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "tests/scenarios/owned_islands.hpp"
#include "tests/scenarios/sized_rows.hpp"

namespace scenarios_test_size_islands {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("owned nodes that are enough alone are used, and nothing is bought", "[size][islands]") {
  const SizeAnswer answer = island_answer(kOneOwned, 30);
  const SizeIsland* owned = way_of(answer, IslandKind::owned_alone);
  REQUIRE(owned);
  CHECK(owned->missed.empty());
  CHECK(owned->cost == 0);
  CHECK(owned->bought_gpus == 0);
  CHECK(owned->gpus == 8);
  REQUIRE(owned->scenarios.size() == 1);
  CHECK(days_of(run_of(owned->scenarios.front())) == Approx(owned->days));
  CHECK_FALSE(way_of(answer, IslandKind::one_job));
  CHECK_FALSE(way_of(answer, IslandKind::two_jobs));
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->node == "dgx-a100");
  CHECK_THAT(answer.verdict->decision, StartsWith("Use the 1 x dgx-a100 that are owned: "));
  CHECK_THAT(answer.islands.front().reason, StartsWith("the 1 x dgx-a100 that are owned meet all conditions alone: "));
}

TEST_CASE("some of the owned nodes train if no plan divides among all of them", "[size][islands]") {
  const SizeAnswer answer = island_answer(", owned: {dgx-a100: 13}", 30);
  const SizeIsland* owned = way_of(answer, IslandKind::owned_alone);
  REQUIRE((owned && owned->good()));
  CHECK(owned->missed.empty());
  CHECK(owned->gpus < 104);
  CHECK(owned->bought_gpus == 0);
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->node == "dgx-a100");
  CHECK(answer.cheapest->gpus == owned->gpus);
  CHECK_THAT(answer.verdict->decision, StartsWith(fmt::format("Use the {} x dgx-a100", owned->gpus / 8)));
  CHECK_THAT(answer.islands.front().reason,
             StartsWith(fmt::format("{} of the 13 x dgx-a100 that are owned ", owned->gpus / 8)));
}

TEST_CASE("nodes that come after the deadline are no purchase, and the fewest that a rent needs are named", "[size]") {
  const double days = way_of(island_answer(kOneOwned, 30), IslandKind::owned_alone)->days * 2;
  const SizeAnswer late = island_answer(fmt::format(", delivery: {{dgx-h100: {} d}}", std::ceil(days) + 1), days);
  CHECK_FALSE(late.cheapest);
  REQUIRE(late.nearest);
  CHECK(late.nearest->nodes <= 2);
  CHECK_THAT(late.why_none, Contains(" after a delivery of "));
  for (const SizeRow& row : late.rows) CHECK(row.nodes <= 8);
}

TEST_CASE("a job on owned and bought nodes, and a job on each, have the figures of run of their scenarios",
          "[size][islands]") {
  const double alone = way_of(island_answer(kOneOwned, 30), IslandKind::owned_alone)->days;
  const SizeAnswer answer = island_answer(kOneOwned, alone * 0.75);
  const SizeIsland *owned = way_of(answer, IslandKind::owned_alone), *bought = way_of(answer, IslandKind::bought_alone),
                   *one_job = way_of(answer, IslandKind::one_job), *two_jobs = way_of(answer, IslandKind::two_jobs);
  REQUIRE((owned && bought && one_job && two_jobs));
  CHECK(owned->missed == "deadline");
  CHECK(owned->days == Approx(alone));
  for (const SizeIsland* row : {bought, one_job, two_jobs}) {
    INFO(name_of(row->kind) << " " << row->error);
    REQUIRE(row->good());
    CHECK(row->node == "dgx-h100");
    CHECK(row->bought_gpus == 8 * row->bought_nodes);
    CHECK(row->bought_nodes == row->nodes);
    CHECK(row->gpus == row->bought_gpus + (row == bought ? 0 : 8));
    CHECK(row->missed.empty() == (row->days <= answer.days));
    const Answer run = run_of(row->scenarios.back());
    CHECK(run.result.step_time.value == Approx(row->step_time));
    REQUIRE(run.result.money);
    const Ownership& ownership = *run.result.money->ownership;
    CHECK(ownership.price() == Approx(row->cost));
    CHECK(ownership.purchase_prices.at("nodes") == 300.0 * row->bought_nodes);
    double sum = 0;
    for (const auto& [part, price] : ownership.purchase_prices) sum += price;
    CHECK(sum == Approx(row->cost));
    if (row != two_jobs) CHECK(days_of(run) == Approx(row->days));
    if (row != two_jobs) CHECK(64 / row->step_time == Approx(row->samples_per_s));
  }
  // One job on both types is the scenario that a user would write.
  const SizeRow& row = *std::ranges::find_if(
      answer.rows, [&](const SizeRow& each) { return each.beside == "dgx-a100" && each.nodes == one_job->nodes; });
  CHECK(row.beside_nodes == 1);
  CHECK(row.gpus == one_job->gpus);
  CHECK(row.cost == one_job->cost);
  Node document = row.document;
  set_field(document, "cluster.nodes",
            fmt::format("[{{count: {}, node: dgx-h100}}, {{count: 1, node: dgx-a100}}]", one_job->nodes));
  const Result by_hand = trainyard::answer(read_scenario(document, "by hand")).result;
  set_field(document, "cluster.nodes",
            fmt::format("[{{count: 1, node: dgx-a100}}, {{count: {}, node: dgx-h100}}]", one_job->nodes));
  const Result other_order = trainyard::answer(read_scenario(document, "by hand")).result;
  CHECK((by_hand.step_time.value == Approx(one_job->step_time) ||
         other_order.step_time.value == Approx(one_job->step_time)));
  // Two jobs divide the samples, and end together but for a step.
  REQUIRE(two_jobs->scenarios.size() == 2);
  double samples = 0;
  std::vector<double> ends;
  for (const std::string& scenario : two_jobs->scenarios) {
    const Answer run = run_of(scenario);
    samples += run.result.training_steps * 64;
    ends.push_back(days_of(run));
  }
  const double wanted = std::ceil(1e9 / (64 * 1024)) * 64;
  CHECK(samples >= wanted);
  CHECK(samples < wanted + 64);
  CHECK(std::max(ends[0], ends[1]) == Approx(two_jobs->days));
  CHECK(ends[0] == Approx(ends[1]).epsilon(0.01));
  const Answer own_run = run_of(two_jobs->scenarios.front());
  CHECK(own_run.result.training_steps * 64 / wanted == Approx(two_jobs->owned_share).epsilon(1e-3));
  CHECK(own_run.result.step_time.value == Approx(two_jobs->owned_step_time));
  CHECK(64 / two_jobs->step_time + 64 / two_jobs->owned_step_time == Approx(two_jobs->samples_per_s));
  // The sentence has the figures of the table, and the decision is the cheapest of the rows.
  const bool shares = answer.cheapest && !answer.cheapest->beside.empty();
  CHECK(answer.cheapest->cost <= std::min(bought->cost, one_job->cost));
  CHECK((answer.verdict->decision.find("train in one job on them and the 1 x dgx-a100 that are owned") !=
         std::string::npos) == shares);
  const std::string& reason = answer.islands.front().reason;
  const SizeIsland& best = bought->cost < one_job->cost ? *bought : *one_job;
  const SizeIsland& other = bought->cost < one_job->cost ? *one_job : *bought;
  CAPTURE(reason);
  CHECK_THAT(reason, StartsWith(&best == bought ? fmt::format("{} x dgx-h100 alone cost{} least", best.bought_nodes,
                                                              best.bought_nodes == 1 ? "s" : "")
                                                : fmt::format("one job on {} x dgx-h100", best.bought_nodes)));
  if (other.cost > best.cost)
    CHECK_THAT(reason, Contains(fmt::format("{:.3g} % more", (other.cost / best.cost - 1) * 100)));
  CHECK_THAT(reason, Contains(fmt::format("on {:.3g} % of the samples", two_jobs->owned_share * 100)));
  if (one_job->of_two_jobs)
    CHECK_THAT(reason, Contains(fmt::format("{:.4g} samples/s, {:.3g} %", one_job->samples_per_s,
                                            std::abs(*one_job->of_two_jobs - 1) * 100)));
  CHECK(best_shared_job(answer)->scenarios == one_job->scenarios);
  const auto json = size_fields().json(answer);
  CHECK(json.at("islands").at(0).at("rows").at(0).at("way") == "owned alone");
  CHECK(json.at("islands").at(0).at("reason") == reason);
}

TEST_CASE("owned nodes that keep their fabric are an island of the job, whose step and price are those of run",
          "[size][islands]") {
  const double alone = way_of(island_answer(kOneOwned, 30), IslandKind::owned_alone)->days;
  const auto one_job = [&](const std::string& rate) {
    const SizeAnswer answer = island_answer(
        ", owned: {dgx-a100: {nodes: 1, fabric: nonblocking, links: {count: 8, rate: " + rate + ", latency: 1 us}}}",
        alone * 0.75);
    const SizeIsland* row = way_of(answer, IslandKind::one_job);
    REQUIRE((row && row->good()));
    const std::string& written = row->scenarios.back();
    CHECK_THAT(written, Contains("links:") && Contains(rate));
    const Answer run = run_of(written);
    CHECK(run.result.step_time.value == Approx(row->step_time));
    CHECK(run.result.money->ownership->price() == Approx(row->cost));
    return row->step_time;
  };
  CHECK(one_job("400 Gbit/s") <= one_job("1 Gbit/s"));
}

TEST_CASE("more of the owned nodes are a way of their own, and the line owned agrees with the verdict",
          "[size][islands]") {
  Node training = island_training(kOneOwned);
  set_field(training, "plan.global_batch_size", "512");
  SizeOptions options;
  options.days = 30;
  options.purchase = true;
  options.node_types = {"dgx-a100", "dgx-h100"};
  options.work = 2e5;
  options.days = 0.6 * way_of(size_clusters(training, "islands", options), IslandKind::owned_alone)->days;
  const SizeAnswer answer = size_clusters(training, "islands", options);
  const SizeIsland* more = way_of(answer, IslandKind::more_owned);
  REQUIRE(more);
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->node == "dgx-a100");
  CHECK(more->bought_nodes == answer.cheapest->nodes - 1);
  CHECK(more->cost == answer.cheapest->cost);
  CHECK_THAT(
      answer.islands.front().reason,
      StartsWith(fmt::format("{} x dgx-a100 more beside the 1 x dgx-a100 that are owned cost{} least for one model",
                             more->bought_nodes, more->bought_nodes == 1 ? "s" : "")));
  CHECK(size_fields().json(answer).at("islands").at(0).at("rows").at(1).at("way") == "more of them");
}

TEST_CASE("no owned node changes nothing, and owned nodes leave the sizes of another type as they are",
          "[size][islands]") {
  const double days = way_of(island_answer(kOneOwned, 30), IslandKind::owned_alone)->days * 0.75;
  const SizeAnswer none = island_answer("", days), zero = island_answer(", owned: {dgx-a100: 0}", days),
                   one = island_answer(kOneOwned, days), own_type = island_answer(kOneOwned, days, "", 0, "dgx-a100");
  CHECK(none.islands.empty());
  CHECK(size_fields().json(none).dump() == size_fields().json(zero).dump());
  CHECK(own_type.islands.empty());  // there is one type only
  for (const SizeRow& row : none.rows) {
    const auto same = std::ranges::find_if(one.rows, [&](const SizeRow& each) {
      return each.node == row.node && each.nodes == row.nodes && each.beside.empty();
    });
    REQUIRE(same != one.rows.end());
    CHECK(same->step_time == row.step_time);
    CHECK(same->cost == row.cost);
  }
}

TEST_CASE("a budget and the room of a site hold for nodes beside owned ones", "[size][islands]") {
  const double days = way_of(island_answer(kOneOwned, 30), IslandKind::owned_alone)->days * 0.75;
  const SizeAnswer poor = island_answer(kOneOwned, days, "", 10);
  CHECK_FALSE(poor.cheapest);
  CHECK(way_of(poor, IslandKind::one_job)->missed == "budget");
  CHECK_THAT(poor.islands.front().reason, StartsWith("No way to train one model on them meets all conditions; "));
  // The owned node has 8 of the 15 ports, and a dgx-h100 needs as many.
  const SizeAnswer narrow = island_answer(kOneOwned, days, "site: {ports: 15}\n");
  CHECK(way_of(narrow, IslandKind::one_job)->error == "the site has room for 0 x dgx-h100 beside the owned nodes");
  CHECK_FALSE(way_of(narrow, IslandKind::two_jobs));
  for (const SizeRow& row : narrow.rows)  // the owned node keeps its ports if only bought nodes train
    if (row.node == "dgx-h100") CHECK(row.refused);
  const SizeAnswer full = island_answer(kOneOwned, days, "site: {ports: 8}\n");  // the owned node takes all of it
  const auto refused = std::ranges::find(full.rows, "dgx-h100", &SizeRow::node);
  REQUIRE(refused != full.rows.end());
  CHECK(refused->error == "the site has room for 0 nodes (site.ports): needs the room of nodes that are owned");
  const SizeAnswer wide = island_answer(kOneOwned, days, "site: {ports: 16}\n");
  for (const SizeRow& row : wide.rows)
    if (!row.beside.empty()) CHECK(row.nodes == 1);
  const Catalog catalog;
  const NodeType node = read_node(catalog.resolve("node", Node::scalar_node("dgx-a100")), catalog);
  const Node limits = parse_document("{power: 100 kW, pue: 1.5, racks: 4, rack_nodes: 2}", "site.yaml");
  const Site site = read_site(catalog.resolve("site", limits));
  const std::optional<Site> rest = site_beside(site, {node, 3}, catalog);
  REQUIRE(rest);
  CHECK(rest->racks == 2);
  CHECK(rest->power.value == Approx(100e3 - 3 * 1.5 * provided_power(node, catalog).value));
  CHECK_FALSE(site_beside(site, {node, 9}, catalog));
}

TEST_CASE("the verdict takes a job beside owned nodes by its price, and names what would change it",
          "[size][islands]") {
  const Prices prices = prices_of(
      "purchase: {node: {dgx-a100: 100, dgx-h100: 300}, owned: {dgx-a100: 2}, delivery: {dgx-h100: 5 d}, years: 4}\n");
  SizeRow both = evaluated_row(prices, "dgx-h100", 2, 20);
  both.beside = "dgx-a100";
  both.beside_nodes = 2;
  both.gpus = 32;
  both.ownership = cost_of_ownership(
      prices.purchase, {{"dgx-a100", "a100-sxm4-80gb", 2, 8, 8}, {"dgx-h100", "h100-sxm5-80gb", 2, 8, 8}}, 4000, 1, 0);
  CHECK(both.ownership->price() == 600);
  const auto answer_at = [&](double days) {
    return judged_answer(prices, days, true,
                         {evaluated_row(prices, "dgx-a100", 2, 60), evaluated_row(prices, "dgx-h100", 4, 15), both});
  };
  const SizeAnswer answer = answer_at(30);
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->beside == "dgx-a100");
  CHECK(answer.verdict->decision ==
        "Buy 2 x dgx-h100 for 600 USD, and train in one job on them and the 2 x dgx-a100 that are owned: 25 days, of "
        "which 5 for the delivery, 2 kW on average.");
  CHECK_THAT(answer.verdict->reason,
             StartsWith("Next of the simulated sizes comes 4 x dgx-h100: 1,200 USD (100 % more), 20 days."));
  CHECK_THAT(answer.verdict->changes, Contains("falls below 25 days (now 30): then 4 x dgx-h100"));
  CHECK(answer_at(24).cheapest->nodes == 4);
  CHECK(answer_at(70).cheapest->node == "dgx-a100");
  const auto choice = std::ranges::find_if(answer.choices, &SizeChoice::decision);
  REQUIRE(choice != answer.choices.end());
  CHECK(choice->beside == "dgx-a100");
  CHECK(choice->quantity == "purchase of dgx-h100");
  CHECK(choice->price == 300);
  CHECK(std::ranges::any_of(answer.thresholds, [](const SizeThreshold& t) {
    return t.quantity == "time of dgx-h100 beside dgx-a100 in % of the simulated" && t.threshold == Approx(125);
  }));
  const SizeRow again = size_row_from_text(to_text(both));
  CHECK(again.beside == both.beside);
  CHECK(again.beside_nodes == 2);
}

TEST_CASE("a network joins owned and bought nodes: its step is that of run, and all ways count the chosen one",
          "[size][islands]") {
  const double alone = way_of(island_answer(kOneOwned, 30), IslandKind::owned_alone)->days;
  Node training = island_training(kOneOwned);
  set_field(training, "prices.purchase.switch_ports", "12");  // a switch has no room for two nodes
  SizeOptions options;
  options.days = alone * 0.75;  // one dgx-h100 alone is in time, too, and needs no network
  options.purchase = true;
  options.node_types = {"dgx-h100"};
  options.work = 4e5;
  options.networks = network_kinds();
  options.tries_spines = true;
  const SizeAnswer answer = size_clusters(training, "islands", options);
  REQUIRE(answer.networks);
  int simulated = 0, one_type = 0;
  for (const SizeNetwork& row : answer.networks->rows) {
    if (row.beside.empty()) continue;
    CAPTURE(row.network, row.error, row.nodes);
    CHECK(row.beside == "dgx-a100");
    CHECK(row.beside_nodes == 1);
    one_type += row.error.find("it joins nodes of one type; rail-optimized joins both") != std::string::npos;
    CHECK((row.network != "rail-only" || !row.good()));
    if (!row.good()) continue;
    const auto cluster =
        std::ranges::find_if(answer.rows, [&row](const SizeRow& each) { return each.has_nodes_of(row); });
    REQUIRE(cluster != answer.rows.end());
    CHECK(row.cables >= 8 * (row.nodes + 1));  // each adapter of both types has a cable
    CHECK(*row.network_cost == 10.0 * static_cast<double>(row.switches) + static_cast<double>(row.cables));
    CHECK(*row.cost == Approx(300 * row.nodes + 50 + *row.network_cost));
    if (row.has_own_plan) continue;
    Node document = cluster->document;
    set_field(document, "cluster.fabric", row.fabric);
    const Answer run = run_of(yaml_text(document));
    CHECK(run.result.step_time.value == Approx(row.step_time));
    CHECK(run.result.money->ownership->purchase_prices.at("switches") == 10.0 * static_cast<double>(row.switches));
    ++simulated;
  }
  CHECK(simulated >= 3);
  CHECK(one_type == 1);
  REQUIRE_FALSE(answer.counted_network.empty());
  const SizeIsland *one_job = way_of(answer, IslandKind::one_job), *two_jobs = way_of(answer, IslandKind::two_jobs),
                   *bought = way_of(answer, IslandKind::bought_alone);
  REQUIRE((one_job && two_jobs && bought && one_job->good() && two_jobs->good()));
  for (const SizeIsland* way : {one_job, bought}) {
    const auto row = std::ranges::find_if(answer.rows, [way](const SizeRow& each) {
      return each.node == way->node && each.nodes == way->nodes &&
             each.beside.empty() == (way->kind != IslandKind::one_job);
    });
    REQUIRE(row != answer.rows.end());
    CHECK(row->network == (row->all_nodes() > 1 ? answer.counted_network : ""));
    CHECK(way->cost == row->cost);
    CHECK(run_of(way->scenarios.front()).result.step_time.value == Approx(way->step_time));
  }
  const SizeNetwork* choice = answer.networks->find(
      *std::ranges::find_if(answer.rows,
                            [&](const SizeRow& each) { return !each.beside.empty() && each.nodes == one_job->nodes; }),
      answer.counted_network);
  REQUIRE(choice);
  CHECK(one_job->cost == *choice->cost);
  CHECK(run_of(two_jobs->scenarios.back()).result.step_time.value == Approx(two_jobs->step_time));
  CHECK(answer.cheapest->cost <= std::min(bought->cost, one_job->cost));
  CHECK_THAT(answer.networks->reason, Contains(", the least of these networks that meets the deadline"));
  const auto json = size_fields().json(answer).at("networks").at("rows");
  CHECK(std::ranges::any_of(json, [](const auto& row) { return row.value("beside_nodes", 0) == 1; }));
}

TEST_CASE("nodes of unlike numbers of adapters are joined without rails", "[size][islands]") {
  SizeOptions options;
  options.days = 30;
  const Node training = island_training(kOneOwned);
  const std::string name = "islands";
  const SizeQuestion question(training, name, options);
  const JoinedNodes unlike({"gpt2", "p4d.24xlarge", 3, "", "", "dgx-h100", 2}, question),
      equal({"gpt2", "dgx-a100", 3, "", "", "dgx-h100", 2}, question);
  const int adapters = 3 * 4 + 2 * 8;
  CHECK(unlike.request(16).nodes * unlike.request(16).adapters == adapters);
  CHECK(unlike.design("nonblocking", 16).hosts == adapters);
  CHECK(equal.request(16).adapters == 8);
  CHECK(equal.design("rail-optimized", 16).rails == 8);
  CHECK_THROWS_WITH(unlike.design("2:1 on rails", 16),
                    "2:1 on rails: rails join nodes of equally many adapters, not of 4 and 8");
  std::int64_t cables = 0;
  for (const SizeCables& each : unlike.cables(unlike.design("2:1", 16))) cables += each.count;
  CHECK(cables == unlike.design("2:1", 16).cables());
}

}  // namespace scenarios_test_size_islands
