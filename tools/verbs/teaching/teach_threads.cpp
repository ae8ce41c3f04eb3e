// `trainyard teach threads` and `teach tasks`.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_threads.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

constexpr int kMostThreads = 32;

struct ThreadFlags {
  int items = 3, threads = 0, stages = 2;
  std::string times;
  double handover = 0;
};

/// The slots that each function takes, from a list such as "1,2". Throws UserError.
std::vector<double> function_times(const ThreadFlags& flags) {
  if (flags.times.empty()) return std::vector<double>(static_cast<std::size_t>(flags.stages), 1.0);
  std::vector<double> times;
  for (const std::string& word : comma_list(flags.times))
    times.push_back(number_between("--times", word, kLeastSlots, kMostSlots));
  if (times.size() != static_cast<std::size_t>(flags.stages))
    throw UserError(
        fmt::format("--times {}: one time for each of the {} functions expected", flags.times, flags.stages));
  return times;
}

std::function<LessonView()> thread_lesson(const std::string& topic, Arguments& arguments) {
  const bool loop = topic == "threads";
  const auto flags = std::make_shared<ThreadFlags>();
  arguments.option("--items", flags->items, "N", "number of items, 1 to 256 (default 3)", 1, 256);
  if (!loop) {
    arguments.option("--stages", flags->stages, "N", "number of functions, 1 to 16 (default 2)", 1, 16);
    arguments.option("--times", flags->times, "T,T,…", "slots that each function takes (default 1)");
    arguments.option("--handover", flags->handover, "TIME", "slots to hand a result to another thread (default 0)", 0,
                     kMostSlots);
  }
  arguments.option("--threads", flags->threads, "N",
                   loop ? "number of threads, 1 to 32 (default: one for each item)"
                        : "number of threads, 1 to 32 (default: one for each function)",
                   1, kMostThreads);
  return [flags, loop] {
    const int threads =
        flags->threads != 0 ? flags->threads : std::min(kMostThreads, loop ? flags->items : flags->stages);
    return lesson_view(loop ? teach_loop(flags->items, threads)
                            : teach_tasks(flags->items, function_times(*flags), threads, flags->handover));
  };
}

const RegisterTeachTopic registered_threads{
    {"threads", "divide a loop among threads",
     "Divides the items of a loop among threads: the simplest data parallelism.", "teach threads --items 3 --threads 4",
     thread_lesson}};
const RegisterTeachTopic registered_tasks{
    {"tasks", "run functions in a pipeline of threads",
     "Passes items through functions one after another, each function on a thread of its own: a pipeline of tasks.",
     "teach tasks --items 3 --stages 2 --threads 3", thread_lesson}};

}  // namespace
}  // namespace trainyard
