#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/studies/layer_cuts.hpp"
#include "scenarios/studies/sweep.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/child.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string bar(std::size_t done, std::size_t of) {
  constexpr std::size_t width = 40;
  const std::size_t full = done * width / std::max<std::size_t>(1, of);
  return fmt::format("[{}{}] {} of {} points", std::string(full, '#'), std::string(width - full, ' '), done, of);
}

int interrupted_sweep(const std::vector<SweepPoint>& points, const std::string& journal) {
  const auto done = std::count_if(points.begin(), points.end(), [](const SweepPoint& p) { return p.done; });
  complain(fmt::format("interrupted: {} of {} points are done; {}", done, points.size(),
                       journal.empty() ? "none is kept (with --csv FILE a sweep can be resumed)"
                                       : fmt::format("run the same command again to resume ({} keeps them)", journal)));
  return kInterrupted;
}

void report_impossible_points(const std::vector<SweepPoint>& points) {
  const auto impossible = [](const SweepPoint& p) { return !p.error.empty(); };
  const auto count = std::count_if(points.begin(), points.end(), impossible);
  if (count == 0) return;
  complain(fmt::format("{} of {} points are impossible; the first: {}", count, points.size(),
                       std::find_if(points.begin(), points.end(), impossible)->error));
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

int sweep(const std::vector<std::string>& words) {
  Arguments arguments(
      "sweep",
      "Simulates a scenario at every combination of the listed values; the last list varies fastest. Impossible "
      "points are rows with their error, counted at the end; exit code 2 if all are.",
      "sweep scenarios/gpt2-xl-ddp-dgx-a100.yaml --set plan.global_batch_size=256,512,1024 --set "
      "cluster.nodes=2,4 --csv sweep.csv");
  std::string file, csv, json, html, sort, svg;
  int top = 0, baseline = 0;
  std::vector<std::string> sets;
  arguments.positional("SCENARIO", file, "scenario file (YAML)");
  arguments.repeated("--set", sets, "PATH=A,B,...",
                     "a field and its values, as often as needed; \"A=1,2 & B=3,4\": fields that move together; "
                     "plan.pipeline.layers=all: every cut of the layers");
  arguments.option("--sort", sort, "COLUMN", "order of the rows: the lowest first; -COLUMN: the highest");
  arguments.option("--top", top, "N", "the first N rows only");
  arguments.option(
      "--baseline", baseline, "N",
      "add how each point scales from the Nth: speedup, ideal samples/s, efficiency; and say up to how many "
      "GPUs more help");
  arguments.output("--svg", svg,
                   "draw samples/s over GPUs beside the ideal line (the baseline is the first point, or "
                   "--baseline); - is stdout");
  arguments.output("--csv", csv,
                   "write the table; - is stdout (the default). With a file, an interrupted sweep can be resumed");
  arguments.output("--json", json, "write the table as JSON; - is stdout");
  arguments.output("--html", html, "draw curves, the Pareto front and all points as a page; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if ((csv + json + html + svg).empty()) csv = std::string(1, '-');  // "-" trips g++ 12.2's -Wrestrict

  Sweep sweep{file, {}};
  for (const std::string& set : sets)
    for (SweepAxis& axis : parse_sweep_axes(set)) sweep.axes.push_back(std::move(axis));
  const SweepOrder order = parse_sweep_order(sort, top);
  const std::string journal = journal_of(csv);
  PlannedOutputs planned;
  if (!journal.empty()) planned.add("--csv", journal);
  check_input(file);  // else each point says so
  expand_layer_cuts(sweep);
  watch_interrupts();
  std::vector<SweepPoint> points;
  {
    ProgressLine line;
    points = run_sweep(sweep, {journal, [&line](std::size_t done, std::size_t of) { line.show(bar(done, of)); }});
  }
  if (std::any_of(points.begin(), points.end(), [](const SweepPoint& p) { return !p.done; }))
    return interrupted_sweep(points, journal);
  try {
    if (baseline != 0 || !svg.empty()) {
      const GpusAndRate from = add_scaling(points, static_cast<std::size_t>(std::max(0, baseline == 0 ? 1 : baseline)));
      const std::vector<GpusAndRate> scaling = scaling_points(points);
      if (!svg.empty())
        write_atomically(svg, scaling_picture(std::filesystem::path(file).stem().string(), scaling, from));
      const bool free = csv != "-" && json != "-" && html != "-" && svg != "-";
      fmt::print(free ? stdout : stderr, "{}", scaling_knee(scaling));
    }
    if (!csv.empty()) write_atomically(csv, sweep_csv(sweep, points, order));
    if (!(json + html).empty()) {
      const nlohmann::ordered_json table = sweep_json(sweep, points, order);
      if (!json.empty()) write_atomically(json, json_text(table, 2) + "\n");
      if (!html.empty())
        write_atomically(html, chart_page("Sweep of " + std::filesystem::path(file).filename().string(),
                                          {{"answer", table}}, {page_script::sweep()}));
    }
  } catch (const UserError& e) {
    throw UserError(journal.empty()
                        ? e.what()
                        : fmt::format("{}; {} keeps the points for the same command again", e.what(), journal));
  }
  if (!journal.empty()) std::filesystem::remove(journal);
  report_impossible_points(points);
  return kGood;
}

const RegisterVerb registered_sweep{"sweep", "simulate every combination of listed values; CSV", sweep};

}  // namespace
}  // namespace trainyard
