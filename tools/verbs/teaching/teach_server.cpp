// `trainyard teach server`.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_server.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

constexpr int kMostTaught = 16, kMostTaughtSteps = 100;

struct ServerFlags {
  std::string consistency = "synchronous", slower, values, script;
  ServerQuestion question;
};

ServerQuestion question_of(const ServerFlags& flags) {
  ServerQuestion q = flags.question;
  const auto check = [](const char* flag, int value, int least, int most) {
    if (value < least || value > most)
      throw UserError(fmt::format("{} {}: {} to {} expected", flag, value, least, most));
  };
  check("--backup-workers", q.backups, 0, q.workers - 1);
  if (q.keys == 0) q.keys = q.servers;
  check("--keys", q.keys, q.servers, 4 * kMostTaught);
  const std::vector<std::string>& names = consistency_names();
  q.consistency = static_cast<Consistency>(std::ranges::find(names, flags.consistency) - names.begin());
  if (q.staleness > 0 && q.consistency != Consistency::stale)
    throw UserError("--staleness: with --consistency stale only");
  if (q.backups > 0 && q.consistency != Consistency::synchronous)
    throw UserError("--backup-workers: with --consistency synchronous only");
  for (const std::string& factor : comma_list(flags.slower))
    q.slower.push_back(number_between("--slower", factor, kLeastSlots, kMostSlots));
  if (!q.slower.empty() && q.slower.size() != static_cast<std::size_t>(q.workers))
    throw UserError(fmt::format("--slower {}: {} for {}; one each is expected", flags.slower,
                                counted_noun(q.slower.size(), "factor"), counted_noun(q.workers, "worker")));
  for (const std::string& value : comma_list(flags.values))
    q.values.push_back(number_between("--values", value, -kMostSlots, kMostSlots));
  if (q.values.size() > static_cast<std::size_t>(q.workers))
    throw UserError(
        fmt::format("--values {}: {} values for {}", flags.values, q.values.size(), counted_noun(q.workers, "worker")));
  return q;
}

std::function<LessonView()> parameter_server(const std::string&, Arguments& arguments) {
  const auto flags = std::make_shared<ServerFlags>();
  ServerQuestion& q = flags->question;
  q.keys = 0;
  arguments.option("--workers", q.workers, "N", "number of workers, 1 to 16 (default 4)", 1, kMostTaught);
  arguments.option("--servers", q.servers, "N", "number of servers, 1 to 16 (default 1)", 1, kMostTaught);
  arguments.option("--keys", q.keys, "N",
                   "number of layers, of equal size, pushed one by one (default: the number of servers)");
  arguments.option("--steps", q.steps, "N", "number of steps of each worker, 1 to 100 (default 4)", 1,
                   kMostTaughtSteps);
  arguments.choice("--consistency", flags->consistency, consistency_names(), "NAME",
                   "consistency: synchronous (default), stale, asynchronous");
  arguments.option("--staleness", q.staleness, "N",
                   "with stale: most steps that a worker may be ahead of the slowest (default 0)", 0, kMostTaughtSteps);
  arguments.option("--backup-workers", q.backups, "N",
                   "with synchronous: number of gradients of a step that may come too late");
  arguments.option("--compute", q.compute, "TIME", "time of the computation of a step, slots (default 4)", kLeastSlots,
                   kMostSlots);
  arguments.option("--push", q.push, "TIME",
                   "time to push a whole gradient if one worker sends alone, slots; a pull takes the same (default 1)",
                   0, kMostSlots);
  arguments.option("--apply", q.apply, "TIME", "time of an update by one gradient on a server, slots (default 0.25)", 0,
                   kMostSlots);
  arguments.option("--slower", flags->slower, "F,F,…", "slowdown factor of each worker, for example 1,1,1,2");
  arguments.option("--values", flags->values, "V,V,…",
                   "value that each worker pushes for each key in each step (default 1,2,3,…)");
  arguments.option("--script", flags->script, "FILE",
                   "do instead what a file says, a command on each line: \"worker 0: push w 3\", \"worker 0: pull w\", "
                   "\"worker 0: compute 2\"; with --consistency, --staleness, --push and --apply");
  return [flags] {
    const ServerQuestion question = question_of(*flags);
    if (flags->script.empty()) return lesson_view(teach_server(question));
    const ServerQuestion plain;
    if (question.workers != plain.workers || question.servers != 1 || question.keys != 1 || question.backups > 0 ||
        question.steps != plain.steps || question.compute != plain.compute || !(flags->slower + flags->values).empty())
      throw UserError(
          "--script: the file says what workers do; only --consistency, --staleness, --push and --apply beside it");
    return lesson_view(teach_push_pull(question, read_push_pull_file(flags->script)));
  };
}

const RegisterTeachTopic registered_server{
    {"server", "show parameter servers and their workers over time",
     "Shows workers and parameter servers over time: pushes, pulls and waits, as simulated, and the values that pulls "
     "return.",
     "teach server --workers 4 --servers 1 --consistency asynchronous --slower 1,1,1,2\n"
     "  trainyard teach server --script scenarios/push-pull.txt --consistency asynchronous",
     parameter_server}};

}  // namespace
}  // namespace trainyard
