#pragma once
#include <filesystem>
#include <string>

#include "strategies/values/layers/training_task.hpp"
#include "strategies/values/learning/task_choice.hpp"

namespace trainyard {

/// Samples with their classes. Columns of `inputs` are samples.
struct LabelledSamples {
  Eigen::MatrixXd inputs;
  Eigen::VectorXi labels;
  int classes = 0;

  Eigen::Index count() const { return inputs.cols(); }
};

/// Makes samples that are near one of the random points of their class.
LabelledSamples clusters(const GeneratedData&);
/// Makes images of `side` × `side` pixels, row by row: the pattern of the class, shifted by some pixels, with noise.
LabelledSamples patterns(const GeneratedData&, int side);

/// Makes sentences of `length` words, one in each column, with an automaton that is drawn from the seed. In each state
/// it writes one of two words and goes to the state that belongs to this word.
Sentences sentences(int vocabulary, int states, int length, Eigen::Index count, std::uint64_t seed);

// Readers of the user's files. They throw UserError "file:line: …", for IDX files "file: …".

/// Reads the format of MNIST: unsigned bytes. Pixels of images are scaled to [0, 1].
LabelledSamples read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);
/// Reads samples, one in each line: numbers, and the label in column `label` (a name of the header, or a number from 0
/// on; "": the last column). Labels are whole numbers from 0 to classes − 1. `classes` 0: up to the largest label.
LabelledSamples read_csv(const std::filesystem::path&, const std::string& label, int classes);

/// Reads the files that the choice names.
LabelledSamples read_samples(const TaskChoice&);

/// Shifts each feature by its `mean` and divides it by its `deviation`.
void standardize(LabelledSamples& samples, const Eigen::VectorXd& mean, const Eigen::VectorXd& deviation);

}  // namespace trainyard
