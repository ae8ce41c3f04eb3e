// The thresholds of `trainyard size` against the answers of questions on both sides of them.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>

#include "scenarios/src/sizing/size_answer.hpp"

namespace scenarios_test_size_thresholds {

using namespace trainyard;

namespace {

/// A question whose quantities have the names of thresholds.
struct AskedQuestion {
  std::map<std::string, double> values{{"deadline", 30}, {"tokens", 2e11}, {"budget", 0}};
  std::map<std::string, double> owned = {};  // number of nodes by their type
  bool purchase = false;
  double work = 5e4;
  int unit = 1;

  SizeAnswer answer() const {
    std::string prices, nodes, owned_nodes;
    for (const auto& [name, value] : values) {
      if (name.starts_with("gpu_hour of ")) prices += fmt::format("{}: {:.17g}, ", name.substr(12), value);
      if (name.starts_with("purchase of dgx")) nodes += fmt::format("{}: {:.17g}, ", name.substr(12), value);
    }
    for (const auto& [name, count] : owned) owned_nodes += fmt::format("{}: {}, ", name, count);
    SizeOptions options;
    options.days = values.at("deadline");
    options.budget = values.at("budget");
    options.purchase = purchase;
    options.unit = unit;
    options.work = work;
    options.node_types = {"dgx-a100", "dgx-h100"};
    return size_clusters(
        parse_document(fmt::format("cluster: {{node: dgx-a100}}\nmodel: gpt2\nsoftware: megatron-core\n"
                                   "plan: {{strategy: megatron, global_batch_size: 512, micro_batch_size: 1, "
                                   "seq_length: 1024, training: {{tokens: {:.0f}}}}}\n",
                                   values.at("tokens")) +
                           (purchase ? fmt::format("prices: {{purchase: {{node: {{{}}}, owned: {{{}}}, switch: 5, "
                                                   "switch_ports: 64, cable: 1}}}}\n",
                                                   nodes, owned_nodes)
                                     : "prices: {gpu_hour: {" + prices + "}}\n"),
                       "asked.yaml"),
        "asked", options);
  }
};

std::string decided(const SizeAnswer& answer) { return answer.cheapest ? nodes_in_words(*answer.cheapest) : "none"; }

}  // namespace

TEST_CASE(
    "just beyond a threshold a question has the decision that the threshold names, and just before it the present one",
    "[size]") {
  AskedQuestion question;
  const bool buys = GENERATE(false, true);
  question.purchase = buys;
  if (!buys) question.values.insert({{"gpu_hour of a100-sxm4-80gb", 1}, {"gpu_hour of h100-sxm5-80gb", 2.2}});
  if (buys) question.values.insert({{"purchase of dgx-a100", 100}, {"purchase of dgx-h100", 240}});
  if (buys) question.owned = {{"dgx-h100", 3}};
  AskedQuestion slow = question;
  slow.values["deadline"] = 1000;
  slow.owned.clear();
  question.values["deadline"] = slow.answer().cheapest->end_days / (buys ? 9.3 : 5.3);
  const SizeAnswer answer = question.answer();
  REQUIRE(answer.cheapest);
  int checked = 0;
  for (const SizeThreshold& t : answer.thresholds) {
    const bool is_price = t.quantity.ends_with("of dgx-h100") || t.quantity.ends_with("h100-sxm5-80gb");
    if (t.quantity != "deadline" && !is_price) continue;
    CAPTURE(buys, decided(answer), t.quantity, t.value, t.threshold, t.number, nodes_in_words(t));
    const auto decided_at = [&](double value) {
      AskedQuestion other = question;
      other.values[t.quantity] = value;
      return decided(other.answer());
    };
    constexpr double step = 0.003;
    const double beyond = t.threshold < t.value ? 1 - step : 1 + step;
    CHECK(t.number.empty());
    CHECK(decided_at(t.threshold * beyond) == (t.node.empty() ? "none" : nodes_in_words(t)));
    const bool is_far = std::abs(t.threshold / t.value - 1) > step;
    if (is_far && !is_price) CHECK(decided_at(t.threshold / beyond) == decided(answer));
    ++checked;
  }
  CHECK(checked >= 2);
}

}  // namespace scenarios_test_size_thresholds
