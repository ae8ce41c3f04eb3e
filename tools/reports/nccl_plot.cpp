#include "tools/reports/nccl_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scenarios/src/pictures/svg.hpp"

namespace trainyard {
namespace {

/// A point as it is drawn: bandwidths in GB/s, 1e9 bytes.
struct PlotPoint {
  double size, measured, fitted;
  bool judged;
};

std::vector<PlotPoint> plot_points(const std::vector<NcclPoint>& points, NcclOperation operation, int gpus) {
  std::vector<PlotPoint> shown;
  for (const NcclPoint& p : points) {
    if (p.row.operation != operation || p.row.gpus != gpus) continue;
    const auto rate = [&](Seconds t) { return nccl_bus_bandwidth(operation, p.row.size, gpus, t).value * 1e-9; };
    shown.push_back({p.row.size.value, rate(p.row.time), rate(p.predicted), p.judged});
  }
  std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
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

/// Where a value lies on a logarithmic axis, 0 to 1.
struct LogAxis {
  double least, most;
  double at(double v) const { return most > least ? std::log(v / least) / std::log(most / least) : 0.5; }
};

LogAxis rate_axis(const std::vector<PlotPoint>& points) {
  LogAxis axis{points.front().fitted, points.front().fitted};
  for (const PlotPoint& p : points) {
    axis.least = std::min({axis.least, p.measured, p.fitted});
    axis.most = std::max({axis.most, p.measured, p.fitted});
  }
  return axis;
}

/// One panel of the picture, its corner and frame.
struct Panel {
  double x, y;
  static constexpr double kWidth = 250, kHeight = 170, kLeft = 46, kTop = 24, kBottom = 22;
};

void draw_panel(Svg& svg, const Panel& panel, const std::string& title, const std::vector<PlotPoint>& points) {
  const double left = panel.x + Panel::kLeft, top = panel.y + Panel::kTop;
  const double width = Panel::kWidth - Panel::kLeft - 10, height = Panel::kHeight - Panel::kTop - Panel::kBottom;
  const LogAxis rates = rate_axis(points), sizes{points.front().size, points.back().size};
  const auto x = [&](double size) { return left + width * sizes.at(size); };
  const auto y = [&](double rate) { return top + height * (1 - rates.at(rate)); };
  svg.frame(left, top, width, height, "#999999");
  svg.text(panel.x + Panel::kLeft, panel.y + 15, title, {.bold = true});
  for (const double rate : {rates.least, rates.most})
    svg.text(left - 4, y(rate) + 4, fmt::format("{:.3g}", rate), {.size = 9, .anchor = Svg::Anchor::end});
  svg.text(left, top + height + 13, size_label(sizes.least), {.size = 9});
  svg.text(left + width, top + height + 13, size_label(sizes.most), {.size = 9, .anchor = Svg::Anchor::end});
  for (std::size_t i = 1; i < points.size(); ++i)
    svg.line(x(points[i - 1].size), y(points[i - 1].fitted), x(points[i].size), y(points[i].fitted), "#1f6fb4");
  for (const PlotPoint& p : points) svg.rect(x(p.size) - 2, y(p.measured) - 2, 4, 4, p.judged ? "#d1495b" : "#444444");
}

}  // namespace

std::string nccl_text_plot(const std::vector<NcclPoint>& all, NcclOperation operation, int gpus) {
  constexpr int kRows = 12;
  constexpr std::size_t kColumn = 3, kMostColumns = 36;
  std::vector<PlotPoint> points = plot_points(all, operation, gpus);
  if (points.empty()) return "";
  while (points.size() > kMostColumns) {  // a log of every MiB: every other point until it fits a terminal
    std::vector<PlotPoint> fewer;
    for (std::size_t i = 0; i < points.size(); i += 2) fewer.push_back(points[i]);
    points = std::move(fewer);
  }
  const LogAxis axis = rate_axis(points);
  std::vector<std::string> lines(kRows, std::string(points.size() * kColumn, ' '));
  const auto row_of = [&](double rate) {
    return static_cast<std::size_t>(std::lround((1 - axis.at(rate)) * (kRows - 1)));
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t measured = row_of(points[i].measured), fitted = row_of(points[i].fitted);
    lines[fitted][i * kColumn + 1] = '+';
    lines[measured][i * kColumn + 1] = measured == fitted ? '*' : 'o';
  }
  std::string text = fmt::format("{}, {} GPUs: bus bandwidth in GB/s against size; o measured, + fitted, * both\n",
                                 name_of(operation), gpus);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double rate = axis.most * std::pow(axis.least / axis.most, static_cast<double>(i) / (kRows - 1));
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
  constexpr double kHead = 44;
  const double width = std::max(500.0, Panel::kWidth * static_cast<double>(gpus.size()) + 10);
  const std::string title =
      fmt::format("NCCL {} on {}: bus bandwidth in GB/s against size", fit.model.version, fit.model.gpu);
  Svg svg(width, kHead + Panel::kHeight * static_cast<double>(operations.size()), title,
          "A line for the fit; squares for measurements, red where they were held out.");
  svg.text(10, 18, title, {.size = 13, .bold = true});
  svg.text(10, 34, "line: fit; squares: measured, red: held out; both axes logarithmic", {.size = 10});
  double y = kHead;
  for (const NcclOperation operation : operations) {
    double x = 0;
    for (const int n : gpus) {
      const std::vector<PlotPoint> points = plot_points(fit.points, operation, n);
      if (!points.empty()) draw_panel(svg, {x, y}, fmt::format("{}, {} GPUs", name_of(operation), n), points);
      x += Panel::kWidth;
    }
    y += Panel::kHeight;
  }
  return svg.finish();
}

std::string nccl_svg_panels(const std::string& title, const std::vector<NcclPanel>& panels) {
  constexpr double kHead = 44;
  constexpr std::size_t kColumns = 3;
  const std::size_t rows = (panels.size() + kColumns - 1) / kColumns;
  Svg svg(Panel::kWidth * kColumns + 10, kHead + Panel::kHeight * static_cast<double>(rows), title,
          "A line for the model; squares for measurements, red where no fit saw them.");
  svg.text(10, 18, title, {.size = 13, .bold = true});
  svg.text(10, 34, "line: model; squares: measured, red: in no fit; both axes logarithmic", {.size = 10});
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const NcclRow& row = panels[i].points.front().row;
    draw_panel(
        svg,
        {Panel::kWidth * static_cast<double>(i % kColumns), kHead + Panel::kHeight * static_cast<double>(i / kColumns)},
        panels[i].title, plot_points(panels[i].points, row.operation, row.gpus));
  }
  return svg.finish();
}

}  // namespace trainyard
