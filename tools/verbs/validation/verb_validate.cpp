#include <fmt/format.h>

#include <algorithm>

#include "models/reading/shipped_files.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/validation/validation.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// What is compared, and how; names in the order of the help.
const std::vector<std::pair<std::string, int (*)(const ValidationRequest&)>> kComparisons{
    {"collectives", validate_collectives},
    {"kernels", validate_kernels},
    {"training", validate_runs},
    {"memory", validate_memory},
    {"plans", validate_plans},
    {"mlperf", validate_runs},
    {"published", validate_published},
    {"dataparallel", validate_data_parallel},
    {"horovod", validate_horovod},
    {"packets", validate_packets},
    {"engines", validate_engines}};

/// A file of measured runs, or a folder of scenarios/measured that no comparison is named after.
bool is_table(const std::string& set) {
  return set.ends_with(".yaml") ||
         (set.find('/') == std::string::npos && !shipped_yaml_files("scenarios/measured/" + set).empty());
}

int validate_verb(const std::vector<std::string>& words) {
  Arguments arguments("validate",
                      "Compares what the simulator gives with measurements. Sets: collectives, kernels, training, "
                      "memory, plans, mlperf, published, dataparallel, horovod; with TCP packet by packet: "
                      "packets; and with SimGrid's own communications: engines.",
                      "validate training --points --json -");
  ValidationRequest asked;
  arguments.positional(
      "SET", asked.set,
      "collectives (the NCCL model against nccl-tests), kernels (matrix products and attention), "
      "training (measured training steps and their peak memory), memory (peak and reserved memory "
      "alone), plans (whether the best of the measured plans is chosen), mlperf (steps of MLPerf's "
      "submissions; of its data-parallel ones scaling too), "
      "published (the rates of famous runs, as their papers give them), "
      "dataparallel (scaling of CNNs over GPUs), horovod (a measured study on two T4), packets (times by the default "
      "transport beside TCP packet by packet: incast, slow start, round-trip times; half a minute), engines (every "
      "shipped scenario that SimGrid's own "
      "communications can run, beside the default transport), or a table of measured runs of your own (FILE.yaml)");
  arguments.flag(
      "--points", asked.points,
      "every point in the JSON, and in the text of training, plans, memory, mlperf and kernels; what was assumed "
      "of published");
  arguments.repeated("--family", asked.families, "NAME", "training, plans, mlperf: that family of runs alone");
  arguments.flag("--knobs", asked.knobs,
                 "training: the constants that are fitted, what they belong to, and to what, instead");
  arguments.flag(
      "--left-out", asked.left_out,
      "training, mlperf: each family by constants that are fitted again without its runs, beside its error as it is");
  arguments.flag("--fit", asked.fit, "horovod: print the fit of the stack's constant instead");
  arguments.output("--json", asked.json, "write the outcomes as JSON; - is stdout");
  arguments.output("--html", asked.html,
                   "collectives, training, memory, mlperf: draw all points as a page; - is stdout");
  arguments.output("--csv", asked.csv,
                   "training and mlperf with --left-out: errors by network, stack, GPU and precision, as "
                   "scenarios/measured/tables keeps them for the trust line; - is stdout");
  arguments.output("--svg", asked.svg,
                   "collectives: measured and predicted bus bandwidth of every system, as a picture");
  arguments.option("--systems", asked.systems, "A,B", "collectives: only these of its systems in the picture");
  if (!arguments.parse(words)) return kGood;
  std::vector<std::string> names;
  for (const auto& [name, compare] : kComparisons) names.push_back(name);
  const std::string& set = asked.set;
  const auto at = std::ranges::find(names, set);
  if (at == names.end() && !is_table(set))
    throw UserError(fmt::format("trainyard validate: unknown set \"{}\"{}", set, hint(set, names)));
  if (set != "horovod" && asked.fit) throw UserError("--fit: only with validate horovod");
  const bool fitted = set == "training" || set == "mlperf", runs = fitted || at == names.end();
  if (!runs && set != "plans" && !asked.families.empty())
    throw UserError("--family: only with validate training, plans and mlperf");
  if (asked.left_out && (!fitted || asked.knobs || !asked.html.empty()))
    throw UserError("--left-out: only with validate training and mlperf, and without --knobs and --html");
  if (!asked.left_out && !asked.csv.empty()) throw UserError("--csv: only with --left-out");
  if (asked.knobs && (set != "training" || asked.points || !asked.families.empty()))
    throw UserError("--knobs: only with validate training, and without --points and --family");
  if (asked.fit && !asked.json.empty()) throw UserError("--fit: prints text only; leave out --json");
  if (set != "collectives" && !(asked.svg + asked.systems).empty())
    throw UserError("--svg, --systems: only with validate collectives");
  if (!asked.html.empty() && ((set != "collectives" && set != "memory" && !runs) || asked.knobs))
    throw UserError("--html: only with validate collectives, training, memory and mlperf");
  if (asked.knobs) return show_knobs(asked);
  if (asked.left_out) return validate_left_out(asked);
  return at == names.end() ? validate_runs(asked)
                           : kComparisons[static_cast<std::size_t>(at - names.begin())].second(asked);
}

const RegisterVerb registered_validate{"validate", "compare with measurements", validate_verb};

}  // namespace
}  // namespace trainyard
