// The decision of `trainyard size`, on sizes whose figures are given instead of simulated.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_payments.hpp"
#include "tests/scenarios/sized_rows.hpp"

namespace scenarios_test_size_choices {

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::string cluster_of(const SizeRow& row) { return fmt::format("{} x {}", row.nodes, row.node); }

}  // namespace

TEST_CASE("nodes that are owned cost no purchase price, and only bought nodes wait for their delivery",
          "[costs][size]") {
  const Prices prices = prices_of(
      "purchase: {node: {dgx-a100: 100, dgx-h100: {1: 300, 8: 200}}, storage: 70, switch: 50, cable: 2, kwh: 0.1, "
      "owned: {dgx-a100: 2, dgx-h100: 4}, delivery: {a100-sxm4-80gb: 10 d, dgx-h100: 20 d}}\n");
  const auto ownership_of = [&prices](const std::string& node, const std::string& gpu, int nodes) {
    return owned_nodes(prices, node, gpu, nodes, 0);
  };
  const Ownership two_nodes = ownership_of("dgx-a100", "a100-sxm4-80gb", 2),
                  six_nodes = ownership_of("dgx-a100", "a100-sxm4-80gb", 6);
  CHECK(two_nodes.price() == 0);
  CHECK(two_nodes.delivery == 0);
  CHECK(two_nodes.owned_nodes == 2);
  CHECK(two_nodes.year() == Approx(2 * 8760 * 0.1));  // electricity alone
  CHECK(six_nodes.purchase_prices.at("nodes") == 400);
  CHECK(six_nodes.purchase_prices.at("cables") == 2 * 48);  // the network joins all six
  CHECK(six_nodes.price() == 400 + 70 + 50 + 96);
  CHECK(six_nodes.delivery == 10 * 86400);
  // The price by quantity is that of the bought nodes.
  CHECK(ownership_of("dgx-h100", "h100-sxm5-80gb", 11).purchase_prices.at("nodes") == 7 * 300);
  CHECK(ownership_of("dgx-h100", "h100-sxm5-80gb", 12).purchase_prices.at("nodes") == 8 * 200);
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(prices_of("purchase: {node: {a: 1}, owned: {a: -1}}\n"), Contains("prices.yml:1:"));
  CHECK_THROWS_WITH(prices_of("purchase: {node: {a: 1}, delivery: {a: 3}}\n"), Contains("prices.purchase.delivery"));
}

