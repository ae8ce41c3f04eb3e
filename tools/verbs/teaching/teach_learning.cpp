// `trainyard teach learning`.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_learning.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

std::function<LessonView()> learning(const std::string&, Arguments& arguments) {
  struct Flags {
    std::string file, how;
    std::vector<std::string> sets;
    int workers = 3, events = 24;
  };
  const auto flags = std::make_shared<Flags>();
  const std::vector<std::string> names = ways_to_learn();
  arguments.positional("SCENARIO", flags->file, "a scenario with a section `learn` (default: a small one)", false);
  arguments.choice("--how", flags->how, names, "NAME",
                   fmt::format("how the workers train: {} (default asynchronous)", fmt::join(names, ", ")));
  arguments.option("--workers", flags->workers, "N", "number of workers, 2 to 16 (default 3)", 2, 16);
  arguments.option("--events", flags->events, "N", "number of events to show (default 24)", 1, 10000);
  arguments.repeated_flag("--set", flags->sets, "PATH=VALUE", "override a field of the scenario; may be repeated");
  return [flags] {
    if (!flags->file.empty() && !flags->how.empty())
      throw UserError("--how: only without a scenario, which has its own way");
    const Overrides overrides = parse_overrides(flags->sets);
    return teach_learning(flags->file.empty() ? small_training(flags->how.empty() ? "asynchronous" : flags->how,
                                                               flags->workers, overrides)
                                              : read_scenario(flags->file, overrides),
                          flags->events);
  };
}

const RegisterTeachTopic registered_learning{
    {"learning", "show the first updates of a training: which weights each worker read, and how stale they were",
     "Shows the first gradients and updates of a small training, one by one: which worker computed a gradient from "
     "which weights, and how many updates late it was applied.",
     "teach learning --how asynchronous --workers 3\n"
     "  trainyard teach learning scenarios/learn-async-vs-sync.yaml --events 30",
     learning}};

}  // namespace
}  // namespace trainyard
