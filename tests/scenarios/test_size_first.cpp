// The first answer of `trainyard size`, and the limit of a question about the whole catalog.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_size_first {

using namespace trainyard;

namespace {

Node tiny_training() {
  return parse_document(
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: megatron-core\n"
      "plan: {strategy: megatron, global_batch_size: 32, micro_batch_size: 1, seq_length: 512, training: {tokens: "
      "1e9}, "
      "pipeline: {schedule: 1f1b}}\n",
      "tiny.yaml");
}

SizeOptions tiny_options(std::vector<std::string> nodes) {
  SizeOptions options;
  options.days = 0.02;
  options.node_types = std::move(nodes);
  options.work = 2e5;
  return options;
}

}  // namespace

TEST_CASE("the first answer of size bounds all node types and simulates one plan before any search", "[size]") {
  SizeOptions options = tiny_options({"dgx-a100", "dgx-h100", "dgx-b200"});
  std::vector<SizeBound> bounds;
  std::optional<SizeRow> first;
  std::size_t calls = 0, searches_before = 0;
  options.progress = [&](const std::string& text) {
    if (calls == 0 && text.find("node types bounded") == std::string::npos) ++searches_before;
  };
  options.first_answer = [&](const std::vector<SizeBound>& all, const SizeRow* row) {
    ++calls;
    bounds = all;
    if (row) first = *row;
  };
  const SizeAnswer answer = size_clusters(tiny_training(), "tiny", options);
  CHECK(calls == 1);
  CHECK(searches_before == 0);
  CHECK(bounds.size() == 3);
  REQUIRE(first);
  CHECK(first->good());
  CHECK_FALSE(first->proved);
  const std::string text = first_size_answer(bounds, &*first);
  CHECK(text.find("bounds of 3 node types") != std::string::npos);
  CHECK(text.find(first->plan) != std::string::npos);
  CHECK(first_size_answer(bounds, nullptr).find("no plain plan fits") != std::string::npos);
  // A purchase has its price, and no rent.
  SizeRow bought = *first;
  bought.money = 17.5e6;
  bought.terms = "purchase";
  bought.cost = 123e6;
  CHECK(first_size_answer(bounds, &bought).find("123,000,000 to buy") != std::string::npos);
  CHECK(first_size_answer(bounds, &bought).find("17,500,000") == std::string::npos);
  bought.terms = "spot";
  bought.cost = 16e6;
  CHECK(first_size_answer(bounds, &bought).find("16,000,000 (spot)") != std::string::npos);
  // Promising ones come first: those that may be in time, then the least cost.
  for (std::size_t i = 1; i < bounds.size(); ++i)
    if (bounds[i].in_time == bounds[i - 1].in_time && bounds[i].days > 0) CHECK(bounds[i - 1].cost <= bounds[i].cost);
  // A bound is below the simulated plain plan.
  for (const SizeBound& bound : bounds) {
    INFO(bound.node << " " << bound.nodes);
    REQUIRE(bound.days > 0);
    if (bound.node != first->node || bound.nodes != first->nodes) continue;
    CHECK(bound.days <= first->days());
    CHECK(bound.cost <= first->gpu_hours);
  }
}

TEST_CASE("bounds and their order change no row of size: each node type has the rows of its own question", "[size]") {
  const std::vector<std::string> nodes{"dgx-a100", "dgx-h100"};
  const SizeAnswer together = size_clusters(tiny_training(), "tiny", tiny_options(nodes));
  CHECK(together.not_searched.empty());
  const auto rows_of = [](const SizeAnswer& answer, const std::string& node) {
    std::vector<std::string> texts;
    for (SizeRow row : answer.rows) {
      row.pareto = false;  // depends on the other rows
      if (row.node == node) texts.push_back(to_text(row));
    }
    return texts;
  };
  for (const std::string& node : nodes) {
    const SizeAnswer alone = size_clusters(tiny_training(), "tiny", tiny_options({node}));
    CHECK_FALSE(rows_of(alone, node).empty());
    CHECK(rows_of(together, node) == rows_of(alone, node));
  }
}

TEST_CASE("size of the whole catalog searches the most promising node types, and names those that it did not search",
          "[size]") {
  SizeOptions options = tiny_options({});
  options.work = 0;
  options.days = 30;
  std::vector<SizeBound> bounds;
  options.first_answer = [&bounds](const std::vector<SizeBound>& all, const SizeRow*) { bounds = all; };
  const SizeAnswer answer = size_clusters(tiny_training(), "tiny", options);
  CHECK(answer.rows.size() >= kClustersOfQuestion);
  REQUIRE_FALSE(answer.not_searched.empty());
  std::set<std::string> searched;
  for (const SizeRow& row : answer.rows) searched.insert(row.node);
  CHECK(searched.size() + answer.not_searched.size() == bounds.size());
  for (const SizeBound& bound : answer.not_searched) CHECK_FALSE(searched.contains(bound.node));
  for (std::size_t i = 0; i < searched.size(); ++i) CHECK(searched.contains(bounds[i].node));
  CHECK(size_fields().json(answer).contains("not_searched"));
  CHECK(size_screen(answer).find("not searched") != std::string::npos);
  options.work = 2e4;
  CHECK(size_clusters(tiny_training(), "tiny", options).not_searched.empty());
}

}  // namespace scenarios_test_size_first