TEST_CASE("the deadline of a purchase counts from today, and the delivery that changes the decision is named",
          "[size]") {
  const auto answer_at = [](double days_of_h100, double deadline, double days = 11) {
    const Prices prices =
        prices_of(fmt::format("purchase: {{node: {{dgx-a100: 100, dgx-h100: 150}}, owned: {{dgx-a100: 2}}, delivery: "
                              "{{dgx-a100: 10 d, dgx-h100: {} d}}}}\n",
                              days_of_h100));
    return judged_answer(prices, deadline, true,
                         {evaluated_row(prices, "dgx-a100", 2, 40), evaluated_row(prices, "dgx-a100", 6, 15),
                          evaluated_row(prices, "dgx-h100", 2, days)});
  };
  const SizeAnswer answer = answer_at(20, 30);
  REQUIRE(answer.cheapest);
  CHECK(cluster_of(*answer.cheapest) == "6 x dgx-a100");  // after 10 + 15 days; two dgx-h100 end after 31
  CHECK(best_payment(answer, *answer.cheapest).value().end() == Approx(25));
  const auto threshold_of = [&answer](const std::string& quantity, bool above) {
    for (const SizeThreshold& t : answer.thresholds)
      if (t.quantity == quantity && (t.threshold > t.value) == above) return t;
    FAIL("no threshold of " << quantity);
    return SizeThreshold{};
  };
  const SizeThreshold late_delivery = threshold_of("delivery of dgx-a100 in days", true);
  CHECK(late_delivery.threshold == Approx(15));  // 30 - 15
  CHECK(late_delivery.node.empty());
  const SizeThreshold soon_delivery = threshold_of("delivery of dgx-h100 in days", false);
  CHECK(soon_delivery.threshold == Approx(19));  // 30 - 11
  CHECK(soon_delivery.node == "dgx-h100");
  CHECK(cluster_of(*answer_at(18.9, 30).cheapest) == "2 x dgx-h100");
  CHECK(cluster_of(*answer_at(19.1, 30).cheapest) == "6 x dgx-a100");
  CHECK(threshold_of("deadline", false).threshold == Approx(25));
  CHECK(threshold_of("deadline", true).threshold == Approx(31));
  CHECK(cluster_of(*answer_at(20, 31.1).cheapest) == "2 x dgx-h100");
  CHECK(cluster_of(*answer_at(20, 40.1).cheapest) == "2 x dgx-a100");  // two are owned: no delivery, no price
  // Faster or slower kernels than simulated move the time, but no purchase price.
  CHECK(threshold_of("time of dgx-h100 in % of the simulated", false).threshold == Approx(100 * 10.0 / 11));
  CHECK(cluster_of(*answer_at(20, 30, 9.99).cheapest) == "2 x dgx-h100");
  CHECK(cluster_of(*answer_at(20, 30, 10.01).cheapest) == "6 x dgx-a100");
  const SizeThreshold slower = threshold_of("time of dgx-a100 in % of the simulated", true);
  CHECK(slower.threshold == Approx(100 * 20.0 / 15));
  CHECK(slower.node.empty());
  REQUIRE(answer.verdict);
  CHECK(answer.verdict->decision ==
        "Buy 4 x dgx-a100, beside the 2 that are owned, for 400 USD: 25 days, of which 10 for the delivery, 6 kW on "
        "average.");
  CHECK(answer.verdict->reason ==
        "No other purchase of the simulated sizes meets all conditions. Not all plans are proved to be the best: a "
        "longer "
        "search (--work) may change the order. Out: 2 x dgx-h100 misses the deadline.");
  CHECK(answer.verdict->changes ==
        "Among the simulated sizes, the decision changes if the deadline rises above 31 days (now 30): then 2 x "
        "dgx-h100; if the delivery of "
        "dgx-h100 falls below 19 days (now 20): then 2 x dgx-h100; if the time of the training on dgx-h100 falls below "
        "90.91 % of the simulated (now 100): then 2 x dgx-h100.");
  CHECK(answer_at(20, 40.1).verdict->decision == "Use the 2 x dgx-a100 that are owned: 40 days, 2 kW on average.");
  const SizeAnswer late = answer_at(20, 24);
  CHECK(late.verdict->decision ==
        "None of the simulated sizes meets all conditions by a purchase. The nearest is 6 x dgx-a100 for 400 USD: 25 "
        "days, of which 10 for the delivery, 6 kW on average.");
  CHECK(late.verdict->reason == "Missed: " + late.why_none + ".");
  CHECK(late.verdict->changes == "6 x dgx-a100 would do with a deadline of 25.0 days.");
  CHECK_FALSE(late.cheapest);
  CHECK(
      late.why_none ==
      "the deadline: the fastest of the simulated sizes, 6 x dgx-a100, takes 15.0 days after a delivery of 10.0 days");
}

TEST_CASE("a training that grows with its nodes is judged by its own end, with what would change the decision",
          "[size]") {
  const auto answer_at = [](double deadline, double last = 30, double share = 1, double confidence = 0) {
    const Prices prices =
        prices_of(fmt::format("purchase: {{node: {{dgx-a100: 100}}, delivery: {{dgx-a100: [{{nodes: 4, after: 10 d}}, "
                              "{{after: {:.17g} d}}]}}}}\n",
                              last));
    SizeRow row = evaluated_row(prices, "dgx-a100", 8, 20 * share);
    row.doubt.spread = 0.1;
    row.phases.emplace_back();
    row.phases.front().nodes = 4;
    row.phases.front().begin_days = 10;
    row.phases.front().alone_days = 40 * share;
    SizeAnswer answer;
    answer.currency = "USD";
    answer.days = deadline;
    answer.confidence = confidence;
    answer.purchase = true;
    answer.rows = {row};
    judge_sizes(answer, prices);
    return answer;
  };
  const SizeAnswer answer = answer_at(45);
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->end_days == Approx(40));  // half of it by day 30, the rest in 10 days
  CHECK(answer.cheapest->wait_days == 30);
  CHECK(answer.cheapest->paid_gpu_hours == Approx(24 * (20 * 32 + 10 * 64)));
  CHECK(*answer.cheapest->on_time ==
        Approx(DoubtModel::shipped().probability_within(answer.cheapest->doubt, 0.5 + 15.0 / 20)));
  CHECK_THAT(answer.verdict->decision,
             Catch::Matchers::Contains(": 40 days, as the nodes are delivered (4 nodes after 10 days, all after 30)"));
  const auto threshold_of = [&answer](const std::string& quantity) {
    const auto found = std::ranges::find(answer.thresholds, quantity, &SizeThreshold::quantity);
    REQUIRE(found != answer.thresholds.end());
    return found->threshold;
  };
  CHECK(threshold_of("deadline") == Approx(40));
  CHECK(threshold_of("delivery of dgx-a100 in days") == Approx(40));
  CHECK(threshold_of("time of dgx-a100 in % of the simulated") == Approx(125));
  CHECK(answer_at(40.01).cheapest);
  CHECK_FALSE(answer_at(39.99).cheapest);
  CHECK(answer_at(45, 39.99).cheapest);
  CHECK_FALSE(answer_at(45, 40.01).cheapest);
  // The first four nodes end alone after 40 days, before the others come.
  const SizeAnswer ended = answer_at(60, 55);
  REQUIRE(ended.cheapest);
  CHECK(ended.cheapest->end_days == Approx(50));
  CHECK_THAT(ended.verdict->decision,
             Catch::Matchers::Contains(
                 ": 50 days, as the nodes are delivered (4 nodes after 10 days, all after 55, when it has ended)"));
  CHECK(answer_at(45, 30, 1.249).cheapest);
  CHECK_FALSE(answer_at(45, 30, 1.251).cheapest);
  const double sure = *answer.cheapest->on_time;
  CHECK(answer_at(45, 30, 1, sure - 0.01).cheapest);
  CHECK_FALSE(answer_at(45, 30, 1, std::min(0.999, sure + 0.01)).cheapest);
}

