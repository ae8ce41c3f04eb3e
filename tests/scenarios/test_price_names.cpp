// The names in a price file, and deliveries in batches.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/energy/price_names.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/running/node_power.hpp"
#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "tests/scenarios/sized_rows.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_price_names {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

void check_names(const std::string& text, const std::vector<std::string>& defined = {}) {
  check_price_names(parse_document(text, "p.yml"), Catalog(), defined);
}

}  // namespace

TEST_CASE("a name that the catalog does not have is one error with its place and the nearest name", "[costs]") {
  for (const char* text :
       {"gpu_hour: {NAME: 1}", "node_hour: {NAME: 1}", "reserved: [{months: 1, gpu_hour: {NAME: 1}}]",
        "spot: {interruption: 60 h, node_hour: {NAME: 1}}", "purchase: {node: {NAME: 1}}",
        "purchase: {owned: {NAME: 8}}", "purchase: {delivery: {NAME: 8 d}}", "purchase: {gpu: {NAME: 8}}",
        "switch: {NAME: 3}"}) {
    const auto with_name = [text](const std::string& name) {
      std::string all = text;
      return "years: 4\n" + all.replace(all.find("NAME"), 4, name) + "\n";
    };
    const std::string key = text;
    const bool takes_gpus = key.find("gpu: {") != std::string::npos, is_switch = key.starts_with("switch");
    const std::string good = is_switch ? "quantum-2" : takes_gpus ? "h100-sxm5-80gb" : "dgx-h100";
    CAPTURE(text, good);
    CHECK_NOTHROW(check_names(with_name(good)));
    const std::string bad = good.substr(0, good.size() - 1) + "x";
    CHECK_THROWS_WITH(check_names(with_name(bad)), Contains("p.yml:2:") && Contains("unknown") &&
                                                       Contains("\"" + bad + "\"") && Contains("did you mean"));
    if (is_switch) continue;
    CHECK_NOTHROW(check_names(with_name("my-box"), {"my-box"}));  // the scenario defines it
    CHECK_NOTHROW(check_names(with_name("custom-node")));
  }
  CHECK_THROWS_WITH(
      check_names("purchase: {owned: {h100-sxm5-80gb: 512}}\n"),
      Contains("p.yml:1:") && Contains("prices.purchase.owned: h100-sxm5-80gb is a GPU") && Contains("dgx-h100"));
  CHECK_THROWS_WITH(check_names("purchase: {gpu: {dgx-h100: 3}}\n"),
                    Contains("dgx-h100 is a type of node; expected its GPU, h100-sxm5-80gb"));
  CHECK_NOTHROW(check_names("purchase: {delivery: {h100-sxm5-80gb: 30 d}}\ngpu_hour: {dgx-h100: 1}\n"));
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios"))
    if (entry.path().filename().string().starts_with("prices-")) {
      CAPTURE(entry.path().string());
      CHECK_NOTHROW(check_price_names(read_document(entry.path()), Catalog()));
    }
}

TEST_CASE("run and size refuse a price file with a wrong name", "[costs][size]") {
  const std::string scenario =
      "cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 1, training: {tokens: 1e9}}\n"
      "prices: {gpu_hour: {a100-sxm4-80gb: 1}, purchase: {node: {dgx-a100: 100}, owned: {dgx-a10: 4}}}\n";
  CHECK_THROWS_WITH(read_scenario_text(scenario, "x.yaml"),
                    Contains("x.yaml:4:") && Contains("prices.purchase.owned: unknown node \"dgx-a10\""));
  SizeOptions options;
  options.days = 30;
  CHECK_THROWS_WITH(size_clusters(parse_document(scenario, "x.yaml"), "x", options),
                    Contains("x.yaml:4:") && Contains("unknown node \"dgx-a10\""));
}

