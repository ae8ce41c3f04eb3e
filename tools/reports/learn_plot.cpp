#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/studies/sweeps/learn_study.hpp"
#include "tools/reports/report.hpp"

namespace trainyard {
namespace {

struct Against {
  const char* name;
  double LearnPoint::*figure;
  ChartAxis::Scale scale;
  std::string (*label)(double);
};
constexpr Against kAgainst[] = {
    {"simulated time", &LearnPoint::time, ChartAxis::Scale::linear, [](double v) { return show(Seconds{v}); }},
    {"samples", &LearnPoint::samples, ChartAxis::Scale::linear, [](double v) { return fmt::format("{:.6g}", v); }},
    {"bytes", &LearnPoint::bytes, ChartAxis::Scale::binary, [](double v) { return show(Bytes{v}); }}};

/// The mean over the seeds at each point of the curves, up to the end of the shortest curve.
std::vector<ChartSeries::Point> mean_points(const LearnVariant& v, double LearnPoint::*across, double LearnPoint::*up) {
  std::size_t count = v.runs.empty() ? 0 : v.runs.front().points.size();
  for (const LearnResult& r : v.runs) count = std::min(count, r.points.size());
  std::vector<ChartSeries::Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    double x = 0, y = 0;
    for (const LearnResult& r : v.runs) {
      x += r.points[i].*across / static_cast<double>(v.runs.size());
      y += r.points[i].*up / static_cast<double>(v.runs.size());
    }
    if (std::isfinite(x) && std::isfinite(y)) points.push_back({x, y});
  }
  return points;
}

/// The values of each replica's first parameter over the steps, in the first seed; an empty chart if the task has many
/// parameters. The dashed line is their mean.
Chart positions_chart(const LearnStudy& study, std::size_t variant) {
  const LearnVariant& v = study.variants[variant];
  Chart chart{study.variants.size() == 1 ? "replicas' positions against steps" : "positions: " + v.name};
  if (v.runs.empty() || v.runs.front().points.front().positions.empty()) return chart;
  const std::vector<LearnPoint>& points = v.runs.front().points;
  const std::size_t replicas = points.front().positions.size();
  ChartSeries mean{.color = series_color(variant + 1), .dashed = true};
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    ChartSeries path{.color = series_color(variant)};
    for (const LearnPoint& p : points) path.points.push_back({p.steps, p.positions.at(replica)});
    chart.series.push_back(std::move(path));
  }
  for (const LearnPoint& p : points) {
    double sum = 0;
    for (const double w : p.positions) sum += w;
    mean.points.push_back({p.steps, sum / static_cast<double>(replicas)});
  }
  if (replicas > 1) chart.series.push_back(std::move(mean));
  return chart;
}

}  // namespace

std::string learn_svg(const std::string& title, const LearnStudy& study) {
  ChartSheet sheet{.title = title,
                   .description = "Loss of a small training against simulated time, samples and bytes",
                   .columns = std::size(kAgainst)};
  for (std::size_t v = 0; v < study.variants.size() && study.variants.size() > 1; ++v)
    sheet.legend.push_back({series_color(v), study.variants[v].name});
  std::vector<Chart> charts;
  for (const auto& [up, figure] : {std::pair{"loss", &LearnPoint::loss}, std::pair{"accuracy", &LearnPoint::accuracy}})
    for (const Against& against : kAgainst) {
      Chart chart{fmt::format("{} against {}", up, against.name), ChartAxis(against.scale), ChartAxis(), against.label};
      for (std::size_t v = 0; v < study.variants.size(); ++v)
        chart.series.push_back({series_color(v), mean_points(study.variants[v], against.figure, figure)});
      charts.push_back(std::move(chart));
    }
  const bool has_accuracy = std::ranges::any_of(study.variants, [](const LearnVariant& v) {
    return !v.runs.empty() && std::isfinite(v.runs.front().last().accuracy);
  });
  if (!has_accuracy) charts.resize(std::size(kAgainst));
  for (std::size_t v = 0; v < study.variants.size(); ++v)
    if (const Chart chart = positions_chart(study, v); !chart.series.empty()) charts.push_back(chart);
  return charts_svg(sheet, charts);
}

}  // namespace trainyard
