// The first answer of `trainyard size`, and the limit of a question about the whole catalog.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_first.hpp"
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
  options.first_answer = [&](const std::vector<SizeBound>& all, std::size_t, const SizeRow* row) {
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
  const std::string text = first_size_answer(bounds, bounds.size(), &*first, options);
  CHECK(text.find("bounds of 3 node types") != std::string::npos);
  CHECK(text.find(first->plan) != std::string::npos);
  CHECK(first_size_answer(bounds, bounds.size(), nullptr, options).find("no plain plan fits") != std::string::npos);
  // A purchase has its price, and no rent.
  SizeRow bought = *first;
  bought.money = 17.5e6;
  bought.terms = "purchase";
  bought.cost = 123e6;
  CHECK(first_size_answer(bounds, bounds.size(), &bought, options).find("123,000,000 to buy") != std::string::npos);
  CHECK(first_size_answer(bounds, bounds.size(), &bought, options).find("17,500,000") == std::string::npos);
  bought.terms = "spot";
  bought.cost = 16e6;
  CHECK(first_size_answer(bounds, bounds.size(), &bought, options).find("16,000,000 (spot)") != std::string::npos);
  // One that misses a condition says so, with both figures.
  CHECK((text.find(" days: late)") != std::string::npos) == (first->end_days > options.days));
  SizeRow late = bought;
  late.end_days = 137.7;
  SizeOptions limits;
  limits.days = 90;
  limits.budget = 20e6;
  CHECK(first_size_answer(bounds, bounds.size(), &late, limits).find("(137.7 of 90 days: late)") != std::string::npos);
  late.cost = 197e6;
  CHECK(first_size_answer(bounds, bounds.size(), &late, limits)
            .find("late; 197,000,000 of 20,000,000: over the budget)") != std::string::npos);
  late.end_days = 80;
  limits.confidence = 0.9;
  late.on_time = 0.6;
  CHECK(first_size_answer(bounds, bounds.size(), &late, limits)
            .find("in time with a probability of 60 %, not of 90 %: late") != std::string::npos);
  // With several models each cluster has its model.
  std::vector<SizeBound> two_models = bounds;
  two_models.back().model = "another";
  CHECK(first_size_answer(two_models, two_models.size(), &*first, options).find(first->model + " on ") !=
        std::string::npos);
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

TEST_CASE("a question about one type of nodes has a first answer, too", "[size]") {
  SizeOptions options = tiny_options({"dgx-a100"});
  std::string text;
  options.first_answer = [&](const std::vector<SizeBound>& all, std::size_t types, const SizeRow* row) {
    REQUIRE(row);
    text = first_size_answer(all, types, row, options);
  };
  size_clusters(tiny_training(), "tiny", options);
  CHECK(text.starts_with("answer after bounds of 1 node type: "));
  // A stated number of devices stays that of all rows, also if no plan is possible there.
  options = tiny_options({"dgx-a100"});
  options.gpus = 8 * 7;
  for (const SizeRow& row : size_clusters(tiny_training(), "tiny", options).rows) CHECK(row.nodes == 7);
}

TEST_CASE("bounds and their order change no row of size: each node type has the rows of its own question", "[size]") {
  const std::vector<std::string> nodes{"dgx-a100", "dgx-h100"};
  const SizeAnswer together = size_clusters(tiny_training(), "tiny", tiny_options(nodes));
  CHECK(together.not_searched.empty());
  const auto rows_of = [](const SizeAnswer& answer, const std::string& node) {
    std::map<int, std::string> texts;
    for (SizeRow row : answer.rows) {
      row.pareto = false;  // depends on the other rows
      if (row.node == node) texts[row.nodes] = to_text(row);
    }
    return texts;
  };
  for (const std::string& node : nodes) {
    const SizeAnswer alone = size_clusters(tiny_training(), "tiny", tiny_options({node}));
    const std::map<int, std::string> rows = rows_of(together, node);
    int equal_rows = 0;
    for (const auto& [count, row] : rows_of(alone, node)) {
      const auto found = rows.find(count);
      if (found == rows.end()) continue;  // a size next to the decision, which here is of the other type
      CHECK(found->second == row);
      ++equal_rows;
    }
    CHECK(equal_rows > 0);
  }
}

TEST_CASE("size of the whole catalog searches the most promising node types, and names those that it did not search",
          "[size]") {
  SizeOptions options = tiny_options({});
  options.work = 0;
  options.days = 30;
  std::vector<SizeBound> bounds;
  options.first_answer = [&bounds](const std::vector<SizeBound>& all, std::size_t, const SizeRow*) {
    if (bounds.empty()) bounds = all;
  };
  const SizeAnswer answer = size_clusters(tiny_training(), "tiny", options);
  CHECK(answer.rows.size() >= kClustersOfQuestion);
  REQUIRE_FALSE(answer.not_searched.empty());
  std::set<std::string> searched;
  for (const SizeRow& row : answer.rows) searched.insert(row.node);
  CHECK(bounds.size() == 3);  // the first answer comes before the other types are bounded
  CHECK(searched.size() + answer.not_searched.size() > 20);
  CHECK(std::ranges::count(answer.left_out, "vr-nvl144 (another name of vr-nvl72)") == 1);
  CHECK(std::ranges::count(answer.not_searched, "vr-nvl144", &SizeBound::node) == 0);
  const auto rank = [](const SizeBound& b) { return std::pair(b.days <= 0 ? 2 : b.in_time ? 0 : 1, b.cost); };
  for (std::size_t i = 0; i < answer.not_searched.size(); ++i) {
    CHECK_FALSE(searched.contains(answer.not_searched[i].node));
    if (i > 0) CHECK(rank(answer.not_searched[i - 1]) <= rank(answer.not_searched[i]));
  }
  CHECK(size_fields().json(answer).contains("not_searched"));
  CHECK(size_screen(answer).find("not searched") != std::string::npos);
  options.work = 2e4;
  CHECK(size_clusters(tiny_training(), "tiny", options).not_searched.empty());
}

TEST_CASE("size refuses an unknown network before it gives a first answer", "[size]") {
  SizeOptions options = tiny_options({});
  bool has_answer = false;
  options.first_answer = [&has_answer](const std::vector<SizeBound>&, std::size_t, const SizeRow*) {
    has_answer = true;
  };
  Node document = tiny_training();
  set_field(document, "model", "gpt-none");
  CHECK_THROWS_WITH(size_clusters(document, "tiny", options), Catch::Contains("unknown network \"gpt-none\""));
  CHECK_FALSE(has_answer);
}

TEST_CASE("an interrupted size keeps the cluster of its first answer unless a better row has the same nodes",
          "[size]") {
  const auto row_of = [](const char* node, int nodes, double days) {
    SizeRow row;
    row.model = "gpt2";
    row.node = node;
    row.nodes = nodes;
    row.time = days * kSecondsOfDay;
    row.gpu_hours = days * 24 * 8 * nodes;
    return row;
  };
  const SizeRow first = row_of("dgx-h100", 48, 53);
  const auto answer_with = [&first](const std::string& unfinished, std::vector<SizeRow> rows, double deadline = 60) {
    SizeAnswer answer;
    answer.days = deadline;
    answer.unfinished = unfinished;
    answer.rows = std::move(rows);
    keep_first_row(answer, first);
    judge_sizes(answer, {});
    return answer;
  };
  const std::vector<SizeRow> late{row_of("dgx-h100", 8, 117)};
  SizeAnswer stopped = answer_with("interrupted", late);
  REQUIRE(stopped.cheapest);
  CHECK(stopped.cheapest->nodes == 48);
  CHECK_FALSE(stopped.nearest);
  // A complete search with little work may have missed the plan of the first answer.
  REQUIRE(answer_with("", late).cheapest);
  // Better rows stay, and no cluster is listed twice.
  CHECK(answer_with("", {row_of("dgx-h100", 24, 55)}).rows.size() == 1);
  stopped = answer_with("interrupted", {row_of("dgx-h100", 48, 50)});
  REQUIRE(stopped.rows.size() == 1);
  CHECK(stopped.rows.front().days() == Approx(50));
  stopped = answer_with("interrupted", {row_of("dgx-h100", 48, 58)});
  REQUIRE(stopped.rows.size() == 1);
  CHECK(stopped.rows.front().days() == Approx(53));
  stopped = answer_with("interrupted", {row_of("dgx-h100", 24, 55)});
  CHECK(stopped.rows.size() == 2);
  CHECK(stopped.cheapest->nodes == 24);
  // Whatever is found, no answer is worse than the first one.
  for (const double deadline : {40.0, 60.0})
    for (const std::vector<SizeRow>& rows : {late, std::vector<SizeRow>{}, {row_of("dgx-a100", 9, 41)}}) {
      const SizeAnswer answer = answer_with("interrupted", rows, deadline);
      const SizeRow& best = answer.cheapest ? *answer.cheapest : *answer.nearest;
      CHECK((best.days() <= deadline || best.days() <= first.days()));
    }
}

TEST_CASE("a plan for GPUs is no plan of TPUs, also if the scenario's faults stand before it", "[size]") {
  SizeOptions options = tiny_options({"tpu-v5e-host"});
  options.days = 30;
  options.gpus = 16;
  options.work = 1;
  const Node document = parse_document(
      "faults: {failures: {mtbf: {gpu: 79231 h}}, checkpoint: {every: 1 min, write: 1 s, load: 1 s}, restart: "
      "{restart: "
      "1 min}}\n"
      "cluster: {node: dgx-a100}\n"
      "plan: {strategy: megatron, global_batch_size: 32, micro_batch_size: 1, seq_length: 512, precision: bf16, "
      "tensor_parallel: 4, pipeline_parallel: 2, sequence_parallel: true, training: {tokens: 1e9}}\n"
      "model: {base: gpt2, n_layer: 4}\nsoftware: megatron-core\n",
      "tiny.yaml");
  const SizeAnswer answer = size_clusters(document, "tiny", options);
  REQUIRE(answer.rows.size() == 1);
  INFO(answer.rows.front().error);
  REQUIRE(answer.rows.front().good());
  CHECK_THAT(answer.rows.front().plan, Catch::StartsWith("data 16, "));
}

}  // namespace scenarios_test_size_first
