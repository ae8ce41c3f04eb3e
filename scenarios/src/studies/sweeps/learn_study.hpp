#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/running/learn_run.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {

/// A mean over seeds, and half the width of its 95 % confidence interval (HUGE_VAL for one seed).
struct SeedMean {
  double mean = 0, half_width = 0;
  std::size_t seeds = 0;  ///< number of seeds that have a value
};

/// One scenario, trained with several seeds.
struct LearnVariant {
  std::string name;  ///< its overrides: "plan.micro_batch_size=8"; "" if the study has no axes
  Overrides overrides;
  std::string error;              ///< why it is impossible; empty: it is possible
  std::vector<LearnResult> runs;  ///< one per seed; fewer in a shard or after an interrupt
  /// Interval that holds the mean time of a step of the real machine with a probability of 80 %, s. The time axis of the
  /// curves is as uncertain. No value: a step has no interval (`no_doubt_reason`), or no single step of the scenario can
  /// be simulated.
  std::optional<std::array<double, 2>> likely_steps = {};

  /// Returns the mean of a value over the runs that reached the target.
  SeedMean to_target(const std::function<double(const LearnResult&, const LearnPoint&)>&) const;
  /// Returns the mean of a value at the end over all runs that did not diverge.
  SeedMean at_end(double LearnPoint::*) const;
  /// Returns the mean over seeds of the time to the target of `base`, divided by the time of this variant. Leaves out
  /// seeds with which one of the two did not reach the target.
  SeedMean speedup(const LearnVariant& base) const;
  std::size_t reached_runs() const;
  std::size_t diverged_runs() const;
};

struct LearnStudy {
  std::vector<LearnVariant> variants;
  bool has_target = false;
  int seeds = 1;
  std::size_t trainings = 0, open = 0;  ///< number of all trainings, and of those that are not done
  bool interrupted = false;             ///< a signal ended the study: variants without a finished training are missing
  std::string progress_text() const;    ///< progress of an interrupted study, in words
};

struct LearnQuestion {
  std::filesystem::path scenario;
  Overrides overrides;
  std::vector<SweepAxis> axes;         ///< variants are all combinations of their values
  int seeds = 1;                       ///< number of seeds, from the scenario's own on
  std::filesystem::path journal = {};  ///< file of finished trainings, which are not repeated
  StudyShard shard = {};               ///< share of the trainings to run
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// Trains all variants and seeds, in parallel on all processors. In a shard, some variants have no runs. Throws
/// UserError if no variant is possible.
LearnStudy run_learn_study(const LearnQuestion&);

nlohmann::ordered_json learn_study_json(const LearnQuestion&, const LearnStudy&);

}  // namespace trainyard
