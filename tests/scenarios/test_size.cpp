// `trainyard size`: the clusters that train a model in time.
#include <sched.h>

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "tests/temporary_folder.hpp"

namespace scenarios_test_size {

using namespace trainyard;

namespace {

Node small_training(const std::string& more = "") {
  return parse_document(
      "cluster: {node: dgx-a100}\nmodel: gpt2\n"
      "plan: {strategy: megatron, global_batch_size: 64, micro_batch_size: 1, seq_length: 1024, training: {tokens: "
      "1e9}, pipeline: {schedule: 1f1b}}\n"
      "software: megatron-core\n" +
          more,
      "small.yaml");
}

SizeOptions small_options(double days, std::vector<std::string> nodes = {"dgx-a100"}) {
  SizeOptions options;
  options.days = days;
  options.node_types = std::move(nodes);
  options.work = 2e6;
  return options;
}

}  // namespace

TEST_CASE("the cheapest cluster of size meets the deadline, and every row's figures follow from its step time",
          "[size]") {
  const SizeAnswer answer = size_clusters(small_training(), "small", small_options(0.02));
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->days() <= 0.02);
  CHECK_FALSE(answer.nearest);
  CHECK(answer.fastest->time <= answer.cheapest->time);
  CHECK(answer.cheapest->gpu_hours <= answer.fastest->gpu_hours);
  for (const SizeRow& row : answer.rows) {
    INFO(row.nodes << " " << row.error);
    CHECK(row.gpus == 8 * row.nodes);
    if (!row.good()) continue;
    CHECK(row.time == Approx(row.step_time * std::ceil(1e9 / (64 * 1024))));
    CHECK(row.gpu_hours == Approx(row.time / 3600 * row.gpus));
    CHECK(row.energy > 0);
    CHECK(row.meets == (row.days() <= 0.02));
  }
  // If fewer nodes than these are possible, some simulated size is late.
  if (answer.cheapest->nodes > 1)
    CHECK(std::ranges::any_of(answer.rows, [](const SizeRow& row) { return row.good() && row.days() > 0.02; }));
}

TEST_CASE("if nothing meets the deadline, size names the cluster that comes nearest", "[size]") {
  const SizeAnswer answer = size_clusters(small_training(), "small", small_options(1e-6));
  CHECK_FALSE(answer.cheapest);
  REQUIRE(answer.nearest);
  CHECK(answer.nearest->days() > 1e-6);
  for (const SizeRow& row : answer.rows)
    if (row.good()) CHECK(answer.nearest->time <= row.time);
}

TEST_CASE("for a given number of GPUs, size compares the node types with their prices", "[size]") {
  SizeOptions options = small_options(30, {"dgx-a100", "dgx-h100"});
  options.gpus = 8;
  options.budget = 100;
  const SizeAnswer answer = size_clusters(
      small_training(
          "prices: {gpu_hour: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 100}}\n"
          "faults: {failures: {mtbf: {gpu: 1000 h}, seed: 1}, checkpoint: {every: 1 min, kind: asynchronous, storage: "
          "{name: store, read: 2 GB/s, write: 2 GB/s, latency: 1 ms}}, restart: {restart: 1 min}}\n"),
      "small", options);
  REQUIRE(answer.rows.size() == 2);
  CHECK(answer.currency == "USD");
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->node == "dgx-a100");
  for (const SizeRow& row : answer.rows) {
    CHECK(row.nodes == 1);
    CHECK(row.good());
    CHECK(row.goodput < 1);
    CHECK(row.goodput > 0.5);
    CHECK(row.money == Approx(row.gpu_hours * (row.node == "dgx-a100" ? 1 : 100)));
    CHECK(row.meets == (row.money <= 100));
  }
}

