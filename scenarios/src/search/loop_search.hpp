#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/search/loop_placement.hpp"

namespace trainyard {

/// The fewest nodes of one type that meet the question, among the simulated placements.
struct LoopFewest {
  const LoopRow* row = nullptr;  ///< the cheapest placement on that many nodes
  /// The fastest placement on the next smaller number of nodes. Null: none is possible.
  const LoopRow* next_smaller = nullptr;
  /// Smaller numbers of nodes that were not simulated.
  std::vector<int> untried = {};
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
  // A search for layouts (`search_loop_layouts`) fills the fields below.
  std::optional<LoopRow> scenario_loop;  ///< the loop of the scenario
  /// The best loops with half and twice the prompts of a step, and with answers that are staler than the scenario's.
  std::vector<LoopRow> alternatives;
  bool proved = false;                                  ///< no loop of the space is faster than the best
  bool has_asynchronous = false;                        ///< loops of the space are asynchronous
  double open_bound = 0;                                ///< if not: lower bound of the steps of the others, s
  double work = 0;                                      ///< simulated operations, and what counts as many
  std::size_t loops = 0;                                ///< loops that were simulated as a whole
  std::size_t training_plans = 0, training_halves = 0;  ///< plans of training halves that fit, and simulated ones

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

/// Simulates placements of the loop: all GPUs together, and splits of the nodes at eighths, where the nodes that train
/// wait or, in a hybrid, generate too. Engines have half, the same or twice the size of the scenario's. No schedule is
/// staler than the scenario's. The layout of the training half does not change; its data ranks follow from the nodes.
/// With `samples_per_s`, all engines have the scenario's size, and numbers of nodes are tried upwards until one meets
/// it. The numbers between the last that fails and the first that meets it are bisected. An asynchronous loop with more
/// nodes may be slower, so that its numbers up to 16 are all tried. With `faults`, the whole loop of each placement is
/// simulated with its failures. A placement whose training half does not leave the headroom has an error. Throws
/// UserError with the place if the scenario has no post-training, and for an
/// unknown type of node.
LoopAnswer search_loops(const Scenario&, const LoopQuestion&);

/// Returns an answer without rows. Throws UserError with the place for a scenario without placements.
LoopAnswer empty_loop_answer(const Scenario&, const LoopQuestion&);
/// Fills what follows from the rows: impossible ones, and the assumed network.
void finish_loop_answer(LoopAnswer&);

JsonFields<LoopAnswer> loop_answer_fields();

}  // namespace trainyard