TEST_CASE("a rent follows the time, and size names the efficiency at which another node type is the cheapest",
          "[size]") {
  const Prices prices = prices_of("gpu_hour: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 3}\n");
  const auto answer_with = [&prices](double a100, double h100) {
    return judged_answer(
        prices, 30, false,
        {evaluated_row(prices, "dgx-a100", 4, 20 * a100), evaluated_row(prices, "dgx-h100", 1, 25 * h100),
         evaluated_row(prices, "dgx-h100", 2, 12 * h100)});
  };
  const SizeAnswer answer = answer_with(1, 1);
  REQUIRE(answer.cheapest);
  CHECK(cluster_of(*answer.cheapest) == "2 x dgx-h100");  // 13824 USD; four A100 cost 15360
  std::size_t found = 0;
  for (const SizeThreshold& t : answer.thresholds) {
    if (!t.quantity.starts_with("time of ")) continue;
    ++found;
    const bool is_h100 = t.quantity == "time of dgx-h100 in % of the simulated";
    CHECK(t.value == 100);
    CHECK(t.threshold == Approx(is_h100 ? 100 * 15360.0 / 13824 : 100 * 13824.0 / 15360));
    CHECK(fmt::format("{} x {}", t.nodes, t.node) == "4 x dgx-a100");
    const auto winner_at = [&](double share) {
      return cluster_of(*(is_h100 ? answer_with(1, share) : answer_with(share, 1)).cheapest);
    };
    const double share = t.threshold / 100, past_threshold = is_h100 ? 1e-6 : -1e-6;
    CHECK(winner_at(share * (1 - past_threshold)) == "2 x dgx-h100");
    CHECK(winner_at(share * (1 + past_threshold)) == "4 x dgx-a100");
  }
  CHECK(found == 2);
}

namespace {

/// Sizes that are rented on demand or for a reserved month, or bought.
SizeAnswer rented_sizes(double h100_hour, double a100_month_hour, double budget = 0, double spread = 0) {
  const Prices prices = prices_of(
      fmt::format("gpu_hour: {{a100-sxm4-80gb: 1, h100-sxm5-80gb: {}}}\nreserved: [{{months: 1, gpu_hour: "
                  "{{a100-sxm4-80gb: {}}}}}]\npurchase: {{node: {{dgx-a100: 87600, dgx-h100: 262800}}, years: 5}}\n",
                  h100_hour, a100_month_hour));
  std::vector<SizeRow> rows{evaluated_row(prices, "dgx-a100", 4, 20), evaluated_row(prices, "dgx-h100", 1, 25),
                            evaluated_row(prices, "dgx-h100", 2, 12)};
  for (SizeRow& row : rows) {
    row.doubt.spread = spread;
    row.rents = {{"on demand", "", row.money, row.time, 1, 0, row.energy}};
    if (row.node == "dgx-a100")  // 20 days are less than the term of 730 h
      row.rents.push_back({"reserved 1 month", "", 730 * 32 * a100_month_hour, row.time, 1, 0, row.energy});
  }
  SizeAnswer answer;
  answer.scenario = "question";
  answer.currency = prices.currency;
  answer.days = 30;
  answer.budget = budget;
  answer.rows = rows;
  judge_sizes(answer, prices);
  return answer;
}

const SizeChoice& choice_on(const SizeAnswer& answer, const std::string& node, const std::string& terms) {
  const auto found = std::ranges::find_if(
      answer.choices, [&](const SizeChoice& choice) { return choice.node == node && choice.terms == terms; });
  REQUIRE(found != answer.choices.end());
  return *found;
}

std::string decision_of(const SizeAnswer& answer) {
  for (const SizeChoice& choice : answer.choices)
    if (choice.decision) return fmt::format("{} x {} {}", choice.nodes, choice.node, choice.terms);
  return "none";
}

}  // namespace