TEST_CASE("an answer of size resumes from its journal", "[size]") {
  const test::TemporaryFolder folder;
  SizeOptions options = small_options(30);
  options.gpus = 8;
  options.journal = folder.path() / "size.txt";
  const auto json_of = [&] {
    nlohmann::ordered_json j = nlohmann::ordered_json::object();
    size_fields().write(size_clusters(small_training(), "small", options), j);
    return j.dump();
  };
  const std::string first = json_of();
  CHECK(std::filesystem::file_size(options.journal) > 0);
  CHECK(json_of() == first);
}

TEST_CASE("size counts tokens per parameter, and names the largest model that is in time", "[size]") {
  SizeOptions options = small_options(0.05);
  options.gpus = 8;
  options.models = {"gpt2", "gpt2-xl"};
  options.tokens_per_parameter = 20;
  const SizeAnswer answer = size_clusters(small_training(), "small", options);
  REQUIRE(answer.rows.size() == 2);
  for (const SizeRow& row : answer.rows) CHECK(row.tokens == Approx(20 * row.parameters).epsilon(0.01));
  REQUIRE(answer.largest);
  CHECK(answer.largest->model == "gpt2");  // gpt2-xl takes two hours and more
}

TEST_CASE("bad questions of size are refused", "[size]") {
  using Catch::Matchers::Contains;
  Node endless = small_training();
  set_field(endless, "plan.training", "null");
  std::erase_if(endless.find("plan")->fields, [](const auto& field) { return field.first == "training"; });
  CHECK_THROWS_WITH(size_clusters(endless, "x", small_options(1)), Contains("--tokens"));
  SizeOptions options = small_options(1);
  options.budget = 5;
  CHECK_THROWS_WITH(size_clusters(small_training(), "x", options), Contains("--prices FILE"));
  CHECK_THROWS_WITH(size_clusters(small_training(), "x", small_options(1, {"dgx-a10"})),
                    Contains("did you mean \"dgx-a100\"?"));
  CHECK_THROWS_WITH(size_clusters(small_training("prices: {gpu_hour: {t4: 1}}\n"), "x", small_options(1)),
                    Contains("none of dgx-a100"));
}

TEST_CASE("TPUs are sized on the torus of their own links, by the name of the chip too", "[size]") {
  SizeOptions options = small_options(30, {"tpu-v5p"});
  options.gpus = 8;
  const SizeAnswer answer = size_clusters(small_training(), "small", options);
  REQUIRE(answer.rows.size() == 1);
  const SizeRow& row = answer.rows.front();
  INFO(row.error);
  REQUIRE(row.good());
  CHECK(row.node == "tpu-v5p-host");
  CHECK(row.nodes == 2);
  CHECK(row.energy > 0);
  CHECK(row.document.find("software")->scalar == "jax");
  CHECK_FALSE(row.document.find("plan")->find("strategy"));
  CHECK(row.document.find("plan")->find("collectives")->scalar == "flows");
  CHECK_THROWS_WITH(size_clusters(small_training(), "small", small_options(30, {"tpu-v5"})),
                    Catch::Matchers::Contains("tpu-v5"));
}

TEST_CASE("half as many nodes as the cheapest are late, by a search or by their floors alone", "[size]") {
  const SizeAnswer answer = size_clusters(small_training(), "small", small_options(0.02));
  REQUIRE(answer.cheapest);
  // This row was searched and is late, or is known to be late by its floors alone.
  for (const SizeRow& row : answer.rows)
    if (row.nodes * 2 == answer.cheapest->nodes) {
      INFO(row.error);
      CHECK((row.good() ? row.days() > 0.02 : row.error.find("no plan takes less than") != std::string::npos));
    }
}

