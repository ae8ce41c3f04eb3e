#include "scenarios/src/studies/measured/horovod_study.hpp"

#include <fmt/format.h>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "sim/json_text.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

constexpr double kLongestTraining = 1e9;  // seconds

HorovodStudy::Row read_horovod_row(const Node& node) {
  Fields fields(node, "row");
  HorovodStudy::Row row;
  row.batch = static_cast<double>(fields.integer("batch", 1));
  row.single = fields.number("single_s", 1e-3, kLongestTraining);
  row.multi_0 = fields.number("multi0_s", 1e-3, kLongestTraining);
  row.multi_1 = fields.number("multi1_s", 1e-3, kLongestTraining);
  fields.finish();
  return row;
}

/// The single-node column as `plan.measured_step`, in YAML.
std::string measured_steps(const HorovodStudy& study) {
  std::string table;
  for (const HorovodStudy::Row& row : study.rows)
    table += fmt::format("{}{}: {} s", table.empty() ? "" : ", ", row.batch, row.single / study.steps());
  return fmt::format("{{source: \"{}, column of a single node\", network: mnist-cnn, table: {{{}}}}}", study.source,
                     table);
}

}  // namespace

std::vector<double> HorovodStudy::column(double Row::*value) const {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back(row.*value);
  return values;
}

Seconds HorovodStudy::alone() const {
  std::vector<double> longer;
  for (const Row& row : rows) longer.push_back(row.multi_0 - row.multi_1);
  return Seconds{quantile(longer, 0.5)};
}

HorovodStudy read_horovod_study(const std::filesystem::path& path) {
  const Node document = read_document(path);
  Fields fields(document, "");
  HorovodStudy study;
  study.source = fields.text("source");
  study.epochs = static_cast<double>(fields.integer("epochs", 1));
  study.steps_per_epoch = static_cast<double>(fields.integer("steps_per_epoch", 1));
  study.parameters_stated = static_cast<double>(fields.integer("parameters_stated", 1));
  study.rate = fields.bandwidth("rate");
  const Node& rows = fields.required_child("rows");
  fields.finish();
  if (rows.items.empty()) fail(rows.place, "rows: expected a list of batches");
  for (const Node& row : rows.items) {
    study.rows.push_back(read_horovod_row(row));
    if (study.rows.size() > 1 && study.rows.back().batch <= study.rows[study.rows.size() - 2].batch)
      fail(row.place, "rows: batches must rise");
  }
  return study;
}

HorovodStudy read_horovod_study() {
  return read_horovod_study(shipped_file("scenarios/measured/tables/horovod_mnist.yaml"));
}

Scenario horovod_scenario(const HorovodStudy& study, HorovodReading reading, const HorovodStudy::Row& row) {
  const bool single = reading == HorovodReading::measured_single || reading == HorovodReading::predicted_single;
  const double workers = single ? 1 : kHorovodWorkers;
  const bool measured = reading != HorovodReading::predicted_compute && reading != HorovodReading::predicted_single;
  Overrides changes{{"cluster.nodes", fmt::format("{}", workers)},
                    {"plan.micro_batch_size", fmt::format("{}", row.batch)},
                    {"plan.global_batch_size", fmt::format("{}", row.batch * workers)},
                    {"plan.training.epochs", fmt::format("{}", study.epochs)},
                    {"plan.training.steps_per_epoch", fmt::format("{}", study.steps_per_epoch / workers)},
                    {"plan.measured_step", measured ? measured_steps(study) : "null"}};
  if (reading == HorovodReading::documented) changes.emplace_back("software.collective_launch", "0 us");
  return read_scenario(shipped_file("scenarios/horovod-mnist-2xt4.yaml"), changes);
}

std::vector<double> predict(const HorovodStudy& study, HorovodReading reading) {
  return all_in_parallel(study.rows.size(), processors(), [&](std::size_t i) {
    SimulateOptions options;
    options.critical_path = false;
    return simulate_here(horovod_scenario(study, reading, study.rows[i]), options).training_time;
  });
}

std::vector<std::pair<double, double>> predict_ranks(const HorovodStudy& study) {
  SimulateOptions options;
  options.critical_path = false;
  std::vector<std::pair<double, double>> predicted;
  for (const HorovodStudy::Row& row : study.rows) {
    // The stack's constant was fitted to rank 0, and has a step's part of that in it.
    const Scenario fitted = horovod_scenario(study, HorovodReading::fitted, row);
    const Seconds launch = fitted.software.collective_launch - study.alone() / (study.steps() / kHorovodWorkers);
    const Scenario s =
        read_again(fitted, {{"software.collective_launch", fmt::format("{} s", launch.value)},
                            {"plan.training.rank_0", fmt::format("{{time: {} s}}", study.alone().value)}});
    const Result r = simulate_training(s, options);
    predicted.emplace_back(r.training_time, r.training_time - r.alone_time);
  }
  return predicted;
}

std::vector<Seconds> missing_step_time(const HorovodStudy& study, const std::vector<double>& documented) {
  const double steps = study.steps() / kHorovodWorkers;
  std::vector<Seconds> missing;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    missing.push_back(Seconds{(study.rows[i].multi_0 - documented[i]) / steps});
  return missing;
}

std::vector<double> leave_one_out(const HorovodStudy& study, const std::vector<double>& documented) {
  const std::vector<Seconds> missing = missing_step_time(study, documented);
  const double steps = study.steps() / kHorovodWorkers;
  std::vector<double> predicted;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    std::vector<double> others;
    for (std::size_t k = 0; k < missing.size(); ++k)
      if (k != i) others.push_back(missing[k].value);
    predicted.push_back(documented[i] + steps * quantile(others, 0.5));
  }
  return predicted;
}

ErrorSet against(const HorovodStudy& study, std::string name, const std::vector<double>& predicted,
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
    const double before = multi[i] - single[i], after = multi[i + 1] - single[i + 1];
    if ((before > 0) == (after > 0)) continue;
    if (found || after > 0) return std::nullopt;
    const double below = study.rows[i].batch, above = study.rows[i + 1].batch;
    found = Crossover{below, above, below + (above - below) * before / (before - after)};
  }
  return found;
}

}  // namespace trainyard
