#pragma once
#include <filesystem>
#include <string>

#include "strategies/values/layers/training_task.hpp"
#include "strategies/values/learning/task_choice.hpp"

namespace trainyard {

/// Inputs of a column each, and their classes.
struct LabelledSamples {
  Eigen::MatrixXd inputs;
  Eigen::VectorXi labels;
  int classes = 0;

  Eigen::Index count() const { return inputs.cols(); }
};

/// A sample near one of the points of its class.
LabelledSamples clusters(const MadeData&);
/// Images of `side` × `side`, row by row: the pattern of the class, shifted by some pixels, and noise.
LabelledSamples patterns(const MadeData&, int side);

/// What an automaton drawn from the seed says: in each of its states it says one of two words, and goes on to the state
/// that belongs to it. A sentence of `length` words a column.
Sentences sentences(int vocabulary, int states, int length, Eigen::Index count, std::uint64_t seed);

// Files of the user. Throw UserError "file:line: …" (of IDX: "file: …").
/// MNIST's format: unsigned bytes, of images scaled to [0, 1].
LabelledSamples read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);
/// A line a sample, numbers and the label, which is in the column `label` (the name of a header's, or the number from 0
/// on; "": the last one). Labels are whole numbers from 0 on, below `classes` where these are given (0: up to the
/// largest).
LabelledSamples read_csv(const std::filesystem::path&, const std::string& label, int classes);

/// Each feature shifted and scaled to mean 0 and standard deviation 1 by what `from` has.
void standardize(LabelledSamples& samples, const Eigen::VectorXd& mean, const Eigen::VectorXd& deviation);

}  // namespace trainyard
