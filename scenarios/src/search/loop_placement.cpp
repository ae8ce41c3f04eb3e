#include "scenarios/src/search/loop_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "models/reading/document_text.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/running/post_training_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/plan_question.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"

namespace trainyard {
namespace {

constexpr int kSplitParts = 8;

/// Returns true if neither the scenario nor the type of node says what joins several nodes. `node` empty: the scenario's.
bool needs_fabric(const Scenario& s, const std::string& node) {
  if (s.document.find("cluster")->find("fabric")) return false;
  if (node.empty()) return s.cluster.node.fabric.empty();
  const Catalog catalog;
  return !catalog.resolve("node", Node::scalar_node(node)).find("fabric");
}

}  // namespace

std::string EngineDegrees::words() const {
  std::string text;
  if (tensor > 1 || data == 1) text = fmt::format("tensor {}", tensor);
  if (data > 1) text += fmt::format("{}data {}", text.empty() ? "" : " x ", data);
  if (expert > 1) text += fmt::format(", experts over {}", expert);
  return text;
}

EngineDegrees engine_degrees(const EngineLayout& layout) { return {layout.tensor, layout.data, layout.expert}; }

std::optional<EngineDegrees> scaled_engine(const EngineDegrees& engine, int gpus) {
  if (gpus < 1) return std::nullopt;
  if (engine.data == 1 && engine.expert == 1) return EngineDegrees{gpus, 1, 1};
  if (engine.data == 1) return EngineDegrees{gpus, 1, engine.expert == engine.tensor ? gpus : engine.expert};
  if (gpus % engine.tensor != 0 || gpus == engine.tensor) return std::nullopt;
  return EngineDegrees{engine.tensor, gpus / engine.tensor, gpus};
}

std::vector<std::string> split_schedules(const PostTrainingChoice& choice) {
  if (choice.asynchrony) {
    if (choice.asynchrony->staleness >= 1) return {"asynchronous", "one-step-off"};
    return {"asynchronous"};
  }
  return {choice.one_step_off ? "one-step-off" : "synchronous"};
}

std::vector<int> split_nodes(const PostTrainingChoice& choice, int nodes) {
  std::set<int> splits;
  const int shared = nodes - choice.critic_nodes();
  if (shared < 2) return {};
  for (int part = 1; part < kSplitParts; ++part) splits.insert(std::clamp(part * shared / kSplitParts, 1, shared));
  splits.erase(shared);
  return {splits.begin(), splits.end()};
}

std::vector<EngineDegrees> engines_on(const Scenario& s, int generation_nodes, bool hybrid) {
  const PostTrainingChoice& choice = *s.post_training;
  const int shared = choice.machine_nodes - choice.critic_nodes() - generation_nodes,
            nodes = std::gcd(generation_nodes, generation_nodes == 0 || hybrid ? shared : 0);
  const NodeType& node = choice.generators.node;
  const TransformerConfig* config = s.model.entry.transformer();
  const std::int64_t experts = config ? config->experts.count : 0;
  const int most = std::max(node.gpus, 2 * choice.layout.gpus());
  std::vector<EngineDegrees> all;
  for (int gpus = 1; gpus <= std::min(most, nodes * node.gpus); ++gpus) {
    if (!divides_nodes(gpus, node, nodes)) continue;
    all.push_back({gpus, 1, 1});
    if (experts == 0 || gpus == 1 || experts % gpus != 0) continue;
    for (int tensor = 1; tensor <= std::min(gpus, node.gpus); ++tensor)
      if (gpus % tensor == 0) all.push_back({tensor, gpus / tensor, gpus});
  }
  const EngineDegrees stated = engine_degrees(choice.layout);
  if (std::ranges::find(all, stated) == all.end() && divides_nodes(stated.gpus(), node, nodes)) all.push_back(stated);
  return all;
}

GeneratedStep GeneratedSteps::find(const Scenario& s) {
  const PostTrainingChoice& choice = *s.post_training;
  const std::pair key{choice.generators.nodes, engine_degrees(choice.layout)};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = steps_.find(key); found != steps_.end()) return found->second;
  }
  const EngineCosts costs = generation_costs(choice, s.model.entry);
  PostTrainingResult r;
  generate_answers(choice, costs, r);
  const GeneratedStep step{r.generation.value, least_generation(choice, s.model.entry, costs).value, r.sent};
  const std::lock_guard lock(mutex_);
  return steps_.emplace(key, step).first->second;
}