TEST_CASE("checkpoints of TPUs go to a store by the hosts' adapters", "[size]") {
  SizeOptions options = small_options(30, {"tpu-v5p-host"});
  options.gpus = 8;
  const std::string faults =
      "faults: {failures: {mtbf: {gpu: 1000 h}, seed: 1}, checkpoint: {every: 1 min, kind: asynchronous, storage: "
      "{name: store, read: 200 GB/s, write: 5 GB/s, latency: 1 ms}}, restart: {restart: 1 min}}\n";
  const SizeAnswer answer = size_clusters(small_training(faults), "small", options);
  REQUIRE(answer.rows.size() == 1);
  INFO(answer.rows.front().error);
  REQUIRE(answer.rows.front().good());
  const Node& checkpoint = *answer.rows.front().document.find("faults")->find("checkpoint");
  CHECK_FALSE(checkpoint.find("storage"));
  // Two hosts of 25 GB/s read what the store of 5 GB/s has written.
  const double write = std::stod(checkpoint.find("write")->scalar), load = std::stod(checkpoint.find("load")->scalar);
  CHECK(write == Approx(load * 10).epsilon(1e-4));
  CHECK(write > 0.1);
  CHECK(answer.rows.front().goodput < 1);
}

TEST_CASE("an answer of size does not depend on the processors, and another run gives the same bytes", "[size]") {
  SizeOptions options = small_options(0.02);
  options.gpus = 16;
  options.work = 2e5;
  const auto json_of = [&options] {
    nlohmann::ordered_json j = nlohmann::ordered_json::object();
    size_fields().write(size_clusters(small_training(), "small", options), j);
    return j.dump();
  };
  const std::string json_on_all_cpus = json_of();
  cpu_set_t all_cpus, one_cpu;
  REQUIRE(::sched_getaffinity(0, sizeof all_cpus, &all_cpus) == 0);
  CPU_ZERO(&one_cpu);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one_cpu) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all_cpus)) CPU_SET(cpu, &one_cpu);
  REQUIRE(::sched_setaffinity(0, sizeof one_cpu, &one_cpu) == 0);
  const std::string json_on_one_cpu = json_of();
  REQUIRE(::sched_setaffinity(0, sizeof all_cpus, &all_cpus) == 0);
  CHECK(json_on_one_cpu == json_on_all_cpus);
  CHECK(json_on_all_cpus.find("search_s") == std::string::npos);
}

namespace {

/// A training so small that its searches end with a proof. Searches that are cut off may rank numbers of nodes wrongly.
Node tiny_training(int batch) {
  return parse_document(
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: megatron-core\n"
      "plan: {strategy: megatron, global_batch_size: " +
          std::to_string(batch) +
          ", micro_batch_size: 1, seq_length: 512, training: {tokens: 1e9}, pipeline: {schedule: 1f1b}}\n",
      "tiny.yaml");
}

SizeRow row_on(const Node& training, int nodes, SizeOptions options) {
  options.days = 30;
  options.gpus = 8 * nodes;
  const SizeAnswer answer = size_clusters(training, "tiny", options);
  REQUIRE(answer.rows.size() == 1);
  return answer.rows.front();
}

}  // namespace

TEST_CASE("size finds the fewest nodes that meet the deadline among all numbers that have plans", "[size]") {
  const Node training = tiny_training(192);  // 192 divides among the replicas of 3 and 6 nodes, too
  SizeOptions options = small_options(30);
  options.work = 3e5;
  std::vector<SizeRow> rows;
  for (int nodes = 1; nodes <= 6; ++nodes) rows.push_back(row_on(training, nodes, options));
  for (const int nodes : {3, 6}) {
    const SizeRow& row = rows[static_cast<std::size_t>(nodes - 1)];
    INFO(nodes << " " << row.error);
    if (!row.good()) continue;
    options.days = row.days() * (1 + 1e-9);
    int fewest_in_time = 0, last_late = 0;
    for (const SizeRow& other : rows) {
      if (fewest_in_time == 0 && other.good() && other.days() <= options.days) fewest_in_time = other.nodes;
      if (fewest_in_time == 0 && !other.refused) last_late = other.nodes;
    }
    const SizeAnswer answer = size_clusters(training, "tiny", options);
    if (fewest_in_time == 1) continue;
    REQUIRE(answer.fewest.size() == 1);
    CHECK(answer.fewest.front().nodes == fewest_in_time);
    CHECK(answer.fewest.front().late == last_late);
    CHECK(answer.fewest.front().unit == 1);
    const auto has_row_of = [&answer](int n) {
      return std::ranges::any_of(answer.rows, [n](const SizeRow& r) { return r.nodes == n; });
    };
    CHECK(has_row_of(fewest_in_time));
    CHECK(has_row_of(last_late));
  }
}

