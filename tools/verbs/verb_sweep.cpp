#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "scenarios/studies/layer_cuts.hpp"
#include "scenarios/studies/sweep.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/child.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/sweep_outputs.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// How far a sweep is, and how long the rest will take at the pace of what was simulated since it began.
class SweepProgress {
 public:
  void show(std::size_t done, std::size_t of) {
    constexpr std::size_t width = 40;
    const std::size_t full = done * width / std::max<std::size_t>(1, of);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    const double left = passed.count() / static_cast<double>(++simulated_) * static_cast<double>(of - done);
    line_.show(fmt::format("[{}{}] {} of {} points, {:.0f} s left", std::string(full, '#'),
                           std::string(width - full, ' '), done, of, left));
  }

 private:
  ProgressLine line_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t simulated_ = 0;
};

int interrupted_sweep(const std::vector<SweepPoint>& points, const std::string& journal) {
  const auto done = std::count_if(points.begin(), points.end(), [](const SweepPoint& p) { return p.done; });
  complain(fmt::format("interrupted: {} of {} points are done; {}", done, points.size(),
                       journal.empty() ? "none is kept (with --csv FILE a sweep can be resumed)"
                                       : fmt::format("run the same command again to resume ({} keeps them)", journal)));
  return kInterrupted;
}

/// Beside the table; a pipe or a device has no beside.
std::string journal_of(const std::string& csv) {
  std::error_code ignored;
  const bool special = std::filesystem::exists(csv, ignored) && !std::filesystem::is_regular_file(csv, ignored);
  return csv.empty() || csv == "-" || special ? "" : csv + ".partial";
}

constexpr const char* kLayers = "plan.pipeline.layers";

/// `plan.pipeline.layers=all` stands for every cut of the layers, at the first values of the other fields.
void expand_layer_cuts(Sweep& sweep) {
  for (SweepAxis& axis : sweep.axes) {
    if (axis.path != kLayers || axis.values != std::vector<std::string>{"all"}) continue;
    Overrides others = sweep.point(0);
    std::erase_if(others, [](const auto& change) { return change.first == kLayers; });
    axis.values = layer_cuts(read_scenario(sweep.scenario, others));
  }
}

struct SweepFlags {
  std::string file, points, shard, slurm;
  std::vector<std::string> sets, where;
  SweepOutputs outputs;
  int tasks = 8;
  bool submit = false;
};

void declare_flags(Arguments& arguments, SweepFlags& flags) {
  arguments.positional(
      "SCENARIO", flags.file,
      "scenario file (YAML), or a study: `scenario`, `set` (lists, {range: [..]}, {log_range: [..]} by "
      "field), `together`, `where`");
  arguments.repeated(
      "--set", flags.sets, "PATH=A,B,...",
      "a field and its values, as often as needed; range(FROM, TO, STEP) and log-range(FROM, TO, FACTOR) "
      "stand for theirs; \"A=1,2 & B=3,4\": fields that move together; plan.pipeline.layers=all: every "
      "cut of the layers");
  arguments.repeated("--where", flags.where, "CONDITION",
                     "leave out points that do not meet it: \"plan.tensor_parallel * plan.pipeline_parallel <= 64\"");
  flags.outputs.declare(arguments,
                        "write the table; - is stdout (the default). With a file, an interrupted sweep can be resumed");
  arguments.output("--points", flags.points, "keep each point whole as a line of JSON there, and resume from it");
  arguments.option("--shard", flags.shard, "I/N", "every N-th point from the I-th on, into --points; see merge");
  arguments.option("--slurm", flags.slurm, "FOLDER",
                   "write a batch script for a Slurm job array there, and run nothing");
  arguments.option("--tasks", flags.tasks, "N", "of the job array");
  arguments.flag("--submit", flags.submit, "with --slurm: submit it with sbatch");
}

Sweep sweep_of(const SweepFlags& flags) {
  check_input(flags.file);  // else each point says so
  Sweep sweep{flags.file, {}};
  if (std::optional<Sweep> study = read_study(flags.file)) sweep = *std::move(study);
  for (const std::string& set : flags.sets)
    for (SweepAxis& axis : parse_sweep_axes(set)) sweep.axes.push_back(std::move(axis));
  sweep.where.insert(sweep.where.end(), flags.where.begin(), flags.where.end());
  expand_layer_cuts(sweep);
  sweep.keep_where();
  sweep.points();  // not too many
  return sweep;
}

