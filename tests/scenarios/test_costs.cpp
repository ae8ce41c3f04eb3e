// Energy and money of a step.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/hardware/node_parts.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"

namespace scenarios_test_costs {

using namespace trainyard;

namespace {

/// One GPU of 300 W, which computes all the time.
Scenario costs_scenario(const std::string& node, const std::string& rest, const std::string& plan = "") {
  return read_scenario_text("cluster: {node: {base: pcie-1, gpu: {power: {idle: 50 W, busy: 300 W}}" + node + "}}\n" +
                                "model: gpt2\nplan: {micro_batch_size: 2, precision: fp16" + plan + "}\n" + rest,
                            "x.yaml");
}

}  // namespace

TEST_CASE("a device draws between idle and busy, in proportion", "[costs]") {
  const PowerDraw draw{Watts{100}, Watts{500}};
  CHECK(draw.power(0) == Watts{100});
  CHECK(draw.power(0.5) == Watts{300});
  CHECK(draw.power(2) == Watts{500});  // never more than the busy power
  CHECK(utilization(draw, {1, 0}) == 1);
  CHECK(draw.power(utilization(draw, {0, 1})).value == Approx(250));  // half of the busy power while it communicates
  CHECK(utilization({Watts{400}, Watts{500}}, {0, 1}) == 0);          // but no less than the idle power
}

TEST_CASE("another busy power changes the energy of a step and no time, but the clock under a power limit", "[costs]") {
  const auto run = [](const std::string& gpu) {
    return simulate_training(read_scenario_text(
        "cluster: {node: {base: dgx-h100, gpu: {" + gpu + "}}}\nmodel: gpt2\nplan: {micro_batch_size: 8}\n", "x.yaml"));
  };
  const Result usual = run("power: {idle: 70 W, busy: 700 W}"), lower = run("power: {idle: 70 W, busy: 600 W}");
  REQUIRE((usual.energy && lower.energy));
  CHECK(lower.step_time == usual.step_time);
  CHECK(lower.energy->parts.at("GPU") < usual.energy->parts.at("GPU"));
  const Result limited = run("power_limit: 500 W, power: {idle: 70 W, busy: 700 W}"),
               nearer = run("power_limit: 500 W, power: {idle: 70 W, busy: 600 W}");
  CHECK(limited.step_time > nearer.step_time);
  CHECK(nearer.step_time > lower.step_time);
}

TEST_CASE("the energy of a step is the power of its devices times its time and the PUE", "[costs]") {
  Site site;
  site.pue = 1.5;
  const Energy e = energy_of({{"GPU", 4, {Watts{100}, Watts{300}}, 0.5},
                              {"CPU", 2, {Watts{50}, Watts{50}}, 0},
                              {"HCA", 4, {}, 1},
                              {"switch", 0, {}, 1}},
                             10, site);
  CHECK(e.parts.at("GPU") == 4 * 200 * 10);
  CHECK(e.parts.at("CPU") == 2 * 50 * 10);
  CHECK(e.devices() == 9000);
  CHECK(e.step() == 13500);
  CHECK(e.idle_power == 500);
  CHECK(e.gpu_power == 200);
  CHECK(e.not_stated == "HCA");
}

TEST_CASE("a GPU draws its busy power for the share of the step in which it computes", "[costs]") {
  CHECK(costs_scenario("", "").site.pue == 1.58);  // the default in the text of the key
  const Scenario s = costs_scenario("", "site: {pue: 1}\n");
  const Result r = simulate_training(s);
  REQUIRE(r.energy);
  CHECK(r.energy->gpu_power <= 300);
  CHECK(r.energy->parts.at("GPU") == Approx(r.energy->gpu_power * r.step_time.value));
  const double busy = (r.breakdown.compute.value + r.breakdown.optimizer.value) / r.step_time.value;
  CHECK(r.energy->gpu_power == Approx(50 + 250 * busy).epsilon(1e-6));
  const Result higher_pue = simulate_training(costs_scenario("", "site: {pue: 1.5}\n"));
  CHECK(higher_pue.energy->step() == Approx(1.5 * r.energy->step()));
  CHECK(result_from_json(to_json(r)).energy->step() == Approx(r.energy->step()));
}

TEST_CASE("a step under a power limit takes longer, and the answer has the source of the GPU's clock", "[costs]") {
  const auto scenario_on = [](const std::string& gpu) {
    return read_scenario_text("cluster: {node: {base: dgx-h100, gpu: {" + gpu + "}}}\nmodel: gpt2\n" +
                                  "plan: {micro_batch_size: 8, precision: bf16}\n",
                              "x.yaml");
  };
  const Scenario full_power = scenario_on("power_limit: 700 W"), limited = scenario_on("power_limit: 400 W");
  CHECK(simulate(scenario_on("name: the same")).step_time.value == simulate(full_power).step_time.value);
  CHECK(simulate(limited).step_time.value > simulate(full_power).step_time.value);
  CHECK(limited.cluster.node.gpu.power.busy == Watts{400});
  const Scenario gpu_500w = scenario_on("base: h100-96gb-500w");
  CHECK(gpu_500w.cluster.node.gpu.power.busy == Watts{500});
  CHECK(std::ranges::any_of(
      gpu_500w.sources, [](const FigureSource& f) { return f.figure.ends_with("clock_by_power") && f.unverified; }));
}

TEST_CASE("CPU, adapters, switches and the rest of a node are counted if their power is stated", "[costs]") {
  const std::string nodes =
      "cluster: {nodes: 4, node: dgx-h100, fabric: {base: leaf-spine, switch: quantum-2}}\n"
      "model: gpt2\nplan: {micro_batch_size: 2}\nsite: {pue: 1}\n";
  const Result r = simulate_training(read_scenario_text(nodes, "x.yaml"));
  REQUIRE(r.energy);
  const auto power = [&r](const char* part) { return r.energy->parts.at(part) / r.step_time.value; };
  CHECK(power("HCA") == Approx(4 * 8 * 25));
  // One leaf connects the 32 adapters with 32 of its 64 ports. It draws its power as a whole.
  CHECK(power("switch") == Approx(747));
  CHECK(power("CPU") > 8 * 100);
  CHECK(power("CPU") < 8 * 350);
  CHECK(power("rest of the node") <= Approx(4 * 1900));
  CHECK(power("rest of the node") > 4 * 1300);
  CHECK(r.energy->not_stated.empty());
  // A node of eight H100 draws no more power than was measured on such a node.
  CHECK((r.energy->devices() / r.step_time.value - power("switch")) / 4 < 8400);
}

TEST_CASE("money follows from rents and electricity", "[costs]") {
  const Result rented = simulate_training(costs_scenario(
      "", "site: {pue: 1}\nprices: {currency: EUR, gpu_hour: {custom-node: 7, k80-die: 3, pcie-1: 36}}\n",
      ", training: {steps: 1000}"));
  REQUIRE(rented.money);
  CHECK(rented.money->currency == "EUR");
  CHECK(rented.money->step == Approx(rented.step_time.value * 36 / 3600));
  CHECK(rented.money->training == Approx(1000 * rented.money->step));
  CHECK(rented.money->per_million == Approx(1e6 * rented.money->step / (2 * 1024)));
  const Result rent_and_power =
      simulate_training(costs_scenario("", "site: {pue: 1}\nprices: {node_hour: {pcie-1: 36}, kwh: 0.5}\n"));
  CHECK(rent_and_power.money->step ==
        Approx(rent_and_power.step_time.value * 0.01 + rent_and_power.energy->step() / 3.6e6 * 0.5));
}

TEST_CASE("the time in which nothing runs takes no more than idle power", "[costs]") {
  Result r;
  r.step_time.value = 2;
  r.training_time.value = 100;
  r.energy.emplace();
  r.energy->parts["GPU"] = 600;  // 300 W
  r.energy->idle_power = 50;
  r.energy->pue = 2;
  CHECK(r.training_energy() == 2 * 300 * 100);
  r.failures.emplace();
  r.failures->end.value = 150;
  r.failures->down.value = 30;
  CHECK(r.training_energy() == 2 * (300 * 120 + 50 * 30));
  r.failures->without_node.value = 20;  // the others wait for the repair of a node
  CHECK(r.training_energy() == 2 * (300 * 100 + 50 * 50));
}

namespace {

/// Returns the costs of buying `nodes` nodes with eight GPUs, eight adapters and 1 kW each. `rent` is their rent in an
/// hour.
Ownership purchase_costs(const std::string& purchase, int nodes, double rent, double pue = 1.5) {
  const Prices prices = read_prices(parse_document("purchase: {node: {box: 1000}" + purchase + "}\n", "p.yaml"));
  return cost_of_ownership(prices.purchase, {{"box", "chip", nodes, 8, 8}}, 1000.0 * nodes, pue, rent);
}

}  // namespace

TEST_CASE("the parts of a purchase and of its year sum to their totals", "[costs]") {
  const Ownership simple_costs = purchase_costs(", years: 4", 3, 0);
  CHECK(simple_costs.price() == 3000);
  CHECK(simple_costs.year() == 3000.0 / 4);  // without interest and power
  CHECK_FALSE(break_even(simple_costs));
  const Ownership all_costs = purchase_costs(
      ", years: 5, interest: 0.07, kwh: 0.2, staff: 0.03, space: 0.02, switch: 50, switch_ports: 64, cable: 2, "
      "storage: 700",
      3, 2);
  CHECK(all_costs.purchase_prices.at("switches") == 50);
  CHECK(all_costs.purchase_prices.at("cables") == 48);
  CHECK(all_costs.price() == 3000 + 50 + 48 + 700);
  double year = 0;
  for (const auto& [part, money] : all_costs.yearly) year += money;
  CHECK(all_costs.year() == Approx(year).epsilon(1e-14));
  CHECK(all_costs.yearly.at("electricity") == Approx(3 * 8760 * 0.2));
  CHECK(all_costs.yearly.at("cooling") == Approx(0.5 * all_costs.yearly.at("electricity")));
  CHECK(all_costs.yearly.at("staff") == Approx(0.03 * all_costs.price()));
  // The annuity pays the price back with interest.
  double present_value = 0;
  for (int k = 1; k <= 5; ++k)
    present_value += (all_costs.yearly.at("depreciation") + all_costs.yearly.at("interest")) * std::pow(1.07, -k);
  CHECK(present_value == Approx(all_costs.price()).epsilon(1e-12));
}

TEST_CASE("at the break-even, buying and renting cost the same", "[costs]") {
  for (const char* interest : {"0", "0.08"}) {
    INFO(interest);
    const std::string purchase = std::string(", years: 4, kwh: 0.1, staff: 0.05, interest: ") + interest;
    const Ownership o = purchase_costs(purchase, 10, 9);
    const double energy = o.yearly.at("electricity") + o.yearly.at("cooling");
    REQUIRE(break_even(o));
    const double use = break_even(o)->use, rent_year = o.rents.front().used;
    CHECK(o.year() - energy + use * energy == Approx(use * rent_year).epsilon(1e-9));
    REQUIRE(o.break_even_years());
    const double years = *o.break_even_years(), rate = o.interest;
    const double running = o.year() - o.yearly.at("depreciation") - o.yearly.at("interest");
    const double discounted = rate > 0 ? (1 - std::pow(1 + rate, -years)) / rate : years;
    CHECK(o.price() + running * discounted == Approx(rent_year * discounted).epsilon(1e-9));
  }
  CHECK_FALSE(break_even(purchase_costs(", kwh: 1", 10, 9)));  // electricity costs more than the rent
}

TEST_CASE("a price by quantity applies from its quantity on", "[costs]") {
  const Prices prices = read_prices(parse_document("purchase: {gpu: {chip: {1: 10, 64: 8}}}\n", "p.yaml"));
  CHECK(prices.purchase.node_price("box", "chip", 8, 7) == 80);
  CHECK(prices.purchase.node_price("box", "chip", 8, 8) == 64);
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(read_prices(parse_document("purchase: {gpu: {chip: {4: 10}}}\n", "p.yaml")),
                    Contains("p.yaml:1:") && Contains("from 1 on"));
  CHECK_THROWS_WITH(read_prices(parse_document("purchase: {years: 4}\n", "p.yaml")), Contains("expected node or gpu"));
  CHECK_THROWS_WITH(prices.purchase.node_price("box", "chop", 8, 8), Contains("chip"));
}

TEST_CASE("a network without oversubscription has as many uplinks as downlinks", "[costs]") {
  CHECK(full_bisection_network(64, 64, {}).switches == 1);
  const SwitchCount two_levels = full_bisection_network(512, 64, {});
  CHECK(two_levels.switches == 16 + 8);
  CHECK(two_levels.cables == 1024);
  const SwitchCount three_levels = full_bisection_network(65536, 64, {});  // 5 k^2 / 4 switches (Al-Fares et al. 2008)
  CHECK(three_levels.switches == 5 * 64 * 64 / 4);
  CHECK(three_levels.cables == 3 * 65536);
  CHECK_THROWS_AS(full_bisection_network(65537, 64, {}), UserError);
}

TEST_CASE("an answer with the prices of a purchase has the cost of ownership", "[costs]") {
  const Result r = simulate_training(costs_scenario(
      "",
      "site: {pue: 1.2}\nprices: {node_hour: {pcie-1: 36}, purchase: {node: {pcie-1: 20000}, kwh: 0.1, years: 2}}\n",
      ", training: {steps: 1000}"));
  REQUIRE(r.money);
  REQUIRE(r.money->ownership);
  const Ownership& o = *r.money->ownership;
  REQUIRE(o.rents.size() == 1);
  CHECK(o.rents.front().used == Approx(36 * 8760));
  const double year = 8760 * 3600.0;
  CHECK(o.training == Approx(o.year() * r.training_time.value / year));
  CHECK(o.per_million == Approx(1e6 * o.year() * r.step_time.value / year / (2 * 1024)));
  CHECK(o.yearly.at("electricity") + o.yearly.at("cooling") ==
        Approx(r.energy->step() / r.step_time.value / 1000 * 8760 * 0.1));
  CHECK(result_from_json(to_json(r)).money->ownership->year() == Approx(o.year()));
}

namespace {

const char* const kOffers =
    "prices: {node_hour: {pcie-1: 10}, reserved: [{months: 12, node_hour: {pcie-1: 5}, idle: 0.5}, {months: 0.1, "
    "node_hour: "
    "{pcie-1: 8}}], spot: {node_hour: {pcie-1: 2}, interruption: 5 h, restart: 10 min}}\n";

const RentCost& rent_by_terms(const Result& r, const std::string& terms) {
  const auto& rents = r.money->rents;
  const auto found = std::ranges::find_if(rents, [&](const RentCost& c) { return c.terms == terms; });
  REQUIRE(found != rents.end());
  return *found;
}

}  // namespace

TEST_CASE("a reserved term is paid to its end, and interruptions of spot nodes cost work", "[costs][rents]") {
  const std::string checkpoint = "faults: {checkpoint: {every: 30 min, write: 1 min, load: 2 min}}\n";
  const Scenario s = costs_scenario("", kOffers + checkpoint, ", step_time: 1 s, training: {steps: 360000}");  // 100 h
  const Result r = simulate_training(s);
  REQUIRE(r.money);
  REQUIRE(r.money->rents.size() == 4);
  const double hours = r.whole_time().value / 3600;
  CHECK(hours == Approx(100 + 199 / 60.0).epsilon(0.01));  // with a minute for each checkpoint
  CHECK(rent_by_terms(r, "on demand").training == Approx(10 * hours));
  CHECK(rent_by_terms(r, "on demand").training == Approx(r.money->training));
  CHECK(rent_by_terms(r, "reserved 12 months").paid_hours == 8760);
  CHECK(rent_by_terms(r, "reserved 12 months").training == Approx(5 * (hours + 0.5 * (8760 - hours))));
  CHECK(rent_by_terms(r, "reserved 0.1 months").paid_hours == Approx(2 * 73));
  CHECK(rent_by_terms(r, "reserved 0.1 months").training == Approx(8 * 2 * 73));
  const RentCost& spot = rent_by_terms(r, "spot");
  CHECK(spot.error.empty());
  CHECK(spot.training == Approx(2 * spot.time / 3600));
  // An interruption every 5 h costs 12 minutes of restart and loading, and a quarter of an hour of work on average.
  CHECK(spot.time / r.whole_time().value > 1.05);
  CHECK(spot.time / r.whole_time().value < 1.15);
  CHECK(spot.goodput < r.failures->goodput);
  // The energy covers the same time: that of lost work is paid like any other, down time draws less.
  const double step = simulate_training(costs_scenario("", kOffers)).step_time.value;
  const Result powered = simulate_training(costs_scenario(
      "", kOffers + checkpoint, ", training: {steps: " + std::to_string(std::lround(360000 / step)) + "}"));
  REQUIRE(powered.energy);
  const RentCost& interrupted = rent_by_terms(powered, "spot");
  CHECK(rent_by_terms(powered, "on demand").energy == powered.training_energy());
  CHECK(interrupted.energy / powered.training_energy() > 1.03);
  CHECK(interrupted.energy / powered.training_energy() < interrupted.time / powered.whole_time().value);
  CHECK(least_rent(r.money->rents, HUGE_VAL)->terms == "spot");
  CHECK(least_rent(r.money->rents, r.whole_time().value)->terms == "on demand");
  CHECK_FALSE(least_rent(r.money->rents, 1));
  // Rarer interruptions cost less time; one in a thousand years costs none.
  const auto spot_time = [&](const std::string& interruption) {
    Scenario other = s;
    other.prices.offers.back().interruption = parse_seconds(interruption);
    return rent_by_terms(simulate_training(other), "spot").time;
  };
  CHECK(spot_time("50 h") < spot.time);
  CHECK(spot_time("10000000 h") == Approx(r.whole_time().value));
}

TEST_CASE("a run compares buying with each rent of the prices, and names the one that costs least", "[costs][rents]") {
  const std::string offers = std::string(kOffers).substr(0, std::string(kOffers).rfind('}'));
  const Result r = simulate_training(
      costs_scenario("", offers + ", purchase: {node: {pcie-1: 100000}, years: 4}}\n", ", training: {steps: 1000}"));
  REQUIRE(r.money->ownership);
  const Ownership& o = *r.money->ownership;
  REQUIRE(o.rents.size() == 3);
  CHECK(o.rents.back().terms == "reserved 12 months");
  CHECK(o.rents.back().used == Approx(5 * 8760));
  CHECK(o.rents.back().unused == Approx(0.5 * 5 * 8760));
  CHECK(o.spot_year == Approx(2 * 8760));
  CHECK(least_rent(o)->terms == "reserved 12 months");
  // Owning costs 25,000 a year. At a use of u, a rent costs 87,600 u on demand, 21,900 (1 + u) if reserved for a year,
  // and 70,080 if reserved for shorter.
  const auto point = break_even(o);
  REQUIRE(point);
  CHECK(point->terms == "on demand");
  CHECK(point->use == Approx(25000 / 87600.0));
  CHECK(*o.break_even_years() == Approx(100000 / 43800.0));
  const auto j = result_fields().json(r).at("money").at("ownership");
  CHECK(j.at("break_even_terms") == point->terms);
  REQUIRE(j.at("break_evens").size() == 4);  // each rent, and spot
  CHECK(j.at("break_evens").at(0).at("use") == point->use);
  CHECK(j.at("break_evens").at(3).at("terms") == "spot");
  CHECK(j.at("yearly_rents").at(2).at("used") == o.rents.back().used);
  CHECK(j.at("spot_year") == o.spot_year);
}

TEST_CASE("spot without checkpoints has no cost, and a training without a length has no rents", "[costs][rents]") {
  const Result r = simulate_training(costs_scenario("", kOffers, ", step_time: 1 s, training: {steps: 1000}"));
  CHECK_THAT(rent_by_terms(r, "spot").error, Catch::Matchers::Contains("faults.checkpoint"));
  CHECK(least_rent(r.money->rents, HUGE_VAL)->terms == "on demand");
  for (const auto& rent : to_json(r)["money"]["rents"])  // no cost of 0 beside an error
    CHECK(rent.contains("training") == !rent.contains("error"));
  CHECK(result_from_json(to_json(r)).money->rents.size() == 4);
  CHECK(simulate_training(costs_scenario("", kOffers)).money->rents.empty());
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(costs_scenario("", "prices: {gpu_hour: {pcie-1: 2}, reserved: [{months: 12}]}\n"),
                    Contains("prices.reserved.0") && Contains("gpu_hour or node_hour"));
  CHECK_THROWS_WITH(costs_scenario("", "prices: {spot: {interruption: 5 h, gpu_hour: {pcie-1: 2}}}\n"),
                    Contains("on demand"));
  CHECK_THROWS_WITH(costs_scenario("", "prices: {gpu_hour: {pcie-1: 2}, spot: {gpu_hour: {pcie-1: 1}}}\n"),
                    Contains("interruption"));
}

TEST_CASE("space is paid for the most power of the nodes, per kW and month", "[costs]") {
  const std::string priced =
      "site: {pue: 1.2}\nprices: {purchase: {node: {pcie-1: 20000}, space: 0.01, kw_month: 100}}\n";
  const Result r = simulate_training(costs_scenario("", priced));
  const Scenario s = costs_scenario("", priced);
  const double kilowatts = s.cluster.node.most_power().value / 1000;
  CHECK(kilowatts >= 0.3);
  CHECK(r.money->ownership->yearly.at("space") == Approx(0.01 * 20000 + kilowatts * 12 * 100));
}

TEST_CASE("size names the kind of rent that costs least and is in time", "[costs][size][rents]") {
  const auto sized = [](const std::string& reserved) {
    SizeOptions options;
    options.days = 30;
    options.gpus = 8;
    options.work = 2e6;
    options.node_types = {"dgx-a100", "dgx-h100"};
    return size_clusters(
        parse_document(
            "cluster: {node: dgx-a100}\nmodel: gpt2\nsoftware: megatron-core\nplan: {strategy: megatron, "
            "global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, training: {tokens: 1e9}, pipeline: "
            "{schedule: 1f1b}}\nprices: {node_hour: {dgx-a100: 10, dgx-h100: 20}, reserved: [{months: 0.01, "
            "node_hour: {dgx-h100: " +
                reserved + "}}]}\n",
            "small.yaml"),
        "small", options);
  };
  const SizeAnswer cheap_answer = sized("0.01"), dear_answer = sized("1000");
  REQUIRE(cheap_answer.cheapest);
  CHECK(cheap_answer.cheapest->terms == "reserved 0.01 months");
  CHECK(cheap_answer.cheapest->node == "dgx-h100");
  CHECK(cheap_answer.cheapest->end_days <= 30);
  REQUIRE(dear_answer.cheapest);
  CHECK(dear_answer.cheapest->terms == "on demand");
  CHECK(dear_answer.cheapest->cost == Approx(dear_answer.cheapest->money));
  for (const SizeRow& row : cheap_answer.rows) CHECK(row.rents.size() == (row.node == "dgx-h100" ? 2 : 1));
  for (const SizeRow& row : cheap_answer.rows) CHECK(size_row_from_text(to_text(row)).rents.size() == row.rents.size());
}

TEST_CASE("bad prices and sites are refused at their place", "[costs]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(costs_scenario("", "prices: {gpu_hour: {h100-sxm5-80gb: 2}}\n"),
                    Contains("x.yaml:4:") && Contains("prices: none of pcie-1") && Contains("known: h100-sxm5-80gb"));
  CHECK_THROWS_WITH(costs_scenario("", "prices: {gpu_hour: {h100-sxm5-80g: 2}}\n"),
                    Contains("x.yaml:4:") && Contains("did you mean \"h100-sxm5-80gb\"?"));
  CHECK_THROWS_WITH(costs_scenario("", "prices: {gpu_hour: {pcie-1: -2}}\n"), Contains("x.yaml:4:") && Contains("-2"));
  CHECK_THROWS_WITH(costs_scenario("", "prices: {currency: EUR}\n"), Contains("expected gpu_hour or node_hour"));
  CHECK_THROWS_WITH(costs_scenario("", "prices: {gpu_hour: {pcie-1: 2}, node_hour: {pcie_1: 2}}\n"),
                    Contains("leave one of both out"));
  CHECK_THROWS_WITH(costs_scenario("", "site: {pue: 0.5}\n"), Contains("pue"));
  CHECK_THROWS_WITH(costs_scenario("", "site: averag\n"), Contains("did you mean \"average\"?"));
}