TEST_CASE("space by the kilowatt is paid for the power that a site provides for a node", "[costs]") {
  const Catalog catalog;
  Site site;
  site.power = Watts{1e9};
  for (const char* node : {"dgx-a100", "dgx-h100", "dgx-b200", "mi300x-8x"}) {
    CAPTURE(node);
    const Scenario s = read_scenario_text(
        fmt::format("cluster: {{node: {}}}\nmodel: gpt2\nplan: {{micro_batch_size: 8, precision: bf16}}\n"
                    "prices: {{purchase: {{node: {{{}: 100}}, kw_month: 150}}}}\n",
                    node, node),
        "x.yaml");
    const Result r = answer(s, {.simulation = {.critical_path = false}}).result;
    const double limit = site_limit(site, s.cluster.node, catalog)->node_power;
    CHECK(r.money->ownership->yearly.at("space") == Approx(limit / 1000 * 12 * 150));
    CHECK(provided_power(s.cluster.node, catalog).value == limit);
  }
}

TEST_CASE("nodes that are owned already have no rent, and what they cost in use counts on both sides", "[costs]") {
  const auto costs = [](int owned, const std::string& rents = "gpu_hour: {a100-sxm4-80gb: 1}") {
    const Scenario s = read_scenario_text(
        fmt::format("cluster: {{node: dgx-a100, nodes: 2, fabric: nonblocking}}\nmodel: gpt2\n"
                    "plan: {{micro_batch_size: 8, precision: bf16}}\nsite: {{pue: 1.3}}\n"
                    "prices: {{{}, reserved: [{{months: 12, idle: 1, gpu_hour: {{a100-sxm4-80gb: 0.5}}}}], purchase: "
                    "{{node: {{dgx-a100: 1000}}, kwh: 0.1, kw_month: 3, owned: {{dgx-a100: {}}}}}}}\n",
                    rents, owned),
        "x.yaml");
    return *answer(s, {.simulation = {.critical_path = false}}).result.money->ownership;
  };
  const Ownership none = costs(0), half = costs(1), all = costs(2);
  REQUIRE(none.rents.size() == 2);
  REQUIRE(half.rents.size() == 2);
  const double power = none.yearly.at("electricity") + none.yearly.at("cooling"), space = none.yearly.at("space");
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(half.rents[i].used == Approx(none.rents[i].used / 2 + (power + space) / 2));
    CHECK(half.rents[i].unused == Approx(none.rents[i].unused / 2 + space / 2));
  }
  CHECK(none.rents[0].used == Approx(16 * 8760));
  CHECK(all.rents.empty());  // nothing is bought or rented
  // At the share of the hours that pays, buying costs as much as renting.
  const auto use = break_even(half);
  REQUIRE(use);
  const double owning = half.year() - power + use->use * power;
  for (const YearlyRent& rent : half.rents) {
    const double renting = rent.unused + use->use * (rent.used - rent.unused);
    CAPTURE(rent.terms, use->terms);
    if (rent.terms == use->terms)
      CHECK(owning == Approx(renting));
    else
      CHECK(owning < renting * (1 + 1e-9));
  }
}

TEST_CASE("parts of a network without a price are named as not counted", "[costs]") {
  const auto left_out = [](const std::string& parts) {
    const Scenario s = read_scenario_text(
        "cluster: {node: dgx-a100, nodes: 2, fabric: nonblocking}\nmodel: gpt2\n"
        "plan: {micro_batch_size: 8, precision: bf16}\nprices: {purchase: {node: {dgx-a100: 1000}" +
            parts + "}}\n",
        "x.yaml");
    const Ownership o = *answer(s, {.simulation = {.critical_path = false}}).result.money->ownership;
    CHECK(o.price() > 0);
    return fmt::format("{}", fmt::join(o.left_out(), " and "));
  };
  CHECK(left_out(", switch: 10, cable: 1").empty());
  CHECK_THAT(left_out(", switch: 10"), Contains("cables, since prices.purchase has no cable"));
  CHECK_THAT(left_out(", cable: 1"), Contains("switches, since prices.purchase has no switch"));
  CHECK_THAT(left_out(""), Contains("network, since prices.purchase has no switch and no cable"));
}

