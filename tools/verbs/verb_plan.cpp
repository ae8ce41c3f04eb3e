#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_family.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/search/layer_plan.hpp"
#include "scenarios/src/search/loop_search.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/assumptions.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/loop_placements.hpp"
#include "tools/verbs/search_limits.hpp"
#include "tools/verbs/study_shares.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

/// The flags that stand in for a scenario file.
struct ScenarioFlags {
  std::string model, node, software;  ///< empty software: that of the strategy, or megatron-core
  int nodes = 1;
  std::optional<int> batch;
};

/// `has_strategy`: --strategy names a framework, which sets the software if --software does not.
Node document_of(const ScenarioFlags& scenario_flags, bool has_strategy) {
  if (scenario_flags.model.empty() || scenario_flags.node.empty() || !scenario_flags.batch)
    throw UserError("plan: a scenario file, or --model, --on and --batch expected");
  Node document = Node::empty_map(Place::named("--model"));
  const auto set = [&document](const char* path, const char* flag, std::string value) {
    set_field(document, path, parse_override(value, flag));
  };
  set("cluster.node", "--on", scenario_flags.node);
  set("cluster.nodes", "--nodes", fmt::format("{}", scenario_flags.nodes));
  if (scenario_flags.nodes > 1) set("cluster.fabric", "--nodes", "nonblocking");
  set("model", "--model", scenario_flags.model);
  set("plan.global_batch_size", "--batch", fmt::format("{}", *scenario_flags.batch));
  if (!scenario_flags.software.empty() || !has_strategy)
    set("software", "--software", scenario_flags.software.empty() ? "megatron-core" : scenario_flags.software);
  return document;
}

/// The word of --strategy that allows whatever the simulator has.
constexpr const char* kAnyStrategy = "any";

/// Sets plan.strategy. `any` removes it, but keeps the fields that the scenario's strategy fills in.
void take_strategy(Node& document, const std::string& strategy) {
  if (strategy.empty()) return;
  if (strategy != kAnyStrategy) {
    set_field(document, "plan.strategy", Node::scalar_node(strategy, Place::named("--strategy")));
    return;
  }
  apply_framework_mode(document);
  if (Node* plan = document.find("plan"))
    std::erase_if(plan->fields, [](const auto& field) { return field.first == "strategy"; });
}

/// Returns the best plan's answer of `run`: for a page with what limits the plan and what faster resources save. No value:
/// there is no plan, or neither prices nor a page.
std::optional<Answer> run_of_best(const PlanAnswer& plans, const Scenario& best, bool is_page) {
  const bool is_needed = is_page || best.prices.is_given();
  if (plans.best.empty() || !is_needed || plans.ended == SearchEnd::interrupt) return std::nullopt;
  std::string unfinished;  // the page then lacks what the what-ifs would say
  return answer(best,
                {.simulation = {.critical_path = is_page}, .factor = is_page ? 2.0 : 0.0, .unfinished = &unfinished});
}

/// Returns the answer with `energy`, `money`, `bottleneck` and `what_if` of the best plan, which have the keys of `run`.
nlohmann::ordered_json plan_json(const PlanAnswer& plans, const std::optional<Answer>& best, bool is_priced) {
  nlohmann::ordered_json object = plan_fields().json(plans);
  if (!best) return object;
  const nlohmann::json all = answer_json(*best, false);
  std::vector<const char*> keys{"bottleneck", "what_if"};
  if (is_priced) keys.insert(keys.begin(), {"energy", "money"});
  for (const char* key : keys)
    if (all.contains(key)) object[key] = all.at(key);
  return object;
}

/// Writes the answer as JSON and as a page, if those files are named.
void write_answer(const std::string& json, const std::string& html, const PlanAnswer& answer,
                  const std::optional<Answer>& best, const std::string& screen, const Scenario& scenario) {
  if ((json + html).empty()) return;
  const nlohmann::ordered_json object = plan_json(answer, best, scenario.prices.is_given());
  write_json(json, object);
  if (!html.empty())
    write_atomically(html, chart_page("Plans for " + answer.scenario,
                                      {{"answer", object},
                                       {"screen", screen},
                                       {"device", device_noun(scenario.cluster)},
                                       {"assumptions", assumptions_json(scenario.document, node_types(scenario))}},
                                      {page_script::plan()}));
}

