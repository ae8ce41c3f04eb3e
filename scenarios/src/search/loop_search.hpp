#pragma once
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// A question about a post-training loop.
struct LoopQuestion {
  double samples_per_s = 0;  ///< least samples per second; 0: the fastest loop on the scenario's nodes
  int most_nodes = 0;        ///< with `samples_per_s`: most nodes; 0: four times those of the scenario
};

/// A placement of a loop, simulated.
struct LoopRow {
  int nodes = 0, generation_nodes = 0;  ///< `generation_nodes` 0: all GPUs generate, then train
  int gpus = 0, engine_gpus = 0;
  std::string schedule;  ///< "synchronous", "one-step-off", "asynchronous"
  double staleness = 0;  ///< bound, in steps
  double step_time = 0, generation = 0, training_half = 0, samples_per_s = 0;
  double hour = 0, million = 0;  ///< rent of an hour, and of a million samples; 0: there are no prices
  bool meets = false;            ///< it has the samples per second of the question
  std::string error;             ///< reason why there is no such loop; empty: there is one
};

struct LoopAnswer {
  std::string scenario, currency;  ///< `currency` empty: there are no prices
  double wanted = 0;               ///< samples per second; 0: none are asked for
  /// All simulated placements: possible ones first, among them those that meet the question, then the fewest nodes, then
  /// the fastest.
  std::vector<LoopRow> rows;
  int impossible = 0;  ///< placements that the plan or the engines refuse

  /// Returns the first row that meets the question. Null: none does.
  const LoopRow* best() const;
};

/// Simulates placements of the loop: all GPUs together, and splits of the nodes at eighths; engines of half, of the same
/// and of twice the size; no schedule is staler than the scenario's. With `samples_per_s`, numbers of nodes are tried
/// upwards, with the scenario's engines, until one meets it. The layout of the training half stays; its data ranks follow
/// the nodes. Throws UserError with the place if the scenario has no post-training.
LoopAnswer search_loops(const Scenario&, const LoopQuestion&);

JsonFields<LoopAnswer> loop_answer_fields();

}  // namespace trainyard
