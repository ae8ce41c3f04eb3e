#include "sim/error.hpp"
#include "tools/verbs/sweep_outputs.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

int merge_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "merge",
      "Puts the shards of a sweep together (`sweep --shard I/N --points FILE`): the same tables, byte by "
      "byte, as one process writes. Files of other studies and missing points are refused.",
      "merge points-1.jsonl points-2.jsonl --csv sweep.csv");
  std::vector<std::string> files;
  SweepOutputs outputs;
  arguments.positionals("FILES", files, "what --points has written, of all shards");
  outputs.declare(arguments, "write the table; - is stdout (the default)");
  if (!arguments.parse(words)) return kGood;
  if (files.empty()) throw UserError("merge: files of points expected (trainyard merge --help)");
  if (!outputs.any()) outputs.csv = std::string(1, '-');
  outputs.order();  // before anything is read
  const MergedSweep merged = merge_sweeps(files);
  outputs.write(merged.sweep, merged.points);
  report_impossible_points(merged.points);
  return kGood;
}

const RegisterVerb registered_merge{"merge", "put the shards of a sweep together", merge_verb};

}  // namespace
}  // namespace trainyard
