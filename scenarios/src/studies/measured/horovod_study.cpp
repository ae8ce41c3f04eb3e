#include "scenarios/src/studies/measured/horovod_study.hpp"

#include <fmt/format.h>

#include "models/fitted/measured_table.hpp"
#include "models/reading/shipped_files.hpp"

namespace trainyard {

std::vector<double> HorovodStudy::column(double Row::*value) const {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back(row.*value);
  return values;
}

HorovodStudy read_horovod_study() {
  MeasuredTable table(shipped_file("scenarios/measured/tables/horovod_mnist.csv"));
  HorovodStudy study;
  const auto number = [&table](const char* column) { return table.positive(table.column(column)); };
  while (table.next())
    study.rows.push_back({number("batch"), number("single_s"), number("multi0_s"), number("multi1_s")});
  return study;
}

std::vector<FamilyPrediction> predict_horovod(const std::vector<std::string>& readings) {
  std::vector<FamilyPrediction> all = predict_families(measured_families({"horovod"}, readings));
  for (const FamilyPrediction& family : all)
    for (const RunPrediction& run : family.runs)
      if (!run.refused.empty()) throw UserError(run.refused);
  return all;
}

std::vector<double> training_times(const FamilyPrediction& reading, std::size_t figure) {
  std::vector<double> times;
  for (const RunPrediction& run : reading.runs) times.push_back(run.figures.at(figure).first);
  return times;
}

std::vector<double> measured_gaps(const HorovodStudy& study) {
  std::vector<double> gaps;
  for (const HorovodStudy::Row& row : study.rows) gaps.push_back(row.multi_0 - row.multi_1);
  return gaps;
}

std::vector<double> predicted_gaps(const FamilyPrediction& both_ranks) {
  std::vector<double> gaps = training_times(both_ranks, 0);
  const std::vector<double> others = training_times(both_ranks, 1);
  for (std::size_t i = 0; i < gaps.size(); ++i) gaps[i] -= others[i];
  return gaps;
}

std::vector<double> missing_step_time(const HorovodStudy& study, const std::vector<double>& documented) {
  std::vector<double> missing;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    missing.push_back((study.rows[i].multi_0 - documented[i]) / (study.steps() / study.workers));
  return missing;
}

std::vector<double> leave_one_out(const HorovodStudy& study, const std::vector<double>& documented) {
  const std::vector<double> missing = missing_step_time(study, documented);
  std::vector<double> predicted;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    std::vector<double> others = missing;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    predicted.push_back(documented[i] + study.steps() / study.workers * quantile(others, 0.5));
  }
  return predicted;
}

ErrorSet horovod_errors(const HorovodStudy& study, std::string name, const std::vector<double>& predicted,
                        double HorovodStudy::Row::*measured) {
  std::vector<MeasuredPoint> points;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    points.push_back({fmt::format("batch {}", study.rows[i].batch), predicted[i], study.rows[i].*measured});
  return error_set(std::move(name), std::move(points));
}

std::optional<Crossover> crossover(const HorovodStudy& study, const std::vector<double>& single,
                                   const std::vector<double>& multi) {
  std::optional<Crossover> found;
  for (std::size_t i = 0; i + 1 < study.rows.size(); ++i) {
    const double gap = multi[i] - single[i], next_gap = multi[i + 1] - single[i + 1];
    if ((gap > 0) == (next_gap > 0)) continue;
    if (found || next_gap > 0) return std::nullopt;
    const double batch = study.rows[i].batch, next_batch = study.rows[i + 1].batch;
    found = Crossover{batch, batch + (next_batch - batch) * gap / (gap - next_gap)};
  }
  return found;
}

}  // namespace trainyard
