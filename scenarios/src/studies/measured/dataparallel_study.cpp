#include "scenarios/src/studies/measured/dataparallel_study.hpp"

#include <fmt/format.h>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

DataParallelRow read_scaling_row(const Node& node) {
  Fields fields(node, "row");
  DataParallelRow row;
  row.model = fields.text("model");
  row.batch = fields.integer<int>("batch", 1);
  const Node& rates = fields.required_child("images_per_s");
  fields.finish();
  Fields by_gpus(rates, "images_per_s");
  for (const auto& [gpus, value] : rates.fields)
    row.images_per_s[static_cast<int>(parse_integer(gpus))] = by_gpus.number(gpus, 1e-3, 1e9);
  if (!row.images_per_s.contains(1)) fail(rates.place, "images_per_s: the rate of 1 GPU expected");
  return row;
}

double simulated_step(const DataParallelSet& set, const DataParallelRow& row, int gpus) {
  const double alone = row.batch / row.images_per_s.at(1);
  const Overrides changes{
      {"model", row.model},
      {"plan.micro_batch_size", fmt::format("{}", row.batch)},
      {"plan.global_batch_size", fmt::format("{}", row.batch * gpus)},
      {"plan.data_parallel.size", fmt::format("{}", gpus)},
      {"plan.idle_devices", "allowed"},
      {"plan.measured_step",
       fmt::format("{{source: \"one GPU\", network: {}, table: {{{}: {} s}}}}", row.model, row.batch, alone)}};
  const Scenario s = read_scenario(shipped_file("scenarios/dataparallel/" + set.name + ".yaml"), changes);
  SimulateOptions options;
  options.critical_path = false;
  return simulate_here(s, options).step_time;
}

}  // namespace

DataParallelStudy read_data_parallel_study(const std::filesystem::path& path) {
  const Node document = read_document(path);
  Fields fields(document, "");
  DataParallelStudy study;
  study.source = fields.text("source");
  const Node& sets = fields.required_child("sets");
  fields.finish();
  for (const Node& node : sets.items) {
    Fields of(node, "set");
    DataParallelSet& set = study.sets.emplace_back();
    set.name = of.text("name");
    for (const Node& row : of.required_child("rows").items) set.rows.push_back(read_scaling_row(row));
    of.finish();
  }
  return study;
}

DataParallelStudy read_data_parallel_study() {
  return read_data_parallel_study(shipped_file("scenarios/measured/tables/dataparallel_cnn.yaml"));
}

std::vector<ScalingPoint> predict(const DataParallelSet& set) {
  std::vector<ScalingPoint> points;
  for (const DataParallelRow& row : set.rows)
    for (const auto& [gpus, rate] : row.images_per_s)
      if (gpus > 1) points.push_back({&row, gpus, 0});
  const std::vector<double> steps = all_in_parallel(
      points.size(), processors(), [&](std::size_t i) { return simulated_step(set, *points[i].row, points[i].gpus); });
  for (std::size_t i = 0; i < points.size(); ++i) {
    const DataParallelRow& row = *points[i].row;
    points[i].predicted = row.batch / row.images_per_s.at(1) / steps[i];
  }
  return points;
}

}  // namespace trainyard
