#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "strategies/compression/compressor.hpp"
#include "strategies/values/layers/training_task.hpp"

namespace trainyard::test {

std::shared_ptr<const Compressor> compressor_of(const std::string& yaml);

/// Random numbers, by the seed alone.
std::vector<double> random_gradients(std::size_t count, std::uint64_t seed);

/// A small network that learns from samples that a network of the same kind makes up.
struct CompressedTraining {
  std::string compression;  ///< as in a scenario; "": gradients are summed whole
  int ranks = 4, steps = 60;
  double learning_rate = 0.2, momentum = 0;
  std::uint64_t seed = 1;
  std::string all_reduce = "gather-broadcast";  ///< adds in the order of the ranks, as the replay does
  Bytes bucket{1e9};
  std::vector<int> widths{8, 16, 12, 3};
  int samples = 64;  ///< of all ranks, the same in every step

  TrainingTask task() const;
};

/// Without any schedule, message or clock: the parameters, the same on all ranks, and the losses before each step and
/// after the last.
struct Replayed {
  Eigen::VectorXd parameters;
  std::vector<double> losses;
};
Replayed replay(const CompressedTraining&);

/// What the timed programs leave, in a child process.
struct Simulated {
  double difference = 0;  ///< of any rank's parameters to the replay's, the largest
  int hazards = 0;
  double seconds = 0, bytes = 0;  ///< of all steps; sent by all ranks
};
Simulated simulated(const CompressedTraining&);

}  // namespace trainyard::test
