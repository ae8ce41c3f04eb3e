#include "scenarios/src/pictures/chart.hpp"

#include <algorithm>
#include <cmath>

#include "sim/units.hpp"

namespace trainyard {
namespace {

constexpr const char *kChartInk = "#222222", *kChartFaint = "#666666", *kGrid = "#e2e2e2", *kFrame = "#999999";
constexpr double kBesideAxis = 58, kAbovePlot = 26, kBelowPlot = 24, kChartMargin = 16;

/// Returns a round distance for about `wanted` ticks: 1, 2 or 5 times a power of ten.
double tick_distance(double span, double wanted) {
  const double rough = span / wanted, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

void draw_series(Svg& svg, const PlotArea& area, const Chart& chart, const ChartSeries& series) {
  std::string path;
  for (const ChartSeries::Point& p : series.points)
    path += fmt::format("{}{} {}", path.empty() ? 'M' : 'L', Svg::number(area.x(chart.x, p.x)),
                        Svg::number(area.y(chart.y, p.y)));
  if (series.line) svg.curve(path, {series.color.c_str(), series.dashed ? 1 : 1.5, series.dashed ? "5 3" : ""});
  for (const ChartSeries::Point& p : series.points) {
    if (!p.marked) continue;
    const double x = area.x(chart.x, p.x), y = area.y(chart.y, p.y);
    svg.rect(x - 2.5, y - 2.5, 5, 5, p.mark_color.empty() ? series.color : p.mark_color);
    if (p.label.empty()) continue;
    const bool at_edge = x + 5 + Svg::text_width(p.label, 11) > area.left + area.width;
    svg.text(x + (at_edge ? -5 : 5), y + 14, p.label,
             {.fill = series.color, .anchor = at_edge ? Svg::Anchor::end : Svg::Anchor::start, .halo = true});
  }
}

void draw_chart(Svg& svg, const PlotArea& area, const Chart& chart) {
  draw_x_axis(svg, area, chart.x, chart.x_label);
  for (const double value : chart.y.ticks(area.height / 35)) {
    const double y = area.y(chart.y, value);
    svg.line(area.left, y, area.left + area.width, y, kGrid);
    svg.text(area.left - 5, y + 4, chart.y_label(value), {.fill = kChartInk, .anchor = Svg::Anchor::end});
  }
  svg.frame(area.left, area.top, area.width, area.height, kFrame);
  // A long title is smaller and begins left of the plot.
  const double left = area.left - kBesideAxis + kChartMargin, wide = Svg::text_width(chart.title, 11.5);
  const bool fits = wide < area.width;
  svg.text(fits ? area.left : left, area.top - 8, chart.title,
           {.size = std::min(11.0, std::max(8.0, 11 * (area.width + area.left - left) / wide)), .bold = true});
  for (const ChartSeries& series : chart.series) draw_series(svg, area, chart, series);
}

}  // namespace

void ChartAxis::include(double value) {
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
}

void ChartAxis::widen(double share) {
  const double room = logarithmic() ? std::pow(most_ / least_, share) : (most_ - least_) * share;
  least_ = logarithmic() ? least_ / room : least_ - room;
  most_ = logarithmic() ? most_ * room : most_ + room;
}

double ChartAxis::share(double value) const {
  if (!(most_ > least_)) return 0.5;
  return logarithmic() ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
}

std::vector<double> ChartAxis::ticks(double wanted) const {
  if (!(most_ > least_)) return {least_};
  std::vector<double> round;
  constexpr double tiny = 1e-9;
  if (logarithmic()) {
    const double base = scale_ == Scale::log2 ? 2 : 10, decades = std::log(most_ / least_) / std::log(base);
    const double stride = std::max(1.0, std::ceil(decades / wanted - tiny));
    const auto first = std::ceil(std::log(least_) / std::log(base) / stride - tiny) * stride;
    for (double power = first; std::pow(base, power) <= most_ * (1 + tiny); power += stride)
      round.push_back(std::pow(base, power));
    if (round.size() > 1) return round;
    round.clear();
  }
  if (scale_ == Scale::places) {
    for (double place = std::ceil(least_); place <= most_; ++place) round.push_back(place);
    return round;
  }
  double unit = 1;
  while (scale_ == Scale::binary && most_ - least_ > 1024 * unit) unit *= 1024;
  const double distance = unit * tick_distance((most_ - least_) / unit, wanted);
  for (double i = std::ceil(least_ / distance - tiny); i * distance <= most_ + tiny * distance; ++i)
    round.push_back(i * distance + 0.0);  // -0 becomes 0
  return round;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  return size >= 1e4 && size < 1e6 ? with_commas(value) : fmt::format("{:.4g}", value);
}

void draw_x_axis(Svg& svg, const PlotArea& area, const ChartAxis& axis, const TickLabel& label) {
  const double bottom = area.top + area.height;
  for (const double value : axis.ticks(area.width / 50)) {
    const double x = area.x(axis, value);
    svg.line(x, area.top, x, bottom, kGrid);
    svg.line(x, bottom, x, bottom + 4, kChartFaint);
    svg.text(x, bottom + 16, label(value), {.fill = kChartInk, .anchor = Svg::Anchor::middle});
  }
}

double draw_legend(Svg& svg, double x, double y, double right, const std::vector<LegendEntry>& entries) {
  double position = x, down = y;
  for (const LegendEntry& entry : entries) {
    const double width = Svg::text_width(entry.words, 11) + 34;
    if (position > x && position + width > right) {
      position = x;
      down += 18;
    }
    svg.rect(position, down - 9, 10, 10, entry.fill);
    svg.text(position + 15, down, entry.words, {});
    position += width;
  }
  return down - y + 18;
}

const char* series_color(std::size_t number) {
  static constexpr const char* colors[] = {"#1f6fb4", "#d1495b", "#2a9d6f", "#e39f36",
                                           "#7b5ea7", "#444444", "#5bc0be", "#a5673f"};
  return colors[number % std::size(colors)];
}

std::string charts_svg(const ChartSheet& sheet, std::vector<Chart> charts) {
  const double rows = std::ceil(static_cast<double>(charts.size()) / static_cast<double>(sheet.columns));
  const double head = sheet.note.empty() ? 36 : 52,
               width = sheet.width * static_cast<double>(sheet.columns) + kChartMargin;
  Svg svg(width, 0, sheet.title, sheet.description);
  svg.text(kChartMargin, 26, sheet.title, {.size = 15, .bold = true});
  svg.text(kChartMargin, 43, sheet.note, {.fill = kChartFaint});
  for (std::size_t i = 0; i < charts.size(); ++i) {
    Chart& chart = charts[i];
    for (const ChartSeries& series : chart.series)
      for (const ChartSeries::Point& p : series.points) {
        chart.x.include(p.x);
        chart.y.include(p.y);
      }
    if (chart.x.highest() < chart.x.lowest()) continue;  // there are no points
    const double above = chart.title.empty() ? 8 : kAbovePlot;
    chart.x.widen(0.03);
    chart.y.widen(0.05);
    draw_chart(svg,
               {sheet.width * static_cast<double>(i % sheet.columns) + kBesideAxis,
                head + sheet.height * static_cast<double>(i / sheet.columns) + above, sheet.width - kBesideAxis,
                sheet.height - above - kBelowPlot},
               chart);
  }
  const double bottom = head + sheet.height * rows + kChartMargin;
  svg.resize(width, bottom + draw_legend(svg, kBesideAxis, bottom + 4, width - kChartMargin, sheet.legend));
  return svg.finish();
}

}  // namespace trainyard
