#include "scenarios/src/search/loop_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "scenarios/src/reading/read_post_training.hpp"
#include "scenarios/src/running/post_training_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr const char* kDefaultFabric = "nonblocking";
constexpr int kSplitParts = 8, kMostNodesFactor = 4;

/// A placement that has not been simulated.
struct LoopPlacement {
  std::string node;  // empty: the scenario's
  int nodes = 0, generation_nodes = 0, engine_gpus = 0;
  std::string schedule;
};

/// Returns the schedules that are no staler than the scenario's, for engines on nodes of their own.
std::vector<std::string> split_schedules(const PostTrainingChoice& choice) {
  if (choice.asynchrony) {
    if (choice.asynchrony->staleness >= 1) return {"asynchronous", "one-step-off"};
    return {"asynchronous"};
  }
  return {choice.one_step_off ? "one-step-off" : "synchronous"};
}

/// `schedules`: those of engines on nodes of their own.
std::vector<LoopPlacement> placements_on(const Scenario& s, const std::string& node, int nodes,
                                         const std::vector<int>& engines, const std::vector<std::string>& schedules) {
  std::set<int> splits;
  const int shared = nodes - s.post_training->critic_nodes();
  if (shared < 1) return {};
  for (int part = 1; part < kSplitParts; ++part) splits.insert(std::clamp(part * shared / kSplitParts, 1, shared));
  splits.erase(shared);
  std::vector<LoopPlacement> all;
  for (const int gpus : engines) {
    all.push_back({node, nodes, 0, gpus, "synchronous"});
    for (const int generation_nodes : splits)
      for (const std::string& schedule : schedules) all.push_back({node, nodes, generation_nodes, gpus, schedule});
  }
  return all;
}

/// Returns true if neither the scenario nor the type of node says what joins several nodes. `node` empty: the scenario's.
bool needs_fabric(const Scenario& s, const std::string& node) {
  if (s.document.find("cluster")->find("fabric")) return false;
  if (node.empty()) return s.cluster.node.fabric.empty();
  const Catalog catalog;
  return !catalog.resolve("node", Node::scalar_node(node)).find("fabric");
}

/// Returns the changes that turn the scenario into this placement.
Overrides changes_of(const Scenario& s, const LoopPlacement& placement) {
  const PostTrainingChoice& choice = *s.post_training;
  const bool asynchronous = placement.schedule == "asynchronous";
  Overrides changes{{"cluster.nodes", fmt::format("{}", placement.nodes)},
                    {"post_training.generation.nodes",
                     placement.generation_nodes > 0 ? fmt::format("{}", placement.generation_nodes) : "null"},
                    {"post_training.schedule", placement.schedule}};
  if (!placement.node.empty()) changes.emplace_back("cluster.node", placement.node);
  if (placement.nodes > 1 && needs_fabric(s, placement.node)) changes.emplace_back("cluster.fabric", kDefaultFabric);
  if (!asynchronous)
    for (const char* key : {"staleness", "order", "partial_rollouts", "training_parts"})
      changes.emplace_back(std::string("post_training.") + key, "null");
  changes.emplace_back(choice.layout.expert > 1 ? "post_training.generation.expert_parallel"
                                                : "post_training.generation.tensor_parallel",
                       fmt::format("{}", placement.engine_gpus));
  return changes;
}

