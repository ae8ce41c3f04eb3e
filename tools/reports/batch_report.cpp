#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  TextTable table{{"batch", "a step", "steps", "samples", "time", ""}, {true, true, true, true, true, false}};
  if (study.measured) {
    for (const char* head : {"learner's steps", "its time", ""}) table.head.emplace_back(head);
    table.right.insert(table.right.end(), {true, true, false});
  }
  if (study.published) {
    table.head.emplace_back("published error");
    table.right.push_back(true);
  }
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
  const bool diverged =
      std::any_of(study.points.begin(), study.points.end(), [](const BatchPoint& p) { return p.diverged_at >= 0; });
  if (diverged) text += scaling_advice(s);
  return text;
}

}  // namespace trainyard
