#include <fmt/format.h>

#include <algorithm>

#include "tools/verbs/arguments.hpp"
#include "tools/verbs/validation/validate_collectives.hpp"
#include "tools/verbs/validation/validate_dataparallel.hpp"
#include "tools/verbs/validation/validate_engines.hpp"
#include "tools/verbs/validation/validate_horovod.hpp"
#include "tools/verbs/validation/validate_kernels.hpp"
#include "tools/verbs/validation/validate_knobs.hpp"
#include "tools/verbs/validation/validate_left_out.hpp"
#include "tools/verbs/validation/validate_memory.hpp"
#include "tools/verbs/validation/validate_packets.hpp"
#include "tools/verbs/validation/validate_plans.hpp"
#include "tools/verbs/validation/validate_published.hpp"
#include "tools/verbs/validation/validate_training.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

int validate_verb(const std::vector<std::string>& words) {
  Arguments arguments("validate",
                      "Compares what the simulator gives with measurements. Sets: collectives, kernels, training, "
                      "memory, plans, mlperf, published, dataparallel, horovod; with TCP packet by packet: "
                      "packets; and with SimGrid's own communications: engines.",
                      "validate training --points --json -");
  std::string set, json_file, html, svg, csv, systems;
  std::vector<std::string> families;
  bool points = false, fit = false, knobs = false, left_out = false;
  arguments.positional(
      "SET", set,
      "collectives (the NCCL model against nccl-tests), kernels (matrix products and attention), "
      "training (measured training steps and their peak memory), memory (peak and reserved memory "
      "alone), plans (whether the best of the measured plans is chosen), mlperf (steps of MLPerf's "
      "submissions; of its data-parallel ones scaling too), "
      "published (the rates of famous runs, as their papers give them), "
      "dataparallel (scaling of CNNs over GPUs), horovod (a measured study on two T4), packets (times by the default "
      "transport beside TCP packet by packet: incast, slow start, round-trip times; half a minute), engines (every "
      "shipped scenario that SimGrid's own "
      "communications can run, beside the default transport)");
  arguments.flag(
      "--points", points,
      "every point in the JSON, and in the text of training, plans, memory, mlperf and kernels; what was assumed "
      "of published");
  arguments.repeated("--family", families, "NAME", "training, plans, mlperf: that family of runs alone");
  arguments.flag("--knobs", knobs,
                 "training: the constants that are fitted, what they belong to, and to what, instead");
  arguments.flag(
      "--left-out", left_out,
      "training, mlperf: each family by constants that are fitted again without its runs, beside its error as it is");
  arguments.flag("--fit", fit, "horovod: print the fit of the stack's constant instead");
  arguments.output("--json", json_file, "write the outcomes as JSON; - is stdout");
  arguments.output("--html", html, "collectives, training, memory, mlperf: draw all points as a page; - is stdout");
  arguments.output("--csv", csv,
                   "training and mlperf with --left-out: errors by network, stack, GPU and precision, as "
                   "scenarios/measured/tables keeps them for the trust line; - is stdout");
  arguments.output("--svg", svg, "collectives: measured and predicted bus bandwidth of every system, as a picture");
  arguments.option("--systems", systems, "A,B", "collectives: only these of its systems in the picture");
  if (!arguments.parse(words)) return kGood;
  const std::vector<std::string> sets{"collectives", "kernels",      "training", "memory",  "plans",  "mlperf",
                                      "published",   "dataparallel", "horovod",  "packets", "engines"};
  if (std::find(sets.begin(), sets.end(), set) == sets.end())
    throw UserError(fmt::format("trainyard validate: unknown set \"{}\"{}", set, hint(set, sets)));
  if (set != "horovod" && fit) throw UserError("--fit: only with validate horovod");
  const bool runs = set == "training" || set == "mlperf";
  if (!runs && set != "plans" && !families.empty())
    throw UserError("--family: only with validate training, plans and mlperf");
  if (left_out && (!runs || knobs || !html.empty()))
    throw UserError("--left-out: only with validate training and mlperf, and without --knobs and --html");
  if (!left_out && !csv.empty()) throw UserError("--csv: only with --left-out");
  if (knobs && (set != "training" || points || !families.empty()))
    throw UserError("--knobs: only with validate training, and without --points and --family");
  if (fit && !json_file.empty()) throw UserError("--fit: prints text only; leave out --json");
  if (set != "collectives" && !(svg + systems).empty())
    throw UserError("--svg, --systems: only with validate collectives");
  if (!html.empty() && ((set != "collectives" && set != "memory" && !runs) || knobs))
    throw UserError("--html: only with validate collectives, training, memory and mlperf");
  if (set == "collectives") return validate_collectives({json_file, html, points}, svg, systems);
  if (set == "kernels") return validate_kernels(json_file, points);
  if (knobs) return show_knobs(json_file);
  if (left_out) return validate_left_out({json_file, csv, points}, set, families);
  if (set == "memory") return validate_memory({json_file, html, points});
  if (runs) return validate_training({json_file, html, points}, set, families);
  if (set == "plans") return validate_plans(json_file, points, families);
  if (set == "published") return validate_published(json_file, points);
  if (set == "packets") return validate_packets(json_file);
  if (set == "engines") return validate_engines(json_file);
  if (set == "dataparallel") return validate_data_parallel(json_file, points);
  return validate_horovod(json_file, points, fit);
}

const RegisterVerb registered_validate{"validate", "compare with measurements", validate_verb};

}  // namespace
}  // namespace trainyard
