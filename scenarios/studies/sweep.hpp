#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/reading/scenario.hpp"
#include "scenarios/running/result.hpp"

namespace trainyard {

/// A field of the scenario and the values it takes in turn.
struct SweepAxis {
  std::string path;
  std::vector<std::string> values;
};

/// "path=a,b,c". Commas inside quotes, [] and {} belong to a value. Throws UserError.
SweepAxis parse_sweep_axis(const std::string& option);

constexpr std::size_t kMostSweepPoints = 100000;

/// What is asked: a scenario at every combination of the axes' values, the last axis varying fastest.
struct Sweep {
  std::filesystem::path scenario;
  std::vector<SweepAxis> axes;

  std::size_t points() const;  ///< throws UserError above kMostSweepPoints, or for a path given twice
  Overrides point(std::size_t index) const;
};

/// The answer at one point. An impossible one has `error`, and no figures; one whose step was said, not simulated, has
/// nothing of what is inside of it.
struct SweepPoint {
  bool done = false;
  std::string error;
  double step_time = 0, samples_per_s = 0, tokens_per_s_per_gpu = 0, tflops_per_gpu = 0, mfu = 0;
  double memory_peak = 0;  ///< bytes, of the rank with the highest
  bool fits = false;
  std::string bottleneck;
  double exposed_communication = 0;  ///< s, all groups
  bool said = false;
  /// What failures and checkpoints make of the training; s.
  struct Training {
    double goodput = 0, goodput_deviation = 0;
    double end = 0, step_time = 0;  ///< step time: of all the time, over the steps done
    double lost_work = 0;
    double checkpoint_interval = 0;  ///< 0: no checkpoints
  };
  std::optional<Training> training;  ///< where the scenario has failures or checkpoints
};

struct SweepOptions {
  /// Answers are kept there as they come, a line each, and those of an earlier run of the same points are taken from
  /// it; empty: nowhere.
  std::filesystem::path journal;
  std::function<void(std::size_t done, std::size_t of)> progress;
};

/// What to say of a sweep without a possible point.
std::string all_impossible(std::size_t points, const std::string& first_error);

/// All points, in order: first all are checked, then the possible ones simulated, in child processes on the processors
/// there are. Ends early when `interrupted()`: points that are not done have `done` false.
std::vector<SweepPoint> run_sweep(const Sweep&, const SweepOptions& = {});

/// A line a point: the swept paths, then the figures that any point has; doubles as the shortest text that reads back the same.
std::string sweep_csv(const Sweep&, const std::vector<SweepPoint>&);
nlohmann::ordered_json sweep_json(const Sweep&, const std::vector<SweepPoint>&);

}  // namespace trainyard
