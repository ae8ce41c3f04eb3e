// `trainyard teach threads` and `teach tasks`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/teaching/thread_views.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

constexpr int kMostItems = 256, kMostThreads = 32, kMostFunctions = 16;

struct ThreadFlags {
  int items = 3, threads = 0, stages = 2;
  std::string times, handover = "0", html, svg, json;
};

void require_shown(const char* flag, int value, int most) {
  if (value < 1 || value > most) throw UserError(fmt::format("{} {}: 1 to {} can be shown", flag, value, most));
}

/// "1,2": slots, of each function.
std::vector<double> function_times(const ThreadFlags& flags) {
  if (flags.times.empty()) return std::vector<double>(static_cast<std::size_t>(flags.stages), 1.0);
  std::vector<double> times;
  std::istringstream in(flags.times);
  for (std::string word; std::getline(in, word, ',');) times.push_back(shown_slots("--times", word, false));
  if (times.size() != static_cast<std::size_t>(flags.stages))
    throw UserError(fmt::format("--times {}: one a function expected, {} of them", flags.times, flags.stages));
  return times;
}

ThreadLesson thread_lesson_of(bool loop, const ThreadFlags& flags) {
  const int threads = flags.threads != 0 ? flags.threads : loop ? flags.items : flags.stages;
  require_shown("--items", flags.items, kMostItems);
  require_shown("--threads", threads, kMostThreads);
  if (loop) return teach_loop(flags.items, threads);
  require_shown("--stages", flags.stages, kMostFunctions);
  return teach_tasks(flags.items, function_times(flags), threads, shown_slots("--handover", flags.handover, true));
}

int teach_thread_work(const std::string& topic, const std::vector<std::string>& words) {
  const bool loop = topic == "threads";
  Arguments arguments("teach " + topic,
                      loop ? "A loop whose items are shared out to threads: the simplest data parallelism."
                           : "Functions that items go through one after another, a thread each: a pipeline of tasks.",
                      loop ? "teach threads --items 3 --threads 4" : "teach tasks --items 3 --stages 2 --threads 3");
  ThreadFlags flags;
  arguments.option("--items", flags.items, "N", "1 to 256 (default 3)");
  if (!loop) {
    arguments.option("--stages", flags.stages, "N", "functions, 1 to 16 (default 2)");
    arguments.option("--times", flags.times, "T,T,…", "slots that each function takes (default 1)");
    arguments.option("--handover", flags.handover, "TIME", "slots to hand a result to another thread (default 0)");
  }
  arguments.option("--threads", flags.threads, "N",
                   loop ? "1 to 32 (default: one an item)" : "1 to 32 (default: one a function)");
  arguments.output("--html", flags.html, "a page with picture and figures; - is stdout");
  arguments.output("--svg", flags.svg, "the picture; - is stdout");
  arguments.output("--json", flags.json, "every task and figure as data; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const ThreadLesson lesson = thread_lesson_of(loop, flags);
  if (!flags.html.empty()) write_atomically(flags.html, thread_html(lesson));
  if (!flags.svg.empty()) write_atomically(flags.svg, thread_svg(lesson));
  if (!flags.json.empty()) write_atomically(flags.json, json_text(thread_report(lesson), 2) + "\n");
  if (flags.html != "-" && flags.svg != "-" && flags.json != "-") write_atomically("-", thread_text(lesson));
  return lesson.right ? kGood : kBug;
}

const RegisterTeachTopic registered_threads{"threads", "a loop shared out to threads", teach_thread_work};
const RegisterTeachTopic registered_tasks{"tasks", "functions in a pipeline of threads", teach_thread_work};

}  // namespace
}  // namespace trainyard
