// `trainyard size --network`: networks between the nodes of the best clusters.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "models/hardware/network_switch.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_search.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "topologies/analysis/network_design.hpp"

namespace scenarios_test_size_networks {

using namespace trainyard;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

constexpr const char* kPrices =
    "prices: {currency: EUR, gpu_hour: {h100-sxm5-80gb: 2}, purchase: {node: {dgx-h100: 300000}, storage: 5000, "
    "switch: 30000, switch_ports: 16, cable: 1000, years: 4, interest: 0.06, staff: 0.03, space: 0.02}}\n";

Node question(const std::string& more) {
  return parse_document(
      "cluster: {node: dgx-h100}\nmodel: gpt2\n"
      "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, training: {tokens: "
      "1e9}, pipeline: {schedule: 1f1b}}\nsoftware: megatron-core\n" +
          more,
      "small.yaml");
}

SizeOptions options_of(int gpus, double days = 30) {
  SizeOptions options;
  options.days = days;
  options.node_types = {"dgx-h100"};
  options.work = 2e5;
  options.gpus = gpus;
  options.networks = network_kinds();
  return options;
}

SizeNetworks networks_of(const std::string& more, const SizeOptions& options) {
  const SizeAnswer answer = size_clusters(question(more), "small", options);
  REQUIRE(answer.networks);
  return *answer.networks;
}

const SizeNetwork& row_of(const SizeNetworks& all, const std::string& kind) {
  for (const SizeNetwork& row : all.rows)
    if (row.network == kind) return row;
  FAIL("no row of " << kind);
  return all.rows.front();
}

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
    const Result r =
        trainyard::answer(read_scenario(document, "small"), {.simulation = {.critical_path = false}}).result;
    CHECK(row.step_time == r.step_time.value);
    CHECK(row.days == Approx(r.whole_time().value / 86400));
    REQUIRE(row.loss);
    CHECK(*row.loss == Approx(row.step_time / full.step_time - 1).margin(1e-12));
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
  CHECK_THAT(answer.verdict->decision,
             EndsWith(fmt::format(" With the network {}, 8 x dgx-h100 cost {} and meet the deadline.", least->network,
                                  money_words(*least->cost, "EUR"))));
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
  CHECK_FALSE(answer.cheapest);  // the smallest network without oversubscription is above the budget
  REQUIRE(answer.networks);
  REQUIRE(answer.networks->choice());
  CHECK(answer.networks->choice()->network == "rail-only");
  // The verdict does not say that nothing meets the conditions without naming the network that does.
  REQUIRE(answer.verdict);
  CHECK_THAT(answer.verdict->decision,
             EndsWith(fmt::format(" With the network rail-only, 8 x dgx-h100 cost {} and meet deadline and budget.",
                                  money_words(least, "EUR"))));
  CHECK(row_of(*answer.networks, "nonblocking").missed == "budget");
  options.budget = least - 1;
  const SizeNetworks none = networks_of(kPrices, options);
  CHECK_FALSE(none.choice());
  CHECK(none.reason == "no network of the table meets deadline and budget");
  options.days = 1e-6;
  CHECK(row_of(networks_of(kPrices, options), "2:1").missed == "deadline and budget");
}

TEST_CASE("beside rents, a network costs what owning it costs during the training", "[size]") {
  const SizeNetworks all = networks_of(kPrices, options_of(64));
  const SizeNetwork& row = row_of(all, "2:1");
  const double annuity = 0.06 / (1 - std::pow(1.06, -4));
  const double price = 30000.0 * static_cast<double>(row.switches) + 1000.0 * static_cast<double>(row.cables);
  CHECK(*row.network_cost == Approx(price * (annuity + 0.05) * row.days / 365));
  CHECK(*row.cost == Approx(*row.network_cost + 2 * 64 * 24 * row.days));
}

TEST_CASE("without prices of a network there are its parts and its loss, and no choice", "[size]") {
  const SizeNetworks all = networks_of("", options_of(64));
  CHECK(all.switch_ports == 64);
  CHECK_FALSE(all.choice());
  CHECK(all.reason ==
        "no choice without prices.purchase.switch and prices.purchase.cable: the table has parts and loss only");
  for (const SizeNetwork& row : all.rows) {
    CHECK_FALSE(row.cost);
    CHECK_FALSE(row.network_cost);
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
  row.gpus = 64;
  row.fabric = "{base: leaf-spine, levels: [{down: 40, oversubscription: 2}]}";
  row.switches = 3;
  row.ports = 100;
  row.cables = 80;
  row.network_cost = 9;
  row.cost = 99;
  row.step_time = 0.5;
  row.loss = 0.01;
  row.days = 3;
  row.on_time = 0.75;
  row.missed = "budget";
  row.chosen = true;
  all.rows.push_back({"rail-only", "=gpt2", "dgx-h100", 8, 64, "no rails"});
  const nlohmann::ordered_json j = size_fields().json(answer).at("networks");
  std::set<std::string> keys;
  for (const auto& [key, field] : j.items()) keys.insert("networks." + key);
  for (const auto& item : j.at("rows"))
    for (const auto& [key, field] : item.items()) keys.insert("networks.rows[]." + key);
  for (const FieldRow& field : size_fields().rows())
    if (field.path.starts_with("networks.")) CHECK(keys.count(field.path) == 1);
  SizeAnswer back;
  size_fields().read(size_fields().json(answer), back);
  CHECK(size_fields().json(back)["networks"] == j);
  CHECK(size_networks_csv(all) ==
        "network,model,node,nodes,gpus,chosen,missed,error,fabric,switches,ports,cables,network_cost,cost,step_time_s,"
        "loss,days,on_time_probability\n"
        "2:1,gpt2,dgx-h100,8,64,true,budget,,\"{base: leaf-spine, levels: [{down: 40, oversubscription: 2}]}\",3,100,"
        "80,9.0,99.0,0.5,0.01,3.0,0.75\n"
        "rail-only,'=gpt2,dgx-h100,8,64,false,,no rails,,,,,,,,,,\n");
}

}  // namespace scenarios_test_size_networks