/// Writes the script of a job array, and submits it where that is asked for.
int write_slurm_job(const SweepFlags& flags) {
  const std::size_t points = sweep_of(flags).points();
  if (flags.tasks < 1 || static_cast<std::size_t>(flags.tasks) > points)
    throw UserError(fmt::format("--tasks {}: 1 to {} expected, the points of the sweep", flags.tasks, points));
  SlurmSweep job{std::filesystem::absolute(flags.slurm).string(), flags.tasks, {flags.file}};
  for (const std::string& set : flags.sets) job.words.insert(job.words.end(), {"--set", set});
  for (const std::string& where : flags.where) job.words.insert(job.words.end(), {"--where", where});
  std::error_code failed;
  std::filesystem::create_directories(job.folder, failed);
  if (failed) throw UserError(fmt::format("--slurm {}: {}", flags.slurm, failed.message()));
  const std::string script = job.folder + "/sweep.sbatch";
  write_atomically(script, slurm_script(job));
  fmt::print("{}\nthen: {}\n", script, slurm_merge_command(job));
  if (!flags.submit) return kGood;
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execlp("sbatch", "sbatch", script.c_str(), nullptr);
    complain("sbatch: not found; is this a machine of a Slurm cluster?");
    ::_exit(kBadInput);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || status != 0)
    throw UserError("--submit: sbatch did not take the job");
  return kGood;
}

int sweep(const std::vector<std::string>& words) {
  Arguments arguments(
      "sweep",
      "Simulates a scenario at every combination of the listed values; the last list varies fastest. Impossible "
      "points are rows with their error, counted at the end; exit code 2 if all are.",
      "sweep scenarios/gpt2-xl-ddp-dgx-a100.yaml --set plan.global_batch_size=256,512,1024 --set "
      "cluster.nodes=2,4 --csv sweep.csv");
  SweepFlags flags;
  declare_flags(arguments, flags);
  if (!arguments.parse(words)) return kGood;
  if (flags.submit && flags.slurm.empty()) throw UserError("--submit: only with --slurm");
  if (!flags.slurm.empty()) return write_slurm_job(flags);
  if (!flags.shard.empty() && (flags.points.empty() || flags.outputs.any()))
    throw UserError("--shard: with --points FILE alone; merge makes the tables");
  if (flags.points == "-") throw UserError("--points -: a file expected");
  if (!flags.outputs.any() && flags.points.empty()) flags.outputs.csv = std::string(1, '-');  // "-" trips g++ 12.2

  const SweepShard shard = flags.shard.empty() ? SweepShard{} : parse_sweep_shard(flags.shard);
  flags.outputs.order();
  const std::string journal = flags.points.empty() ? journal_of(flags.outputs.csv) : flags.points;
  PlannedOutputs planned;
  if (flags.points.empty() && !journal.empty()) planned.add("--csv", journal);
  const Sweep sweep = sweep_of(flags);
  watch_interrupts();
  std::vector<SweepPoint> points;
  {
    SweepProgress progress;
    const auto show = [&progress](std::size_t done, std::size_t of) { progress.show(done, of); };
    points = run_sweep(sweep, {journal, show, shard});
  }
  for (std::size_t i = 0; i < points.size(); ++i)
    if (shard.has(i) && !points[i].done) return interrupted_sweep(points, journal);
  try {
    if (!flags.points.empty()) write_atomically(flags.points, sweep_lines(sweep, points, shard));
    flags.outputs.write(sweep, points);
  } catch (const UserError& e) {
    throw UserError(journal.empty()
                        ? e.what()
                        : fmt::format("{}; {} keeps the points for the same command again", e.what(), journal));
  }
  if (flags.points.empty() && !journal.empty()) std::filesystem::remove(journal);
  report_impossible_points(points);
  return kGood;
}

const RegisterVerb registered_sweep{"sweep", "simulate every combination of listed values, here or on a cluster",
                                    sweep};

}  // namespace
}  // namespace trainyard