TEST_CASE("numbers of nodes are multiples of the unit", "[size]") {
  SizeOptions options = small_options(30);
  options.unit = 3;
  options.work = 3e5;
  options.days = row_on(tiny_training(192), 4, options).days();
  const SizeAnswer answer = size_clusters(tiny_training(192), "tiny", options);
  REQUIRE_FALSE(answer.rows.empty());
  for (const SizeRow& row : answer.rows) CHECK(row.nodes % 3 == 0);
  REQUIRE(answer.cheapest);
  CHECK(answer.cheapest->nodes == 6);
}

TEST_CASE("size takes the batch within the tolerance that needs the least time per sample", "[size]") {
  SizeOptions options = small_options(30);
  options.work = 6e5;
  const SizeRow own_batch = row_on(tiny_training(64), 3, options);
  CHECK(own_batch.batch == 64);
  CHECK(own_batch.batches.empty());
  options.batch_tolerance = 0.3;
  const SizeRow best_within_tolerance = row_on(tiny_training(64), 3, options);
  REQUIRE(best_within_tolerance.good());
  CHECK(best_within_tolerance.batch >= 45);
  CHECK(best_within_tolerance.batch <= 83);
  CHECK(best_within_tolerance.tokens == Approx(1e9).epsilon(1e-3));
  CHECK(best_within_tolerance.document.find("plan")->find("global_batch_size")->scalar ==
        std::to_string(best_within_tolerance.batch));
  REQUIRE(best_within_tolerance.batches.size() > 2);
  CHECK(std::ranges::count(best_within_tolerance.batches, 64) == 1);
  CHECK(best_within_tolerance.time < own_batch.time);
  options.batch_tolerance = 0;
  const SizeRow same_batch = row_on(tiny_training(static_cast<int>(best_within_tolerance.batch)), 3, options);
  CHECK(same_batch.step_time == best_within_tolerance.step_time);
  // 48 divides among more numbers of replicas than any other batch.
  const SizeRow most_divisible = row_on(tiny_training(48), 3, options);
  CHECK(best_within_tolerance.step_time / static_cast<double>(best_within_tolerance.batch) <
        most_divisible.step_time / 48);
}

TEST_CASE("size also reports the cheapest cluster without headroom", "[size]") {
  Node training = tiny_training(64);
  SizeOptions options = small_options(30);
  options.gpus = 8;
  const SizeAnswer roomy = size_clusters(training, "tiny", options);
  REQUIRE(roomy.cheapest);
  CHECK_FALSE(roomy.without_headroom);  // the best is the same
  // The headroom is larger than the memory that the best plan leaves free.
  options.headroom = 1 - roomy.cheapest->peak / (80 * 1024.0 * 1024 * 1024) * 0.8;
  const SizeAnswer tight = size_clusters(training, "tiny", options);
  REQUIRE(tight.without_headroom);
  CHECK(tight.without_headroom->nodes == 1);
  CHECK(tight.without_headroom->step_time == Approx(roomy.cheapest->step_time));
  if (tight.cheapest) CHECK(tight.without_headroom->time < tight.cheapest->time);
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  size_fields().write(tight, j);
  CHECK(j["without_headroom"]["plan"] == roomy.cheapest->plan);
}

