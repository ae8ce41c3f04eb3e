#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trainyard {

/// Images a second of one model on 1 and more GPUs of a machine, measured.
struct DataParallelRow {
  std::string model;
  int batch = 1;                       ///< samples a GPU
  std::map<int, double> images_per_s;  ///< by GPUs; 1 is there
  double efficiency(int gpus) const { return images_per_s.at(gpus) / images_per_s.at(1) / gpus; }
};

/// Rows of one machine and way to train, which scenarios/dataparallel/<name>.yaml describes.
struct DataParallelSet {
  std::string name;
  std::vector<DataParallelRow> rows;
};

struct DataParallelStudy {
  std::string source;
  std::vector<DataParallelSet> sets;
};

/// Throws UserError with the place.
DataParallelStudy read_data_parallel_study(const std::filesystem::path&);
/// scenarios/measured/tables/dataparallel_cnn.yaml.
DataParallelStudy read_data_parallel_study();

/// One row on so many GPUs, and its scaling efficiency: the measured step of one GPU over the simulated step.
struct ScalingPoint {
  const DataParallelRow* row = nullptr;
  int gpus = 1;
  double predicted = 0;
  double measured() const { return row->efficiency(gpus); }
  double error() const { return predicted - measured(); }  ///< a share: 0.01 is a point
};

/// Simulates every row of more than one GPU, side by side. The points refer to the set.
std::vector<ScalingPoint> predict(const DataParallelSet&);

}  // namespace trainyard
