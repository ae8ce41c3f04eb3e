// `trainyard size --network`: networks between the nodes of the best clusters.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "models/hardware/node_parts.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "tests/network_questions.hpp"
#include "topologies/analysis/network_design.hpp"

namespace scenarios_test_size_networks {

using namespace trainyard;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using test::networks_of;
using test::options_of;
using test::question;
using test::row_of;

namespace {

constexpr const char* kPrices =
    "prices: {currency: EUR, gpu_hour: {h100-sxm5-80gb: 2}, purchase: {node: {dgx-h100: 300000}, storage: 5000, "
    "switch: 30000, switch_ports: 16, cable: 1000, years: 4, interest: 0.06, staff: 0.03, space: 0.02}}\n";

}  // namespace

TEST_CASE("a network's step is that of run on the same cluster and plan, and its costs are those of its parts",
          "[size]") {
  SizeOptions options = options_of(64);
  options.purchase = true;
  const SizeAnswer answer = size_clusters(question(kPrices), "small", options);
  REQUIRE(answer.cheapest);
  REQUIRE(answer.networks);
  const SizeNetworks& all = *answer.networks;
  REQUIRE(all.rows.size() == network_kinds().size());
  CHECK(all.switch_ports == 16);
  CHECK(all.unpriced.empty());
  const SizeNetwork& full = row_of(all, "nonblocking");
  const SizeNetwork* least = nullptr;
  for (const SizeNetwork& row : all.rows) {
    CAPTURE(row.network, row.error);
    REQUIRE(row.good());
    CHECK(row.nodes == 8);
    Node document = answer.cheapest->document;
    set_field(document, "cluster.fabric", row.fabric);
    const Result r = trainyard::answer(read_scenario(document, "small")).result;
    CHECK(row.step_time == r.step_time.value);
    CHECK(row.days == Approx(r.whole_time().value / 86400));
    REQUIRE(row.loss);
    CHECK(*row.loss == Approx(row.step_time / full.step_time - 1).margin(1e-12));
    std::int64_t cables = 0;
    double price = *row.price_of_switches;
    for (const SizeCables& each : row.by_length) {
      cables += each.count;
      price += *each.price * static_cast<double>(each.count);
      CHECK(each.optical == (each.length > 3));
    }
    CHECK(cables == row.cables);
    CHECK(price == Approx(*row.network_cost));
    CHECK(row.nodes_of_rack == 4);
    CHECK(*row.network_cost == 30000.0 * static_cast<double>(row.switches) + 1000.0 * static_cast<double>(row.cables));
    CHECK(*row.cost == Approx(8 * 300000 + 5000 + *row.network_cost));
    CHECK(row.missed.empty());
    if (!least || *row.cost < *least->cost) least = &row;
  }
  // 64 ports on switches of 16: 8 leaves and 4 spines; rails of 8 nodes need one switch each.
  CHECK(full.switches == 12);
  CHECK(row_of(all, "rail-only").switches == 8);
  CHECK(row_of(all, "rail-only").cables == 64);
  CHECK(row_of(all, "4:1").step_time >= row_of(all, "2:1").step_time);
  CHECK(all.choice() == least);
  REQUIRE(answer.verdict);
  CHECK_THAT(answer.verdict->decision, StartsWith(fmt::format("Buy 8 x dgx-h100 with the network {} for {}: ",
                                                              least->network, money_words(*least->cost, "EUR"))));
  // All other figures count the chosen network.
  CHECK(answer.counted_network == least->network);
  CHECK(answer.cheapest->network == least->network);
  CHECK(answer.cheapest->step_time == least->step_time);
  CHECK(answer.cheapest->network_cost == Approx(*least->network_cost));
  CHECK(size_cost(answer, *answer.cheapest) == Approx(*least->cost));
  CHECK(answer.other_networks.size() + 1 == all.rows.size());
  const auto decision = std::ranges::find_if(answer.choices, &SizeChoice::decision);
  REQUIRE(decision != answer.choices.end());
  CHECK(decision->network == least->network);
  CHECK(decision->purchase == Approx(*least->cost));
  const Ownership& owned = *answer.cheapest->ownership;
  CHECK(owned.yearly.at("depreciation") == Approx(owned.price() / 4));
  CHECK(owned.yearly.at("staff") == Approx(owned.price() * 0.03));
  CHECK(owned.training == Approx(owned.year() * answer.cheapest->days() / 365));
  CHECK(decision->money == Approx(owned.training));
  CHECK_THAT(all.reason, EndsWith("; all other figures count " + least->network));
  const nlohmann::ordered_json j = size_fields().json(answer);
  CHECK(j.at("counted_network") == least->network);
  CHECK(j.at("cheapest").at("network") == least->network);
  CHECK(j.at("cheapest").at("network_cost") == answer.cheapest->network_cost);
  SizeAnswer with_threshold = answer;
  with_threshold.thresholds = {{{"gpt2", "dgx-h100", 8, "2:1"}, "deadline", "", 30, 20}};
  CHECK(size_fields().json(with_threshold).at("thresholds").at(0).at("network") == "2:1");
  CHECK(all.document.find("cluster")->find("fabric"));
  CHECK_THAT(all.reason, Contains(fmt::format("{} on 8 x dgx-h100 costs {} EUR, the least that meets the deadline",
                                              least->network, with_commas(*least->cost))) &&
                             Contains(fmt::format("a step takes {:.4g} s", least->step_time)) &&
                             Contains(fmt::format("which costs {} EUR more", with_commas(*full.cost - *least->cost))));
}

TEST_CASE("a budget and a deadline exclude networks, and a cheaper network may save a cluster", "[size]") {
  SizeOptions options = options_of(64);
  options.purchase = true;
  const SizeNetworks free = networks_of(kPrices, options);
  const double least = *row_of(free, "rail-only").cost;
  options.budget = least;
  const SizeAnswer answer = size_clusters(question(kPrices), "small", options);
  REQUIRE(answer.cheapest);  // the smallest network without oversubscription is above the budget, this one is not
  CHECK(answer.cheapest->network == "rail-only");
  REQUIRE(answer.networks);
  REQUIRE(answer.networks->choice());
  CHECK(answer.networks->choice()->network == "rail-only");
  REQUIRE(answer.verdict);
  CHECK_THAT(answer.verdict->decision, StartsWith(fmt::format("Buy 8 x dgx-h100 with the network rail-only for {}: ",
                                                              money_words(least, "EUR"))));
  CHECK(row_of(*answer.networks, "nonblocking").missed == "budget");
  options.budget = least - 1;
  const SizeAnswer above_budget = size_clusters(question(kPrices), "small", options);
  const SizeNetworks& none = *above_budget.networks;
  CHECK_FALSE(none.choice());
  CHECK(none.reason ==
        "no network of the table meets all conditions: each misses the budget; all other figures count rail-only");
  CHECK_FALSE(above_budget.cheapest);
  CHECK(above_budget.why_none ==
        fmt::format("the budget: the cheapest of the simulated sizes in time, 8 x dgx-h100 with the network rail-only, "
                    "costs {}",
                    money_words(least, "EUR")));
  CHECK_THAT(above_budget.verdict->decision, Contains("The nearest is 8 x dgx-h100 with the network rail-only for "));
  CHECK(above_budget.verdict->changes.find(with_commas(std::ceil(least))) != std::string::npos);
  options.days = 1e-6;
  CHECK_THAT(networks_of(kPrices, options).reason, EndsWith("; all other figures are those without --network"));
  CHECK(row_of(networks_of(kPrices, options), "2:1").missed == "deadline and budget");
}

TEST_CASE("beyond a threshold the decision is another network, and short of it the same", "[size]") {
  const auto answer_at = [](double price_of_switch, double price_of_cable) {
    SizeOptions options = options_of(128);
    options.purchase = true;
    return size_clusters(
        question(fmt::format("prices: {{currency: EUR, purchase: {{node: {{dgx-h100: 300000}}, switch: {}, "
                             "switch_ports: 64, cable: {}}}}}\n",
                             price_of_switch, price_of_cable)),
        "small", options);
  };
  const SizeAnswer answer = answer_at(30000, 1000);
  int checked = 0;
  for (const SizeThreshold& t : answer.thresholds) {
    const bool is_switch = t.quantity == "purchase of a switch", is_cable = t.quantity == "purchase of a cable";
    if ((!is_switch && !is_cable) || t.node.empty()) continue;
    ++checked;
    CAPTURE(t.quantity, t.threshold, t.network);
    CHECK(t.network != answer.counted_network);
    const auto chosen_at = [&](double share) {
      const double price = t.value + (t.threshold - t.value) * share;
      return answer_at(is_switch ? price : 30000, is_cable ? price : 1000).networks->choice()->network;
    };
    CHECK(chosen_at(0.999) == answer.counted_network);
    CHECK(chosen_at(1.001) == t.network);
  }
  CHECK(checked > 0);
}

TEST_CASE("with the chosen network, a price beyond its threshold changes the cluster", "[size]") {
  const auto answer_at = [](double h100, double a100) {
    SizeOptions options = options_of(64);
    options.purchase = true;
    options.networks = {"2:1"};
    options.node_types = {"dgx-h100", "dgx-a100"};
    return size_clusters(
        question(fmt::format("prices: {{currency: EUR, purchase: {{node: {{dgx-h100: {}, dgx-a100: {}}}, "
                             "switch: 30000, switch_ports: 16, cable: 1000}}}}\n",
                             h100, a100)),
        "small", options);
  };
  const SizeAnswer answer = answer_at(300000, 310000);
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->node == "dgx-h100");
  CHECK(answer.cheapest->network == "2:1");
  int checked = 0;
  for (const SizeThreshold& t : answer.thresholds) {
    if (!t.quantity.starts_with("purchase of dgx-") || t.node.empty()) continue;
    ++checked;
    const bool is_h100 = t.quantity.ends_with("h100");
    const auto node_at = [&](double share) {
      const double price = t.value + (t.threshold - t.value) * share;
      return answer_at(is_h100 ? price : 300000, is_h100 ? 310000 : price).cheapest->node;
    };
    CHECK(node_at(0.99) == "dgx-h100");
    CHECK(node_at(1.01) == "dgx-a100");
    CHECK(t.network == "2:1");
  }
  CHECK(checked == 2);
}

