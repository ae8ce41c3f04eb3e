#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/running/learn_run.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {

/// A mean over seeds, and half the width of its 95 % confidence interval (HUGE_VAL of one seed).
struct SeedMean {
  double mean = 0, half_width = 0;
  std::size_t seeds = 0;  ///< that have a figure
};

/// One scenario, trained with several seeds.
struct LearnVariant {
  std::string name;  ///< what it has of its own: "plan.micro_batch_size=8"; "" of a scenario alone
  Overrides overrides;
  std::string error;              ///< why it is impossible, instead of runs
  std::vector<LearnResult> runs;  ///< by seed

  /// Over the runs that reached the target.
  SeedMean to_target(const std::function<double(const LearnResult&, const LearnPoint&)>&) const;
  /// Over all that did not diverge.
  SeedMean at_end(double LearnPoint::*) const;
  std::size_t reached() const;
  std::size_t diverged() const;
};

struct LearnStudy {
  std::vector<LearnVariant> variants;
  bool has_target = false;
  int seeds = 1;
  std::size_t trainings = 0, open = 0;  ///< in all, and those that are not done
  bool interrupted = false;             ///< a signal came: variants without a training are not there
  std::string unfinished() const;       ///< how far it came then, in words
};

struct LearnQuestion {
  std::filesystem::path scenario;
  Overrides overrides;
  std::vector<SweepAxis> axes;         ///< variants are all combinations
  int seeds = 1;                       ///< from the scenario's own on
  std::filesystem::path journal = {};  ///< trainings are kept there as they end, and those that it has not done again
  StudyShard shard = {};               ///< of the trainings; the others are left out
  std::function<void(std::size_t done, std::size_t of)> progress;
};

/// All variants and seeds, side by side on the processors there are; of a shard some have no runs. Throws UserError where no variant is possible.
LearnStudy run_learn_study(const LearnQuestion&);

nlohmann::ordered_json learn_study_json(const LearnQuestion&, const LearnStudy&);

}  // namespace trainyard
