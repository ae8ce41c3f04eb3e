// The one decision of `trainyard size`, and the values that change it.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "tests/scenarios/sized_rows.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_size_decision {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// A question whose quantities can be varied by the names of the thresholds.
struct VariedQuestion {
  std::map<std::string, double> values{{"gpu_hour of a100-sxm4-80gb", 1},
                                       {"gpu_hour of h100-sxm5-80gb", 3},
                                       {"gpu_hour of a100-sxm4-80gb (reserved 1 month)", 0.9},
                                       {"gpu_hour of h100-sxm5-80gb (reserved 1 month)", 2.6},
                                       {"gpu_hour of h100-sxm5-80gb (spot)", 1.9},
                                       {"purchase of dgx-a100", 87600},
                                       {"purchase of dgx-h100", 262800},
                                       {"purchase of a switch", 5000},
                                       {"purchase of a cable", 100},
                                       {"deadline", 45},
                                       {"budget", 0},
                                       {"delivery of dgx-h100 in days", 5},
                                       {"time of dgx-a100 in % of the simulated", 100},
                                       {"time of dgx-h100 in % of the simulated", 100},
                                       {"tokens", 1e12},
                                       {"power of the site in kW", 80},
                                       {"kwh at the site", 0.5},
                                       {"interest in %", 6},
                                       {"staff in %", 3},
                                       {"space in %", 2},
                                       {"depreciation in years", 4}};
  bool purchase = false, by_total = false, h100_spot = true;
  double confidence = 0;
  static constexpr double kNodePower = 10e3;  // W

  SizeAnswer answer() const {
    const auto price = [this](const std::string& name) { return fmt::format("{:.17g}", values.at(name)); };
    const std::string a100 = "gpu_hour of a100-sxm4-80gb", h100 = "gpu_hour of h100-sxm5-80gb";
    const Prices prices =
        prices_of("gpu_hour: {a100-sxm4-80gb: " + price(a100) + ", h100-sxm5-80gb: " + price(h100) +
                  "}\nreserved: [{months: 1, gpu_hour: {a100-sxm4-80gb: " + price(a100 + " (reserved 1 month)") +
                  ", h100-sxm5-80gb: " + price(h100 + " (reserved 1 month)") +
                  "}}]\nspot: {interruption: 60 h, gpu_hour: {h100-sxm5-80gb: " + price(h100 + " (spot)") +
                  "}}\npurchase: {node: {dgx-a100: " + price("purchase of dgx-a100") +
                  ", dgx-h100: " + price("purchase of dgx-h100") + "}, switch: " + price("purchase of a switch") +
                  ", cable: " + price("purchase of a cable") + ", kwh: " + price("kwh at the site") +
                  ", years: " + price("depreciation in years") +
                  fmt::format(", interest: {:.17g}, staff: {:.17g}, space: {:.17g}", values.at("interest in %") / 100,
                              values.at("staff in %") / 100, values.at("space in %") / 100) +
                  ", delivery: {dgx-h100: " + price("delivery of dgx-h100 in days") + " d}}\n");
    SizeAnswer answer;
    answer.scenario = "question";
    answer.currency = prices.currency;
    answer.days = values.at("deadline");
    answer.budget = values.at("budget");
    answer.purchase = purchase;
    if (by_total) answer.total_years = prices.purchase.years;
    answer.confidence = confidence;
    for (const char* node : {"dgx-a100", "dgx-h100"})
      answer.site_limits.push_back({node, 8, "power", kNodePower, values.at("power of the site in kW") * 1e3, 1});
    for (const auto& [node, nodes, days] : {std::tuple{"dgx-a100", 3, 58.0},
                                            {"dgx-a100", 4, 44.0},
                                            {"dgx-a100", 6, 31.0},
                                            {"dgx-h100", 1, 50.0},
                                            {"dgx-h100", 2, 26.0},
                                            {"dgx-h100", 3, 18.0}}) {
      const double time = days * values.at(fmt::format("time of {} in % of the simulated", node)) / 100;
      if (nodes * kNodePower / 1e3 > values.at("power of the site in kW")) continue;
      SizeRow row = evaluated_row(prices, node, nodes, time * values.at("tokens") / 1e12);
      row.tokens = values.at("tokens");
      row.doubt.spread = 0.1;
      row.rents = {{"on demand", "", row.money, row.time}};
      for (const Prices::Offer& offer : prices.offers) {
        const bool is_spot = offer.months == 0;
        const std::string gpu = std::string(node) == "dgx-a100" ? "a100-sxm4-80gb" : "h100-sxm5-80gb";
        const auto hour = Prices::gpu_hour_among(offer.rents, node, gpu, 8);
        if (!hour || (is_spot && !h100_spot)) continue;
        const double seconds = row.time * (is_spot ? 1.02 : 1);
        row.rents.push_back(
            {offer.name(), "", reserved_hours(offer, seconds / 3600).cost * *hour * row.gpus, seconds, 1});
      }
      answer.rows.push_back(row);
    }
    judge_sizes(answer, prices);
    return answer;
  }
};

