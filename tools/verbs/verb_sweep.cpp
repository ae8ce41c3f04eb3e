#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/sweeps/sweep_axes.hpp"
#include "scenarios/src/studies/sweeps/sweep_lines.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "tools/verbs/study_shares.hpp"
#include "tools/verbs/sweep_outputs.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// Shows how far a sweep is, and how long the rest will take at the pace so far.
class SweepProgress {
 public:
  void show(std::size_t done, std::size_t points) {
    constexpr std::size_t width = 40;
    const std::size_t full = done * width / std::max<std::size_t>(1, points);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    const double remaining = passed.count() / static_cast<double>(++simulated_) * static_cast<double>(points - done);
    line_.show(fmt::format("[{}{}] {} of {} points, {:.0f} s left", std::string(full, '#'),
                           std::string(width - full, ' '), done, points, remaining));
  }

 private:
  ProgressLine line_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t simulated_ = 0;
};

/// The journal's file, beside the table. Empty if the table is no regular file (a pipe or a device).
std::string journal_of(const std::string& csv) {
  std::error_code ignored;
  const bool special = std::filesystem::exists(csv, ignored) && !std::filesystem::is_regular_file(csv, ignored);
  return csv.empty() || csv == "-" || special ? "" : csv + ".partial";
}

/// Writes the finished points to the outputs, marked as unfinished. A table whose journal is `journal` is left to the next
/// run. Returns the exit code.
int interrupted_sweep(const Sweep& sweep, const std::vector<SweepPoint>& points, SweepOutputs outputs,
                      const std::string& journal) {
  Sweep part = sweep;
  part.selected.emplace();
  std::vector<SweepPoint> done;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].done) {
      part.selected->push_back(sweep.selected ? (*sweep.selected)[i] : i);
      done.push_back(points[i]);
    }
  const std::string progress = fmt::format("{} of {} points are done", done.size(), points.size());
  outputs.unfinished = progress;
  if (!journal.empty() && journal == journal_of(outputs.csv)) outputs.csv.clear();
  if (!done.empty()) outputs.write(part, done);
  if (!journal.empty()) {
    complain(fmt::format("interrupted: {}; run the same command again to resume ({} keeps them)", progress, journal));
    return kInterrupted;
  }
  complain(fmt::format("interrupted: {}{} (with --csv FILE a sweep can be resumed)", progress,
                       done.empty() ? "" : "; the answer has these alone"));
  return kInterrupted;
}

constexpr const char* kLayers = "plan.pipeline.layers";

/// Replaces `plan.pipeline.layers=all` by every cut of the layers, with the first values of the other fields.
void expand_layer_cuts(Sweep& sweep) {
  for (SweepAxis& axis : sweep.axes) {
    if (axis.path != kLayers || axis.values != std::vector<std::string>{"all"}) continue;
    Overrides others = sweep.point(0);
    std::erase_if(others, [](const auto& change) { return change.first == kLayers; });
    axis.values = layer_cuts(read_scenario(sweep.read_document(), sweep.scenario.stem().string(), others));
  }
}

struct SweepFlags {
  std::string file, prices;
  std::vector<std::string> sets, where;
  SweepOutputs outputs;
  StudyShares shares;
  Arguments arguments{"sweep",
                      "Simulates a scenario at every combination of the listed values; the last list varies fastest. "
                      "Impossible points are rows with their error, counted at the end; exit code 2 if all are.",
                      "sweep scenarios/gpt2-xl-ddp-dgx-a100.yaml --set plan.global_batch_size=256,512,1024 --set "
                      "cluster.nodes=2,4 --csv sweep.csv"};

  SweepFlags() {
    arguments.positional("SCENARIO", file,
                         "scenario file (YAML), or a study: `scenario`, `set` (lists, {range: [..]}, {log_range: [..]} "
                         "by field), `together`, `where`");
    arguments.repeated_flag(
        "--set", sets, "PATH=A,B,...",
        "a field and its values; may be repeated. range(FROM, TO, STEP) and log-range(FROM, TO, FACTOR) give lists of "
        "values; \"A=1,2 & B=3,4\" changes fields together; plan.pipeline.layers=all takes every cut of the layers");
    arguments.repeated_flag("--where", where, "CONDITION",
                            "leave out points that do not meet this condition, for example \"plan.tensor_parallel * "
                            "plan.pipeline_parallel <= 64\"");
    arguments.option("--prices", prices, "FILE",
                     "add columns of costs by your prices (scenarios/prices-example.yml shows how)");
    outputs.declare(arguments,
                    "write the table as CSV; - is stdout (the default, except on a terminal). With a file, an "
                    "interrupted sweep can be resumed");
    shares.declare(arguments, "point");
  }
};

Sweep sweep_of(const SweepFlags& flags) {
  const std::optional<Node>& document = flags.arguments.document();
  if (!document) check_input(scenario_file(flags.file));  // here, so that not every point reports a missing file
  Sweep sweep = read_study(flags.file, document);
  if (!flags.prices.empty()) {
    const auto [field, value] = prices_override(flags.prices);
    sweep.axes.push_back({field, {value}});
  }
  for (const std::string& set : flags.sets)
    for (SweepAxis& axis : parse_sweep_axes(set)) sweep.axes.push_back(std::move(axis));
  sweep.conditions.insert(sweep.conditions.end(), flags.where.begin(), flags.where.end());
  expand_layer_cuts(sweep);
  sweep.keep_where();
  sweep.points();  // throws UserError if there are too many
  return sweep;
}