TEST_CASE("size compares renting on demand, reserved terms and buying, with the prices at which they cost the same",
          "[size][costs]") {
  const SizeAnswer answer = rented_sizes(3, 0.5);
  CHECK(decision_of(answer) == "4 x dgx-a100 reserved 1 month");
  const SizeChoice &reserved = choice_on(answer, "dgx-a100", "reserved 1 month"),
                   &a100 = choice_on(answer, "dgx-a100", "on demand"),
                   &h100 = choice_on(answer, "dgx-h100", "on demand"),
                   &purchase_choice = choice_on(answer, "dgx-a100", "purchase");
  CHECK(reserved.money == 730 * 32 * 0.5);
  CHECK(a100.money == Approx(20 * 24 * 32));
  CHECK(h100.nodes == 2);  // 12 days on two cost less than 25 days on one
  CHECK(h100.money == Approx(12 * 24 * 16 * 3));
  CHECK(h100.power == 2000);
  CHECK(purchase_choice.purchase == 4 * 87600);
  CHECK(purchase_choice.money == Approx(4 * 87600 / 5.0 * 20 / 365));
  REQUIRE((a100.break_even && h100.break_even && reserved.break_even && purchase_choice.break_even));
  CHECK(*a100.break_even == Approx(11680.0 / 15360));
  CHECK(*h100.break_even == Approx(3 * 11680.0 / 13824));
  CHECK(*reserved.break_even == Approx(0.5 * 13824 / 11680));
  CHECK(*purchase_choice.break_even == Approx(87600 * 11680 / purchase_choice.money));
  // On both sides of a break-even the decision differs.
  CHECK(decision_of(rented_sizes(*h100.break_even * 1.001, 0.5)) == decision_of(answer));
  CHECK(decision_of(rented_sizes(*h100.break_even * 0.999, 0.5)) == "2 x dgx-h100 on demand");
  CHECK(decision_of(rented_sizes(3, *reserved.break_even * 0.999)) == decision_of(answer));
  CHECK(decision_of(rented_sizes(3, *reserved.break_even * 1.001)) == "2 x dgx-h100 on demand");
  REQUIRE(answer.verdict);
  CHECK(answer.verdict->decision == "Rent 4 x dgx-a100 (reserved 1 month) for 11,680 USD: 20 days, 4 kW on average.");
  CHECK(answer.verdict->reason ==
        "Next of the simulated sizes comes 2 x dgx-h100 (on demand): 13,824 USD (18.4 % more), 12 days. Not all plans "
        "are proved to be the "
        "best: a "
        "longer search (--work) may change the order. To buy 4 x dgx-a100 costs 350,400 USD, as much as renting (on "
        "demand) "
        "if it is in use 25 % of the time.");
  CHECK(
      answer.verdict->changes ==
      "Among the simulated sizes, the decision changes if the hourly rent of h100-sxm5-80gb falls below 2.535 USD (now "
      "3): then 2 x dgx-h100 (on "
      "demand); if the time of the training on dgx-h100 falls below 84.49 % of the simulated (now 100): then 2 x "
      "dgx-h100 (on demand); if the hourly rent of a100-sxm4-80gb (reserved 1 month) rises above 0.5918 USD (now 0.5): "
      "then 2 x "
      "dgx-h100 (on demand).");
  const SizeAnswer budget_answer = rented_sizes(3, 0.5, 12000);
  CHECK(decision_of(budget_answer) == decision_of(answer));
  CHECK(choice_on(budget_answer, "dgx-h100", "on demand").missed == "budget");
  CHECK(decision_of(rented_sizes(3, 0.5, 11000)) == "none");
}

