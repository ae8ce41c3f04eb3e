#include <fmt/format.h>

#include <algorithm>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "sim/process/job.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

/// The sets of measurements with their functions, in the order of the help.
const std::vector<std::pair<std::string, int (*)(const ValidationRequest&)>> kComparisons{
    {"collectives", validate_collectives},
    {"kernels", validate_kernels},
    {"training", validate_runs},
    {"coverage", validate_coverage},
    {"anchors", validate_anchors},
    {"memory", validate_memory},
    {"plans", validate_plans},
    {"mlperf", validate_runs},
    {"published", validate_published},
    {"dataparallel", validate_data_parallel},
    {"horovod", validate_horovod},
    {"post-training", validate_post_training},
    {"serving", validate_serving},
    {"packets", validate_packets},
    {"engines", validate_engines},
    {"answered", validate_answered}};

/// The other folders of scenarios/measured: families of measured runs.
constexpr const char* kFolders[] = {"training-2026", "mlperf-v6", "outside-the-fit", "schedules", "diloco"};

/// Returns true if the set is a folder of scenarios/measured.
bool is_shipped(const std::string& set) {
  return set.find('/') == std::string::npos && !shipped_yaml_files("scenarios/measured/" + set).empty();
}

int validate_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "validate",
      "Compares the simulator with measurements. Sets: collectives, kernels, training, training-2026, coverage, "
      "anchors, memory, plans, mlperf, mlperf-v6, outside-the-fit, schedules, diloco, published, dataparallel, "
      "horovod, post-training, serving. Compares it also with TCP packet by packet (packets) and with SimGrid's own "
      "communications (engines), and counts the published steps that are answered (answered).",
      "validate training --points --json -");
  ValidationRequest request;
  arguments.positional(
      "SET", request.set,
      "collectives (the NCCL model against nccl-tests), kernels (matrix products and attention), training (measured "
      "training steps and their peak memory), training-2026 (steps of 2022 to 2026), coverage (how many measured "
      "steps, collectives and memories lie in the interval that was predicted without their family; takes half a "
      "minute), anchors (families anchored by two steps, those that took the fewest GPU-seconds; takes minutes), "
      "memory (peak and reserved memory only), plans (whether the best of the measured plans is chosen), mlperf and "
      "mlperf-v6 (steps of MLPerf's submissions, and the scaling of its data-parallel ones), outside-the-fit (families "
      "that no constant was fitted to), schedules (pipeline schedules on one node), diloco (workers at "
      "several sites that seldom exchange), published (the rates of famous runs in their papers), dataparallel "
      "(scaling of CNNs over GPUs), horovod (a measured study on two T4), post-training (steps of reinforcement "
      "learning with NeMo-RL, and transfers of weights; with --points the parts of each step), serving (times of "
      "tokens of inference engines), packets (the default transport against TCP packet by packet: incast, slow start, "
      "round-trip times; takes half a minute), engines (the default transport against SimGrid's own communications, on "
      "every shipped scenario that these can run), answered (which of 260 published steps of 2022 to 2026 have a "
      "scenario, and why the others are refused; with --points each of them), or a table of measured runs of your own "
      "(FILE.yaml)");
  arguments.flag("--points", request.points,
                 "write every point in the JSON, and in the text of training, plans, memory, mlperf and kernels; with "
                 "published, write the assumptions");
  arguments.repeated_flag(
      "--family", request.families, "NAME",
      "training, plans, mlperf, memory: compare only this family of runs; engines: only this shipped "
      "scenario; may be repeated");
  arguments.flag(
      "--knobs", request.knobs,
      "training: show instead the fitted constants, what they belong to, and the data of their fits; with --left-out "
      "which families of all sets determine each constant, and its value without each of them; takes minutes");
  arguments.flag("--left-out", request.left_out,
                 "training, training-2026, mlperf, mlperf-v6, outside-the-fit: show also the error of each family with "
                 "constants that are fitted without its runs");
  arguments.flag("--first", request.first, "anchors: anchor each family by its first two steps in the file instead");
  arguments.flag("--fit", request.fit, "horovod: print the fit of the stack's constant instead");
  arguments.output("--json", request.json, "write the errors as JSON; - is stdout");
  arguments.output("--html", request.html,
                   "collectives, training, memory, mlperf: write a page with all points; - is stdout");
  arguments.output(
      "--csv", request.csv,
      "with --left-out: write the error of each step; with coverage, collectives and memory: write the spreads that "
      "make intervals; with serving: write the error of each figure; with post-training: write each step as it is "
      "predicted without its model; all in the form of scenarios/measured/tables; - is stdout");
  arguments.output("--svg", request.svg,
                   "collectives: draw the measured and predicted bus bandwidth of every system; horovod: draw the "
                   "measured and predicted times by batch");
  arguments.option("--systems", request.systems, "A,B", "collectives: draw only these systems");
  if (!arguments.parse(words)) return kGood;
  std::vector<std::string> names;
  for (const auto& [name, compare] : kComparisons) names.push_back(name);
  const std::string& set = request.set;
  const auto found = std::ranges::find(names, set);
  if (found == names.end() && !set.ends_with(".yaml") && !is_shipped(set)) {
    for (const char* folder : kFolders) names.emplace_back(folder);
    throw UserError(fmt::format("trainyard validate: unknown set \"{}\"{}", set, hint(set, names)));
  }
  if (set != "anchors" && request.first) throw UserError("--first: only with validate anchors");
  if (set != "horovod" && request.fit) throw UserError("--fit: only with validate horovod");
  const bool other_runs = found == names.end(), runs = set == "training" || set == "mlperf" || other_runs;
  if (!runs && set != "plans" && set != "memory" && set != "engines" && !request.families.empty())
    throw UserError("--family: only with validate training, plans, mlperf, memory and engines");
  const bool has_left_out = set == kUnfittedSet || std::ranges::count(kFittedSets, set) > 0;
  if (request.left_out && (!has_left_out || !request.html.empty()))
    throw UserError(fmt::format("--left-out: only with validate {} and {}, and without --html",
                                fmt::join(kFittedSets, ", "), kUnfittedSet));
  const bool has_table =
      set == "coverage" || set == "collectives" || set == "memory" || set == "post-training" || set == "serving";
  if ((!request.left_out || request.knobs) && !has_table && !request.csv.empty())
    throw UserError(
        "--csv: only with --left-out, and with validate coverage, collectives, memory, serving and post-training");
  if (set == "memory" && !request.families.empty() && !request.csv.empty())
    throw UserError("--csv: the spreads are fitted to all families; leave out --family");
  if (request.knobs && (set != "training" || request.points || !request.families.empty()))
    throw UserError("--knobs: only with validate training, and without --points and --family");
  if (request.fit && !request.json.empty()) throw UserError("--fit: prints text only; leave out --json");
  if (set != "collectives" && !request.systems.empty()) throw UserError("--systems: only with validate collectives");
  if (set != "collectives" && set != "horovod" && !request.svg.empty())
    throw UserError("--svg: only with validate collectives and validate horovod");
  if (!request.html.empty() && ((set != "collectives" && set != "memory" && !runs) || request.knobs))
    throw UserError("--html: only with validate collectives, training, memory and mlperf");
  watch_interrupts();
  if (request.knobs) return show_knobs(request);
  if (request.left_out) return validate_left_out(request);
  return other_runs ? validate_runs(request)
                    : kComparisons[static_cast<std::size_t>(found - names.begin())].second(request);
}

const RegisterVerb registered_validate{"validate", VerbGroup::measure, "compare the simulator with measurements",
                                       validate_verb};

}  // namespace
}  // namespace trainyard