/// Runs `plan --layers`: stages on unequally many devices.
int plan_by_layers(const PlanQuestion& question, const PlanAnswerOptions& plans, const std::string& json,
                   const std::string& write) {
  watch_interrupts();
  LayerPlanAnswer answer;
  {
    ProgressLine line;
    const auto solve = [&] {
      return plan_layers(question, {plans, true, [&line](const std::string& text) { line.show(text); }});
    };
    answer = errors_in_words_of(device_noun(question.base.cluster), solve);
  }
  if (json != "-" && write != "-") print(in_words_of(device_noun(question.base.cluster), layer_plan_screen(answer)));
  if (!write.empty())
    write_scenario(write, answer.scenario + ": the stages that `trainyard plan --layers` found",
                   answer.division.document);
  write_json(json, layer_plan_fields().json(answer));
  if (answer.unfinished.empty()) return kGood;
  complain("interrupted: the answer is unfinished");
  return kInterrupted;
}

struct PlanFlags {
  std::string file, write, json, html, strategy, headroom, samples_per_s, confidence, prices;
  int most_nodes = 0;
  ScenarioFlags scenario_flags;
  std::vector<std::string> sets, vary;
  StudyShares shares;
  SearchLimits limits;
  int rows = 5;
  bool offload = false, upgrades = false, brief = false, layers = false;
  Arguments arguments{"plan",
                      "Finds the plan with the least step time. It looks at every legal split of the model over the "
                      "cluster, excludes those that do not fit and those that cannot be the fastest (by a lower bound "
                      "of their step time), and simulates the others.",
                      "plan scenarios/plan-gpt3-175b-1024.yaml --write best.yaml"};

  PlanFlags() {
    arguments.positional("SCENARIO", file, "scenario file (YAML); its plan gives batch, lengths and precision", false);
    arguments.option("--model", scenario_flags.model, "NAME", "instead of a file: the model");
    arguments.option("--on", scenario_flags.node, "NODE", "with --model: the type of node");
    arguments.option("--nodes", scenario_flags.nodes, "N", "with --model: the number of nodes");
    arguments.option("--batch", scenario_flags.batch, "N", "with --model: the number of samples of a step");
    arguments.option("--software", scenario_flags.software, "STACK",
                     "with --model: the software stack (default: the strategy's, or megatron-core)");
    arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field; may be repeated");
    arguments.repeated_flag("--vary", vary, "PATH=A,B,...",
                            "try only these values of a field, for example plan.tensor_parallel=4,8; a field that the "
                            "search does not vary by itself is varied too");
    arguments.option("--strategy", strategy, "NAME",
                     "search what this framework can do (trainyard list strategies), in place of plan.strategy; any: "
                     "every technique that the simulator has");
    arguments.option("--headroom", headroom, "SHARE",
                     "leave this share of each device's memory free, for example 8 % or 0 (default: what the driver's "
                     "context and fragmentation take, 6.8 to 8.0 % of 80 GiB by stack)");
    arguments.flag("--offload", offload, "also try plans with the optimizer on the CPU");
    limits.declare(arguments, "--budget", "the search", "default: until the best of the searched plans is proved");
    arguments.output("--write", write, "write the scenario with the best plan; - is stdout");
    arguments.output("--json", json, "write the answer as JSON; - is stdout (and prints nothing else there)");
    arguments.output("--html", html,
                     "write a page with the best plan, the Pareto front and the cost of each choice; - is stdout");
    shares.declare(arguments, "group of plans");
    arguments.option("--top", rows, "N", "list the N fastest plans", 1);
    arguments.flag("--upgrades", upgrades, "search again with twice the memory, NVLink and HCA rate");
    arguments.flag("--layers", layers,
                   "for networks whose layers differ: divide layers among stages on unequally many devices, and split "
                   "each layer of an mlp by columns, rows or not at all (Alpa); compared with plans of equal stages. "
                   "Works with --set, --strategy, --headroom, --budget, --json and --write, which writes the stages");
    arguments.option("--samples-per-second", samples_per_s, "N",
                     "for a scenario with post_training: find the fewest nodes, and their split between generation and "
                     "training, with at least N samples (answers with their prompts) a second. Without it, the fastest "
                     "split and layouts on the scenario's nodes");
    arguments.option("--most-nodes", most_nodes, "N",
                     "with --samples-per-second: try up to N nodes (default: four times those of the scenario)", 1,
                     1 << 20);
    arguments.option("--confidence", confidence, "SHARE",
                     "with --samples-per-second: a real loop has the samples with at least this probability, for "
                     "example 90% (default: the predicted loop has them)");
    arguments.option("--prices", prices, "FILE",
                     "file with your prices: energy and cost of the best plan, a step and a million tokens "
                     "(scenarios/prices-example.yml shows how)");
    arguments.flag("--brief", brief, "show only the best plan, without neighbours and rule of thumb");
  }

