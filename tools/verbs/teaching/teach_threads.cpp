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

/// "1,2": slots, of each function.
std::vector<double> function_times(const ThreadFlags& flags) {
  if (flags.times.empty()) return std::vector<double>(static_cast<std::size_t>(flags.stages), 1.0);
  std::vector<double> times;
  for (const std::string& word : comma_list(flags.times))
    times.push_back(number_between("--times", word, kLeastSlots, kMostSlots));
  if (times.size() != static_cast<std::size_t>(flags.stages))
    throw UserError(fmt::format("--times {}: one a function expected, {} of them", flags.times, flags.stages));
  return times;
}

std::function<LessonView()> thread_lesson(const std::string& topic, Arguments& arguments) {
  const bool loop = topic == "threads";
  const auto flags = std::make_shared<ThreadFlags>();
  arguments.option("--items", flags->items, "N", "1 to 256 (default 3)", 1, 256);
  if (!loop) {
    arguments.option("--stages", flags->stages, "N", "functions, 1 to 16 (default 2)", 1, 16);
    arguments.option("--times", flags->times, "T,T,…", "slots that each function takes (default 1)");
    arguments.option("--handover", flags->handover, "TIME", "slots to hand a result to another thread (default 0)", 0,
                     kMostSlots);
  }
  arguments.option("--threads", flags->threads, "N",
                   loop ? "1 to 32 (default: one an item)" : "1 to 32 (default: one a function)", 1, kMostThreads);
  return [flags, loop] {
    const int threads =
        flags->threads != 0 ? flags->threads : std::min(kMostThreads, loop ? flags->items : flags->stages);
    return lesson_view(loop ? teach_loop(flags->items, threads)
                            : teach_tasks(flags->items, function_times(*flags), threads, flags->handover));
  };
}

const RegisterTeachTopic registered_threads{
    {"threads", "a loop shared out to threads",
     "A loop whose items are shared out to threads: the simplest data parallelism.",
     "teach threads --items 3 --threads 4", thread_lesson}};
const RegisterTeachTopic registered_tasks{
    {"tasks", "functions in a pipeline of threads",
     "Functions that items go through one after another, a thread each: a pipeline of tasks.",
     "teach tasks --items 3 --stages 2 --threads 3", thread_lesson}};

}  // namespace
}  // namespace trainyard
