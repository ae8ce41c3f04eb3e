#include "scenarios/src/search/loop_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "scenarios/src/reading/read_post_training.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr int kMostNodesFactor = 4;
/// Numbers of nodes up to this one are all tried for an asynchronous loop.
constexpr int kAllCounts = 16;

/// `schedules`: those of engines on nodes of their own.
std::vector<LoopPlacement> placements_on(const Scenario& s, const std::string& node, int nodes,
                                         const std::vector<EngineDegrees>& engines,
                                         const std::vector<std::string>& schedules) {
  if (nodes <= s.post_training->critic_nodes()) return {};
  std::vector<LoopPlacement> all;
  for (const EngineDegrees& engine : engines) {
    all.push_back({node, nodes, 0, engine, "synchronous"});
    for (const int generation_nodes : split_nodes(*s.post_training, nodes)) {
      for (const std::string& schedule : schedules) all.push_back({node, nodes, generation_nodes, engine, schedule});
      all.push_back({node, nodes, generation_nodes, engine, "synchronous"});
      all.back().hybrid = true;
    }
  }
  return all;
}

std::vector<LoopRow> simulated_rows(const Scenario& s, const std::vector<LoopPlacement>& placements,
                                    const LoopQuestion& question) {
  return all_in_parallel(placements.size(), processors(), [&](std::size_t i) {
    LoopRow row = simulated_row(s, placements[i], question);
    if (row.error.empty()) row.error = row.tight;
    return row;
  });
}

