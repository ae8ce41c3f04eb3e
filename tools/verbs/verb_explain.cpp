#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/fitted/measured_family.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/reading/searched_degrees.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/axis_limits.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/batch_study.hpp"
#include "scenarios/src/studies/failures/failure_what_ifs.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "scenarios/src/studies/measured/doubt_answer.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

std::string shares_text(const ClusterSpec& cluster, const Result& r) {
  std::string text = fmt::format("critical path of {}: {}\n", r.scenario, show(r.step_time));
  if (r.post_training)
    text = fmt::format("critical path of {}, of {}: {} (a loop step: {})\n", r.scenario,
                       r.post_training->optimizer_step_words(), show(r.step_time), show(r.post_training->step_time));
  if (r.generation)
    text = fmt::format("critical path of {}, of a forward pass: {} (all answers end after {})\n", r.scenario,
                       show(r.step_time), show(r.generation->engines.generation));
  for (const auto& [seconds, resource] : r.shares())
    text += fmt::format("  {:<22} {:>10} {:>8}\n", in_words_of(cluster, resource), show(Seconds{seconds}),
                        percent(seconds / r.step_time.value));
  if (r.critical_path.contains(kLibraryStart))
    text += fmt::format(
        "  {}: what NCCL takes in collectives before data flow, by its fitted model; latency is that of the network\n",
        kLibraryStart);
  if (r.critical_path.contains(kKernelStart))
    text +=
        fmt::format("  {}: what each kernel takes however fast the GPU is; fewer and larger kernels have less of it\n",
                    kKernelStart);
  if (r.critical_path.contains(kSlowdownName))
    text += fmt::format("  {}: what exchanges add to the kernels that run beside them\n", kSlowdownName);
  if (const Result::AllReduce& all = r.all_reduce; !all.algorithm.empty() && r.compression.name.empty())
    text += fmt::format("  {} by {}{}\n", all.averages_parameters ? "parameters are averaged" : "gradients are summed",
                        all.algorithm, all.channels > 1 ? fmt::format(", of {} channels", all.channels) : "");
  return text;
}

