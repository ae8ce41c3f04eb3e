// Sizes next to the fewest enough in `trainyard size`: they are simulated, or said not to be.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>

#include "models/fitted/measured_family.hpp"
#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_gaps.hpp"
#include "tests/scenarios/sized_rows.hpp"

namespace scenarios_test_size_gaps {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

SizeAnswer bought_answer(double days, double tokens, const std::string& nodes = "{dgx-a100: 100, dgx-h100: 280}") {
  SizeOptions options;
  options.days = days;
  options.purchase = true;
  options.node_types = {"dgx-a100", "dgx-h100"};
  options.work = 1e5;
  return size_clusters(
      parse_document(fmt::format("cluster: {{node: dgx-a100}}\nmodel: gpt2\nsoftware: megatron-core\n"
                                 "plan: {{strategy: megatron, global_batch_size: 512, micro_batch_size: 1, seq_length: "
                                 "1024, training: {{tokens: {:.0f}}}, pipeline: {{schedule: 1f1b}}}}\n"
                                 "prices: {{purchase: {{node: {}}}}}\n",
                                 tokens, nodes),
                     "gaps.yaml"),
      "gaps", options);
}

std::string decided(const SizeAnswer& answer) { return answer.cheapest ? nodes_in_words(*answer.cheapest) : "none"; }

}  // namespace

TEST_CASE("a question at each threshold of the deadline and the length has the decision that the threshold names",
          "[size]") {
  constexpr double tokens = 2e11;
  const double alone = bought_answer(1000, tokens).cheapest->end_days;
  const double days = alone / 8.7;  // more nodes than a power of two
  const SizeAnswer answer = bought_answer(days, tokens);
  REQUIRE(answer.cheapest);
  int checked = 0;
  for (const SizeThreshold& t : answer.thresholds) {
    if (t.quantity != "deadline" && t.quantity != "tokens") continue;
    CAPTURE(decided(answer), t.quantity, t.threshold, t.number, t.nodes, t.node);
    CHECK(t.number.empty());
    const double beyond = t.threshold * (t.threshold < t.value ? 1 - 1e-5 : 1 + 1e-3);
    const SizeAnswer there = t.quantity == "deadline" ? bought_answer(beyond, tokens) : bought_answer(days, beyond);
    CHECK(decided(there) == (t.node.empty() ? "none" : nodes_in_words(t)));
    ++checked;
  }
  CHECK(checked >= 3);
  // The size that comes next is the next larger one, unless the other type has one for less.
  const std::vector<Payment> payments = payments_of(answer);
  const Payment* decision = decided_payment(answer, payments);
  const Payment* next = next_payment(answer, payments, *decision);
  REQUIRE(next);
  CHECK(next->row->nodes > decision->row->nodes);
  CHECK(gap_before_next(answer, payments, *decision) == nullptr);
}