/// Returns numbers of nodes up to `most`: all numbers up to `all`, and then each at most half as large again as the one
/// before.
std::vector<int> node_counts(int most, int all) {
  std::vector<int> counts;
  const auto next = [all](int n) { return n < all ? n + 1 : std::max(n + 1, n % 3 == 0 ? n / 3 * 4 : n / 2 * 3); };
  for (int n = 1; n < most; n = next(n)) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

/// Simulates placements on one type of node, on numbers of nodes upwards until one meets the question, and bisects
/// between the last number that fails and the first that meets it. `node` empty: the scenario's.
std::vector<LoopRow> rows_upwards(const Scenario& s, const std::string& node, int most, const LoopQuestion& question,
                                  const std::vector<std::string>& schedules) {
  std::vector<LoopRow> all;
  const auto meets_on = [&](int nodes) {
    const std::vector<LoopRow> rows = simulated_rows(
        s, placements_on(s, node, nodes, {engine_degrees(s.post_training->layout)}, schedules), question);
    all.insert(all.end(), rows.begin(), rows.end());
    return std::ranges::any_of(rows, [](const LoopRow& r) { return r.error.empty() && r.meets; });
  };
  int failing_nodes = 0;
  for (const int nodes : node_counts(most, s.post_training->asynchrony ? kAllCounts : 0)) {
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
    if (row.schedule == "one-step-off") answer.rows.push_back(std::move(row));
  sort_loops(answer.rows);
  const std::vector<LoopFewest> found = answer.fewest();
  return found.empty() ? std::nullopt : std::optional(*found.front().row);
}

const RegisterJsonReference loop_plan_json{"plan, of a scenario with post_training",
                                           "layouts and placements of its loop", loop_answer_fields};

}  // namespace

const LoopRow* LoopAnswer::best() const {
  const auto row = std::ranges::find_if(rows, [](const LoopRow& r) { return r.error.empty() && r.meets; });
  return row == rows.end() ? nullptr : &*row;
}

std::vector<LoopFewest> LoopAnswer::fewest() const {
  std::vector<LoopFewest> all;
  for (const LoopRow& row : rows) {
    if (!row.error.empty() || !row.meets) continue;
    const auto same_type = std::ranges::find_if(all, [&](const LoopFewest& f) { return f.row->node == row.node; });
    if (same_type == all.end())
      all.push_back({&row});
    else if (row.nodes < same_type->row->nodes)
      same_type->row = &row;
  }
  for (LoopFewest& fewest : all) {
    for (int nodes = 1; nodes < fewest.row->nodes; ++nodes)
      if (std::ranges::none_of(rows,
                               [&](const LoopRow& row) { return row.node == fewest.row->node && row.nodes == nodes; }))
        fewest.untried.push_back(nodes);
    for (const LoopRow& row : rows) {
      if (!row.error.empty() || row.node != fewest.row->node || row.nodes >= fewest.row->nodes) continue;
      if (!fewest.next_smaller || std::pair(row.nodes, row.samples_per_s) >
                                      std::pair(fewest.next_smaller->nodes, fewest.next_smaller->samples_per_s))
        fewest.next_smaller = &row;
    }
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

LoopAnswer empty_loop_answer(const Scenario& s, const LoopQuestion& question) {
  if (!s.post_training) fail(s.document.place, "missing key post_training; a scenario with a loop expected");
  const PostTrainingChoice& choice = *s.post_training;
  if (!choice.algorithm.has_rollouts)
    fail(choice.place, fmt::format("post_training.algorithm: {} has no engines to place; expected grpo, dapo, rloo or "
                                   "ppo, or a scenario without post_training, whose layouts `plan` compares",
                                   choice.algorithm.name));
  if (choice.machine_nodes == 0)
    fail(choice.place, "post_training: expected cluster.nodes to be a number of nodes of one type");
  LoopAnswer answer;
  answer.scenario = s.name;
  answer.wanted = question.samples_per_s;
  answer.has_asynchronous = choice.asynchrony.has_value();
  answer.confidence = question.confidence;
  answer.has_failures = s.failures.is_given();
  if (s.prices.is_given()) answer.currency = s.prices.currency;
  return answer;
}

void finish_loop_answer(LoopAnswer& answer) {
  for (const LoopRow& row : answer.rows)
    if (std::ranges::find(row.changes, "cluster.fabric", &Overrides::value_type::first) != row.changes.end())
      answer.assumed_fabric = kDefaultFabric;
  answer.impossible =
      static_cast<int>(std::ranges::count_if(answer.rows, [](const LoopRow& r) { return !r.error.empty(); }));
}

LoopAnswer search_loops(const Scenario& s, const LoopQuestion& question) {
  LoopAnswer answer = empty_loop_answer(s, question);
  const PostTrainingChoice& choice = *s.post_training;
  const EngineDegrees engine = engine_degrees(choice.layout);
  if (question.samples_per_s == 0) {
    std::vector<EngineDegrees> engines;
    for (const int gpus : {engine.gpus() % 2 == 0 ? engine.gpus() / 2 : 0, engine.gpus(), 2 * engine.gpus()})
      if (const std::optional<EngineDegrees> scaled = scaled_engine(engine, gpus)) engines.push_back(*scaled);
    answer.rows =
        simulated_rows(s, placements_on(s, "", choice.machine_nodes, engines, split_schedules(choice)), question);
  } else {
    const Catalog catalog;
    for (const std::string& type : question.node_types)
      catalog.resolve("node", Node::scalar_node(type, Place::named("--nodes-of")));
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
  finish_loop_answer(answer);
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
      .list("one_step_off", &A::one_step_off, loop_row_fields(),
            "for a synchronous scenario: placements with training one step off that meet the question with fewer "
            "nodes, one for each type of node")
      .object("scenario_loop", &A::scenario_loop, loop_row_fields(), "the loop of the scenario")
      .when(&A::scenario_loop, "if layouts were searched")
      .list("alternatives", &A::alternatives, loop_row_fields(),
            "the best loops with half and twice the prompts, and with staler answers than the scenario's")
      .value("proved", "", &A::proved,
             "whether no searched layout is faster than the best; of asynchronous loops, if no engine is faster than "
             "with its best batch")
      .value("open_bound_s", "s", &A::open_bound,
             "if not proved: lower bound of the step of the layouts that were not simulated; 0: proved")
      .value("work", "", &A::work, "simulated operations, and what counts as many; 0: no layouts were searched")
      .value("loops", "", &A::loops, "loops that were simulated as a whole")
      .value("training_plans", "", &A::training_plans, "plans of training halves that fit")
      .value("training_halves", "", &A::training_halves, "training halves that were simulated");
}

}  // namespace trainyard