std::string decided_cluster(const SizeAnswer& answer) {
  return answer.cheapest
             ? fmt::format("{} x {} {}", answer.cheapest->nodes, answer.cheapest->node, answer.cheapest->terms)
             : "none";
}

}  // namespace

TEST_CASE("all parts of an answer of size are about one decision, and each of its thresholds holds on both sides",
          "[size]") {
  VariedQuestion question;
  const int cost = GENERATE(0, 1, 2);  // a rent, a purchase, or the cost of owning for years
  question.purchase = cost > 0;
  question.by_total = cost == 2;
  question.h100_spot = GENERATE(true, false);
  question.confidence = GENERATE(0.0, 0.9);
  const double budget = GENERATE(0.0, 1.0);
  const SizeAnswer free_answer = question.answer();
  REQUIRE(free_answer.cheapest);
  question.values["budget"] = budget * free_answer.cheapest->cost * 1.3;
  const SizeAnswer answer = question.answer();
  REQUIRE(answer.cheapest);
  CAPTURE(cost, question.h100_spot, question.confidence, budget, decided_cluster(answer));
  const auto decision = std::ranges::find_if(answer.choices, &SizeChoice::decision);
  REQUIRE(decision != answer.choices.end());
  CHECK(fmt::format("{} x {} {}", decision->nodes, decision->node, decision->terms) == decided_cluster(answer));
  CHECK((question.by_total   ? decision->total
         : question.purchase ? decision->purchase
                             : decision->money) == answer.cheapest->cost);
  CHECK(decision->days == answer.cheapest->end_days);
  CHECK_THAT(answer.verdict->decision,
             Catch::Matchers::StartsWith(
                 question.purchase ? fmt::format("Buy {} x {} for {}: ", decision->nodes, decision->node,
                                                 money_words(decision->purchase, "USD"))
                                   : fmt::format("Rent {} x {} ({}) for {}: ", decision->nodes, decision->node,
                                                 decision->terms, money_words(answer.cheapest->cost, "USD"))));
  std::set<std::string> quantities;
  for (const SizeThreshold& t : answer.thresholds) {
    CAPTURE(t.quantity, t.value, t.threshold);
    CHECK(t.threshold / t.value >= 0.02);  // no value that no question may have
    CHECK(t.threshold / t.value <= 50);
    quantities.insert(t.quantity);
    REQUIRE(question.values.contains(t.quantity));
    CHECK(t.value == Approx(question.values.at(t.quantity)));
    const auto decided_at = [&](double value) {
      VariedQuestion varied = question;
      varied.values[t.quantity] = value;
      return decided_cluster(varied.answer());
    };
    const double beyond = t.threshold < t.value ? -1e-6 : 1e-6;
    CHECK(decided_at(t.threshold * (1 - beyond)) == decided_cluster(answer));
    CHECK(decided_at(t.threshold * (1 + beyond)) ==
          (t.node.empty() ? "none" : fmt::format("{} x {} {}", t.nodes, t.node, t.terms)));
  }
  CHECK(quantities.contains("deadline"));
  CHECK(quantities.contains("budget") == (budget > 0));
  CHECK(std::ranges::any_of(quantities, [](const std::string& q) { return q.starts_with("time of "); }));
  CHECK(quantities.contains("tokens"));
  CHECK(quantities.contains("power of the site in kW"));
  // Between the thresholds of a quantity the decision stays.
  for (const auto& [quantity, value] : question.values) {
    if (value <= 0) continue;
    double low = value / 2, high = value * 2;
    for (const SizeThreshold& t : answer.thresholds)
      if (t.quantity == quantity) (t.threshold < t.value ? low : high) = t.threshold;
    for (const double share : {0.001, 0.3, 0.7, 0.999}) {
      VariedQuestion varied = question;
      varied.values[quantity] = low + share * (high - low);
      CAPTURE(quantity, low, high, share);
      CHECK(decided_cluster(varied.answer()) == decided_cluster(answer));
    }
  }
}