TEST_CASE("the example prices can be read, and every site of the catalog has sources", "[costs][catalog]") {
  const Catalog catalog;
  const Prices prices =
      read_prices(read_document(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios" / "prices-example.yml"));
  CHECK(prices.gpu_hour("p5.48xlarge", "h100-sxm5-80gb", 8) == 5);  // the node's price comes before the GPU's
  CHECK(prices.gpu_hour("dgx-h100", "h100-sxm5-80gb", 8) == 2.5);
  for (const std::string& name : catalog.names("site")) {
    const Site site = read_site(catalog.resolve("site", Node::scalar_node(name)));
    CHECK(site.pue > 1);
    REQUIRE(site.sources.size() == 1);
    CHECK(site.sources.front().source.size() > 20);
  }
  // A site that states only its limits cools as an average one.
  const double average = read_site(catalog.resolve("site", Node::scalar_node("average"))).pue;
  const Site limited = read_site(catalog.resolve("site", parse_document("{racks: 4}", "site.yaml")));
  CHECK(limited.pue == average);
  CHECK(limited.racks == 4);
  CHECK(limited.name == "custom-site");
  const Scenario s = costs_scenario("", "site: {power: 10 kW}\n");
  CHECK(simulate_training(s).energy->pue == average);
}

TEST_CASE("power that the catalog states has sources and makes sense", "[costs][catalog]") {
  const Catalog catalog;
  for (const std::string& name : catalog.names("cpu")) {
    INFO(name);
    const PowerDraw power = read_cpu(catalog.resolve("cpu", Node::scalar_node(name))).power;
    CHECK(power.busy >= Watts{100});
    CHECK(power.busy <= Watts{500});
    CHECK(power.idle < power.busy);
  }
  for (const std::string& name : catalog.names("switch")) {
    INFO(name);
    const NetworkSwitch entry = read_network_switch(catalog.resolve("switch", Node::scalar_node(name)));
    if (entry.power.is_given()) CHECK(entry.power.busy.value / entry.ports < 30);  // W a port
  }
}

}  // namespace scenarios_test_costs
