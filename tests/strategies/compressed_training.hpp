#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "strategies/compression/compressor.hpp"
#include "strategies/values/layers/training_task.hpp"

namespace trainyard::test {

std::shared_ptr<const Compressor> compressor_of(const std::string& yaml);

/// Returns random numbers that depend only on the seed.
std::vector<double> random_gradients(std::size_t count, std::uint64_t seed);

/// A training of a small network on samples whose targets come from a random network of one layer.
struct CompressedTraining {
  std::string compression;  ///< as in a scenario; "": gradients are not compressed
  int ranks = 4, steps = 60;
  double learning_rate = 0.2, momentum = 0;
  std::uint64_t seed = 1;
  std::string all_reduce = "gather-broadcast";  ///< adds in the order of the ranks, as the replay does
  Bytes bucket{1e9};
  std::vector<int> widths{8, 16, 12, 3};
  int samples = 64;  ///< number of samples of all ranks together; every step uses the same samples

  TrainingTask task() const;
};

/// Result of a training without schedule, messages and clock.
struct Replayed {
  Eigen::VectorXd parameters;  ///< the same on all ranks
  std::vector<double> losses;  ///< before every 16th step, from step 0 on, and after the last step
};
Replayed replay(const CompressedTraining&);

/// Result of the timed programs.
struct Simulated {
  double difference = 0;  ///< largest difference between a rank's parameters and those of the replay
  int hazards = 0;
  double seconds = 0, bytes = 0;  ///< time of all steps; bytes that all ranks have sent
};
Simulated simulated(const CompressedTraining&);

}  // namespace trainyard::test