  std::vector<PlanSpaceOptions::Axis> varied_fields() const {
    std::vector<PlanSpaceOptions::Axis> fields;
    for (const std::string& axis : vary) {
      SweepAxis parsed = parse_sweep_axis(axis, "--vary");
      fields.push_back({std::move(parsed.path), std::move(parsed.values)});
    }
    return fields;
  }

  PlanAnswerOptions options() const {
    PlanAnswerOptions options;
    options.space.offload = offload;
    options.space.vary = varied_fields();
    options.search.work = limits.operations();
    options.seconds = limits.wall_seconds();
    options.journal = shares.points;
    options.search.shard = shares.requested_shard(!(json + html + write).empty());
    options.rows = static_cast<std::size_t>(rows);
    options.neighbours = options.rule = !brief;
    options.upgrades = upgrades;
    if (!headroom.empty()) options.headroom = parse_headroom(headroom);
    return options;
  }

  Node document() const {
    if (file.empty() == scenario_flags.model.empty())
      throw UserError(file.empty() ? "plan: a scenario file, or --model, --on and --batch expected"
                                   : "plan: a scenario file or --model expected, not both");
    const std::optional<Node>& scenario = arguments.document();
    Node document = scenario       ? *scenario
                    : file.empty() ? document_of(scenario_flags, !strategy.empty() && strategy != kAnyStrategy)
                                   : read_scenario_document(file);
    set_prices(document, prices);
    for (const auto& [path, value] : parse_overrides(sets)) set_field(document, path, value);
    take_strategy(document, strategy);
    return document;
  }

  std::string name() const { return file.empty() ? scenario_flags.model : std::filesystem::path(file).stem().string(); }

  PlanQuestion question(Node document) const {
    if (!samples_per_s.empty() || most_nodes > 0 || !confidence.empty())
      throw UserError("--samples-per-second, --most-nodes, --confidence: only for a scenario with post_training");
    return read_plan_question(std::move(document), name());
  }

  LoopLayoutOptions layout_options() const {
    return {.vary = varied_fields(), .work = limits.operations(), .headroom = loop_headroom()};
  }
  std::optional<double> loop_headroom() const {
    return headroom.empty() ? std::nullopt : std::optional(parse_headroom(headroom));
  }

  LoopQuestion loop_question() const {
    if (!(html + shares.points + shares.shard + shares.slurm + limits.seconds).empty() || offload || layers || upgrades)
      throw UserError(
          "plan of a scenario with post_training: only --set, --vary, --work, --headroom, --samples-per-second, "
          "--most-nodes, --confidence, --prices, --top, --json and --write");
    if (samples_per_s.empty() && (most_nodes > 0 || !confidence.empty()))
      throw UserError("--most-nodes, --confidence: only with --samples-per-second");
    if (!samples_per_s.empty() && !(vary.empty() && limits.work.empty()))
      throw UserError("--vary, --work: not with --samples-per-second, which keeps the layout of the training half");
    return {parse_amount("--samples-per-second", samples_per_s),
            most_nodes,
            {},
            read_loop_confidence(confidence),
            loop_headroom()};
  }
};

