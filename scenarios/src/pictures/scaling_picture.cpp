#include "scenarios/src/pictures/scaling_picture.hpp"

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/svg.hpp"

namespace trainyard {
namespace {

constexpr double kScalingWidth = 720, kScalingHeight = 420, kPlotLeft = 80, kPlotTop = 60, kPlotBottom = 360,
                 kPlotRight = 690;

constexpr const char* kCurveColors[] = {"#1f6fb4", "#c0392b", "#2e8b57", "#8e5ea2", "#b8860b"};

/// A logarithmic axis from `least` to `most`, drawn from `from` to `to`.
struct LogAxis {
  double least, most, from, to;
  double at(double v) const { return from + (to - from) * std::log(v / least) / std::log(most / least); }
};

void draw_ticks(Svg& svg, const LogAxis& x, const LogAxis& y) {
  for (double v = std::exp2(std::ceil(std::log2(x.least))); v <= x.most * 1.001; v *= 2) {
    svg.line(x.at(v), y.from, x.at(v), y.to, "#e4e4e4");
    svg.text(x.at(v), y.from + 16, fmt::format("{:.6g}", v), {.anchor = Svg::Anchor::middle});
  }
  for (double v = std::exp2(std::ceil(std::log2(y.least))); v <= y.most * 1.001; v *= 2) {
    svg.line(x.from, y.at(v), x.to, y.at(v), "#e4e4e4");
    svg.text(x.from - 6, y.at(v) + 4, fmt::format("{:.4g}", v), {.anchor = Svg::Anchor::end});
  }
}

}  // namespace

std::string scaling_picture(const std::string& title, const std::vector<GpusAndRate>& points,
                            const GpusAndRate& baseline) {
  return scaling_picture(title, std::vector<ScalingCurve>{{"", points}}, baseline);
}

std::string scaling_picture(const std::string& title, const std::vector<ScalingCurve>& curves,
                            const GpusAndRate& baseline) {
  const auto ideal = [&baseline](double gpus) { return baseline.rate * gpus / baseline.gpus; };
  LogAxis x{baseline.gpus, baseline.gpus, kPlotLeft, kPlotRight},
      y{baseline.rate, baseline.rate, kPlotBottom, kPlotTop};
  for (const ScalingCurve& curve : curves)
    for (const GpusAndRate& p : curve.points) {
      x.least = std::min(x.least, p.gpus);
      x.most = std::max(x.most, p.gpus);
      y.least = std::min({y.least, p.rate, ideal(p.gpus)});
      y.most = std::max({y.most, p.rate, ideal(p.gpus)});
    }
  for (LogAxis* axis : {&x, &y}) {
    axis->least /= 1.15;
    axis->most *= 1.15;
  }
  Svg svg(kScalingWidth, kScalingHeight, title, "samples a second over GPUs, and the ideal line from the baseline");
  svg.text(16, 30, title, {.size = 16, .bold = true});
  draw_ticks(svg, x, y);
  svg.frame(kPlotLeft, kPlotTop, kPlotRight - kPlotLeft, kPlotBottom - kPlotTop, "#888888");
  svg.line(x.at(x.least * 1.15), y.at(ideal(x.least * 1.15)), x.at(x.most / 1.15), y.at(ideal(x.most / 1.15)),
           "#888888", true);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const std::vector<GpusAndRate>& points = curves[c].points;
    const char* color = kCurveColors[c % std::size(kCurveColors)];
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double px = x.at(points[i].gpus), py = y.at(points[i].rate);
      if (i > 0) svg.line(x.at(points[i - 1].gpus), y.at(points[i - 1].rate), px, py, color);
      svg.rect(px - 3, py - 3, 6, 6, color);
      svg.text(px + 5, py + 14, fmt::format("{:.0f} %", points[i].rate / ideal(points[i].gpus) * 100), {.fill = color});
    }
    if (!points.empty() && !curves[c].name.empty())
      svg.text(x.at(points.back().gpus) - 6, y.at(points.back().rate) - 8, curves[c].name,
               {.fill = color, .anchor = Svg::Anchor::end, .bold = true});
  }
  svg.text((kPlotLeft + kPlotRight) / 2, kPlotBottom + 40, "GPUs", {.anchor = Svg::Anchor::middle});
  svg.text(16, kPlotTop - 10, "samples/s; dashed: ideal; %: efficiency", {.fill = "#666666"});
  return svg.finish();
}

}  // namespace trainyard