TEST_CASE("the choices of size and the verdict are in its JSON, with intervals and risk", "[size]") {
  SizeAnswer answer = rented_sizes(3, 0.5, 0, 0.1);
  answer.choices.front().network = "2:1";
  answer.choices.front().used_money = 9000;
  answer.choices.front().beside = "dgx-a100";
  answer.choices.front().beside_nodes = 2;
  answer.choices.front().risk = 0.14;
  answer.choices.front().tokens = 2e6;
  answer.choices.front().tokens_per_joule = 20;
  CHECK(answer.choices.front().per_million() == Approx(answer.choices.front().money / 2));
  const nlohmann::ordered_json j = size_fields().json(answer);
  const nlohmann::ordered_json& choices = j.at("choices");
  REQUIRE(choices.size() == answer.choices.size());
  std::set<std::string> keys;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const SizeChoice& choice = answer.choices[i];
    for (const auto& [key, field] : choices[i].items()) keys.insert("choices[]." + key);
    REQUIRE(choice.likely_days);
    CHECK(choices[i].at("days_interval").at(0) == choice.likely_days->front());
    CHECK(choice.likely_days->front() < choice.days);
    CHECK(choice.likely_days->back() > choice.days);
    CHECK(*choice.on_time > 0.5);
    CHECK(choices[i].at("on_time_probability") == *choice.on_time);
  }
  for (const FieldRow& row : size_fields().rows())
    if (row.path.starts_with("choices[].")) CHECK(keys.count(row.path) == 1);
  CHECK(j.at("verdict").at("decision") == answer.verdict->decision);
  CHECK_THAT(answer.verdict->decision,
             Catch::Matchers::Contains("with a probability of 80 %), in time with a probability"));
  SizeAnswer read_back;
  size_fields().read(j, read_back);
  CHECK(size_fields().json(read_back)["choices"] == choices);
  CHECK(size_fields().json(read_back)["verdict"] == j["verdict"]);
}

TEST_CASE("size searches node types from the least cost per FLOP on, by the rent or purchase price of a device",
          "[size]") {
  const Catalog catalog;
  const NodeType node = read_node(catalog.resolve("node", Node::scalar_node("dgx-h100")), catalog);
  const Prices prices = prices_of("node_hour: {dgx-h100: 40}\npurchase: {node: {dgx-h100: 300000}}\n");
  CHECK(compared_price(prices, node, false) == 5);
  CHECK(compared_price(prices, node, true) == 37500);
  CHECK(compared_price(Prices{}, node, false) == 1);
  CHECK_THROWS_AS(compared_price(prices_of("gpu_hour: {t4: 1}\n"), node, false), UserError);
}

TEST_CASE("without prices the fewest device-hours decide", "[size]") {
  const Prices no_prices;
  const SizeAnswer answer = judged_answer(
      no_prices, 30, false, {evaluated_row(no_prices, "dgx-a100", 4, 20), evaluated_row(no_prices, "dgx-h100", 2, 12)});
  CHECK(answer.choices.empty());
  REQUIRE(answer.verdict);
  CHECK(answer.verdict->decision == "Take 2 x dgx-h100: 12 days, 2 kW on average, 4608 device-hours.");
  CHECK(answer.verdict->reason ==
        "Next of the simulated sizes comes 4 x dgx-a100: 15,360 device-hours (233 % more), 20 days. Not all plans are "
        "proved to be the best: a "
        "longer search (--work) may change the order.");
  CHECK(
      answer.verdict->changes ==
      "Among the simulated sizes, the decision changes if the deadline falls below 12 days (now 30): then none of the "
      "simulated sizes; if the "
      "time of the training on dgx-a100 falls below 30 % of the simulated (now 100): then 4 x dgx-a100; if the time of "
      "the training on dgx-h100 rises above 250 % of the simulated (now 100): then 4 x dgx-a100. Prices (--prices) may "
      "change it, too.");
}

TEST_CASE("a budget that would do is enough", "[size]") {
  const double cost = GENERATE(0.123, 7.0, 12.3456, 21944.4, 21944321.0);
  const auto judged_with = [cost](double budget) {
    SizeAnswer answer;
    answer.currency = "USD";
    answer.days = 10;
    answer.budget = budget;
    SizeRow row = evaluated_row({}, "dgx-a100", 4, 5);
    row.money = cost;
    answer.rows = {row};
    judge_sizes(answer, {});
    return answer;
  };
  const SizeAnswer late = judged_with(cost / 2);
  REQUIRE(late.verdict);
  std::string budget = late.verdict->changes;
  INFO(budget);
  const std::string begin = "4 x dgx-a100 would do with a budget of ";
  REQUIRE(budget.find(begin) != std::string::npos);
  budget = budget.substr(budget.find(begin) + begin.size());
  std::erase(budget, ',');
  CHECK_FALSE(late.cheapest);
  CHECK(judged_with(std::stod(budget)).cheapest);
}

}  // namespace scenarios_test_size_choices