LoopRow simulated_row(const Scenario& s, const LoopPlacement& placement, const LoopQuestion& question) {
  LoopRow row;
  row.node = placement.node.empty() ? s.cluster.node.name : placement.node;
  row.changes = changes_of(s, placement);
  row.nodes = placement.nodes;
  row.generation_nodes = placement.generation_nodes;
  row.engine_gpus = placement.engine_gpus;
  row.schedule = placement.schedule;
  try {
    Scenario changed = read_again(s, row.changes);
    changed.failures.find_best = false;
    const Result result = simulate_here(changed, {.critical_path = false});
    if (!result.fits) {
      row.error = too_large_words(result);
      return row;
    }
    const PostTrainingResult& r = *result.post_training;
    const PostTrainingChoice& choice = *changed.post_training;
    row.gpus = r.gpus;
    row.staleness = choice.asynchrony ? choice.asynchrony->staleness : choice.one_step_off ? 1 : 0;
    row.step_time = r.step_time.value;
    row.generation = r.generation.value;
    row.training_half = r.training.value + r.log_probabilities.value + r.loop.value;
    if (changed.failures.is_given()) row.goodput = study_loop_failures(changed, r).goodput;
    row.samples_per_s = r.samples_per_s * row.goodput;
    PostTrainingResult judged = r;
    add_loop_interval(changed, judged);
    row.likely_samples = judged.likely_samples;
    for (double& end : *row.likely_samples) end *= row.goodput;
    row.unmeasured = judged.unmeasured;
    row.meets =
        row.samples_per_s / LoopDoubt::shipped().one_sided_factor(question.confidence) >= question.samples_per_s;
    if (s.prices.is_given()) {
      const NodeType& node = choice.generators.node;
      row.hour = r.gpus * s.prices.gpu_hour(node.name, node.gpu.name, node.gpus);
      row.million = row.hour / 3600 / row.samples_per_s * 1e6;
    }
  } catch (const UserError& e) {
    row.error = e.what();
  }
  return row;
}

std::vector<LoopRow> simulated_rows(const Scenario& s, const std::vector<LoopPlacement>& placements,
                                    const LoopQuestion& question) {
  return all_in_parallel(placements.size(), processors(),
                         [&](std::size_t i) { return simulated_row(s, placements[i], question); });
}

/// Returns numbers of nodes up to `most`, each at most half as large again as the one before.
std::vector<int> node_counts(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n = std::max(n + 1, n % 3 == 0 ? n / 3 * 4 : n / 2 * 3)) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

/// Simulates placements on one type of node, on numbers of nodes upwards until one meets the question, and bisects
/// between the last number that fails and the first that meets it. `node` empty: the scenario's.
std::vector<LoopRow> rows_upwards(const Scenario& s, const std::string& node, int most, const LoopQuestion& question,
                                  const std::vector<std::string>& schedules) {
  std::vector<LoopRow> all;
  const auto meets_on = [&](int nodes) {
    const std::vector<LoopRow> rows =
        simulated_rows(s, placements_on(s, node, nodes, {s.post_training->layout.gpus()}, schedules), question);
    all.insert(all.end(), rows.begin(), rows.end());
    return std::any_of(rows.begin(), rows.end(), [](const LoopRow& r) { return r.error.empty() && r.meets; });
  };
  int failing_nodes = 0;
  for (const int nodes : node_counts(most)) {
    if (!meets_on(nodes)) {
      failing_nodes = nodes;
      continue;
    }
    for (int meeting_nodes = nodes; meeting_nodes - failing_nodes > 1;) {
      const int middle = (failing_nodes + meeting_nodes) / 2;
      (meets_on(middle) ? meeting_nodes : failing_nodes) = middle;
    }
    break;
  }
  return all;
}

void sort_loops(std::vector<LoopRow>& rows) {
  sort_stably(rows, [](const LoopRow& a, const LoopRow& b) {
    return std::tuple(!a.error.empty(), !a.meets, a.hour, a.gpus, a.nodes, a.step_time / a.goodput) <
           std::tuple(!b.error.empty(), !b.meets, b.hour, b.gpus, b.nodes, b.step_time / b.goodput);
  });
}

/// Returns the fewest nodes of a type with which a loop with training one step off meets the question, if they are
/// fewer than `fewest`.
std::optional<LoopRow> fewest_one_step_off(const Scenario& s, const std::string& node, int fewest,
                                           const LoopQuestion& question) {
  if (fewest < 2) return std::nullopt;
  LoopAnswer answer;
  for (LoopRow& row : rows_upwards(s, node, fewest - 1, question, {"one-step-off"}))
    if (row.generation_nodes > 0) answer.rows.push_back(std::move(row));
  sort_loops(answer.rows);
  const std::vector<LoopFewest> found = answer.fewest();
  return found.empty() ? std::nullopt : std::optional(*found.front().row);
}