TEST_CASE("the cost of owning decides if it is asked for, and by the price the answer says which one costs less to own",
          "[size][costs]") {
  const auto answer_with = [](bool by_total, double kwh) {
    const Prices prices = prices_of(
        fmt::format("purchase: {{node: {{dgx-a100: 100000, dgx-h100: 310000}}, kwh: {:.17g}, interest: 0.06, staff: "
                    "0.03, space: 0.02}}\n",
                    kwh));
    SizeAnswer answer;
    answer.currency = "USD";
    answer.days = 30;
    answer.purchase = true;
    if (by_total) answer.total_years = prices.purchase.years;
    answer.rows = {evaluated_row(prices, "dgx-a100", 3, 20), evaluated_row(prices, "dgx-h100", 1, 20)};
    judge_sizes(answer, prices);
    return answer;
  };
  using Catch::Matchers::Contains;
  const SizeAnswer by_price = answer_with(false, 5), by_total = answer_with(true, 5);
  CHECK(decided_cluster(by_price) == "3 x dgx-a100 purchase");
  CHECK(decided_cluster(by_total) == "1 x dgx-h100 purchase");
  const Ownership &a100 = *by_price.cheapest->ownership, &h100 = *by_total.cheapest->ownership;
  CHECK(h100.total() == Approx(4 * (310000 * 0.06 / (1 - std::pow(1.06, -4)) + 310000 * 0.05 + 8760 * 5)));
  CHECK_THAT(by_price.verdict->reason,
             Contains(fmt::format(" But 1 x dgx-h100 costs less to own: {} for 4 years of use, {:.3g} % less than the "
                                  "{} of 3 x dgx-a100 (electricity and cooling: 175,200 USD and 525,600 USD). --by "
                                  "total-cost decides so.",
                                  money_words(h100.total(), "USD"), 100 * (1 - h100.total() / a100.total()),
                                  money_words(a100.total(), "USD"))));
  CHECK(by_total.verdict->decision ==
        fmt::format("Buy 1 x dgx-h100 for 310,000 USD: 20 days, 1 kW on average. It costs {} to own for 4 years of "
                    "use, 175,200 USD of it for electricity and cooling.",
                    money_words(h100.total(), "USD")));
  CHECK_THAT(by_total.verdict->reason, Contains(" 3 x dgx-a100 costs less to buy, 300,000 USD."));
  const auto kwh = std::ranges::find(by_total.thresholds, "kwh at the site", &SizeThreshold::quantity);
  REQUIRE(kwh != by_total.thresholds.end());
  CHECK(decided_cluster(answer_with(true, kwh->threshold * 0.999)) == "3 x dgx-a100 purchase");
  CHECK(decided_cluster(answer_with(true, kwh->threshold * 1.001)) == "1 x dgx-h100 purchase");
  CHECK_THAT(answer_with(false, kwh->threshold * 0.99).verdict->reason, !Contains("to own"));
  const nlohmann::ordered_json json = size_fields().json(by_total);
  CHECK(json.at("total_cost_years") == 4);
  CHECK(json.at("cheapest").at("cost") == h100.total());
  CHECK(json.at("cheapest").at("ownership").at("total") == h100.total());
  CHECK_FALSE(size_fields().json(by_price).contains("total_cost_years"));
  CHECK_THAT(size_screen(by_total), Contains("bought by its cost to own for 4 years") && Contains("4 years    ") &&
                                        Contains("price of a kWh at the site") &&
                                        Contains("to own for 4 years of use"));
}

TEST_CASE("the energy of a size covers the hours that its cost covers, those of spot interruptions too",
          "[size][costs]") {
  const Prices prices =
      prices_of("gpu_hour: {a100-sxm4-80gb: 2}\nspot: {interruption: 60 h, gpu_hour: {a100-sxm4-80gb: 1}}\n");
  SizeRow row = evaluated_row(prices, "dgx-a100", 4, 20);
  row.tokens = 1e12;
  row.rents = {{"on demand", "", row.money, row.time, 1, 480, row.energy},
               {"spot", "", row.money * 0.55, row.time * 1.1, 0.9, 528, row.energy * 1.08}};
  const SizeAnswer answer = judged_answer(prices, 30, false, {row}), dear = judged_answer(prices, 21, false, {row});
  REQUIRE((answer.cheapest && dear.cheapest));
  CHECK(answer.cheapest->terms == "spot");
  CHECK(answer.cheapest->paid_energy == row.energy * 1.08);
  CHECK(answer.cheapest->tokens_per_joule() == row.tokens / (row.energy * 1.08));
  CHECK(dear.cheapest->terms == "on demand");
  CHECK(dear.cheapest->paid_energy == row.energy);
  for (const SizeChoice& choice : answer.choices) {
    const bool is_spot = choice.terms == "spot";
    CHECK(choice.power == Approx(is_spot ? row.energy * 1.08 / (row.time * 1.1) : 4000));
    CHECK(choice.tokens_per_joule == row.tokens / (row.energy * (is_spot ? 1.08 : 1)));
  }
  const auto megawatt_hours = [](double joules) { return fmt::format("{:.3g}", joules / 3.6e9); };
  CHECK_THAT(size_screen(answer), Catch::Matchers::Contains(megawatt_hours(row.energy * 1.08)));
  CHECK_THAT(size_screen(dear), Catch::Matchers::Contains(megawatt_hours(row.energy)));
  CHECK(size_fields().json(answer).at("cheapest").at("paid_energy_J") == row.energy * 1.08);
}

