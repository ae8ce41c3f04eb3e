#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/search/size_search.hpp"
#include "tools/reports/report.hpp"

namespace trainyard {
namespace {

/// How far a quantity may move from its value, in both directions, before another cluster is the cheapest.
struct DecisionRange {
  std::string quantity;
  double value = 0;
  const SizeThreshold *below = nullptr, *above = nullptr;
  /// The share of the value by which it must move at least.
  double least() const {
    const double down = below ? 1 - below->threshold / value : HUGE_VAL;
    return std::min(down, above ? above->threshold / value - 1 : HUGE_VAL);
  }
};

std::vector<DecisionRange> decision_ranges(const SizeAnswer& a) {
  std::vector<DecisionRange> all;
  for (const SizeThreshold& t : a.thresholds) {
    if (all.empty() || all.back().quantity != t.quantity) all.push_back({t.quantity, t.value});
    (t.threshold < t.value ? all.back().below : all.back().above) = &t;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const DecisionRange& x, const DecisionRange& y) { return x.least() < y.least(); });
  return all;
}

}  // namespace

std::string tornado_picture(const SizeAnswer& a) {
  constexpr double label_width = 250, width = 420, row = 44, top = 84, most = 3;
  const std::vector<DecisionRange> ranges = decision_ranges(a);
  const double height = top + row * static_cast<double>(ranges.size()) + 30;
  const SizeRow& best = *a.cheapest;
  const std::string title = fmt::format("{} x {} is the cheapest until …", best.nodes, best.node);
  Svg svg(label_width + width + 190, height, title,
          "Prices, deadline and budget at which another cluster is the cheapest.");
  svg.text(16, 28, title, {.size = 16, .bold = true});
  svg.text(
      16, 48,
      "each quantity alone, in per cent of its value now; beside a bar: the cheapest of the simulated sizes beyond it",
      {.fill = "#555555"});
  const PlotArea area{label_width, top, width, row * static_cast<double>(ranges.size())};
  const ChartAxis axis(0, most);
  draw_x_axis(svg, area, axis, [](double share) { return fmt::format("{:.0f} %", share * 100); });
  double y = top;
  for (const DecisionRange& range : ranges) {
    svg.text(label_width - 10, y + row / 2 - 2, range.quantity, {.anchor = Svg::Anchor::end, .bold = true});
    svg.text(label_width - 10, y + row / 2 + 12, fmt::format("now {:.6g}", range.value),
             {.fill = "#555555", .anchor = Svg::Anchor::end});
    const auto bar = [&](const SizeThreshold* t, double end, const char* color) {
      const double from = std::min(1.0, end), to = std::min(most, std::max(1.0, end));
      svg.rect(area.x(axis, from), y + 8, area.x(axis, to) - area.x(axis, from), row - 16, color, t ? 1 : 0.25);
      if (!t) return;
      const std::string next = t->node.empty() ? "none" : fmt::format("{} x {}", t->nodes, t->node);
      const std::string words = fmt::format("{:.4g}: {}", t->threshold, next);
      const bool is_left = end < 1 && area.x(axis, from) - label_width > Svg::text_width(words, 11) + 8;
      svg.text(area.x(axis, is_left ? from : std::min(end, most)) + (is_left ? -6 : 6), y + row / 2 + 4, words,
               {.anchor = is_left ? Svg::Anchor::end : Svg::Anchor::start, .halo = true});
    };
    bar(range.below, range.below ? range.below->threshold / range.value : 0, "#d98c3f");
    bar(range.above, range.above ? range.above->threshold / range.value : most, "#1f6fb4");
    y += row;
  }
  svg.line(area.x(axis, 1), top, area.x(axis, 1), y, {"#222222", 1.5});
  return svg.finish();
}

}  // namespace trainyard