JsonFields<LoopRow> loop_row_fields() {
  using R = LoopRow;
  return JsonFields<R>()
      .value("node", "", &R::node, "type of node")
      .value("nodes", "", &R::nodes, "number of nodes")
      .value("generation_nodes", "", &R::generation_nodes, "number of nodes that only generate; 0: all do both in turn")
      .value("gpus", "", &R::gpus, "number of GPUs")
      .value("engine_gpus", "", &R::engine_gpus, "number of GPUs of an engine")
      .value("schedule", "", &R::schedule, "order of generation and training")
      .value("staleness", "steps", &R::staleness, "bound of the staleness")
      .value("step_time_s", "s", &R::step_time, "time of a step of the loop; 0: there is no such loop")
      .value("generation_s", "s", &R::generation, "time of the generation")
      .value("training_half_s", "s", &R::training_half, "time of training, log-probabilities and loop")
      .value("goodput", "share", &R::goodput,
             "share of the loop's time in steps that count; 1: the scenario has no failures")
      .value("samples_per_s", "1/s", &R::samples_per_s,
             "generated and trained samples per second, over the whole loop with its failures")
      .value("samples_per_s_interval", "1/s", &R::likely_samples,
             "lower and upper end of the interval that holds those of a real loop with a probability of 80 %; null: "
             "there is no such loop")
      .value("unmeasured", "", &R::unmeasured,
             "what no measured loop has, so that the interval does not cover it; empty: nothing")
      .value("money_per_hour", "money", &R::hour, "rent of an hour; 0: there are no prices")
      .value("money_per_million_samples", "money", &R::million, "rent of a million samples; 0: there are no prices")
      .value("meets", "", &R::meets, "whether the loop has the samples per second that are asked for")
      .value("error", "", &R::error, "why there is no such loop; empty: there is one");
}

const RegisterJsonReference loop_plan_json{"plan --samples-per-second", "placements of a post-training loop",
                                           loop_answer_fields};

}  // namespace

const LoopRow* LoopAnswer::best() const {
  const auto row = std::find_if(rows.begin(), rows.end(), [](const LoopRow& r) { return r.error.empty() && r.meets; });
  return row == rows.end() ? nullptr : &*row;
}

std::vector<LoopFewest> LoopAnswer::fewest() const {
  std::vector<LoopFewest> all;
  for (const LoopRow& row : rows) {
    if (!row.error.empty() || !row.meets) continue;
    const auto same_type =
        std::find_if(all.begin(), all.end(), [&](const LoopFewest& f) { return f.row->node == row.node; });
    if (same_type == all.end())
      all.push_back({&row});
    else if (row.nodes < same_type->row->nodes)
      same_type->row = &row;
  }
  for (LoopFewest& fewest : all)
    for (const LoopRow& row : rows) {
      if (!row.error.empty() || row.node != fewest.row->node || row.nodes >= fewest.row->nodes) continue;
      if (!fewest.next_smaller || std::pair(row.nodes, row.samples_per_s) >
                                      std::pair(fewest.next_smaller->nodes, fewest.next_smaller->samples_per_s))
        fewest.next_smaller = &row;
    }
  return all;
}

std::vector<LoopAnswer::Missing> LoopAnswer::missing() const {
  std::vector<Missing> all;
  for (const LoopRow& row : rows) {
    const auto is_row_type = [&](const auto& other) { return other.node == row.node; };
    if (std::ranges::any_of(rows, [&](const LoopRow& r) { return is_row_type(r) && r.error.empty() && r.meets; }))
      continue;
    auto type = std::ranges::find_if(all, is_row_type);
    if (type == all.end()) type = all.insert(all.end(), {row.node, nullptr, ""});
    if (!row.error.empty())
      type->error = type->error.empty() ? row.error : type->error;
    else if (!type->fastest || row.samples_per_s > type->fastest->samples_per_s)
      type->fastest = &row;
  }
  return all;
}