TEST_CASE("cables cost what their length costs, and each bad price of a length is one error", "[size][costs]") {
  SizeOptions options = options_of(64);
  options.purchase = true;
  options.networks = {"nonblocking"};
  const auto networks_at = [&](const std::string& cables, const std::string& more = "") {
    return networks_of("prices: {currency: EUR, purchase: {node: {dgx-h100: 300000}, switch: 30000, switch_ports: 16" +
                           cables + "}}\n" + more,
                       options);
  };
  const SizeNetworks priced = networks_at(", cable: 1000, cables: {2 m: 100, 100 m: 900}");
  const SizeNetwork& row = priced.rows.front();
  double sum = *row.price_of_switches;
  for (const SizeCables& each : row.by_length) {
    CHECK(*each.price == (each.length <= 2 ? 100 : 900));
    sum += *each.price * static_cast<double>(each.count);
  }
  CHECK(*row.network_cost == Approx(sum));
  // Two nodes in a rack need more racks, and the way to their switch is longer.
  const SizeNetwork wider = networks_at(", cable: 1000", "site: {racks: 10, rack_nodes: 2}\n").rows.front();
  CHECK(wider.nodes_of_rack == 2);
  const auto metres = [](const SizeNetwork& network) {
    double all = 0;
    for (const SizeCables& each : network.by_length) all += each.length * static_cast<double>(each.count);
    return all;
  };
  CHECK(metres(wider) > metres(row));
  CHECK_THROWS_WITH(networks_at(", cable: 1000, cables: {1.5 m: 100}"),
                    Contains("prices.purchase.cables: no price for a cable of 2 m"));
  for (const char* bad : {"{3: 100}", "{3 m: 100, 2 m: 50}", "{0 m: 1}", "{3 km: 100}"})
    CHECK_THROWS_WITH(networks_at(std::string(", cable: 1000, cables: ") + bad),
                      Contains("expected ascending lengths, such as {3 m: 100, 30 m: 900}"));
  CHECK_THROWS_WITH(networks_at(", cables: {3 m: 100}"), Contains("expected cable, too"));
  CHECK_THROWS_WITH(networks_at(", cable: 1000, cables: {3 m: -1}"), Contains("prices.purchase.cables.3 m"));
}

