// Measured and predicted speeds of convolutional networks in fp32 on one GPU. The catalog's figures were fitted to some
// of the rows; the limits hold for the errors of the others.
#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/running/simulate.hpp"

namespace scenarios_test_cnn_speed {

using namespace trainyard;

namespace {

struct MeasuredCnn {
  const char* model;
  int batch;
  double images_per_s;
  bool is_fitted;
};

struct CnnErrors {
  double mean = 0, worst = 0, worst_fitted = 0;
};

double predicted_speed(const std::string& gpu, const MeasuredCnn& row, bool has_update) {
  const Scenario s = read_scenario_text(
      "cluster: {node: {base: pcie-1, gpu: {type: " + gpu + "}}}\nmodel: " + row.model +
          "\nplan: {precision: fp32, optimizer: momentum, micro_batch_size: " + std::to_string(row.batch) + "}\n",
      "cnn.yaml");
  const Result r = simulate(s);
  return row.batch / (has_update ? r.step_time.value : r.breakdown.compute.value);
}

CnnErrors errors_of(const std::string& gpu, const std::vector<MeasuredCnn>& rows, bool has_update = true) {
  CnnErrors errors;
  int judged = 0;
  for (const MeasuredCnn& row : rows) {
    const double error = std::abs(predicted_speed(gpu, row, has_update) / row.images_per_s - 1);
    INFO(row.model << " " << row.batch << " " << error);
    if (row.is_fitted) {
      errors.worst_fitted = std::max(errors.worst_fitted, error);
      continue;
    }
    ++judged;
    errors.mean += error;
    errors.worst = std::max(errors.worst, error);
  }
  errors.mean /= judged;
  return errors;
}

}  // namespace

TEST_CASE("CNNs in fp32 on a P100 are as fast as measured, within 18 % on average", "[cnn-speed]") {
  // TensorFlow benchmarks, April 2017 (performance/benchmarks.md): DGX-1, one P100, synthetic data.
  const std::vector<MeasuredCnn> rows{
      {"resnet50", 64, 238, true},      {"vgg16", 64, 132, false},      {"resnet152", 64, 95.6, false},
      {"inception-v3", 64, 142, false}, {"alexnet", 512, 2987, false},  {"vgg16", 32, 124, false},
      {"resnet50", 32, 210, false},     {"resnet152", 32, 85.3, false}, {"inception-v3", 32, 128, false}};
  const CnnErrors errors = errors_of("{base: p100-sxm2-16gb, memory_capacity: 64 GiB}", rows);
  CHECK(errors.worst_fitted < 0.005);
  CHECK(errors.mean < 0.18);
  CHECK(errors.worst < 0.45);
}

TEST_CASE("CNNs in fp32 on a die of a K80 are as fast as measured, within 20 % on average", "[cnn-speed]") {
  // TensorFlow benchmarks, April 2017: n1-standard-32-k80x8, one die, synthetic data.
  const std::vector<MeasuredCnn> rows{{"resnet50", 64, 56.8, true},
                                      {"vgg16", 32, 30.3, false},
                                      {"resnet152", 32, 20.8, false},
                                      {"inception-v3", 64, 30.5, false},
                                      {"alexnet", 512, 656, false}};
  const CnnErrors errors = errors_of("{base: k80-die, memory_capacity: 64 GiB}", rows);
  CHECK(errors.worst_fitted < 0.005);
  CHECK(errors.mean < 0.20);
  CHECK(errors.worst < 0.43);
}

TEST_CASE("CNNs in fp32 on the chip of an M40 are as fast as measured, within 9 % on average", "[cnn-speed]") {
  // jcjohnson/cnn-benchmarks, README of 2ee75e2b: Maxwell Titan X, cuDNN 5.1.05, forward and backward of 16 images.
  const auto per_s = [](double ms) { return 16 / (ms * 1e-3); };
  const std::vector<MeasuredCnn> rows{{"resnet50", 16, per_s(159.62), true},   {"vgg16", 16, per_s(192.78), false},
                                      {"vgg19", 16, per_s(225.14), false},     {"resnet101", 16, per_s(247.49), false},
                                      {"resnet152", 16, per_s(345.45), false}, {"alexnet", 16, per_s(21.85), false}};
  const CnnErrors errors =
      errors_of("{base: m40, peak: {fp32: 6.6 TFLOP/s}, memory_bandwidth: 336.5 GB/s}", rows, false);
  CHECK(errors.worst_fitted < 0.005);
  CHECK(errors.mean < 0.09);
  CHECK(errors.worst < 0.19);
}

TEST_CASE("CNNs in fp32 on a V100, to which nothing was fitted, are as fast as measured within 13 %", "[cnn-speed]") {
  // lambdalabs.com/blog/2080-ti-deep-learning-benchmarks: V100 SXM3 32 GB, TensorFlow 1.12; its batches are not stated.
  const std::vector<MeasuredCnn> rows{
      {"resnet50", 64, 405, false}, {"resnet152", 32, 155, false}, {"inception-v3", 64, 259, false}};
  const CnnErrors errors = errors_of("v100-sxm3-32gb", rows);
  CHECK(errors.mean < 0.11);
  CHECK(errors.worst < 0.135);
}

}  // namespace scenarios_test_cnn_speed
