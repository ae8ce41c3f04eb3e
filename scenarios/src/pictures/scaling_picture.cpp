#include "scenarios/src/pictures/scaling_picture.hpp"

#include "scenarios/src/pictures/chart.hpp"

namespace trainyard {

std::string scaling_picture(const std::string& title, const std::vector<ScalingCurve>& curves,
                            const GpusAndRate& baseline) {
  const auto ideal = [&baseline](double gpus) { return baseline.rate * gpus / baseline.gpus; };
  ChartSheet sheet{.title = title,
                   .note = "samples/s over GPUs, both logarithmic; dashed: ideal; %: efficiency",
                   .description = "samples a second over GPUs, and the ideal line from the baseline",
                   .width = 704,
                   .height = 360};
  Chart chart{"", ChartAxis(ChartAxis::Scale::log2), ChartAxis(ChartAxis::Scale::log2)};
  ChartAxis gpus(baseline.gpus, baseline.gpus);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    ChartSeries& series = chart.series.emplace_back(ChartSeries{series_color(c)});
    if (!curves[c].name.empty()) sheet.legend.push_back({series.color, curves[c].name});
    for (const GpusAndRate& p : curves[c].points) {
      gpus.include(p.gpus);
      series.points.push_back({p.gpus, p.rate, fmt::format("{:.0f} %", p.rate / ideal(p.gpus) * 100), true});
    }
  }
  chart.series.push_back({.color = "#888888",
                          .points = {{gpus.lowest(), ideal(gpus.lowest())}, {gpus.highest(), ideal(gpus.highest())}},
                          .dashed = true});
  return charts_svg(sheet, {chart});
}

}  // namespace trainyard