namespace {

std::string winner(const SizeAnswer& answer) {
  return answer.cheapest ? std::to_string(answer.cheapest->nodes) + " x " + answer.cheapest->node : "none";
}

/// Returns the answer for eight GPUs. `values` has the prices by the names of their quantities.
SizeAnswer priced_answer(const std::map<std::string, double>& values, double days, double budget, bool purchase) {
  SizeOptions options = small_options(days, {"dgx-a100", "dgx-h100"});
  options.gpus = 8;
  options.budget = budget;
  options.purchase = purchase;
  const auto text = [&values](const char* name) { return fmt::format("{:.17g}", values.at(name)); };
  return size_clusters(small_training("prices: {kwh: " + text("kwh") +
                                      ", gpu_hour: {a100-sxm4-80gb: " + text("gpu_hour of a100-sxm4-80gb") +
                                      "}, node_hour: {dgx-h100: " + text("node_hour of dgx-h100") +
                                      "}, purchase: {node: {dgx-a100: " + text("purchase of dgx-a100") +
                                      ", dgx-h100: " + text("purchase of dgx-h100") + "}}}\n"),
                       "small", options);
}

}  // namespace

TEST_CASE("at each threshold of size the cheapest cluster changes", "[size]") {
  const std::map<std::string, double> values{{"kwh", 0.1},
                                             {"gpu_hour of a100-sxm4-80gb", 1},
                                             {"node_hour of dgx-h100", 40},
                                             {"purchase of dgx-a100", 100},
                                             {"purchase of dgx-h100", 300}};
  const double days = 30;
  for (const bool purchase : {false, true}) {
    const double budget = purchase ? 1000 : 0;
    const SizeAnswer answer = priced_answer(values, days, budget, purchase);
    REQUIRE(answer.cheapest);
    REQUIRE(answer.thresholds.size() >= 3);
    for (const SizeThreshold& t : answer.thresholds) {
      if (t.quantity.starts_with("time of ")) continue;  // test_size_choices.cpp checks these
      INFO(t.quantity << " " << t.value << " " << t.threshold);
      const double past_threshold = t.threshold < t.value ? -1e-6 : 1e-6;
      const auto winner_at = [&](double value) {
        std::map<std::string, double> changed = values;
        if (changed.contains(t.quantity)) changed[t.quantity] = value;
        return winner(priced_answer(changed, t.quantity == "deadline" ? value : days,
                                    t.quantity == "budget" ? value : budget, purchase));
      };
      CHECK(winner_at(t.threshold * (1 - past_threshold)) == winner(answer));
      CHECK(winner_at(t.threshold * (1 + past_threshold)) ==
            (t.node.empty() ? "none" : std::to_string(t.nodes) + " x " + t.node));
    }
  }
}

TEST_CASE("a purchase within the budget is taken by its price", "[size]") {
  const std::map<std::string, double> values{{"kwh", 0.1},
                                             {"gpu_hour of a100-sxm4-80gb", 10},
                                             {"node_hour of dgx-h100", 1},
                                             {"purchase of dgx-a100", 100},
                                             {"purchase of dgx-h100", 300}};
  const SizeAnswer purchase_answer = priced_answer(values, 30, 200, true);
  CHECK(winner(purchase_answer) == "1 x dgx-a100");
  CHECK(winner(priced_answer(values, 30, 0, false)) == "1 x dgx-h100");
  CHECK(winner(priced_answer(values, 30, 50, true)) == "none");
  for (const SizeRow& row : purchase_answer.rows) CHECK(row.meets == (row.ownership->price() <= 200));
  // A lower price never gives a costlier decision.
  std::map<std::string, double> cheaper = values;
  cheaper["purchase of dgx-h100"] = 90;
  CHECK(size_cost(purchase_answer, *priced_answer(cheaper, 30, 200, true).cheapest) <=
        size_cost(purchase_answer, *purchase_answer.cheapest));
}