TEST_CASE("beside rents, a network costs what owning it costs during the training", "[size]") {
  const SizeNetworks all = networks_of(kPrices, options_of(64));
  const SizeNetwork& row = row_of(all, "2:1");
  const double annuity = 0.06 / (1 - std::pow(1.06, -4));
  const double price = 30000.0 * static_cast<double>(row.switches) + 1000.0 * static_cast<double>(row.cables);
  CHECK(*row.network_cost == Approx(price * (annuity + 0.05) * row.days / 365));
  CHECK(*row.cost == Approx(*row.network_cost + 2 * 64 * 24 * row.days));
  CHECK(row.terms == "on demand");
  // The rents of the answer have this cost beside them, too.
  const SizeAnswer answer = size_clusters(question(kPrices), "small", options_of(64));
  const SizeNetwork& best = *answer.networks->choice();
  CHECK(answer.cheapest->money == Approx(*best.cost));
  CHECK(answer.cheapest->network_cost == Approx(*best.network_cost));
  const auto decision = std::ranges::find_if(answer.choices, &SizeChoice::decision);
  REQUIRE(decision != answer.choices.end());
  CHECK(decision->money == Approx(*best.cost));
  CHECK_THAT(answer.verdict->decision,
             StartsWith(fmt::format("Rent 8 x dgx-h100 (on demand) with the network {} for ", best.network)));
}