TEST_CASE("a purchase that is delivered after the deadline says so beside the decision", "[size]") {
  const Prices prices =
      prices_of("purchase: {node: {dgx-a100: 100, dgx-h100: 300}, delivery: {dgx-h100: 120 d}, years: 4}\n");
  const auto reason_at = [&prices](double days) {
    return judged_answer(prices, days, true,
                         {evaluated_row(prices, "dgx-a100", 4, 25), evaluated_row(prices, "dgx-h100", 2, 20)})
        .verdict->reason;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(reason_at(30), Contains("2 x dgx-h100 misses the deadline, since it is delivered after 120.0 days"));
  CHECK_THAT(reason_at(130), Contains("2 x dgx-h100 misses the deadline") && !Contains("since it is delivered"));
  CHECK_THAT(reason_at(150), !Contains("misses the deadline"));
}

TEST_CASE("a tie and a value that no question may have are no thresholds", "[size]") {
  // Equal costs: any change of a price decides, so no price is named with its own value.
  const Prices prices = prices_of("gpu_hour: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 2}\n");
  const SizeAnswer equal = judged_answer(
      prices, 60, false, {evaluated_row(prices, "dgx-a100", 2, 20), evaluated_row(prices, "dgx-h100", 1, 20)});
  REQUIRE(equal.rows[0].money == equal.rows[1].money);
  for (const SizeThreshold& t : equal.thresholds)
    if (t.quantity != "deadline") CHECK(std::abs(t.threshold / t.value - 1) > 1e-9);
  // A reserved term is paid to its end, so another node type costs as much only in no time at all.
  const Prices far = prices_of("gpu_hour: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 200}\n");
  const SizeAnswer dear =
      judged_answer(far, 60, false, {evaluated_row(far, "dgx-a100", 2, 20), evaluated_row(far, "dgx-h100", 1, 20)});
  for (const SizeThreshold& t : dear.thresholds) {
    CAPTURE(t.quantity, t.threshold);
    CHECK(t.threshold / t.value >= 0.02);
    CHECK(t.threshold / t.value <= 50);
  }
}

TEST_CASE("a missed deadline is named with the probability to meet it, if one is asked for", "[size]") {
  const Prices prices = prices_of("gpu_hour: {a100-sxm4-80gb: 1}\n");
  SizeAnswer answer;
  answer.currency = "USD";
  answer.days = 29.9;
  answer.confidence = 0.95;
  answer.rows = {evaluated_row(prices, "dgx-a100", 2, 26.4)};
  answer.rows.front().doubt.spread = 0.1;
  judge_sizes(answer, prices);
  REQUIRE(answer.nearest);
  REQUIRE(answer.nearest->on_time);
  CHECK(*answer.nearest->on_time < 0.95);
  CHECK_THAT(answer.why_none,
             Catch::Matchers::Contains(fmt::format("takes 26.4 days, in time with a probability of {}, not of 95 %",
                                                   percent(*answer.nearest->on_time, 0))));
  // A probability just below the requested one is not rounded up to it.
  const StepRange range = DoubtModel::shipped().range(answer.rows.front().doubt, 2 * 0.9496 - 1);
  answer.days = answer.rows.front().days() * range.high;
  answer.cheapest = answer.nearest = std::nullopt;
  judge_sizes(answer, prices);
  REQUIRE(answer.nearest);
  CHECK(*answer.nearest->on_time == Approx(0.9496).margin(1e-6));
  CHECK_THAT(answer.why_none, Catch::Matchers::Contains("in time with a probability of 94.9 %, not of 95 %"));
  const std::string screen = size_screen(answer);
  CHECK_THAT(screen, Catch::Matchers::Contains("94.9 %"));
  CHECK_THAT(screen, Catch::Matchers::Contains("with a probability of 95 %"));
  CHECK_THAT(screen.substr(screen.rfind("meets  ")), !Catch::Matchers::Contains("95 %"));
}

TEST_CASE("two sizes whose costs differ less than their doubt are called equal", "[size]") {
  const auto answer_with = [](double h100_days) {
    const Prices prices = prices_of("gpu_hour: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 2}\n");
    std::vector<SizeRow> rows{evaluated_row(prices, "dgx-a100", 2, 20),
                              evaluated_row(prices, "dgx-h100", 1, h100_days)};
    for (SizeRow& row : rows) row.doubt.spread = 0.1;
    return judged_answer(prices, 60, false, rows);
  };
  const SizeAnswer close = answer_with(20.6), far = answer_with(30);
  REQUIRE(close.verdict->sure_order);
  StepDoubt doubt;
  doubt.spread = 0.1;
  CHECK(*close.verdict->sure_order == Approx(probability_of_longer(20, doubt, 20.6, doubt)));
  CHECK_THAT(close.verdict->reason,
             Catch::Matchers::Contains(fmt::format(
                 "(3 % more; equal within the doubt: it costs more with a probability of {:.0f} %), 20.6 days",
                 *close.verdict->sure_order * 100)));
  CHECK(*far.verdict->sure_order > 0.9);
  CHECK_THAT(far.verdict->reason, !Catch::Matchers::Contains("equal within"));
  CHECK(size_fields().json(close).at("verdict").at("sure_order") == *close.verdict->sure_order);
}

TEST_CASE("buying is compared with the rent that costs least for its use, and the break-even names it",
          "[size][costs]") {
  // Owning costs 2,500 a year without power, renting on demand 8,760 in full use.
  const Prices prices = prices_of("purchase: {node: {dgx-a100: 1000}, years: 4}\n");
  Ownership o = owned_nodes(prices, "dgx-a100", "a100-sxm4-80gb", 10, 1);
  CHECK(o.year() == 2500);
  REQUIRE(break_even(o));
  CHECK(break_even(o)->use == Approx(2500.0 / 8760));
  CHECK(break_even(o)->terms == "on demand");
  o.rents.push_back({"reserved 36 months", 3000, 3000});  // costs more than owning, at any use
  CHECK(break_even(o)->terms == "on demand");
  CHECK(least_rent(o)->terms == "reserved 36 months");
  o.rents.back() = {"reserved 36 months", 2400, 2400};
  CHECK_FALSE(break_even(o));
  o.rents.back() = {"reserved 36 months", 1500, 4000};  // a part of the term is paid if it is not used
  CHECK(break_even(o)->terms == "reserved 36 months");
  CHECK(break_even(o)->use == Approx(0.4));
}

TEST_CASE("a plan that may run out of memory is said to be at risk in the verdict", "[size]") {
  const Prices prices = prices_of("gpu_hour: {h100-sxm5-80gb: 2}\n");
  std::vector<SizeRow> rows{evaluated_row(prices, "dgx-h100", 1, 10)};
  rows.front().risk = 0.14;
  CHECK_THAT(judged_answer(prices, 60, false, rows).verdict->decision,
             Catch::Matchers::EndsWith(", at risk: out of memory with a probability of 14 %."));
  rows.front().risk = 0.04;
  CHECK_THAT(judged_answer(prices, 60, false, rows).verdict->decision, !Catch::Matchers::Contains("at risk"));
}

TEST_CASE("a question of a purchase says which rent would do", "[size]") {
  VariedQuestion question;
  question.purchase = true;
  question.values["budget"] = 100000;
  const SizeAnswer answer = question.answer();
  CHECK_FALSE(answer.cheapest);
  const SizeChoice* rent = nullptr;
  for (const SizeChoice& each : answer.choices)
    if (each.terms != "purchase" && each.missed.empty() && (!rent || each.money < rent->money)) rent = &each;
  REQUIRE(rent);
  CHECK_THAT(answer.verdict->reason,
             Catch::Matchers::Contains(fmt::format(" A rent would do: {} x {} ({}) costs {} and takes ", rent->nodes,
                                                   rent->node, rent->terms, money_words(rent->money, "USD"))));
}

TEST_CASE("the answer says that more nodes than the most of a search are not tried", "[size]") {
  const Prices prices = prices_of("gpu_hour: {a100-sxm4-80gb: 1}\n");
  const auto reason_with = [&prices](int nodes) {
    return judged_answer(prices, 10, false, {evaluated_row(prices, "dgx-a100", nodes, 20)}).why_none;
  };
  CHECK_THAT(reason_with(4096), Catch::Matchers::Contains("takes 20.0 days; more than 4,096 nodes are not tried"));
  CHECK_THAT(reason_with(2048), !Catch::Matchers::Contains("not tried"));
}

}  // namespace scenarios_test_size_decision