TEST_CASE("a limit of the site that does not bind changes nothing, and one that binds is named", "[size]") {
  SizeOptions options = small_options(0.02);
  const auto json_of = [&options](const std::string& site, std::vector<SiteLimit>* limits) {
    SizeAnswer answer = size_clusters(small_training(site), "small", options);
    *limits = std::exchange(answer.site_limits, {});
    for (auto* row : {&answer.cheapest, &answer.fastest}) REQUIRE(*row);
    return size_fields().json(answer).dump();
  };
  std::vector<SiteLimit> no_limits, roomy_limits;
  const std::string json_without_limits = json_of("site: {pue: 1.5}\n", &no_limits);
  CHECK(no_limits.empty());
  CHECK(json_of("site: {pue: 1.5, power: 100 MW, ports: 100000}\n", &roomy_limits) == json_without_limits);
  REQUIRE(roomy_limits.size() == 1);
  const int needed = size_clusters(small_training(), "small", options).cheapest->nodes;
  options.days = 1e-6;
  const auto answer_at = [&options](const std::string& site) {
    return size_clusters(small_training("site: " + site + "\n"), "small", options);
  };
  for (const auto& [site, limit] : {std::pair{"{ports: 23}", "ports"},
                                    {"{racks: 2, rack_nodes: 1, ports: 100}", "rack_nodes"},
                                    {"{racks: 1, ports: 100}", "racks"}}) {
    INFO(site);
    const SizeAnswer answer = answer_at(site);
    REQUIRE(answer.site_limits.size() == 1);
    CHECK(answer.site_limits.front().limit == limit);
    CHECK(answer.site_limits.front().nodes == (std::string(limit) == "racks" ? 1 : 2));
    for (const SizeRow& row : answer.rows) CHECK(row.nodes <= answer.site_limits.front().nodes);
    CHECK(answer.why_none.find(std::string("site.") + limit) != std::string::npos);
  }
  CHECK(roomy_limits.front().nodes >= needed);  // so it does not bind
  // The power of a node is that of its parts at their most, times PUE.
  const int by_power = answer_at("{pue: 1, power: 40 kW}").site_limits.front().nodes;
  CHECK(by_power > 40 / 13);
  CHECK(by_power <= 40e3 / (8 * 400));
  CHECK(answer_at("{pue: 2, power: 80 kW}").site_limits.front().nodes == by_power);
  CHECK(answer_at("{racks: 1, rack_power: 40 kW}").site_limits.front().nodes == by_power);
  const SizeAnswer no_room = answer_at("{power: 1 kW}");
  REQUIRE(no_room.rows.size() == 1);
  CHECK(no_room.rows.front().error.starts_with("the site has room for 0 nodes (site.power): a node needs "));
}

TEST_CASE("if nothing meets all conditions, the one that is missed is named with its figure", "[size]") {
  SizeOptions options = small_options(30, {"dgx-a100"});
  options.gpus = 8;
  const Node training = small_training("prices: {gpu_hour: {a100-sxm4-80gb: 1}}\n");
  const SizeAnswer late_answer = [&] {
    SizeOptions short_deadline = options;
    short_deadline.days = 1e-6;
    return size_clusters(training, "small", short_deadline);
  }();
  REQUIRE(late_answer.nearest);
  CHECK(late_answer.why_none == fmt::format("the deadline: the fastest of the simulated sizes, 1 x dgx-a100, takes {}",
                                            days_words(late_answer.nearest->days())));
  options.budget = late_answer.nearest->money / 2;
  const SizeAnswer costly_answer = size_clusters(training, "small", options);
  CHECK(costly_answer.why_none.starts_with("the budget: "));
  CHECK(costly_answer.why_none.ends_with(fmt::format("{:.4g} USD", late_answer.nearest->money)));
  options.budget = 0;
  CHECK(size_clusters(training, "small", options).why_none.empty());
}

}  // namespace scenarios_test_size