TEST_CASE("bought nodes arrive in batches, the owned ones first, and the last batch brings all further ones",
          "[costs][size]") {
  const Prices prices = prices_of(
      "purchase: {node: {dgx-a100: 100}, owned: {dgx-a100: 4}, delivery: {dgx-a100: [{nodes: 8, after: 10 d}, {nodes: "
      "8, "
      "after: 20 d}, {after: 40 d}]}}\n");
  const auto arrivals = [&prices](int count) {
    std::string text;
    for (const Purchase::Batch& each : prices.purchase.arrivals("dgx-a100", "a100-sxm4-80gb", count))
      text += fmt::format("{} at {:g} ", each.nodes, each.after.value / 86400);
    return text;
  };
  CHECK(arrivals(3) == "3 at 0 ");
  CHECK(arrivals(4) == "4 at 0 ");
  CHECK(arrivals(9) == "4 at 0 9 at 10 ");
  CHECK(arrivals(20) == "4 at 0 12 at 10 20 at 20 ");
  CHECK(arrivals(50) == "4 at 0 12 at 10 20 at 20 50 at 40 ");
  for (int count = 1; count < 60; ++count) {
    const auto all = prices.purchase.arrivals("dgx-a100", "a100-sxm4-80gb", count);
    CHECK(all.back().nodes == count);
    CHECK(all.back().after == prices.purchase.delivery("dgx-a100", "a100-sxm4-80gb", count));
    for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i - 1].after < all[i].after);
  }
  for (const auto& [batches, error] :
       {std::pair{"[{nodes: 8}]", "after"},
        {"[{after: 3 d}, {nodes: 8, after: 4 d}]", "brings all further nodes"},
        {"[{nodes: 2, after: 3 d}, {nodes: 8, after: 2 d}]", "later time"},
        {"[{nodes: 0, after: 3 d}]", "nodes"},
        {"[{nodes: 2, after: 3 d}, {nodes: 8, after: 9 d}]", "expected no number of nodes"},
        {"{nodes: 8}", "prices.purchase.delivery"}})
    CHECK_THROWS_WITH(
        prices_of(fmt::format("purchase: {{node: {{dgx-a100: 100}}, delivery: {{dgx-a100: {}}}}}\n", batches)),
        Contains("prices.yml:1:") && Contains(error));
}

