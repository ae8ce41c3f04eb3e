#include "tools/reports/nccl_plot.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "scenarios/src/pictures/chart.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// A point of the plot.
struct PlotPoint {
  double size;              ///< bytes
  double measured, fitted;  ///< bus bandwidth, GB/s (1e9 bytes)
  bool judged;              ///< the fit did not use it
};

std::vector<PlotPoint> plot_points(const std::vector<NcclPoint>& points, NcclOperation operation, int gpus) {
  std::vector<PlotPoint> shown;
  for (const NcclPoint& p : points) {
    if (p.row.operation != operation || p.row.gpus != gpus) continue;
    const auto rate = [&](Seconds t) { return nccl_bus_bandwidth(operation, p.row.size, gpus, t).value * 1e-9; };
    shown.push_back({p.row.size.value, rate(p.row.time), rate(p.predicted), p.judged});
  }
  sort_stably(shown, [](const auto& a, const auto& b) { return a.size < b.size; });
  return shown;
}

std::string size_label(double bytes) {
  constexpr double kKi = 1024;
  const char* unit = "BKMGT";
  while (bytes >= kKi && unit[1] != '\0') {
    bytes /= kKi;
    ++unit;
  }
  return fmt::format("{:.4g}{}", bytes, *unit);
}

ChartAxis rate_axis(const std::vector<PlotPoint>& points) {
  ChartAxis axis(ChartAxis::Scale::log10);
  for (const PlotPoint& p : points) {
    axis.include(p.measured);
    axis.include(p.fitted);
  }
  return axis;
}

/// A chart with a line for the model and squares for the measurements.
Chart nccl_chart(const std::string& title, const std::vector<PlotPoint>& points) {
  Chart chart{title, ChartAxis(ChartAxis::Scale::log2), ChartAxis(ChartAxis::Scale::log10), size_label};
  ChartSeries model{"#1f6fb4"}, measured{.color = "#444444", .line = false};
  for (const PlotPoint& p : points) {
    model.points.push_back({p.size, p.fitted});
    measured.points.push_back({p.size, p.measured, "", true, p.judged ? "#d1495b" : ""});
  }
  chart.series = {model, measured};
  return chart;
}

}  // namespace

std::string nccl_text_plot(const std::vector<NcclPoint>& all, NcclOperation operation, int gpus) {
  constexpr int kRows = 12;
  constexpr std::size_t kColumn = 3, kMostColumns = 36;
  std::vector<PlotPoint> points = plot_points(all, operation, gpus);
  if (points.empty()) return "";
  while (points.size() > kMostColumns) {  // drops every second point until the plot fits a terminal
    std::vector<PlotPoint> fewer;
    for (std::size_t i = 0; i < points.size(); i += 2) fewer.push_back(points[i]);
    points = std::move(fewer);
  }
  const ChartAxis axis = rate_axis(points);
  std::vector<std::string> lines(kRows, std::string(points.size() * kColumn, ' '));
  const auto row_of = [&](double rate) {
    return static_cast<std::size_t>(std::lround((1 - axis.share(rate)) * (kRows - 1)));
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t measured = row_of(points[i].measured), fitted = row_of(points[i].fitted);
    lines[fitted][i * kColumn + 1] = '+';
    lines[measured][i * kColumn + 1] = measured == fitted ? '*' : 'o';
  }
  std::string text = fmt::format("{}, {} GPUs: bus bandwidth in GB/s against size; o measured, + fitted, * both\n",
                                 name_of(operation), gpus);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double rate = axis.highest() * std::pow(axis.lowest() / axis.highest(), static_cast<double>(i) / (kRows - 1));
    lines[i].erase(lines[i].find_last_not_of(' ') + 1);
    text += fmt::format("  {:>9.3g} |{}\n", rate, lines[i]);
  }
  const std::string first = size_label(points.front().size), last = size_label(points.back().size);
  const std::size_t width = points.size() * kColumn,
                    between = width > first.size() + last.size() ? width - first.size() - last.size() : 1;
  return text + fmt::format("  {:>9}  {}{}{}\n", "", first, std::string(between, ' '), last);
}

std::string nccl_svg_plot(const NcclFit& fit) {
  std::set<NcclOperation> operations;
  std::set<int> gpus;
  for (const NcclPoint& p : fit.points) {
    operations.insert(p.row.operation);
    gpus.insert(p.row.gpus);
  }
  std::vector<Chart> charts;
  for (const NcclOperation operation : operations)
    for (const int n : gpus)
      charts.push_back(
          nccl_chart(fmt::format("{}, {} GPUs", name_of(operation), n), plot_points(fit.points, operation, n)));
  return charts_svg(
      {.title = fmt::format("NCCL {} on {}: bus bandwidth in GB/s against size", fit.model.version, fit.model.gpu),
       .note = "line: fit; squares: measured, red: held out; both axes logarithmic",
       .columns = gpus.size()},
      charts);
}

std::string nccl_svg_panels(const std::string& title, const std::vector<NcclPanel>& panels) {
  std::vector<Chart> charts;
  for (const NcclPanel& panel : panels) {
    const NcclRow& row = panel.points.front().row;
    charts.push_back(nccl_chart(panel.title, plot_points(panel.points, row.operation, row.gpus)));
  }
  return charts_svg(
      {.title = title, .note = "line: model; squares: measured, red: in no fit; both axes logarithmic", .columns = 3},
      charts);
}

}  // namespace trainyard
