#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// A question about a post-training loop.
struct LoopQuestion {
  double samples_per_s = 0;                  ///< least samples per second; 0: the fastest loop on the scenario's nodes
  int most_nodes = 0;                        ///< with `samples_per_s`: most nodes; 0: four times those of the scenario
  std::vector<std::string> node_types = {};  ///< names of node types to compare; empty: the scenario's
  double confidence = 0.5;  ///< least probability that a real loop has the samples; 0.5: the prediction must have them
};

/// A placement of a loop, simulated.
struct LoopRow {
  std::string node;                     ///< name of the type of node
  int nodes = 0, generation_nodes = 0;  ///< `generation_nodes` 0: all GPUs generate, then train
  int gpus = 0, engine_gpus = 0;
  std::string schedule;  ///< "synchronous", "one-step-off", "asynchronous"
  double staleness = 0;  ///< bound, in steps
  double step_time = 0, generation = 0, training_half = 0;
  double goodput = 1;        ///< share of the loop's time in steps that count; 1: the scenario has no failures
  double samples_per_s = 0;  ///< mean over the whole loop, with its failures
  std::optional<std::array<double, 2>> likely_samples;  ///< interval of `samples_per_s` with a probability of 80 %
  std::string unmeasured;        ///< properties of this loop that no measured loop has; empty: none
  double hour = 0, million = 0;  ///< rent of an hour, and of a million samples; 0: there are no prices
  bool meets = false;            ///< it has the samples per second of the question
  std::string error;             ///< reason why there is no such loop; empty: there is one
  Overrides changes;             ///< keys that turn the scenario into this placement
};

/// The fewest nodes of one type that meet the question, among the simulated placements.
struct LoopFewest {
  const LoopRow* row = nullptr;  ///< the cheapest placement on that many nodes
  /// The fastest placement on the next smaller number of nodes. Null: none is possible.
  const LoopRow* next_smaller = nullptr;
};

struct LoopAnswer {
  std::string scenario, currency;  ///< `currency` empty: there are no prices
  double wanted = 0;               ///< samples per second; 0: none are asked for
  double confidence = 0.5;         ///< the question's
  std::string assumed_fabric;      ///< network of several nodes that nothing states; empty: one is stated
  bool has_failures = false;       ///< the scenario has failures or checkpoints
  /// All simulated placements. Possible ones come before impossible ones, and those that meet the question before the
  /// others. They are then sorted by rent (without prices: by number of GPUs) and by step time.
  std::vector<LoopRow> rows;
  int impossible = 0;  ///< placements that the plan or the engines refuse
  /// For a synchronous scenario: placements with training one step off that meet the question with fewer nodes than
  /// the fewest above, one for each type of node. They are staler than the scenario, and so no answers.
  std::vector<LoopRow> one_step_off;

  /// Returns the first row that meets the question. Null: none does.
  const LoopRow* best() const;
  /// Returns the fewest nodes of each type that meet the question, in the order of the rows.
  std::vector<LoopFewest> fewest() const;
  /// A type of node on which no tried placement meets the question.
  struct Missing {
    std::string node;
    const LoopRow* fastest = nullptr;  ///< the most samples per second; null: none is possible
    std::string error;                 ///< why none is possible
  };
  std::vector<Missing> missing() const;
};

/// Simulates placements of the loop: all GPUs together, and splits of the nodes at eighths. Engines have half, the same
/// or twice the size of the scenario's. No schedule is staler than the scenario's. The layout of the training half does
/// not change; its data ranks follow from the nodes. With `samples_per_s`, all engines have the scenario's size, and
/// numbers of nodes are tried upwards until one meets it. The numbers between the last that fails and the first that
/// meets it are bisected. With `faults`, the whole loop of each placement is simulated with its
/// failures. Throws UserError with the place if the scenario has no post-training, and for an unknown type
/// of node.
LoopAnswer search_loops(const Scenario&, const LoopQuestion&);

JsonFields<LoopAnswer> loop_answer_fields();

}  // namespace trainyard