/// Searches a loop: the fewest nodes for the samples of the question, or the fastest layout.
LoopAnswer searched_loop(const PlanFlags& flags, const Scenario& s) {
  const LoopQuestion question = flags.loop_question();
  return question.samples_per_s > 0 ? search_loops(s, question) : search_loop_layouts(s, flags.layout_options());
}

PlanAnswer shown_search(const PlanQuestion& question, PlanAnswerOptions options) {
  ProgressLine line;
  options.search.progress = [&line](const std::string& text) { line.show(text); };
  return errors_in_words_of(device_noun(question.base.cluster), [&] { return answer_plan(question, options); });
}

std::string plan_answer(const VerbQuestion& question) {
  PlanFlags flags;
  flags.arguments.take(question);
  Node document = flags.document();
  if (has_loop(document))
    return json_text(loop_answer_fields().json(searched_loop(flags, read_scenario(document, flags.name()))));
  const PlanAnswerOptions options = flags.options();
  const PlanAnswer plans = shown_search(flags.question(std::move(document)), options);
  if (plans.best.empty()) return json_text(plan_fields().json(plans));
  const Scenario best = read_scenario(plans.document, flags.name());
  return json_text(plan_json(plans, run_of_best(plans, best, false), best.prices.is_given()));
}

int plan_verb(const std::vector<std::string>& words) {
  PlanFlags flags;
  if (!flags.arguments.parse(words)) return kGood;
  Node document = flags.document();
  if (has_loop(document)) {
    const LoopQuestion question = flags.loop_question();
    const LoopOutputs outputs{flags.rows, flags.json, flags.write};
    return question.samples_per_s > 0 ? answer_loop(document, flags.name(), question, outputs)
                                      : answer_loop_layouts(document, flags.name(), flags.layout_options(), outputs);
  }
  const PlanAnswerOptions options = flags.options();
  const PlanQuestion question = flags.question(std::move(document));
  StudyShares& shares = flags.shares;
  if (flags.layers) {
    if (!(flags.html + shares.points + shares.shard).empty() || !flags.vary.empty() || flags.offload)
      throw UserError("--layers: not with --html, --vary, --offload or parts of a search");
    return plan_by_layers(question, options, flags.json, flags.write);
  }
  if (!shares.slurm.empty()) return shares.write_slurm_job(flags.arguments, kMostShards);
  watch_interrupts();
  const std::string device = device_noun(question.base.cluster);
  const PlanAnswer answer = shown_search(question, options);
  const Scenario shown = answer.best.empty() ? question.base : read_scenario(answer.document, question.base.name);
  const bool stopped = answer.ended == SearchEnd::interrupt;
  if (stopped && !shares.shard.empty()) return shares.interrupted_search();
  if (!shares.shard.empty()) {
    shares.finish(flags.arguments);
    return kGood;
  }
  const std::optional<Answer> best = run_of_best(answer, shown, !flags.html.empty());
  const std::string costs =
      best && shown.prices.is_given() ? "\nthe best plan costs\n" + broken_lines(cost_lines(best->result)) : "";
  const std::string screen = in_words_of(device, plan_screen(answer, shown) + costs);
  if (flags.arguments.leaves_stdout_free()) print(screen);
  write_answer(flags.json, flags.html, answer, best, screen, shown);
  const bool found = answer.search.best() || answer.own_is_best;
  if (found && !flags.write.empty())
    write_scenario(flags.write,
                   fmt::format("{}: the plan that `trainyard plan` found{}", answer.scenario,
                               stopped ? " before it was interrupted" : ""),
                   answer.document);
  if (stopped) return shares.interrupted_search();
  return found ? kGood : kFailsLimit;
}

const RegisterVerb registered_plan{"plan", VerbGroup::choose,
                                   "find the fastest plan that fits, and what every other choice costs", plan_verb,
                                   plan_answer};

}  // namespace
}  // namespace trainyard
