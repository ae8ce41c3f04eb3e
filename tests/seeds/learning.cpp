// BATCH-02, BATCH-ERR, CONV-MIN: what a batch costs in steps, samples and time.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/src/studies/batch_study.hpp"
#include "strategies/values/learning/task_choice.hpp"
#include "tests/seeds/simple_training.hpp"

namespace trainyard {
namespace {

SeedFigures batch_02(const Node& inputs) {
  const NoiseScaleSteps model{number_of(inputs, "S_min"), number_of(inputs, "B_noise")};
  SeedFigures got;
  for (const double batch : numbers_of(inputs, "batch")) {
    got[fmt::format("steps {}", batch)] = model.steps(batch);
    got[fmt::format("samples {}", batch)] = model.steps(batch) * batch;
  }
  return got;
}

/// Bytes per second of a link. A ring of n ranks sums S bytes in 2 (n − 1) / n · S / rate.
constexpr double kLearningLink = 1e9;

SeedFigures conv_min(const Node& inputs) {
  const int ranks = static_cast<int>(number_of(inputs, "n"));
  const NoiseScaleSteps model{number_of(inputs, "S_min"), number_of(inputs, "B_noise")};
  const double sent = number_of(inputs, "comm_ms") * 1e-3 * kLearningLink * ranks / (2.0 * (ranks - 1));
  const auto total = [&](double batch) {
    const double compute_ms = number_of(inputs, "compute_us_per_sample") * 1e-3 * batch / ranks;
    const Network network = simple_layers(1, sent / 4, milliseconds(compute_ms));
    return model.steps(batch) *
           data_parallel_time(simple_plan(network, ranks, "ring", false), BytesPerSecond{kLearningLink}).total;
  };
  SeedFigures got;
  const std::vector<double> batches = numbers_of(inputs, "batch");
  for (const double batch : batches) got[fmt::format("total_s {}", batch)] = total(batch);
  double least = batches.front(), most = batches.back();
  const double golden = (std::sqrt(5.0) - 1) / 2;
  while (most - least > 0.05) {
    const double a = most - golden * (most - least), b = least + golden * (most - least);
    (total(a) < total(b) ? most : least) = total(a) < total(b) ? b : a;
  }
  got["argmin_near"] = (least + most) / 2;
  return got;
}

SeedFigures batch_err(const Node& inputs) {
  const auto curve = batch_error_curve(Catalog(), words_of(inputs, "model").front());
  SeedFigures got;
  for (const auto& [batch, error] : curve->points)
    got[fmt::format("top1_error_pct {}", batch)] = *curve->error_percent(batch);
  return got;
}

const RegisterSeed learning_seeds[] = {{"BATCH-02", batch_02}, {"CONV-MIN", conv_min}, {"BATCH-ERR", batch_err}};

}  // namespace
}  // namespace trainyard
