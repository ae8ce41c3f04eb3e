#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/seeds/seed_case.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/validate_collectives.hpp"
#include "tools/verbs/validate_dataparallel.hpp"
#include "tools/verbs/validate_horovod.hpp"
#include "tools/verbs/validate_training.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

std::string text_of(const SeedFigures& figures, const SeedFigures& shown) {
  std::string text;
  for (const auto& [name, value] : shown) {
    const auto at = figures.find(name);
    const std::string word = at == figures.end()      ? "(missing)"
                             : at->second.is_string() ? at->second.get<std::string>()
                                                      : at->second.dump();
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, word);
  }
  return text;
}

/// Figures that differ, or (where all agree) the first few.
SeedFigures worth_showing(const SeedOutcome& o, bool all) {
  SeedFigures shown;
  for (const auto& figure : o.expected)
    if (all || shown.size() < 4) shown.insert(figure);
  return shown;
}

int validate_seeds(const std::vector<std::string>& ids, const std::string& json_file, bool all) {
  const std::vector<SeedOutcome> outcomes = run_seed_cases(shipped_file("tests/seeds/cases.yaml"), ids);
  std::size_t passed = 0;
  json cases = json::array();
  for (const SeedOutcome& o : outcomes) {
    passed += o.pass ? 1 : 0;
    cases.push_back({{"id", o.id}, {"pass", o.pass}, {"expected", o.expected}, {"got", o.got}});
    if (json_file == "-") continue;
    const SeedFigures shown = worth_showing(o, all);
    fmt::print("{:10} {}  {}\n", o.id, o.pass ? "pass" : "FAIL", o.title);
    fmt::print("           expected {}{}\n", text_of(o.expected, shown), shown.size() < o.expected.size() ? ", …" : "");
    fmt::print("           got      {}{}\n", text_of(o.got, shown), shown.size() < o.expected.size() ? ", …" : "");
    if (!o.note.empty()) fmt::print("           note     {}\n", o.note);
  }
  if (json_file != "-") fmt::print("{} of {} seed cases pass\n", passed, outcomes.size());
  if (!json_file.empty())
    write_whole(
        json_file,
        json{{"sets", json::array({{{"name", "seeds"}, {"n", outcomes.size()}, {"cases", cases}}})}}.dump(2) + "\n");
  return passed == outcomes.size() ? kGood : kFailsLimit;
}

int validate_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "validate",
      "Compares what the simulator gives with what is known. Sets: seeds, collectives, training, dataparallel, "
      "horovod.",
      "validate seeds --case OVL-01 --all");
  std::string set, json_file;
  std::vector<std::string> ids;
  bool all = false, points = false, fit = false;
  arguments.positional(
      "SET", set,
      "seeds (acceptance cases with known answers), collectives (the NCCL model against nccl-tests), training "
      "(measured training steps and their peak memory), dataparallel (scaling of CNNs over GPUs), horovod (a measured "
      "study on two T4)");
  arguments.repeated("--case", ids, "ID", "seeds: only this case, as often as needed");
  arguments.flag("--all", all, "seeds: every figure of each case, not the first four");
  arguments.flag("--points", points, "collectives, training, dataparallel, horovod: every point in the JSON");
  arguments.flag("--fit", fit, "horovod: print the fit of the stack's constant instead");
  arguments.output("--json", json_file, "write the outcomes as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const std::vector<std::string> sets{"seeds", "collectives", "training", "dataparallel", "horovod"};
  if (std::find(sets.begin(), sets.end(), set) == sets.end())
    throw UserError(fmt::format("trainyard validate: unknown set \"{}\"{}", set, hint(set, sets)));
  if (set != "seeds" && (all || !ids.empty())) throw UserError("--case, --all: only with validate seeds");
  if (set == "seeds" && points)
    throw UserError("--points: only with validate collectives, training, dataparallel and horovod");
  if (set != "horovod" && fit) throw UserError("--fit: only with validate horovod");
  if (fit && !json_file.empty()) throw UserError("--fit: prints text only; leave out --json");
  if (set == "collectives") return validate_collectives(json_file, points);
  if (set == "training") return validate_training(json_file, points);
  if (set == "dataparallel") return validate_data_parallel(json_file, points);
  if (set == "horovod") return validate_horovod(json_file, points, fit);
  return validate_seeds(ids, json_file, all);
}

const RegisterVerb registered_validate{"validate", "compare with cases and measurements that are known", validate_verb};

}  // namespace
}  // namespace trainyard
