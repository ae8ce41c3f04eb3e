// `trainyard teach server`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/document.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/teaching/server_views.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

constexpr int kMostTaught = 16, kMostTaughtSteps = 100;

struct ServerFlags {
  std::string consistency = "synchronous", compute = "4", push = "1", apply = "0.25", slower, svg, json;
  ServerQuestion question;
};

void add_to(Arguments& arguments, ServerFlags& flags) {
  ServerQuestion& q = flags.question;
  arguments.option("--workers", q.workers, "N", "1 to 16 (default 4)");
  arguments.option("--servers", q.servers, "N", "1 to 16 (default 1)");
  arguments.option("--keys", q.keys, "N", "layers of one size, pushed one by one (default: as many as servers)");
  arguments.option("--steps", q.steps, "N", "steps of each worker, 1 to 100 (default 4)");
  arguments.option("--consistency", flags.consistency, "NAME", "synchronous (default), stale, asynchronous");
  arguments.option("--staleness", q.staleness, "N", "with stale: most steps ahead of the slowest worker (default 0)");
  arguments.option("--backup-workers", q.backups, "N", "with synchronous: gradients of a step that may come too late");
  arguments.option("--compute", flags.compute, "TIME", "compute of a step, in slots (default 4)");
  arguments.option("--push", flags.push, "TIME",
                   "push of a whole gradient from one worker alone; a pull takes the same (default 1)");
  arguments.option("--apply", flags.apply, "TIME", "update by one gradient on a server (default 0.25)");
  arguments.option("--slower", flags.slower, "F,F,…", "slowdown of the compute of each worker: 1,1,1,2");
  arguments.option("--svg", flags.svg, "FILE", "the picture; - is stdout");
  arguments.option("--json", flags.json, "FILE", "every span and figure as data; - is stdout");
}

double server_slots(const std::string& flag, const std::string& text, double least) {
  constexpr double most = 1e6;
  double value = 0;
  try {
    value = parse_number(text);
  } catch (const UserError& e) {
    throw UserError(fmt::format("{}: {}", flag, e.what()));
  }
  if (value < least || value > most)
    throw UserError(fmt::format("{} {}: {} to {:.0f} expected", flag, text, least, most));
  return value;
}

ServerQuestion question_of(const ServerFlags& flags) {
  ServerQuestion q = flags.question;
  const auto check = [](const char* flag, int value, int least, int most) {
    if (value < least || value > most)
      throw UserError(fmt::format("{} {}: {} to {} expected", flag, value, least, most));
  };
  check("--workers", q.workers, 1, kMostTaught);
  check("--servers", q.servers, 1, kMostTaught);
  check("--steps", q.steps, 1, kMostTaughtSteps);
  check("--backup-workers", q.backups, 0, q.workers - 1);
  check("--staleness", q.staleness, 0, kMostTaughtSteps);
  if (q.keys == 0) q.keys = q.servers;
  check("--keys", q.keys, q.servers, 4 * kMostTaught);
  const std::vector<std::string>& names = consistency_names();
  const auto at = std::find(names.begin(), names.end(), flags.consistency);
  if (at == names.end())
    throw UserError(fmt::format("--consistency {}: unknown{}", flags.consistency, hint(flags.consistency, names)));
  q.consistency = static_cast<Consistency>(at - names.begin());
  if (q.staleness > 0 && q.consistency != Consistency::stale)
    throw UserError("--staleness: with --consistency stale only");
  if (q.backups > 0 && q.consistency != Consistency::synchronous)
    throw UserError("--backup-workers: with --consistency synchronous only");
  q.compute = server_slots("--compute", flags.compute, 1e-3);
  q.push = server_slots("--push", flags.push, 0);
  q.apply = server_slots("--apply", flags.apply, 0);
  for (const std::string& factor : comma_list(flags.slower)) q.slower.push_back(server_slots("--slower", factor, 1e-3));
  if (q.slower.size() > static_cast<std::size_t>(q.workers))
    throw UserError(fmt::format("--slower {}: {} factors for {} workers", flags.slower, q.slower.size(), q.workers));
  return q;
}

int teach_parameter_server(const std::string&, const std::vector<std::string>& words) {
  Arguments arguments("teach server",
                      "Workers and parameter servers over time: pushes, pulls and who waits, as the simulator runs it.",
                      "teach server --workers 4 --servers 1 --consistency asynchronous --slower 1,1,1,2");
  ServerFlags flags;
  flags.question.keys = 0;
  add_to(arguments, flags);
  if (!arguments.parse(words)) return kGood;
  for (const std::string* file : {&flags.svg, &flags.json})
    if (!file->empty()) check_writable(*file);
  const ServerLesson lesson = teach_server(question_of(flags));
  if (!flags.svg.empty()) write_atomically(flags.svg, server_svg(lesson));
  if (!flags.json.empty()) write_atomically(flags.json, json_text(server_report(lesson), 2) + "\n");
  if (flags.svg != "-" && flags.json != "-") write_atomically("-", server_text(lesson));
  return kGood;
}

const RegisterTeachTopic registered_server{"server", "parameter servers and their workers over time",
                                           teach_parameter_server};

}  // namespace
}  // namespace trainyard
