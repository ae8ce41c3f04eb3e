// The decision of `trainyard size`, on sizes whose figures are given instead of simulated.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "scenarios/src/search/size_search.hpp"

namespace scenarios_test_size_choices {

using namespace trainyard;

namespace {

Prices prices_of(const std::string& text) { return read_prices(parse_document(text, "prices.yml")); }

/// A training of so many days on nodes of eight GPUs that draw 1 kW each.
SizeRow evaluated_row(const Prices& prices, const std::string& node, int nodes, double days) {
  const std::string gpu = node == "dgx-a100" ? "a100-sxm4-80gb" : "h100-sxm5-80gb";
  SizeRow row;
  row.model = "gpt2";
  row.node = node;
  row.nodes = nodes;
  row.gpus = 8 * nodes;
  row.plan = "data 8";
  row.step_time = 1;
  row.time = days * 86400;
  row.gpu_hours = days * 24 * row.gpus;
  row.energy = 1000.0 * nodes * row.time;
  if (!prices.rents.empty()) row.money = row.gpu_hours * prices.gpu_hour(node, gpu, 8);
  if (prices.purchase.has_price(node, gpu)) {
    row.ownership = cost_of_ownership(prices.purchase, {{node, gpu, nodes, 8, 8}}, 1000.0 * nodes, 1, 0);
    row.ownership->training = row.ownership->year() * days / 365;
  }
  return row;
}

SizeAnswer judged(const Prices& prices, double days, bool purchase, std::vector<SizeRow> rows) {
  SizeAnswer answer;
  answer.scenario = "question";
  answer.currency = prices.currency;
  answer.days = days;
  answer.purchase = purchase;
  answer.rows = std::move(rows);
  judge_sizes(answer, prices);
  return answer;
}

std::string cluster_of(const SizeRow& row) { return fmt::format("{} x {}", row.nodes, row.node); }

}  // namespace

TEST_CASE("nodes that are owned cost no purchase price, and only bought nodes wait for their delivery",
          "[costs][size]") {
  const Prices prices = prices_of(
      "purchase: {node: {dgx-a100: 100, dgx-h100: {1: 300, 8: 200}}, storage: 70, switch: 50, cable: 2, kwh: 0.1, "
      "owned: {dgx-a100: 2, dgx-h100: 4}, delivery: {a100-sxm4-80gb: 10 d, dgx-h100: 20 d}}\n");
  const auto bought = [&prices](const std::string& node, const std::string& gpu, int nodes) {
    return cost_of_ownership(prices.purchase, {{node, gpu, nodes, 8, 8}}, 1000.0 * nodes, 1, 0);
  };
  const Ownership two = bought("dgx-a100", "a100-sxm4-80gb", 2), six = bought("dgx-a100", "a100-sxm4-80gb", 6);
  CHECK(two.price() == 0);
  CHECK(two.delivery == 0);
  CHECK(two.owned_nodes == 2);
  CHECK(two.year() == Approx(2 * 8760 * 0.1));  // electricity alone
  CHECK(six.purchase_prices.at("nodes") == 400);
  CHECK(six.purchase_prices.at("cables") == 2 * 48);  // the network joins all six
  CHECK(six.price() == 400 + 70 + 50 + 96);
  CHECK(six.delivery == 10 * 86400);
  // The price by quantity is that of the bought nodes.
  CHECK(bought("dgx-h100", "h100-sxm5-80gb", 11).purchase_prices.at("nodes") == 7 * 300);
  CHECK(bought("dgx-h100", "h100-sxm5-80gb", 12).purchase_prices.at("nodes") == 8 * 200);
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(prices_of("purchase: {node: {a: 1}, owned: {a: -1}}\n"), Contains("prices.yml:1:"));
  CHECK_THROWS_WITH(prices_of("purchase: {node: {a: 1}, delivery: {a: 3}}\n"), Contains("prices.purchase.delivery"));
}

TEST_CASE("the deadline of a purchase counts from today, and the delivery that changes the decision is named",
          "[size]") {
  const auto answer_at = [](double days_of_h100, double deadline) {
    const Prices prices =
        prices_of(fmt::format("purchase: {{node: {{dgx-a100: 100, dgx-h100: 150}}, owned: {{dgx-a100: 2}}, delivery: "
                              "{{dgx-a100: 10 d, dgx-h100: {} d}}}}\n",
                              days_of_h100));
    return judged(prices, deadline, true,
                  {evaluated_row(prices, "dgx-a100", 2, 40), evaluated_row(prices, "dgx-a100", 6, 15),
                   evaluated_row(prices, "dgx-h100", 2, 12)});
  };
  const SizeAnswer answer = answer_at(20, 30);
  REQUIRE(answer.cheapest);
  CHECK(cluster_of(*answer.cheapest) == "6 x dgx-a100");  // after 10 + 15 days; two H100 end after 32
  CHECK(days_to_end(answer, *answer.cheapest) == Approx(25));
  const auto changed = [&answer](const std::string& quantity, bool above) {
    for (const SizeThreshold& t : answer.thresholds)
      if (t.quantity == quantity && (t.threshold > t.value) == above) return t;
    FAIL("no threshold of " << quantity);
    return SizeThreshold{};
  };
  const SizeThreshold later = changed("delivery of dgx-a100 in days", true);
  CHECK(later.threshold == Approx(15));  // 30 - 15
  CHECK(later.node.empty());
  const SizeThreshold sooner = changed("delivery of dgx-h100 in days", false);
  CHECK(sooner.threshold == Approx(18));  // 30 - 12
  CHECK(sooner.node == "dgx-h100");
  CHECK(cluster_of(*answer_at(17.9, 30).cheapest) == "2 x dgx-h100");
  CHECK(cluster_of(*answer_at(18.1, 30).cheapest) == "6 x dgx-a100");
  CHECK(changed("deadline", false).threshold == Approx(25));
  CHECK(changed("deadline", true).threshold == Approx(32));
  CHECK(cluster_of(*answer_at(20, 32.1).cheapest) == "2 x dgx-h100");
  CHECK(cluster_of(*answer_at(20, 40.1).cheapest) == "2 x dgx-a100");  // they are there, and cost nothing
  const SizeAnswer late = answer_at(20, 24);
  CHECK_FALSE(late.cheapest);
  CHECK(
      late.why_none ==
      "the deadline: the fastest of the simulated sizes, 6 x dgx-a100, takes 15.0 days after a delivery of 10.0 days");
}

}  // namespace scenarios_test_size_choices
