#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

class LearningTask;

/// Properties of data that are made from a seed.
struct GeneratedData {
  int classes = 10, features = 20;
  std::int64_t samples = 4096;
  double noise = 0.5;      ///< standard deviation around the point or pattern of a sample, whose values are of order 1
  double label_noise = 0;  ///< share of the labels that are drawn at random
  int clusters = 4;        ///< number of clusters of each class; with two or more, no line separates the classes
  std::uint64_t seed = 1;
};

struct SmallTransformer {
  int layers = 2, hidden_size = 32, heads = 2, vocabulary = 16, seq_length = 16;
};

/// Number of steps to a target by the gradient noise scale (McCandlish et al. 2018, equation 2.11).
struct NoiseScaleSteps {
  double least = 0;  ///< S_min: number of steps with infinitely large batches
  double noise = 0;  ///< B_noise, in samples: with batches of this size the training takes twice as many steps
  double steps(double batch) const { return least * (1 + noise / batch); }
  bool is_given() const { return least > 0; }
};

/// A contextual bandit: a context stands for a prompt, an action for an answer, and an answer is right (reward 1) or
/// wrong (reward 0) with a probability of its own.
struct BanditChoice {
  int contexts = 0, actions = 0;  ///< `contexts` 0: no bandit
  double rate = 0;                ///< learning rate of the policy
  double ratio_clip = 0;          ///< largest distance of the importance ratio from 1 at which an answer is trained on
  bool is_given() const { return contexts > 0; }
};

/// The small training problem of a scenario.
struct TaskChoice {
  std::string name;         ///< name in the registry; empty: none
  std::uint64_t seed = 1;   ///< seed of the initial values
  std::vector<int> layers;  ///< widths of hidden layers, or channels of convolutions
  GeneratedData data;
  double validation = 0.2;  ///< share of the samples that are used for validation only
  // Paths of the user's files.
  std::string csv, label;  ///< label: name or number of the column of labels
  std::string images, labels;
  int side = 12;  ///< width and height of made images, in pixels
  SmallTransformer transformer;
  int states = 12;  ///< number of states of the automaton that makes the sentences
  std::vector<double> curvatures;
  int dimensions = 1;
  double noise = 0;
  std::vector<double> start;  ///< initial value of every parameter, indexed by worker; empty: that of the task
  NoiseScaleSteps formula;    ///< for task noise-scale
  BanditChoice bandit;        ///< for task bandit

  bool is_used() const { return !name.empty(); }
  bool has_files() const { return !csv.empty() || !images.empty(); }
};

/// An entry of the registry of tasks.
struct TaskKind {
  std::string description;  ///< for `trainyard list tasks`
  /// Reads its keys of `learn`. Throws UserError with the place.
  void (*read)(Fields& learn, TaskChoice&) = nullptr;
  /// Makes the task. Null: the task computes no values.
  std::shared_ptr<const LearningTask> (*make)(const TaskChoice&) = nullptr;
};
Registry<TaskKind>& learning_tasks();

/// Reads a list of whole numbers from 1 to `most`. Throws UserError with the place.
std::vector<int> read_widths(Fields& learn, const Key&, int most, std::vector<int> fallback);
/// Reads `data` of a classification task, which is made from a seed or read from files, into the choice.
void read_class_data(Fields& learn, TaskChoice&, bool images);

}  // namespace trainyard