TEST_CASE("prices by quantity replace those of a base, storage is by nodes, and a site has its own price of a kWh",
          "[costs]") {
  const auto on_base = [](const std::string& changes) {
    const std::string file =
        (std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios" / "prices-example.yml").string();
    return read_prices(Catalog().resolve(
        "price", parse_document("base: \"" + file + "\"\npurchase: {" + changes + "}\n", "over.yml")));
  };
  const Purchase switches = on_base("switch: {1: 30000, 10: 20000}").purchase;
  CHECK(switches.network_switch == Purchase::Steps{{1, 30000}, {10, 20000}});
  CHECK(switches.cable == Purchase::Steps{{1, 1000}});
  CHECK(on_base("cable: {1: 5, 100: 4}").purchase.price_of_cables(100) == 400);
  const Purchase nodes = on_base("node: {dgx-h100: {1: 9, 8: 7}}, cables: {5 m: 1, 7 m: 2}").purchase;
  CHECK(nodes.node_price("dgx-h100", "h100-sxm5-80gb", 8, 8) == 7);
  CHECK(nodes.node_price("dgx-b200", "b200-sxm-180gb", 8, 8) == 450000);
  // A map on a map replaces it, too: the quantities of both would not ascend.
  const auto twice = [](const std::string& changes) {
    return read_prices(Catalog().resolve(
        "price", parse_document("base: {purchase: {node: {dgx-h100: {1: 9, 64: 7}}, cables: {3 m: 1, 9 m: 2}, cable: "
                                "3}}\npurchase: {" +
                                    changes + "}\n",
                                "over.yml")));
  };
  CHECK(twice("node: {dgx-h100: {1: 8, 10: 6}}").purchase.nodes.front().second == Purchase::Steps{{1, 8}, {10, 6}});
  CHECK(twice("cables: {5 m: 4}").purchase.cables_by_length.size() == 1);
  CHECK(twice("node: {dgx-h100: 5k}").purchase.nodes.front().second == Purchase::Steps{{1, 5000}});
  CHECK_THROWS_WITH(on_base("switch: {10: 30000}"), Contains("over.yml:2:") && Contains("from 1 on"));
  const Purchase storage = on_base("storage: {1: 5, 16: 50}").purchase;
  CHECK(storage.price_of_storage(1) == 5);
  CHECK(storage.price_of_storage(15) == 5);
  CHECK(storage.price_of_storage(16) == 50);
  CHECK(on_base("storage: {1: 7k, 200: 1.2M}").purchase.price_of_storage(300) == 1.2e6);
  CHECK(on_base("storage: 7, owned: {storage: 1}").purchase.price_of_storage(300) == 0);
  const auto electricity = [](const std::string& site, const std::string& kwh) {
    const Scenario s = read_scenario(
        parse_document("model: gpt2\ncluster: {node: dgx-h100}\nplan: {global_batch_size: 8, micro_batch_size: 1}\n"
                       "prices: {gpu_hour: {h100-sxm5-80gb: 1}" +
                           kwh + ", purchase: {node: {dgx-h100: 1000}, kwh: 0.1}}\nsite: " + site + "\n",
                       "s.yaml"),
        "s");
    const Money money = *trainyard::answer(s, {.simulation = {.critical_path = false}}).result.money;
    return std::pair(money.ownership->yearly.at("electricity"), money.step);
  };
  const auto at_site = electricity("{pue: 1.2, kwh: 0.3}", ""), common = electricity("{pue: 1.2}", "");
  CHECK(at_site.first == Approx(3 * common.first));
  CHECK(at_site.second == common.second);  // a rent includes its electricity
  CHECK(electricity("{pue: 1.2, kwh: 0.3}", ", kwh: 0.1").second ==
        Approx(electricity("{pue: 1.2}", ", kwh: 0.3").second));
}

TEST_CASE("a site without room for a single node says what the smallest one needs", "[size]") {
  const auto answer_at = [](const std::string& site) {
    SizeOptions options;
    options.days = 1;
    options.node_types = {"dgx-a100", "dgx-h100"};
    options.work = 2e5;
    return size_clusters(parse_document("cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {global_batch_size: 64, "
                                        "micro_batch_size: 1, training: {tokens: 1e9}}\nsite: " +
                                            site + "\n",
                                        "small.yaml"),
                         "small", options);
  };
  for (const auto& [site, words] :
       {std::pair{"{power: 1 kW, pue: 2}", "needs 13 kW with cooling, and the site has 1 kW"},
        {"{power: 1 kW, pue: 1}", "needs 6.5 kW, and the site has 1 kW"},
        {"{racks: 1, rack_power: 1 kW}", "needs 6.5 kW, and a rack has 1 kW"},
        {"{ports: 2}", "has 8 adapters, and the site 2 ports"}}) {
    CAPTURE(site);
    const SizeAnswer answer = answer_at(site);
    REQUIRE(answer.verdict);
    CHECK(answer.verdict->decision == "The site has no room for a node.");
    CHECK_THAT(answer.why_none,
               Contains(": even of dgx-a100, the smallest type, a node ") && Catch::Matchers::EndsWith(words));
    CHECK_THAT(size_screen(answer), Contains("none       has room at the site") && !Contains("has a plan"));
    CHECK(size_fields().json(answer).at("site_limits").front().contains("shortage"));
  }
}

TEST_CASE("racks are filled by power, units and number of nodes, whichever takes the fewest", "[size]") {
  // A DGX A100 has 6 units and 6.5 kW.
  const auto answer_at = [](const std::string& site) {
    SizeOptions options;
    options.days = 100;
    options.gpus = 64;
    options.node_types = {"dgx-a100"};
    options.work = 2e5;
    return size_clusters(parse_document("cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {global_batch_size: 64, "
                                        "micro_batch_size: 1, training: {tokens: 1e9}}\nsite: " +
                                            site + "\n",
                                        "small.yaml"),
                         "small", options);
  };
  for (const auto& [site, limit, nodes] : {std::tuple{"{rack_units: 42, rack_power: 100 kW}", "rack_units", 7},
                                           {"{rack_units: 42, rack_power: 40 kW}", "rack_power", 6},
                                           {"{rack_units: 42, rack_nodes: 2}", "rack_nodes", 2},
                                           {"{rack_units: 42, racks: 3}", "rack_units", 7}}) {
    INFO(site);
    const SizeAnswer answer = answer_at(site);
    REQUIRE_FALSE(answer.rows.empty());
    for (const SizeRow& row : answer.rows) {
      CHECK(row.rack_limit == limit);
      CHECK(row.nodes_of_rack == nodes);
      CHECK(row.racks == (row.nodes + nodes - 1) / nodes);
    }
    CHECK(answer.site_limits.size() == (std::string(site).find("racks: 3") == std::string::npos ? 0 : 1));
    for (const SiteLimit& room : answer.site_limits) CHECK(room.nodes == 3 * nodes);
  }
  CHECK(answer_at("{rack_units: 5}").why_none.find("a node has 6 units, and a rack has 5") != std::string::npos);
}

TEST_CASE("nodes whose height is not stated are left out at a site of rack units, and each answer says so", "[size]") {
  SizeOptions options;
  options.days = 100;
  options.gpus = 8;
  options.node_types = {"mi355x-8x"};
  options.work = 2e5;
  const auto answer = [&] {
    return size_clusters(parse_document("cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {global_batch_size: 64, "
                                        "micro_batch_size: 1, training: {tokens: 1e9}}\nsite: {rack_units: 42}\n",
                                        "small.yaml"),
                         "small", options);
  };
  const std::string words = "mi355x-8x (the height of mi355x-8x is not stated (rack_units of a node))";
  const SizeAnswer none = answer();
  CHECK(none.left_out == std::vector<std::string>{words});
  CHECK_THAT(size_screen(none), Contains("none       of the node types could be judged\n") &&
                                    Contains("left out: mi355x-8x (the height of mi355x-8x is not stated"));
  CHECK(size_fields().json(none).at("left_out").at(0) == words);
  options.node_types = {"mi355x-8x", "mi300x-8x", "gb200-nvl72"};
  const SizeAnswer some = answer();
  CHECK(some.left_out == std::vector<std::string>{words});
  for (const SizeRow& row : some.rows) CHECK(row.nodes_of_rack == (row.node == "mi300x-8x" ? 7 : 1));
  CHECK(some.rows.size() == 2);
}

TEST_CASE("owning is compared with every rent: at the use, the price and the time of a comparison both cost the same",
          "[costs]") {
  for (const char* interest : {"0", "0.08"}) {
    const auto costs_at = [&](double node) {
      const Prices prices = read_prices(parse_document(
          fmt::format("purchase: {{node: {{box: {}}}, storage: 500, years: 4, kwh: 0.1, staff: 0.05, interest: {}}}\n",
                      node, interest),
          "p.yaml"));
      Ownership o = cost_of_ownership(prices.purchase, {{"box", "chip", 10, 8, 8}}, 10000, 1.5, 3);
      o.add_rent("reserved 12 months", 12000, 16000);  // less than owning at full use
      o.spot_year = 9000;                              // less than the power alone
      return o;
    };
    const Ownership o = costs_at(2000);
    const std::vector<RentComparison> all = compare_rents(o);
    REQUIRE(all.size() == 3);
    CHECK(all[0].terms == "on demand");
    CHECK(all[1].terms == "reserved 12 months");
    CHECK(all[2].terms == "spot");
    const double energy = o.yearly.at("electricity") + o.yearly.at("cooling");
    REQUIRE(all[0].use);
    CHECK(o.year() - energy + *all[0].use * energy == Approx(*all[0].use * all[0].year));
    CHECK_FALSE(all[1].use);  // it costs more at any use, but a lower price or more years would change this
    CHECK_FALSE(break_even(o));
    for (const RentComparison& rent : {all[0], all[1]}) {
      CAPTURE(rent.terms, interest);
      REQUIRE((rent.price && rent.node && rent.months));
      CHECK(costs_at(*rent.node).year() == Approx(rent.year));
      CHECK(costs_at(*rent.node).price() == Approx(*rent.price));
      const double years = *rent.months / 12, rate = o.interest;
      const double discounted = rate > 0 ? (1 - std::pow(1 + rate, -years)) / rate : years;
      const double running = o.year() - o.yearly.at("depreciation") - o.yearly.at("interest");
      CHECK(o.price() + running * discounted == Approx(rent.year * discounted));
    }
    CHECK_FALSE((all[2].use || all[2].price || all[2].months));
  }
}

TEST_CASE("prices state their sources, of each figure or of all", "[costs]") {
  const Prices prices = read_prices(parse_document(
      "source: a quote\nsources: {offer: an offer of May}\ngpu_hour: {a100-sxm4-80gb: {value: 1.5, source: offer}}\n"
      "purchase: {node: {dgx-a100: {value: 1000, source: offer, unverified: true}}, switch: {1: 7, 8: {value: 5}}, "
      "interest: {value: 0.06}}\n",
      "p.yaml"));
  CHECK(prices.source == "a quote");
  CHECK(prices.rents.front().gpu_hour == 1.5);
  CHECK(prices.purchase.node_price("dgx-a100", "", 8, 2) == 1000);
  CHECK(Purchase::price_of(prices.purchase.network_switch, 8) == 40);
  CHECK(prices.purchase.interest == 0.06);
  CHECK_THROWS_WITH(read_prices(parse_document("gpu_hour: {a100-sxm4-80gb: {value: 1.5, sauce: x}}\n", "p.yaml")),
                    Catch::Matchers::Contains("p.yaml:1:") && Catch::Matchers::Contains("source"));
}

TEST_CASE("a training on nodes in batches ends by the phases that run has on these nodes", "[size]") {
  SizeOptions options;
  options.days = 30;
  options.purchase = true;
  options.gpus = 64;
  options.node_types = {"dgx-a100"};
  options.work = 2e5;
  const auto answer_with = [&options](const std::string& delivery) {
    return size_clusters(
        parse_document("cluster: {node: dgx-a100}\nmodel: gpt2\nsoftware: megatron-core\n"
                       "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, "
                       "training: {tokens: 2e11}, pipeline: {schedule: 1f1b}}\nprices: {node_hour: {dgx-a100: 1}, "
                       "purchase: {node: {dgx-a100: 100}, delivery: {dgx-a100: " +
                           delivery + "}}}\n",
                       "grow.yaml"),
        "grow", options);
  };
  const SizeAnswer answer = answer_with("[{nodes: 2, after: 0.1 d}, {nodes: 2, after: 0.3 d}, {after: 0.9 d}]");
  REQUIRE(answer.growth);
  const SizeGrowth& growth = *answer.growth;
  CHECK(growth.nodes == 8);
  REQUIRE(growth.phases.size() >= 2);
  double share = 0, end = growth.phases.front().begin_days, energy = 0, money = 0;
  for (const SizePhase& phase : growth.phases) {
    CHECK(phase.begin_days == Approx(end));
    end = phase.end_days;
    share += phase.share;
    const Result r = trainyard::answer(read_scenario(parse_document(phase.scenario, "phase.yaml"), "phase")).result;
    CHECK(r.whole_time().value / 86400 == Approx(phase.alone_days).epsilon(1e-9));
    CHECK(r.step_time.value == Approx(phase.step_time).epsilon(1e-9));
    energy += phase.share * r.training_energy();
    money += phase.share * r.money->ownership->training;
    CHECK(phase.share == Approx((phase.end_days - phase.begin_days) / phase.alone_days));
    CHECK_THAT(growth.reason, Contains(fmt::format("{} nodes from day {:.4g} on do {:.3g} % of it", phase.nodes,
                                                   phase.begin_days, phase.share * 100)));
  }
  CHECK(share == Approx(1));
  CHECK(growth.end_days == Approx(end));
  REQUIRE(answer.cheapest);
  CHECK(growth.full_days == Approx(answer.cheapest->days() + 0.9));
  CHECK(answer.cheapest->end_days == Approx(growth.end_days));
  // Energy and the cost of owning are those of the nodes that train in each phase.
  CHECK(answer.cheapest->energy == Approx(energy));
  CHECK(answer.cheapest->ownership->training == Approx(money));
  CHECK_THAT(answer.verdict->reason, Contains("Owning the nodes that it trains on, from their delivery on, costs " +
                                              money_words(money, answer.currency) + " for the time"));
  CHECK(answer.choices.front().power * (growth.end_days - 0.1) * 86400 == Approx(energy));
  REQUIRE(growth.end_days < growth.full_days);
  const auto answer_by = [&](double deadline) {
    options.days = deadline;
    return answer_with("[{nodes: 2, after: 0.1 d}, {nodes: 2, after: 0.3 d}, {after: 0.9 d}]");
  };
  // The verdict counts the growth: a deadline that all nodes at once would miss is met.
  const SizeAnswer in_time = answer_by((growth.end_days + growth.full_days) / 2),
                   late = answer_by(growth.end_days * 0.999);
  REQUIRE(in_time.cheapest);
  CHECK(in_time.cheapest->meets);
  CHECK_THAT(in_time.verdict->decision, Contains(", as the nodes are delivered (2 nodes after "));
  CHECK_THAT(size_screen(in_time), !Contains("None of the simulated sizes") && !Contains("none       "));
  CHECK_FALSE(late.cheapest);
  CHECK_THAT(late.why_none, Contains("the deadline: ") && Contains("grows and ends after"));
  // Without a stated number, more nodes that come late hide no smaller number that is in time.
  options.gpus = 0, options.unit = 2, options.days = 30;
  const SizeAnswer fewest = answer_with("[{nodes: 4, after: 0.1 d}, {after: 31 d}]");
  REQUIRE(fewest.cheapest);
  CHECK(fewest.cheapest->nodes <= 4);
  options.gpus = 64, options.unit = 0;
  CHECK_THAT(growth.reason, Contains(days_words(growth.end_days)) && Contains(days_words(growth.full_days)));
  CHECK_FALSE(answer_with("0.9 d").growth);
  const nlohmann::ordered_json json = size_fields().json(answer).at("growth");
  for (const FieldRow& field : size_growth_fields().rows()) {
    const bool is_of_phase = field.path.starts_with("phases[].");
    const nlohmann::ordered_json& keys = is_of_phase ? json.at("phases").front() : json;
    CHECK(keys.contains(is_of_phase ? field.path.substr(9) : field.path.substr(0, field.path.find('['))));
  }
  CHECK_THAT(size_screen(answer), Contains("growing    The nodes are delivered in batches"));
}

}  // namespace scenarios_test_price_names
