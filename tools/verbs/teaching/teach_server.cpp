// `trainyard teach server`.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_server.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

constexpr int kMostTaught = 16, kMostTaughtSteps = 100;

struct ServerFlags {
  std::string consistency = "synchronous", slower;
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
  q.consistency = static_cast<Consistency>(std::find(names.begin(), names.end(), flags.consistency) - names.begin());
  if (q.staleness > 0 && q.consistency != Consistency::stale)
    throw UserError("--staleness: with --consistency stale only");
  if (q.backups > 0 && q.consistency != Consistency::synchronous)
    throw UserError("--backup-workers: with --consistency synchronous only");
  for (const std::string& factor : comma_list(flags.slower))
    q.slower.push_back(number_between("--slower", factor, kLeastSlots, kMostSlots));
  if (q.slower.size() > static_cast<std::size_t>(q.workers))
    throw UserError(fmt::format("--slower {}: {} factors for {} workers", flags.slower, q.slower.size(), q.workers));
  return q;
}

std::function<LessonView()> parameter_server(const std::string&, Arguments& arguments) {
  const auto flags = std::make_shared<ServerFlags>();
  ServerQuestion& q = flags->question;
  q.keys = 0;
  arguments.option("--workers", q.workers, "N", "1 to 16 (default 4)", 1, kMostTaught);
  arguments.option("--servers", q.servers, "N", "1 to 16 (default 1)", 1, kMostTaught);
  arguments.option("--keys", q.keys, "N", "layers of one size, pushed one by one (default: as many as servers)");
  arguments.option("--steps", q.steps, "N", "steps of each worker, 1 to 100 (default 4)", 1, kMostTaughtSteps);
  arguments.choice("--consistency", flags->consistency, consistency_names(), "NAME",
                   "synchronous (default), stale, asynchronous");
  arguments.option("--staleness", q.staleness, "N", "with stale: most steps ahead of the slowest worker (default 0)", 0,
                   kMostTaughtSteps);
  arguments.option("--backup-workers", q.backups, "N", "with synchronous: gradients of a step that may come too late");
  arguments.option("--compute", q.compute, "TIME", "compute of a step, in slots (default 4)", kLeastSlots, kMostSlots);
  arguments.option("--push", q.push, "TIME",
                   "push of a whole gradient from one worker alone; a pull takes the same (default 1)", 0, kMostSlots);
  arguments.option("--apply", q.apply, "TIME", "update by one gradient on a server (default 0.25)", 0, kMostSlots);
  arguments.option("--slower", flags->slower, "F,F,…", "slowdown of the compute of each worker: 1,1,1,2");
  return [flags] { return lesson_view(teach_server(question_of(*flags))); };
}

const RegisterTeachTopic registered_server{
    {"server", "parameter servers and their workers over time",
     "Workers and parameter servers over time: pushes, pulls and who waits, as the simulator runs it.",
     "teach server --workers 4 --servers 1 --consistency asynchronous --slower 1,1,1,2", parameter_server}};

}  // namespace
}  // namespace trainyard
