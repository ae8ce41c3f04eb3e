#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

class LearningTask;

/// What data made from a seed are like.
struct MadeData {
  int classes = 10, features = 20;
  std::int64_t samples = 4096;
  double noise = 0.5;      ///< standard deviation around what a sample was made from, whose parts are of size 1
  double label_noise = 0;  ///< part of the labels that are drawn anew
  int clusters = 4;        ///< of each class: with two or more no line separates the classes
  std::uint64_t seed = 1;
};

struct SmallTransformer {
  int layers = 2, hidden_size = 32, heads = 2, vocabulary = 16, seq_length = 16;
};

/// Steps to a target by the gradient noise scale (McCandlish et al. 2018, equation 2.11).
struct NoiseScaleSteps {
  double least = 0;  ///< S_min, of endless batches
  double noise = 0;  ///< B_noise, samples: a batch of so many takes twice as many steps
  double steps(double batch) const { return least * (1 + noise / batch); }
  bool given() const { return least > 0; }
};

/// A small training problem as a scenario chooses it.
struct TaskChoice {
  std::string name;         ///< of the registry; empty: none
  std::uint64_t seed = 1;   ///< of the initial values
  std::vector<int> layers;  ///< widths, or channels
  MadeData data;
  double validation = 0.2;  ///< part of the samples that are kept apart
  // Files of the user, with their folder:
  std::string csv, label;  ///< label: the column
  std::string images, labels;
  int side = 12;  ///< of made images
  SmallTransformer transformer;
  int states = 12;  ///< of the automaton whose language it learns
  std::vector<double> curvatures;
  int dimensions = 1;
  double noise = 0;
  std::vector<double> start;  ///< of every parameter, by worker; empty: the task's own
  NoiseScaleSteps formula;    ///< of noise-scale

  bool used() const { return !name.empty(); }
};

/// A task as the registry knows it.
struct TaskKind {
  std::string description;  ///< for `trainyard list tasks`
  /// Its keys of `learn`. Throws UserError with the place.
  void (*read)(Fields& learn, TaskChoice&) = nullptr;
  /// Null: a formula without numbers.
  std::shared_ptr<const LearningTask> (*make)(const TaskChoice&) = nullptr;
};
Registry<TaskKind>& learning_tasks();

/// A number of a list. Throws UserError with the place.
double read_real(const Node&, const char* what);
/// `data` of classes, made or of files, into the choice.
void read_class_data(Fields& learn, TaskChoice&, bool images);

}  // namespace trainyard
