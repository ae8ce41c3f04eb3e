#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/studies/batch_study.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {

std::string batch_report(const Scenario& s, const BatchStudy& study) {
  std::string text = fmt::format(
      "{}: the time to the target against the batch, on {} GPUs\n"
      "steps by the noise scale: {:.4g} (1 + {:.4g} / batch){}; beyond the noise scale (the critical batch) a larger\n"
      "batch saves few steps and costs many samples (McCandlish et al. 2018)\n",
      s.name, s.ranks(), study.model.least, study.model.noise,
      study.measured ? fmt::format(", measured by the learner at batch {}", s.global_batch_size) : ", as given");
  TextTable table{">batch", ">a step", ">steps", ">samples", ">time", ""};
  if (study.measured) {
    for (const char* title : {"learner's steps", "its time"}) table.add_column(title);
    table.add_column("", false);
  }
  if (study.published) table.add_column("published error");
  for (const BatchPoint& p : study.points) {
    std::vector<std::string> row{fmt::format("{:.0f}", p.batch)};
    if (p.error.empty()) {
      row.push_back(show(Seconds{p.step_time}));
      row.push_back(fmt::format("{:.0f}", p.steps));
      row.push_back(fmt::format("{:.4g}", p.steps * p.batch));
      row.push_back(long_time(Seconds{p.time()}));
      row.emplace_back(&p == study.fastest() ? "fastest" : "");
      if (study.measured) {
        row.push_back(p.learned            ? fmt::format("{:.0f}", *p.learned)
                      : p.diverged_at >= 0 ? fmt::format("diverged at {:.0f}", p.diverged_at)
                                           : "not reached");
        row.push_back(p.learned ? long_time(Seconds{p.learned_time()}) : "-");
        row.emplace_back(&p == study.fastest_learned() ? "fastest" : "");
      }
      if (study.published) {
        const std::optional<double> error = study.published->error_percent(p.batch);
        row.push_back(error ? fmt::format("{:.1f} %", *error) : "-");
      }
    } else {
      row.push_back(p.error);
    }
    row.resize(table.head.size());
    table.rows.push_back(std::move(row));
  }
  text += table.text("  ");
  if (study.published)
    text += fmt::format(
        "published error: a curve fitted to {} points of batches {:.0f} to {:.0f} (at most {:.1f} points off), no "
        "prediction of this training, and no figure beyond these batches:\n  {}\n",
        study.published->points.size(), study.published->range().first, study.published->range().second,
        study.published->worst(), study.published->source);
  const bool diverged = std::ranges::any_of(study.points, [](const BatchPoint& p) { return p.diverged_at >= 0; });
  if (diverged) text += scaling_advice(s);
  return text;
}

std::string batch_svg(const Scenario& s, const BatchStudy& study) {
  ChartSheet sheet{.title = s.name + ": what a larger batch costs",
                   .note = "batches logarithmic; squares: simulated, or published",
                   .description = "Time to the target and published validation error against the global batch",
                   .columns = 2,
                   .width = 352,
                   .legend = {{series_color(0), "steps by the noise scale"}}};
  const auto seconds = [](double v) { return show(Seconds{v}); };
  Chart time{"time to the target against batch", ChartAxis(ChartAxis::Scale::log2), ChartAxis(ChartAxis::Scale::log10),
             short_number, seconds};
  ChartSeries computed{series_color(0)}, learned{series_color(1)};
  for (const BatchPoint& p : study.points) {
    if (!p.error.empty()) continue;
    computed.points.push_back({p.batch, p.time(), "", true});
    if (p.learned) learned.points.push_back({p.batch, p.learned_time(), "", true});
  }
  time.series.push_back(std::move(computed));
  if (!learned.points.empty()) {
    sheet.legend.push_back({series_color(1), "steps of the learner"});
    time.series.push_back(std::move(learned));
  }
  std::vector<Chart> charts{std::move(time)};
  if (study.published) {
    sheet.legend.push_back({series_color(2), "published errors, and the curve fitted to them"});
    Chart error{"top-1 validation error in % against batch", ChartAxis(ChartAxis::Scale::log2)};
    ChartSeries curve{series_color(2)}, measured{.color = series_color(2), .line = false};
    const auto [least, most] = study.published->range();
    constexpr int kPieces = 64;
    for (int i = 0; i <= kPieces; ++i) {
      const double batch = std::clamp(least * std::pow(most / least, i / double{kPieces}), least, most);
      curve.points.push_back({batch, *study.published->error_percent(batch)});
    }
    for (const auto& [batch, percent] : study.published->points)
      measured.points.push_back({batch, percent, fmt::format("{:.1f}", percent), true});
    error.series = {std::move(curve), std::move(measured)};
    charts.push_back(std::move(error));
  }
  return charts_svg(sheet, std::move(charts));
}

}  // namespace trainyard