LoopPlacement own_placement(const Scenario& s) {
  const PostTrainingChoice& choice = *s.post_training;
  LoopPlacement placed{"", choice.machine_nodes, choice.nodes, engine_degrees(choice.layout)};
  placed.hybrid = choice.has_own_nodes() && choice.is_hybrid;
  placed.schedule = choice.asynchrony ? "asynchronous" : choice.one_step_off ? "one-step-off" : "synchronous";
  return placed;
}

bool has_value(const Scenario& s, const std::string& path, const std::vector<std::string>& values) {
  const PostTrainingChoice& choice = *s.post_training;
  const LoopPlacement placed = own_placement(s);
  const double staleness = choice.asynchrony ? choice.asynchrony->staleness : choice.one_step_off ? 1 : 0;
  const std::map<std::string, std::string> fields{
      {"post_training.prompts", fmt::format("{}", choice.prompts)},
      {"post_training.samples_per_prompt", fmt::format("{}", choice.samples_per_prompt)},
      {"post_training.staleness", fmt::format("{:g}", staleness)},
      {"post_training.generation.nodes", fmt::format("{}", placed.generation_nodes)},
      {"post_training.generation.hybrid", placed.hybrid ? "true" : "false"},
      {"post_training.generation.tensor_parallel", fmt::format("{}", placed.engine.tensor)},
      {"post_training.generation.expert_parallel", fmt::format("{}", placed.engine.expert)},
      {"post_training.generation.data_parallel", fmt::format("{}", placed.engine.data)}};
  std::string stated;
  if (const auto field = fields.find(path); field != fields.end()) {
    stated = field->second;
  } else {
    const Node* node = &s.document;
    for (std::size_t begin = 0; node && begin <= path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      node = node->find(path.substr(begin, end - begin));
      begin = end + 1;
    }
    if (!node) return false;
    stated = node->scalar;
  }
  const std::optional<double> number = find_number(stated);
  return std::ranges::any_of(
      values, [&](const std::string& value) { return value == stated || (number && find_number(value) == number); });
}

Overrides changes_of(const Scenario& s, const LoopPlacement& placement) {
  const bool asynchronous = placement.schedule == "asynchronous";
  Overrides changes{{"cluster.nodes", fmt::format("{}", placement.nodes)},
                    {"post_training.generation.nodes",
                     placement.generation_nodes > 0 ? fmt::format("{}", placement.generation_nodes) : "null"},
                    {"post_training.generation.hybrid", placement.hybrid ? "true" : "null"},
                    {"post_training.schedule", placement.schedule}};
  if (!placement.node.empty()) changes.emplace_back("cluster.node", placement.node);
  if (placement.nodes > 1 && needs_fabric(s, placement.node)) changes.emplace_back("cluster.fabric", kDefaultFabric);
  if (!asynchronous)
    for (const char* key : {"staleness", "order", "partial_rollouts", "training_parts"})
      changes.emplace_back(std::string("post_training.") + key, "null");
  else if (placement.staleness)
    changes.emplace_back("post_training.staleness", fmt::format("{:g}", *placement.staleness));
  const EngineDegrees &engine = placement.engine,
                      usual{engine.tensor, std::max(1, engine.expert / engine.tensor), engine.expert};
  const auto degree = [&](const char* key, int value, bool states) {
    changes.emplace_back(std::string("post_training.generation.") + key,
                         states ? fmt::format("{}", value) : std::string("null"));
  };
  degree("tensor_parallel", engine.tensor, true);
  degree("expert_parallel", engine.expert, engine.expert > 1);
  degree("data_parallel", engine.data, engine != usual);
  if (placement.prompts > 0) changes.emplace_back("post_training.prompts", fmt::format("{}", placement.prompts));
  if (placement.samples_per_prompt > 0)
    changes.emplace_back("post_training.samples_per_prompt", fmt::format("{}", placement.samples_per_prompt));
  if (placement.plan) changes.emplace_back("plan", yaml_text(*placement.plan));
  return changes;
}