std::string path_text(const ClusterSpec& cluster, const Result& r, const std::vector<PathLine>& path, bool in_step,
                      std::size_t most) {
  if (path.empty() && !in_step) return "\nthere is no critical path of one step: workers do not step together\n";
  if (path.empty())
    return fmt::format(
        "\nthe pieces of the path are not shown: {} operations on {} of {} ranks are too many to keep; try fewer steps "
        "or micro-batches\n",
        r.operations / static_cast<std::uint64_t>(r.ranks) * static_cast<std::uint64_t>(r.simulated_ranks),
        r.simulated_ranks, r.ranks);
  if (most == 0) return "";
  // Show the longest pieces, in the order of time.
  std::vector<std::size_t> longest(path.size());
  for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = i;
  const auto length = [&path](std::size_t i) { return path[i].end.value - path[i].begin.value; };
  sort_stably(longest, [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  longest.resize(std::min(most, longest.size()));
  std::ranges::sort(longest);
  std::size_t width = 15;
  for (const std::size_t i : longest) width = std::max(width, in_words_of(cluster, path[i].resource).size());
  std::string text = fmt::format("\nthe {}{} of the critical path{}\n  {:>10} {:>10}  {:<24} {:<{}} operation\n",
                                 longest.size() < path.size() ? fmt::format("{} longest of the ", longest.size()) : "",
                                 counted_noun(static_cast<std::int64_t>(path.size()), "piece"),
                                 r.simulated_ranks < r.ranks ? " (×N: the same on N ranks)" : "", "from", "takes",
                                 "rank or device", "resource", width);
  for (const std::size_t i : longest) {
    const PathLine& line = path[i];
    text += fmt::format("  {:>10} {:>10}  {:<24} {:<{}} {}\n", show(line.begin), show(Seconds{length(i)}), line.actor,
                        in_words_of(cluster, line.resource), width, line.name);
  }
  const std::pair<const char*, const char*> terms[] = {
      {"bucket ", "bucket N: the N-th group of gradients, or of parameters, that are exchanged together, from 0 on"},
      {".dgrad", ".dgrad: gradient of the layer's input"},
      {".wgrad", ".wgrad: gradient of the layer's weights"}};
  std::vector<std::string> legend;
  for (const auto& [term, words] : terms)
    if (std::ranges::any_of(longest,
                            [&, term = term](std::size_t i) { return path[i].name.find(term) != std::string::npos; }))
      legend.emplace_back(words);
  return legend.empty() ? text : text + wrapped("  ", legend, ";");
}

int explain_layers(const Scenario& scenario, const Plan& plan, const std::string& json) {
  require_simulable(scenario, plan);
  SimulateOptions options;
  options.critical_path = false;
  const Result result = simulate(scenario, plan, options);
  const LayerCosts costs = layer_costs(scenario, plan.training, result.breakdown.rank);
  if (json != "-") print(in_words_of(device_noun(scenario.cluster), layer_costs_text(scenario, costs, result)));
  write_json(json, layer_costs_json(costs, result));
  return kGood;
}

int explain_batch(const Scenario& s, const std::string& json, const std::string& svg) {
  ProgressLine line;
  const BatchStudy study = batch_study(
      s, [&line](std::size_t done, std::size_t total) { line.show(fmt::format("{} of {} batches", done, total)); });
  const std::string device = device_noun(s.cluster);
  if (json != "-" && svg != "-") print(in_words_of(device, batch_report(s, study)));
  if (!svg.empty()) write_atomically(svg, in_words_of(device, batch_svg(s, study)));
  write_json(json, batch_study_json(s, study));
  return kGood;
}

int explain_limits(const std::string& file, const Overrides& overrides, int most, const std::string& json,
                   const std::string& svg) {
  const std::string name = std::filesystem::path(file).stem().string();
  const PlanQuestion question = read_plan_question(read_scenario_document(file), name, overrides);
  AxisLimits limits;
  {
    ProgressLine line;
    limits = axis_limits(
        question, most > 0 ? most : std::max(64, question.base.cluster.gpus()),
        [&line](std::size_t done, std::size_t total) { line.show(fmt::format("{} of {} steps", done, total)); });
  }
  const std::string device = device_noun(question.base.cluster);
  if (json != "-" && svg != "-") print(in_words_of(device, limits_screen(limits)));
  if (!svg.empty()) {
    const std::vector<ScalingCurve> curves = curves_of(limits);
    write_atomically(svg, in_words_of(device, scaling_picture(name, curves, curves.front().points.front())));
  }
  write_json(json, axis_limits_fields().json(limits));
  return kGood;
}

int show_doubt(const Scenario& s, const std::string& file, const std::vector<std::string>& sets,
               const std::string& json) {
  std::string words = file;
  for (const std::string& set : sets) words += " --set '" + set + "'";
  const DoubtAnswer doubt = explain_doubt(s, answer(s).result, words);
  if (json != "-") print(in_words_of(device_noun(s.cluster), doubt_screen(doubt)));
  write_json(json, doubt_fields().json(doubt));
  return kGood;
}

int explain_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "explain",
      "Explains why the step takes this long: its critical path by resource, the time saved by making each resource "
      "faster, and the largest micro-batch and model that fit; or the time of each layer.",
      "explain scenarios/gpt2-xl-ddp-dgx-a100.yaml --pieces 30\n"
      "  trainyard explain scenarios/gpt2-xl-ddp-dgx-a100.yaml --layers");
  std::string file, json, svg, prices;
  std::vector<std::string> sets;
  std::optional<int> pieces, factor;
  int most = 0;
  bool layers = false, batch = false, limits = false, doubt = false;
  arguments.positional("SCENARIO", file, "scenario file (YAML)");
  arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field; may be repeated");
  arguments.option("--pieces", pieces, "N", "show the N longest pieces of the critical path (default: 12)", 0);
  arguments.option("--factor", factor, "N", "how much faster each resource is made (default: 2)", 2);
  arguments.flag("--layers", layers, "show instead the time, FLOPs and bytes of each layer, and its bottleneck");
  arguments.flag("--batch", batch, "show instead the steps and time to the target of `learn` against the global batch");
  arguments.flag("--limits", limits,
                 "show instead the number of devices beyond which more do not help, for data, tensor and pipeline "
                 "parallelism alone");
  arguments.flag("--doubt", doubt, "show instead what makes the interval of the step time wide, and what narrows it");
  arguments.option("--most", most, "N",
                   "with --limits: try at most N devices (default: those of the cluster, at least 64)", 1);
  arguments.option("--prices", prices, "FILE",
                   "add the cost of step and training by your prices (scenarios/prices-example.yml shows how)");
  arguments.output("--svg", svg,
                   "with --limits: draw the curves with the ideal line; with --batch: time and error against the "
                   "batch; - is stdout");
  arguments.output("--json", json, "write the answer as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (layers + batch + limits + doubt > 1) throw UserError("--layers, --batch, --limits, --doubt: one of them");
  if (!limits && most != 0) throw UserError("--most: only with --limits");
  if (!limits && !batch && !svg.empty()) throw UserError("--svg: only with --limits or --batch");
  const bool other_answer = layers + batch + limits + doubt > 0;
  if (other_answer && (pieces || factor))
    throw UserError(fmt::format("{}: not with --layers, --batch, --limits or --doubt, which show no {}",
                                factor ? "--factor" : "--pieces", factor ? "faster resources" : "critical path"));
  if (other_answer && !prices.empty())
    throw UserError("--prices: not with --layers, --batch, --limits or --doubt, which know no costs");
  const Overrides overrides = parse_overrides(sets, prices);
  watch_interrupts();
  if (limits) return explain_limits(file, overrides, most, json, svg);
  const Scenario scenario = read_scenario(file, overrides);
  refuse_idle_keys(scenario);
  if (batch) return explain_batch(scenario, json, svg);
  if (doubt) return show_doubt(scenario, file, sets, json);
  const Plan laid_out = plan(scenario);
  if (layers) return explain_layers(scenario, laid_out, json);
  const bool prescribed = scenario.prescribed_step.exists();
  if (prescribed && !scenario.failures.is_given()) require_simulable(scenario, laid_out);
  std::string unfinished;
  const Answer all = answer(scenario, laid_out,
                            {.simulation = {},
                             .factor = static_cast<double>(factor.value_or(2)),
                             .reasons = true,
                             .unfinished = &unfinished});
  const Result& r = all.result;
  if (!unfinished.empty()) {
    if (json != "-")
      print(in_words_of(scenario.cluster,
                        fmt::format("unfinished: {}\n{}", unfinished, shares_text(scenario.cluster, r))));
    nlohmann::json answer = answer_json(all, false);
    answer["unfinished"] = unfinished;
    write_json(json, answer);
    complain(unfinished);
    return kInterrupted;
  }
  if (json != "-") {
    std::string text;
    if (!prescribed)
      text = shares_text(scenario.cluster, r) + host_call_line(r) +
             path_text(scenario.cluster, r, *all.path, scenario.plan.mechanism->is_synchronous(),
                       static_cast<std::size_t>(pieces.value_or(12))) +
             fmt::format("\neach resource made faster, simulated again{}\n", r.post_training ? ": the step of the loop"
                                                                             : r.generation
                                                                                 ? ": the time until the last answer"
                                                                                 : "") +
             what_if_table(r, all.what_ifs) +
             fmt::format("\nthe largest sizes that fit into {} GiB, the memory of a GPU, all else equal\n{}",
                         gib(r.capacity->memory.value), capacity_line(*r.capacity));
    if (r.money) text += "\n" + broken_lines(cost_lines(r));
    print(in_words_of(scenario.cluster, text));
    if (r.failures && r.post_training) print("\n" + failure_lines(*r.failures));
    if (all.failure_what_ifs)
      print(fmt::format("\n{}\n{}", failure_lines(*r.failures),
                        failure_what_if_table(*r.failures, *all.failure_what_ifs)));
  }
  write_json(json, answer_json(all, false));
  return kGood;
}

const RegisterVerb registered_explain{"explain", VerbGroup::predict,
                                      "show the critical path, and the time that each upgrade saves", explain_verb};

}  // namespace
}  // namespace trainyard