TEST_CASE("the network is chosen for the cluster of the verdict, also if spot decides, and run prices the same network",
          "[size][costs]") {
  const auto answer_for = [](bool purchase) {
    SizeOptions options = options_of(0, 2);
    options.purchase = purchase;
    options.node_types = {"dgx-h100", "dgx-a100"};
    options.unit = 2;
    return size_clusters(
        question(
            "prices: {currency: EUR, gpu_hour: {h100-sxm5-80gb: 2, a100-sxm4-80gb: 1.2}, spot: {interruption: 60 h, "
            "gpu_hour: {h100-sxm5-80gb: 0.5}}, purchase: {node: {dgx-h100: 300000, dgx-a100: 200000}, switch: "
            "30000, switch_ports: 16, cable: 1000}}\nfaults: {checkpoint: {every: 10 min, write: 1 s, load: 1 "
            "s}}\n"),
        "small", options);
  };
  for (const bool purchase : {false, true}) {
    const SizeAnswer answer = answer_for(purchase);
    REQUIRE(answer.cheapest);
    const SizeRow& best = *answer.cheapest;
    CAPTURE(purchase, best.node, best.nodes, best.network, best.terms, answer.verdict->decision);
    CHECK(best.terms == (purchase ? "purchase" : "spot"));
    const SizeNetwork* choice = answer.networks->choice();
    REQUIRE(choice);
    CHECK(choice->node == best.node);
    CHECK(choice->nodes == best.nodes);
    CHECK(choice->network == best.network);
    CHECK(*choice->cost == Approx(best.cost));
    CHECK(choice->days == best.end_days);
    CHECK_THAT(answer.verdict->decision,
               Contains(fmt::format("{} x {}", best.nodes, best.node)) &&
                   Contains("with the network " + best.network + " for " + money_words(best.cost, "EUR")));
    const Result r = trainyard::answer(read_scenario(best.document, "small")).result;
    CHECK(r.step_time.value == Approx(best.step_time).epsilon(1e-9));
    const auto interval = likely_step_times(best.step_time, best.doubt);
    REQUIRE((interval && r.likely_step_times));
    CHECK(interval->back() == Approx(r.likely_step_times->back()).epsilon(1e-9));
    REQUIRE(r.money->ownership);
    CHECK(r.money->ownership->price() == Approx(best.ownership->price()));
  }
}

TEST_CASE("without prices of a network there are its parts and its loss, and no choice", "[size]") {
  const SizeNetworks all = networks_of("", options_of(64));
  CHECK(all.switch_ports == 64);
  CHECK_FALSE(all.choice());
  CHECK(all.reason ==
        "no choice without prices.purchase.switch and prices.purchase.cable: the table has parts and loss only; all "
        "other figures are those without --network");
  for (const SizeNetwork& row : all.rows) {
    CHECK_FALSE(row.cost);
    CHECK_FALSE(row.network_cost);
    for (const SizeCables& cables : row.by_length) CHECK_FALSE(cables.price);
    CHECK(row.loss);
  }
  // A named switch has its own ports, and a price by its name.
  SizeOptions options = options_of(64);
  options.network_switch = "quantum";
  options.networks = {"2:1"};
  const SizeNetworks named = networks_of(
      "prices: {gpu_hour: {h100-sxm5-80gb: 2}, switch: {quantum: 7}, purchase: {node: {dgx-h100: 1}, cable: 1}}\n",
      options);
  CHECK(named.switch_ports == 40);
  REQUIRE(named.rows.size() == 1);
  CHECK(named.rows.front().loss);  // nonblocking is simulated for it
  CHECK(named.rows.front().cost);
  CHECK_THAT(named.rows.front().fabric, Contains("switch: quantum"));
  const SizeNetworks unpriced =
      networks_of("prices: {gpu_hour: {h100-sxm5-80gb: 2}, switch: {quantum-2: 7}}\n", options);
  CHECK_THAT(unpriced.reason, Contains("no choice without prices.switch.quantum"));
  options.network_switch = "quantum-3";
  CHECK_THROWS_WITH(networks_of("", options), Contains("--switch") && Contains("did you mean \"quantum-2\"?"));
  options.network_switch = "";
  options.networks = {"rails-only"};
  CHECK_THROWS_WITH(networks_of("", options), Contains("did you mean \"rail-only\"?"));
  SizeOptions one_node = options_of(8);
  const SizeNetworks alone = networks_of("", one_node);
  CHECK(alone.rows.empty());
  CHECK(alone.reason == "no cluster of several nodes that switches join was found");
}

