#include "tools/verbs/sweep_outputs.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/run_pictures.hpp"
#include "sim/process/output.hpp"
#include "sim/process/terminal.hpp"
#include "tools/reports/assumptions.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/table.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {

void SweepOutputs::declare(Arguments& arguments, const std::string& csv_words) {
  arguments.option("--sort", sort, "COLUMN", "sort the rows by this column, lowest first; with -COLUMN highest first");
  arguments.option("--top", top, "N", "show the first N rows only", 1);
  arguments.option("--baseline", baseline, "N",
                   "add columns that compare each point with the Nth: speedup, ideal samples/s, efficiency; and print "
                   "the number of devices beyond which more do not help",
                   1);
  arguments.output(
      "--svg", svg,
      "draw samples/s over devices with the ideal line (from the first point, or --baseline); if all points have as "
      "many devices, or words such as 8W2PS name points with as many devices, a column over a field; - is stdout");
  arguments.option("--across", chart.across, "FIELD",
                   "with --svg: the swept field on the horizontal axis, by its numbers or its words (default: the "
                   "field that names each point, else the one with numbers and the most values)");
  arguments.option("--up", chart.up, "COLUMN",
                   "with --svg: the column on the vertical axis, for example mfu (default: samples_per_s if a field "
                   "names each point, else the first column that differs)");
  arguments.output("--csv", csv, csv_words);
  arguments.output("--json", json, "write the table as JSON; - is stdout");
  arguments.output("--html", html, "write a page with curves, the Pareto front and all points; - is stdout");
}

namespace {

/// The noun for the chips of a sweep; "GPU" if no point of it can be read.
std::string devices_of(const Sweep& sweep) {
  std::string noun;
  const auto add = [&](const Overrides& set) {
    try {
      noun = common_noun(noun, device_noun(read_scenario(sweep.read_document(), "", set).cluster));
    } catch (const UserError&) {  // the table shows the error of such a point
    }
  };
  for (const SweepAxis& axis : sweep.axes)
    for (const std::string& value : axis.values)
      if (axis.path == "cluster.node" || axis.path == "cluster.gpu") add({{axis.path, value}});
  if (noun.empty()) add({});
  return noun;
}

}  // namespace

bool SweepOutputs::stdout_is_free() const { return csv != "-" && json != "-" && html != "-" && svg != "-"; }

void SweepOutputs::take_stdout(const Sweep& sweep) {
  // A lesson catches the output and shows it to people.
  const bool people_read = stdout_is_terminal() || tables_are_markdown() || output_is_caught();
  screen = !is_streamed(sweep) && stdout_is_free() && people_read;
  if (!screen && !has_any()) csv = std::string(1, '-');  // "-" trips g++ 12.2
}

void SweepOutputs::check_chart(const Sweep& sweep) const {
  if (!chart.has_any()) return;
  if (svg.empty()) throw UserError(fmt::format("{}: only with --svg", chart.across.empty() ? "--up" : "--across"));
  check_chart_axes(sweep, chart);
}

bool SweepOutputs::draws_scaling(const Sweep& sweep, const std::vector<SweepPoint>& points) const {
  return !svg.empty() && !chart.has_any() && shows_scaling(sweep, points);
}

void SweepOutputs::add_scaling_to(const Sweep& sweep, std::vector<SweepPoint>& points) const {
  const GpusAndRate from = add_scaling(points, scaled_from());
  const std::vector<GpusAndRate> scaling = scaling_points(points);
  const std::string devices = devices_of(sweep);
  if (draws_scaling(sweep, points))
    write_atomically(svg, in_words_of(devices, scaling_picture(sweep.scenario.stem().string(), {{"", scaling}}, from)));
  const std::string knee = in_words_of(devices, scaling_knee(scaling));
  if (stdout_is_free())
    print(knee);
  else if (!output_is_caught())
    std::fputs(knee.c_str(), stderr);
}

void SweepOutputs::write(const Sweep& sweep, std::vector<SweepPoint> points) const {
  const SweepOrder rows = order();
  const bool scales = draws_scaling(sweep, points);
  if (baseline != 0 || scales) add_scaling_to(sweep, points);
  if (!svg.empty() && !scales) write_atomically(svg, sweep_chart(sweep, points, chart));
  if (screen) write_atomically("-", sweep_report(sweep, points, rows));
  if (!csv.empty()) write_atomically(csv, sweep_csv(sweep, points, rows));
  if ((json + html).empty()) return;
  nlohmann::ordered_json table = sweep_json(sweep, points, rows);
  if (!unfinished.empty()) table["unfinished"] = unfinished;
  write_json(json, table);
  if (html.empty()) return;
  Node document = sweep.read_document();
  for (const auto& [path, value] : sweep.point(0))
    if (path == "prices") set_field(document, path, value);
  write_atomically(
      html, chart_page("Sweep of " + sweep.scenario.filename().string() +
                           (unfinished.empty() ? "" : " (unfinished: " + unfinished + ")"),
                       {{"answer", table}, {"assumptions", assumptions_json(document, {})}}, {page_script::sweep()}));
}

void SweepOutputs::require_streamed(const Sweep& sweep, const std::string& points) const {
  const bool others = !(json + html + svg + sort).empty() || top != 0 || baseline != 0;
  if (!others && csv != "-" && !(csv + points).empty()) return;
  throw UserError(fmt::format(
      "a sweep of {} points is streamed into files: --points FILE or --csv FILE expected, and no other output",
      sweep.points()));
}

void report_impossible_points(const std::vector<SweepPoint>& points) {
  const auto impossible = [](const SweepPoint& p) { return !p.error.empty(); };
  const auto count = std::ranges::count_if(points, impossible);
  if (count == 0) return;
  complain(fmt::format("{} of {} {} impossible; the first: {}", count,
                       counted_noun(static_cast<std::int64_t>(points.size()), "point"), count == 1 ? "is" : "are",
                       std::ranges::find_if(points, impossible)->error));
}

}  // namespace trainyard