LoopAnswer search_loops(const Scenario& s, const LoopQuestion& question) {
  if (!s.post_training) throw UserError("a scenario with post_training expected");
  const PostTrainingChoice& choice = *s.post_training;
  if (!choice.algorithm.has_rollouts)
    fail(choice.place,
         fmt::format("post_training.algorithm: {} has no engines to place; expected grpo, dapo, rloo or ppo, "
                     "or a scenario without post_training, whose layouts `plan` compares",
                     choice.algorithm.name));
  if (choice.machine_nodes == 0)
    fail(choice.place, "post_training: expected cluster.nodes to be a number of nodes of one type");
  LoopAnswer answer;
  answer.scenario = s.name;
  answer.wanted = question.samples_per_s;
  answer.confidence = question.confidence;
  answer.has_failures = s.failures.is_given();
  if (s.prices.is_given()) answer.currency = s.prices.currency;
  const int engine = choice.layout.gpus();
  if (question.samples_per_s == 0) {
    std::set<int> engines{engine, 2 * engine};
    if (engine % 2 == 0 && (choice.layout.expert == 1 || engine > 2)) engines.insert(engine / 2);
    answer.rows = simulated_rows(
        s, placements_on(s, "", choice.machine_nodes, {engines.begin(), engines.end()}, split_schedules(choice)),
        question);
  } else {
    const Catalog catalog;
    for (const std::string& type : question.node_types) catalog.resolve("node", Node::scalar_node(type));
    const int most = question.most_nodes > 0 ? question.most_nodes : kMostNodesFactor * choice.machine_nodes;
    std::vector<std::string> types = question.node_types;
    if (types.empty()) types.emplace_back();
    for (const std::string& type : types) {
      const std::vector<LoopRow> rows = rows_upwards(s, type, most, question, split_schedules(choice));
      answer.rows.insert(answer.rows.end(), rows.begin(), rows.end());
      if (choice.asynchrony || choice.one_step_off) continue;
      int fewest = most + 1;
      for (const LoopRow& row : rows)
        if (row.error.empty() && row.meets) fewest = std::min(fewest, row.nodes);
      if (std::optional<LoopRow> staler = fewest_one_step_off(s, type, fewest, question))
        answer.one_step_off.push_back(std::move(*staler));
    }
  }
  sort_loops(answer.rows);
  for (const LoopRow& row : answer.rows)
    if (std::ranges::find(row.changes, "cluster.fabric", &Overrides::value_type::first) != row.changes.end())
      answer.assumed_fabric = kDefaultFabric;
  answer.impossible = static_cast<int>(
      std::count_if(answer.rows.begin(), answer.rows.end(), [](const LoopRow& r) { return !r.error.empty(); }));
  return answer;
}

JsonFields<LoopAnswer> loop_answer_fields() {
  using A = LoopAnswer;
  return JsonFields<A>()
      .value("scenario", "", &A::scenario, "name of the scenario")
      .value("currency", "", &A::currency, "currency of the prices; empty: there are none")
      .value("wanted_samples_per_s", "1/s", &A::wanted, "samples per second that are asked for; 0: none")
      .value(
          "confidence", "share", &A::confidence,
          "probability with which a loop that meets the question has these samples; 0.5: the predicted loop has them")
      .value("has_failures", "", &A::has_failures,
             "whether the scenario has failures or checkpoints, which the samples count")
      .value("assumed_fabric", "", &A::assumed_fabric,
             "network that joins several nodes, if neither the scenario nor the type of node states one; empty: one is "
             "stated")
      .value("impossible", "", &A::impossible, "number of placements that the plan or the engines refuse")
      .list("rows", &A::rows, loop_row_fields(),
            "placements: those that meet the question first, then the least rent or the fewest GPUs")
      .list(
          "one_step_off", &A::one_step_off, loop_row_fields(),
          "for a synchronous scenario: placements with training one step off that meet the question with fewer nodes, "
          "one for each type of node");
}

}  // namespace trainyard
