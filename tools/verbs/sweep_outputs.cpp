#include "tools/verbs/sweep_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/pictures/scaling_picture.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/html_page.hpp"

namespace trainyard {
namespace {

/// As one word for a shell.
std::string shell_word(const std::string& text) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string program_word() { return shell_word(std::filesystem::read_symlink("/proc/self/exe").string()); }
std::string points_of(const SlurmSweep& job, const std::string& task) {
  return shell_word(job.folder + "/points-") + task + ".jsonl";
}

}  // namespace

void SweepOutputs::declare(Arguments& arguments, const std::string& csv_words) {
  arguments.option("--sort", sort, "COLUMN", "order of the rows: the lowest first; -COLUMN: the highest");
  arguments.option("--top", top, "N", "the first N rows only");
  arguments.option(
      "--baseline", baseline, "N",
      "add how each point scales from the Nth: speedup, ideal samples/s, efficiency; and say up to how many "
      "GPUs more help");
  arguments.output("--svg", svg,
                   "draw samples/s over GPUs beside the ideal line (the baseline is the first point, or "
                   "--baseline); - is stdout");
  arguments.output("--csv", csv, csv_words);
  arguments.output("--json", json, "write the table as JSON; - is stdout");
  arguments.output("--html", html, "draw curves, the Pareto front and all points as a page; - is stdout");
}

void SweepOutputs::add_scaling_to(const Sweep& sweep, std::vector<SweepPoint>& points) const {
  const GpusAndRate from = add_scaling(points, static_cast<std::size_t>(std::max(0, baseline == 0 ? 1 : baseline)));
  const std::vector<GpusAndRate> scaling = scaling_points(points);
  if (!svg.empty()) write_atomically(svg, scaling_picture(sweep.scenario.stem().string(), scaling, from));
  const bool free = csv != "-" && json != "-" && html != "-" && svg != "-";
  fmt::print(free ? stdout : stderr, "{}", scaling_knee(scaling));
}

void SweepOutputs::write(const Sweep& sweep, std::vector<SweepPoint> points) const {
  const SweepOrder rows = order();
  if (baseline != 0 || !svg.empty()) add_scaling_to(sweep, points);
  if (!csv.empty()) write_atomically(csv, sweep_csv(sweep, points, rows));
  if ((json + html).empty()) return;
  const nlohmann::ordered_json table = sweep_json(sweep, points, rows);
  if (!json.empty()) write_atomically(json, json_text(table, 2) + "\n");
  if (!html.empty())
    write_atomically(html, chart_page("Sweep of " + sweep.scenario.filename().string(), {{"answer", table}},
                                      {page_script::sweep()}));
}

void report_impossible_points(const std::vector<SweepPoint>& points) {
  const auto impossible = [](const SweepPoint& p) { return !p.error.empty(); };
  const auto count = std::count_if(points.begin(), points.end(), impossible);
  if (count == 0) return;
  complain(fmt::format("{} of {} points are impossible; the first: {}", count, points.size(),
                       std::find_if(points.begin(), points.end(), impossible)->error));
}

std::string slurm_script(const SlurmSweep& job) {
  std::string words;
  for (const std::string& word : job.words) words += " " + shell_word(word);
  return fmt::format(
      "#!/bin/bash\n"
      "#SBATCH --job-name=trainyard-sweep\n"
      "#SBATCH --array=1-{0}\n"
      "#SBATCH --ntasks=1\n"
      "#SBATCH --output={1}/task-%a.log\n"
      "#SBATCH --requeue\n"
      "# A task that is started again takes what its points' file has. When all are done:\n"
      "#   {2}\n"
      "exec {3} sweep{4} --shard \"$SLURM_ARRAY_TASK_ID/{0}\" --points {5}\n",
      job.tasks, job.folder, slurm_merge_command(job), program_word(), words,
      points_of(job, "\"$SLURM_ARRAY_TASK_ID\""));
}

std::string slurm_merge_command(const SlurmSweep& job) {
  const std::string tasks = job.tasks > 1 ? fmt::format("{{1..{}}}", job.tasks) : "1";
  return fmt::format("{} merge {} --csv {}", program_word(), points_of(job, tasks),
                     shell_word(job.folder + "/sweep.csv"));
}

}  // namespace trainyard
