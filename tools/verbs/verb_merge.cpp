#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "scenarios/src/studies/sweeps/sweep_lines.hpp"
#include "sim/error.hpp"
#include "tools/verbs/study_shares.hpp"
#include "tools/verbs/sweep_outputs.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// A file in memory. It has a path as long as this object lives.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& text) : file_(::memfd_create("journal", MFD_CLOEXEC)) {
    for (std::size_t written = 0; written < text.size();) {
      const ssize_t n = ::write(file_, text.data() + written, text.size() - written);
      if (n <= 0) throw UserError(std::string("merge: cannot keep the journals in memory: ") + std::strerror(errno));
      written += static_cast<std::size_t>(n);
    }
  }
  ~NamelessFile() { ::close(file_); }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// Runs the verb of the shards again, with their merged journals in place of simulations.
int answer_from(const MergedJournals& merged, const SweepOutputs& outputs, const std::string& write) {
  const NamelessFile journal(merged.lines);
  std::vector<std::string> words(merged.command.begin() + 1, merged.command.end());
  words.insert(words.end(), {"--points", journal.path()});
  const auto number = [](int value) { return value == 0 ? "" : std::to_string(value); };
  const std::pair<const char*, std::string> flags[] = {{"--csv", outputs.csv},
                                                       {"--json", outputs.json},
                                                       {"--html", outputs.html},
                                                       {"--svg", outputs.svg},
                                                       {"--sort", outputs.sort},
                                                       {"--write", write},
                                                       {"--across", outputs.chart.across},
                                                       {"--up", outputs.chart.up},
                                                       {"--top", number(outputs.top)},
                                                       {"--baseline", number(outputs.baseline)}};
  for (const auto& [flag, value] : flags)
    if (!value.empty()) words.insert(words.end(), {flag, value});
  return verbs().find(merged.command.front(), Place::named("merge")).run(words);
}

int merge_verb(const std::vector<std::string>& words) {
  Arguments arguments("merge",
                      "Puts the shards of a study together (sweep, plan, size or learn with `--shard I/N --points "
                      "FILE`). The answer is byte by byte that of one process; plan and size finish the search. Files "
                      "of other studies are refused, and so are incomplete sets.",
                      "merge points-1.jsonl points-2.jsonl --csv sweep.csv");
  std::vector<std::string> files;
  SweepOutputs outputs;
  std::string write;
  arguments.positionals("FILES", files, "what --points has written, of all shards");
  outputs.declare(arguments, "write the table of a sweep as CSV; - is stdout (the default, except on a terminal)");
  arguments.output("--write", write, "write the best plan, or the cheapest cluster, as a scenario; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (files.empty()) throw UserError("merge: files of points expected (trainyard merge --help)");
  if (const std::optional<MergedJournals> merged = merge_journals(files)) return answer_from(*merged, outputs, write);
  if (!write.empty()) throw UserError("--write: only for shards of plan or size");
  outputs.order();  // reports wrong flags before files are read
  const MergedSweep merged = merge_sweeps(files);
  outputs.check_chart(merged.sweep);
  if (!outputs.has_any()) outputs.take_stdout(merged.sweep);
  if (is_streamed(merged.sweep)) {
    outputs.require_streamed(merged.sweep, "");
    StreamedSweep table(merged.sweep, {}, "", outputs.csv);
    stream_merged(merged.sweep, files, [&table](std::size_t i, const SweepPoint& point) { table.take(i, point); });
    table.finish();
    if (const std::string text = table.impossible(); !text.empty()) complain(text);
    return kGood;
  }
  outputs.write(merged.sweep, merged.points);
  report_impossible_points(merged.points);
  return kGood;
}

const RegisterVerb registered_merge{"merge", VerbGroup::choose, "combine the shards of a study into one answer",
                                    merge_verb};

}  // namespace
}  // namespace trainyard
