#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/svg.hpp"
#include "tools/reports/learn_report.hpp"

namespace trainyard {
namespace {

constexpr const char* kColors[] = {"#1f6fb4", "#d1495b", "#2a9d6f", "#e39f36",
                                   "#7b5ea7", "#444444", "#5bc0be", "#a5673f"};
constexpr double kWidth = 300, kHeight = 220, kLeft = 52, kTop = 26, kBottom = 34, kRight = 14, kLegend = 16;

struct LearningPanel {
  const char* across;
  double LearnPoint::*x;
  const char* up;
  double LearnPoint::*y;
  std::string (*label)(double);
};

std::string seconds_label(double v) { return show(Seconds{v}); }
std::string count_label(double v) { return fmt::format("{:.3g}", v); }
std::string bytes_label(double v) { return show(Bytes{v}); }

using Line = std::vector<std::pair<double, double>>;

/// The mean over the seeds, look by look, as far as all of them have come.
Line line_of(const LearnVariant& v, const LearningPanel& panel) {
  std::size_t looks = v.runs.empty() ? 0 : v.runs.front().points.size();
  for (const LearnResult& r : v.runs) looks = std::min(looks, r.points.size());
  Line line;
  for (std::size_t i = 0; i < looks; ++i) {
    double x = 0, y = 0;
    for (const LearnResult& r : v.runs) {
      x += r.points[i].*panel.x / static_cast<double>(v.runs.size());
      y += r.points[i].*panel.y / static_cast<double>(v.runs.size());
    }
    if (std::isfinite(x) && std::isfinite(y)) line.emplace_back(x, y);
  }
  return line;
}

void draw(Svg& svg, double left, double top, const LearningPanel& panel, const LearnStudy& study) {
  double most_x = 0, least_y = HUGE_VAL, most_y = -HUGE_VAL;
  std::vector<Line> lines;
  for (const LearnVariant& v : study.variants) {
    lines.push_back(line_of(v, panel));
    for (const auto& [x, y] : lines.back()) {
      most_x = std::max(most_x, x);
      least_y = std::min(least_y, y);
      most_y = std::max(most_y, y);
    }
  }
  if (!(most_x > 0)) return;
  if (most_y <= least_y) most_y = least_y + 1;
  const double width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom, x0 = left + kLeft, y0 = top + kTop;
  svg.frame(x0, y0, width, height, "#999999");
  svg.text(x0, top + 17, fmt::format("{} against {}", panel.up, panel.across), {.bold = true});
  svg.text(x0, y0 + height + 14, "0", {.size = 9});
  svg.text(x0 + width, y0 + height + 14, panel.label(most_x), {.size = 9, .anchor = Svg::Anchor::end});
  svg.text(x0 - 4, y0 + 8, fmt::format("{:.3g}", most_y), {.size = 9, .anchor = Svg::Anchor::end});
  svg.text(x0 - 4, y0 + height, fmt::format("{:.3g}", least_y), {.size = 9, .anchor = Svg::Anchor::end});
  for (std::size_t v = 0; v < lines.size(); ++v)
    for (std::size_t i = 1; i < lines[v].size(); ++i) {
      const auto at = [&](const std::pair<double, double>& p) {
        return std::pair{x0 + width * p.first / most_x, y0 + height * (most_y - p.second) / (most_y - least_y)};
      };
      const auto [x1, y1] = at(lines[v][i - 1]);
      const auto [x2, y2] = at(lines[v][i]);
      svg.line(x1, y1, x2, y2, kColors[v % std::size(kColors)]);
    }
}

}  // namespace

std::string learn_svg(const std::string& title, const LearnStudy& study) {
  std::vector<LearningPanel> panels{{"simulated time", &LearnPoint::time, "loss", &LearnPoint::loss, seconds_label},
                                    {"samples", &LearnPoint::samples, "loss", &LearnPoint::loss, count_label},
                                    {"bytes", &LearnPoint::bytes, "loss", &LearnPoint::loss, bytes_label}};
  const bool tells = std::any_of(study.variants.begin(), study.variants.end(), [](const LearnVariant& v) {
    return !v.runs.empty() && std::isfinite(v.runs.front().last().accuracy);
  });
  if (tells)
    for (std::size_t i = 0; i < 3; ++i) {
      LearningPanel panel = panels[i];
      panel.up = "accuracy";
      panel.y = &LearnPoint::accuracy;
      panels.push_back(panel);
    }
  const double rows = static_cast<double>(panels.size()) / 3;
  const double legend = study.variants.size() > 1 ? kLegend * static_cast<double>(study.variants.size()) + 10 : 0;
  Svg svg(3 * kWidth, 24 + rows * kHeight + legend, title,
          "Loss of a small training against simulated time, samples and bytes");
  svg.text(kLeft, 18, title, {.size = 13, .bold = true});
  for (std::size_t i = 0; i < panels.size(); ++i)
    draw(svg, kWidth * static_cast<double>(i % 3), 20 + kHeight * static_cast<double>(i / 3), panels[i], study);
  for (std::size_t v = 0; v < study.variants.size() && legend > 0; ++v) {
    const double y = 24 + rows * kHeight + kLegend * static_cast<double>(v) + 8;
    svg.rect(kLeft, y - 4, 18, 4, kColors[v % std::size(kColors)]);
    svg.text(kLeft + 24, y + 1, study.variants[v].name, {});
  }
  return svg.finish();
}

}  // namespace trainyard
