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
  std::size_t looks = v.runs.empty() ? 0 : v.runs.front().points.size();
  for (const LearnResult& r : v.runs) looks = std::min(looks, r.points.size());
  std::vector<ChartSeries::Point> points;
  for (std::size_t i = 0; i < looks; ++i) {
    double x = 0, y = 0;
    for (const LearnResult& r : v.runs) {
      x += r.points[i].*across / static_cast<double>(v.runs.size());
      y += r.points[i].*up / static_cast<double>(v.runs.size());
    }
    if (std::isfinite(x) && std::isfinite(y)) points.push_back({x, y});
  }
  return points;
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
  const bool tells = std::any_of(study.variants.begin(), study.variants.end(), [](const LearnVariant& v) {
    return !v.runs.empty() && std::isfinite(v.runs.front().last().accuracy);
  });
  if (!tells) charts.resize(std::size(kAgainst));
  return charts_svg(sheet, charts);
}

}  // namespace trainyard
