#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "scenarios/src/post_training/engine_run.hpp"

namespace trainyard {

/// A loop in which engines and training run at the same time. A group is the answers to one prompt: training takes
/// whole groups. Every step has the same answers.
struct AsynchronousLoop {
  int engines = 1;
  std::vector<PlannedAnswer> answers;  ///< answers of a step; groups are neighbours, and prompts count from 0
  std::size_t groups = 1;              ///< number of groups of a step
  /// Equal parts of a step. Training begins with the first as soon as its groups have ended. They divide `groups`.
  std::size_t parts = 1;
  bool prefix_sharing = true;  ///< answers of a group share the keys and values of its prompt
  /// Number of steps of answers that engines may start beyond those that the present policy is trained for. 0: a step's
  /// answers start when the step before has ended.
  double staleness = 0;
  bool by_start = false;         ///< training takes groups in the order of their start; else in that of their end
  bool partial_rollouts = true;  ///< new weights interrupt answers; else engines end their answers first
  Seconds training_half;         ///< time of a step of the training half
  Seconds fetch;                 ///< time in which training receives the answers of a step
  Seconds weights;               ///< time to transfer new weights, in which engines and training stand still
};

/// The mean step of such a loop, after its start.
struct AsynchronousRun {
  Seconds step;
  Seconds waiting;      ///< time in which training waits for answers, receives them, or waits for engines
  Seconds generation;   ///< time in which some engine generates
  AnswerTimes answers;  ///< times of the answers that end in the measured steps
  /// Sums over all engines for one step; without starts and ends. Preemptions and refusals are those of all measured
  /// steps, and the peak of the cache is the largest in these steps.
  EngineRun engines;
  double preemptions = 0;     ///< mean number of preempted sequences in a step, on all engines
  double busy_share = 0;      ///< mean share of the step in which an engine computes
  double mean_staleness = 0;  ///< steps from the policy that starts an answer to the one that is trained on it
  int most_staleness = 0;
  std::map<std::uint32_t, std::uint64_t> staleness;  ///< number of answers of the measured steps, by these steps
  double mixed_share = 0;                            ///< share of the answers that policies of several steps generate
  /// 0: engines and sandboxes do the work of the answers of the measured steps in these steps. Else the loop has not
  /// settled, and their work differs by this share.
  double unsettled = 0;
};

/// Simulates the loop with events. With policy v, groups up to (v + 1 + staleness) · groups may start; new ones are
/// dealt so that engines have equally many unfinished answers. A part of a step of training begins when it has its
/// groups, and the first one when the weights of the step before are transferred. Steps at the beginning, in which the
/// engines fill, are left out. The others go on until the engines generate as many tokens as the steps train on, and
/// calls take as long, so that no stock of answers grows or shrinks.
AsynchronousRun run_asynchronous(const GenerationCosts&, const EngineLimits&, const AsynchronousLoop&);

/// Returns the number of new answers for each engine, so that the engines with the fewest unfinished answers get the
/// most. Engines that are alike get equal shares, in the order in which `dealt_share` deals them.
std::vector<std::size_t> levelled_shares(const std::vector<std::size_t>& unfinished, std::size_t answers);

/// Returns the engine that gets answer `index` of `answers`, if equal shares are dealt in order.
inline std::size_t dealt_share(std::size_t index, std::size_t answers, std::size_t engines) {
  return index * engines / answers;
}

}  // namespace trainyard