/// Throws the error of a failed write, and says which file keeps the points.
[[noreturn]] void fail_to_write(const UserError& e, const std::string& journal) {
  throw UserError(journal.empty()
                      ? e.what()
                      : fmt::format("{}; {} keeps the points for the same command again", e.what(), journal));
}

/// Throws the error of a process that could not start, and says which file keeps the finished points.
[[noreturn]] void fail_to_start(const MachineLimit& e, const std::string& journal) {
  std::error_code ignored;
  // A journal without points is removed.
  const bool has_points = !journal.empty() && std::filesystem::exists(journal, ignored);
  throw MachineLimit(
      has_points ? fmt::format("{}; {} keeps the points that are done for the same command again", e.what(), journal)
                 : e.what());
}

SweepOptions shown_by(SweepProgress& progress, SweepOptions options) {
  options.progress = [&progress](std::size_t done, std::size_t points) { progress.show(done, points); };
  return options;
}

std::vector<SweepPoint> shown_sweep(const Sweep& sweep, const SweepOptions& options) {
  SweepProgress progress;
  return run_sweep(sweep, shown_by(progress, options));
}

int sweep_in_memory(const Sweep& sweep, const SweepFlags& flags, const SweepOptions& options) {
  const std::vector<SweepPoint> points = shown_sweep(sweep, options);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (options.shard.has(i) && !points[i].done)
      return interrupted_sweep(sweep, points, flags.outputs, options.journal);
  try {
    const std::string& file = flags.shares.points;
    if (!file.empty()) write_atomically(file, sweep_lines(sweep, points, options.shard));
    flags.outputs.write(sweep, points);
  } catch (const UserError& e) {
    fail_to_write(e, options.journal);
  }
  report_impossible_points(points);
  return kGood;
}

int sweep_in_files(const Sweep& sweep, const SweepFlags& flags, const SweepOptions& options) {
  flags.outputs.require_streamed(sweep, flags.shares.points);
  try {
    StreamedSweep files(sweep, options.shard, flags.shares.points, flags.outputs.csv);
    {
      SweepProgress progress;
      stream_sweep(sweep, shown_by(progress, options),
                   [&files](std::size_t index, const SweepPoint& point) { files.take(index, point); });
    }
    if (is_interrupted() || !files.is_complete()) return flags.shares.interrupted_search();
    files.finish();
    if (const std::string text = files.impossible(); !text.empty()) complain(text);
  } catch (const UserError& e) {
    fail_to_write(e, options.journal);
  }
  return kGood;
}

int sweep(const std::vector<std::string>& words) {
  SweepFlags flags;
  if (!flags.arguments.parse(words)) return kGood;
  const StudyShard shard = flags.shares.requested_shard(flags.outputs.has_any());
  if (!flags.shares.slurm.empty()) return flags.shares.write_slurm_job(flags.arguments, sweep_of(flags).points());
  const std::string& file = flags.shares.points;
  flags.outputs.order();
  const std::string journal = file.empty() ? journal_of(flags.outputs.csv) : file;
  PlannedOutputs planned;
  if (file.empty() && !journal.empty()) planned.add("--csv", journal);
  const Sweep sweep = sweep_of(flags);
  flags.outputs.check_chart(sweep);
  if (file.empty()) flags.outputs.take_stdout(sweep);
  watch_interrupts();
  const SweepOptions options{journal, {}, shard};
  int code = kGood;
  try {
    code = is_streamed(sweep) ? sweep_in_files(sweep, flags, options) : sweep_in_memory(sweep, flags, options);
  } catch (const MachineLimit& e) {
    fail_to_start(e, journal);
  }
  if (code == kGood && file.empty() && !journal.empty()) std::filesystem::remove(journal);
  return code;
}

std::string sweep_answer(const VerbQuestion& question) {
  SweepFlags flags;
  flags.arguments.take(question);
  const SweepOrder order = flags.outputs.order();
  const SweepOptions options{flags.shares.points, {}, flags.shares.requested_shard(false)};
  const Sweep sweep = sweep_of(flags);
  if (is_streamed(sweep))
    throw UserError(fmt::format("a sweep of {} points is streamed into files, by the command", sweep.points()));
  std::vector<SweepPoint> points = shown_sweep(sweep, options);
  end_if_interrupted();
  if (const std::string& file = flags.shares.points; !file.empty())
    write_atomically(file, sweep_lines(sweep, points, options.shard));
  if (flags.outputs.baseline != 0) add_scaling(points, flags.outputs.scaled_from());
  return json_text(sweep_json(sweep, points, order));
}

const RegisterVerb registered_sweep{"sweep", VerbGroup::choose,
                                    "simulate every combination of listed values, here or on a cluster", sweep,
                                    sweep_answer};

}  // namespace
}  // namespace trainyard