LoopRow simulated_row(const Scenario& s, const LoopPlacement& placement, const LoopQuestion& question) {
  LoopRow row;
  row.node = placement.node.empty() ? s.cluster.node.name : placement.node;
  row.changes = changes_of(s, placement);
  row.nodes = placement.nodes;
  row.generation_nodes = placement.generation_nodes;
  row.hybrid = placement.hybrid;
  row.engine_gpus = placement.engine.gpus();
  row.engine = placement.engine.words();
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
    row.peak = result.memory.peak.value;
    row.capacity = result.memory.capacity.value;
    row.headroom = question.headroom.value_or(default_headroom(changed));
    row.risk = result.risk;
    if (!leaves_headroom(result.memory.peak, result.memory.capacity, row.headroom))
      row.tight = fmt::format("the training half takes {} of {} a GPU, and leaves less than {:.1f} % free",
                              show(result.memory.peak), show(result.memory.capacity), row.headroom * 100);
    row.gpus = r.gpus;
    row.critic_nodes = choice.critic_nodes();
    PlanPoint training = point_of(changed);
    if (choice.packs && !choice.has_dynamic_batches()) training.micro_batch /= choice.packs->sequences;
    row.training = words_of(training, changed.plan.mesh.data, changed.plan.context_exchange_in_words());
    row.prompts = choice.prompts;
    row.samples_per_prompt = choice.samples_per_prompt;
    row.staleness = choice.asynchrony ? choice.asynchrony->staleness : choice.one_step_off ? 1 : 0;
    row.step_time = r.step_time.value;
    row.generation = r.generation.value;
    row.training_half = r.training_half().value;
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

JsonFields<LoopRow> loop_row_fields() {
  using R = LoopRow;
  return JsonFields<R>()
      .value("node", "", &R::node, "type of node")
      .value("nodes", "", &R::nodes, "number of nodes")
      .value("generation_nodes", "", &R::generation_nodes, "number of nodes that only generate; 0: all do both in turn")
      .value("hybrid", "", &R::hybrid, "whether the other nodes generate too, before they train")
      .value("gpus", "", &R::gpus, "number of GPUs")
      .value("engine_gpus", "", &R::engine_gpus, "number of GPUs of an engine")
      .value("engine", "", &R::engine, "degrees of an engine")
      .value("training", "", &R::training, "plan of the training half")
      .value("prompts", "", &R::prompts, "prompts of a step")
      .value("samples_per_prompt", "", &R::samples_per_prompt, "answers to a prompt")
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
      .value("training_peak_bytes", "bytes", &R::peak,
             "peak memory of the fullest GPU that trains; 0: there is no such loop")
      .value("out_of_memory_probability", "share", &R::risk, "probability that a GPU that trains runs out of memory")
      .value("headroom", "share", &R::headroom,
             "share of the memory of the GPUs that train which placements leave free")
      .value("money_per_hour", "money", &R::hour, "rent of an hour; 0: there are no prices")
      .value("money_per_million_samples", "money", &R::million, "rent of a million samples; 0: there are no prices")
      .value("meets", "", &R::meets, "whether the loop has the samples per second that are asked for")
      .value("error", "", &R::error, "why there is no such loop; empty: there is one");
}

std::vector<LoopSchedule> schedules_with(const std::vector<double>& staleness, bool asynchronous) {
  std::vector<LoopSchedule> all{{"colocated", 0}};
  for (const double bound : staleness) {
    if (bound == 0) all.insert(all.end(), {{"synchronous", 0}, {"hybrid", 0}});
    if (bound >= 1) all.push_back({"one-step-off", 1});
    if (bound > 0 && asynchronous) all.push_back({"asynchronous", bound});
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<LoopSchedule> own_schedules(const PostTrainingChoice& choice) {
  if (choice.asynchrony) {
    const double bound = choice.asynchrony->staleness;
    return schedules_with({0, bound / 2, bound}, true);
  }
  return schedules_with(choice.one_step_off ? std::vector<double>{0, 1} : std::vector<double>{0}, false);
}

}  // namespace trainyard