TEST_CASE("the networks of size are in its JSON and CSV, and every key is explained", "[size]") {
  SizeAnswer answer;
  SizeNetworks& all = answer.networks.emplace();
  all.switch_name = "quantum-2";
  all.switch_ports = 64;
  all.unpriced = "prices.purchase.cable";
  all.reason = "a reason, with a comma";
  SizeNetwork& row = all.rows.emplace_back();
  row.network = "2:1";
  row.model = "gpt2";
  row.node = "dgx-h100";
  row.nodes = 8;
  row.beside = "dgx-a100";
  row.beside_nodes = 3;
  row.gpus = 64;
  row.fabric = "{base: leaf-spine, levels: [{down: 40, oversubscription: 2}]}";
  row.switches = 3;
  row.ports = 100;
  row.cables = 80;
  row.spines = 1;
  row.rails = 8;
  row.oversubscription = 2;
  row.racks = 2;
  row.plan = "data 64";
  row.nodes_of_rack = 4;
  row.by_length = {{true, 5, 80, 0.1, 7}};
  row.owned_switches = 2;
  row.price_of_switches = 1;
  row.price_of_cables = 8;
  row.network_cost = 9;
  row.cost = 99;
  row.step_time = 0.5;
  row.loss = 0.01;
  row.days = 3;
  row.on_time = 0.75;
  row.missed = "budget";
  row.terms = "spot";
  row.chosen = true;
  all.rows.push_back({{"=gpt2", "dgx-h100", 8, "rail-only"}, 64, "no rails"});
  const nlohmann::ordered_json j = size_fields().json(answer).at("networks");
  std::set<std::string> keys;
  for (const auto& [key, field] : j.items()) keys.insert("networks." + key);
  for (const auto& item : j.at("rows"))
    for (const auto& [key, field] : item.items()) keys.insert("networks.rows[]." + key);
  for (const auto& [key, field] : j.at("rows").at(0).at("by_length").at(0).items())
    keys.insert("networks.rows[].by_length[]." + key);
  for (const FieldRow& field : size_fields().rows())
    if (field.path.starts_with("networks.")) CHECK(keys.count(field.path) == 1);
  SizeAnswer back;
  size_fields().read(size_fields().json(answer), back);
  CHECK(size_fields().json(back)["networks"] == j);
  CHECK(
      size_networks_csv(all) ==
      "network,model,node,nodes,beside,beside_nodes,gpus,chosen,missed,terms,error,fabric,switches,spines,rails,"
      "oversubscription,ports,"
      "cables,"
      "nodes_of_rack,owned_switches,price_of_switches,price_of_cables,"
      "network_cost,cost,step_time_s,plan,has_own_plan,racks,"
      "loss,days,on_time_probability\n"
      "2:1,gpt2,dgx-h100,8,dgx-a100,3,64,true,budget,spot,,\"{base: leaf-spine, levels: [{down: 40, oversubscription: "
      "2}]}\",3,1,8,2.0,100,"
      "80,4,2,1.0,8.0,9.0,99.0,0.5,data 64,false,2,0.01,3.0,0.75\n"
      "rail-only,'=gpt2,dgx-h100,8,,,64,false,,,no rails,,,,,,,,,,,,,,,,,,,,\n");
}

}  // namespace scenarios_test_size_networks
