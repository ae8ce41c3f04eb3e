// The tornado chart of `trainyard size`: how far each quantity may move before the decision is another one.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/sizing/size_answer.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/size_cells.hpp"

namespace trainyard {

std::string tornado_picture(const SizeAnswer& a) {
  constexpr double least_label_width = 320, width = 420, row = 44, top = 84, most = 3, room_for_labels = 290;
  constexpr double label_gap = 6, label_size = 11, bold = 1.12, margin = 16;
  const std::vector<DecisionRange> ranges = decision_ranges(a);
  double label_width = least_label_width;
  for (const DecisionRange& range : ranges)
    for (const double text : {bold * Svg::text_width(quantity_words(range.quantity), label_size),
                              Svg::text_width("now " + quantity_amount(a, range.quantity, range.value), label_size)})
      label_width = std::max(label_width, text + 10 + margin);
  double right = label_width + width + room_for_labels;  // end of the longest text
  const double height = top + row * static_cast<double>(ranges.size()) + 30;
  const SizeRow& best = *a.cheapest;
  const std::string title =
      fmt::format("{}{}{} is the decision until …", nodes_in_words(best),
                  best.network.empty() ? "" : " with the network " + best.network, terms_in_words(best.terms));
  constexpr double title_size = 16;
  right = std::max(right, 2 * margin + bold * Svg::text_width(title, title_size));
  Svg svg(right, height, title, "Prices, deadline and budget at which the decision is another one.");
  svg.text(margin, 28, title, {.size = title_size, .bold = true});
  svg.text(margin, 48,
           "each quantity alone, in per cent of its value now; beside a bar: the decision among the simulated sizes "
           "beyond it",
           {.fill = "#555555"});
  const PlotArea area{label_width, top, width, row * static_cast<double>(ranges.size())};
  const ChartAxis axis(0, most);
  draw_x_axis(svg, area, axis, [](double share) { return fmt::format("{:.0f} %", share * 100); });
  double y = top;
  for (const DecisionRange& range : ranges) {
    svg.text(label_width - 10, y + row / 2 - 2, quantity_words(range.quantity),
             {.anchor = Svg::Anchor::end, .bold = true});
    svg.text(label_width - 10, y + row / 2 + 12, "now " + quantity_amount(a, range.quantity, range.value),
             {.fill = "#555555", .anchor = Svg::Anchor::end});
    std::vector<std::string> labels;  // labels on the right of the bars
    double labels_x = area.x(axis, 1) + label_gap;
    const auto bar = [&](const SizeThreshold* t, double end, const char* color) {
      const double from = area.x(axis, std::min(1.0, end)), to = area.x(axis, std::min(most, std::max(1.0, end)));
      svg.rect(from, y + 8, to - from, row - 16, color, t ? 1 : 0.25);
      if (!t) return;
      const std::string words =
          fmt::format("{} {}: {}", end < 1 ? "below" : "above", quantity_amount(a, t->quantity, t->threshold),
                      t->node.empty() ? "none" : cluster_cell(a, *t) + terms_in_words(t->terms));
      if (end < 1 && from - label_width > Svg::text_width(words, label_size) + label_gap) {
        svg.text(from - label_gap, y + row / 2 + 4, words, {.anchor = Svg::Anchor::end, .halo = true});
        return;
      }
      if (end >= 1) labels_x = to + label_gap;
      labels.push_back(words);
    };
    bar(range.below, range.below ? range.below->threshold / range.value : 0, "#d98c3f");
    bar(range.above, range.above ? range.above->threshold / range.value : most, "#1f6fb4");
    constexpr double line_height = 14;
    double label_y = y + row / 2 + 4 - line_height / 2 * (static_cast<double>(labels.size()) - 1);
    for (const std::string& words : labels) {
      svg.text(labels_x, label_y, words, {.halo = true});
      right = std::max(right, labels_x + Svg::text_width(words, label_size) + margin);
      label_y += line_height;
    }
    y += row;
  }
  svg.line(area.x(axis, 1), top, area.x(axis, 1), y, {"#222222", 1.5});
  svg.resize(right, height);
  return svg.finish();
}

}  // namespace trainyard