TEST_CASE("a threshold beyond which a size may decide that was not simulated says so", "[size]") {
  const Prices prices = prices_of("purchase: {node: {dgx-a100: 100, dgx-h100: 300}}\n");
  SizeAnswer answer;
  answer.currency = "USD";
  answer.days = 30;
  answer.purchase = true;
  answer.rows = {evaluated_row(prices, "dgx-a100", 4, 25), evaluated_row(prices, "dgx-a100", 8, 13),
                 evaluated_row(prices, "dgx-h100", 3, 20)};
  const auto deadline = [&answer]() -> const SizeThreshold& {
    return *std::ranges::find_if(answer.thresholds, [](const SizeThreshold& t) { return t.quantity == "deadline"; });
  };
  judge_sizes(answer, prices);
  CHECK(deadline().number.empty());
  CHECK(deadline().nodes == 8);
  SizeGap gap{{"gpt2", "dgx-a100", 5}, 4, 7, 500};
  answer.gaps = {gap};
  judge_sizes(answer, prices);
  CHECK(deadline().number == "more than");
  CHECK(nodes_in_words(deadline()) == "perhaps more than 4 x dgx-a100");
  CHECK_THAT(answer.verdict->changes, Contains("falls below 25 days (now 30): then perhaps more than 4 x dgx-a100"));
  CHECK_THAT(answer.verdict->reason, Contains("Next of the simulated sizes comes 8 x dgx-a100"));
  // No price makes a larger number of the same type the cheaper one.
  for (const SizeThreshold& t : answer.thresholds)
    if (t.quantity.starts_with("purchase of ")) CHECK(t.number.empty());
  const nlohmann::ordered_json json = size_fields().json(answer);
  CHECK(std::ranges::any_of(json.at("thresholds"), [](const auto& t) { return t.value("number", "") == "more than"; }));
  // Five nodes cost more than the next size, or need more days than the deadline has: the named decision is sure.
  answer.gaps.front().least_cost = 800;
  judge_sizes(answer, prices);
  CHECK(deadline().number.empty());
  CHECK_THAT(answer.verdict->reason, Contains("Next of the simulated sizes comes 8 x dgx-a100"));
  // Three nodes that are late at present, and were not simulated to their end, may be the decision at a later deadline.
  gap = {{"gpt2", "dgx-a100", 3}, 4, 0, 0};
  answer.gaps = {gap};
  answer.rows.push_back(evaluated_row(prices, "dgx-a100", 2, 50));
  judge_sizes(answer, prices);
  const auto later = std::ranges::find_if(
      answer.thresholds, [](const SizeThreshold& t) { return t.quantity == "deadline" && t.threshold > t.value; });
  REQUIRE(later != answer.thresholds.end());
  CHECK(nodes_in_words(*later) == "perhaps fewer than 4 x dgx-a100");
}

TEST_CASE("thresholds of one job beside owned nodes are right, too: sizes of such jobs are filled in", "[size]") {
  constexpr double tokens = 2e11;
  const std::string owned =
      "{dgx-a100: 900, dgx-h100: 280}, owned: {dgx-a100: 8}, cable: 1, switch: 5, switch_ports: 64";
  const double days = bought_answer(1000, tokens).cheapest->end_days / 9.3;
  const SizeAnswer answer = bought_answer(days, tokens, owned);
  REQUIRE(answer.cheapest);
  CAPTURE(decided(answer));
  REQUIRE(answer.cheapest->beside == "dgx-a100");
  int checked = 0;
  for (const SizeThreshold& t : answer.thresholds) {
    if (t.quantity != "deadline" && t.quantity != "tokens") continue;
    CAPTURE(t.quantity, t.threshold, t.number, t.nodes, t.node, t.beside);
    const double beyond = t.threshold * (t.threshold < t.value ? 1 - 1e-5 : 1 + 1e-3);
    const SizeAnswer there =
        t.quantity == "deadline" ? bought_answer(beyond, tokens, owned) : bought_answer(days, beyond, owned);
    if (t.number.empty()) CHECK(decided(there) == (t.node.empty() ? "none" : nodes_in_words(t)));
    ++checked;
  }
  CHECK(checked >= 2);
}

TEST_CASE("with little work, no size takes longer than a smaller one whose plan it can have", "[size]") {
  Node document = read_scenario_document(shipped_file("scenarios/size-llama3-70b.yaml").string());
  set_field(document, "model", Node::scalar_node("llama-3-8b", {}));
  set_field(document, "plan.training.tokens", Node::scalar_node("2e12", {}));
  SizeOptions options;
  options.days = 20;
  options.node_types = {"dgx-h100"};
  options.work = 5e4;
  std::map<int, const SizeRow*> rows;
  const SizeAnswer answer = size_clusters(document, "low", options);
  for (const SizeRow& row : answer.rows)
    if (row.good()) rows[row.nodes] = &row;
  // The search of 16 nodes alone finds no plan that is in time.
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->nodes == 16);
  REQUIRE((rows.contains(8) && rows.contains(32)));
  for (const auto& [nodes, row] : rows)
    for (const int factor : {2, 4}) {
      const auto larger = rows.find(factor * nodes);
      if (larger == rows.end()) continue;
      CAPTURE(nodes, row->plan, larger->first, larger->second->plan);
      CHECK(larger->second->time <= row->time);
    }
}

}  // namespace scenarios_test_size_gaps
