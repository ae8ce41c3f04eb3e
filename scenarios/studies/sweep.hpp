#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/answer/result.hpp"
#include "scenarios/pictures/scaling_picture.hpp"
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// A field of the scenario and the values it takes in turn.
struct SweepAxis {
  std::string path;
  std::vector<std::string> values;
  bool with_previous = false;  ///< it moves together with the axis before it
};

/// "path=a,b,c". Commas inside quotes, [] and {} belong to a value. Throws UserError.
SweepAxis parse_sweep_axis(const std::string& option);
/// The same, or several fields that move together: "path=a,b & other=c,d" are the two points (a, c) and (b, d). Throws
/// UserError where their lists are not of one length.
std::vector<SweepAxis> parse_sweep_axes(const std::string& option);

constexpr std::size_t kMostSweepPoints = 100000;

/// What is asked: a scenario at every combination of the axes' values, the last axis varying fastest.
struct Sweep {
  std::filesystem::path scenario;
  std::vector<SweepAxis> axes;

  std::size_t points() const;  ///< throws UserError above kMostSweepPoints, or for a path given twice
  Overrides point(std::size_t index) const;
};

/// The answer at one point. An impossible one has `error`, and no figures.
struct SweepPoint {
  bool done = false;
  std::string error;
  std::string figures;  ///< the JSON object of its columns
};

/// A column of the tables: a field of the answer under a name that says all in one line.
struct SweepColumn {
  const char* name;
  const char* path;  ///< in the answer's JSON; of an object of numbers it is their sum
  bool simulated;    ///< not there where the step time is given
};
const std::vector<SweepColumn>& sweep_columns();
/// The JSON object of an answer's columns, those that it has.
std::string column_figures(const Result&);

/// Which rows of a table, and in which order.
struct SweepOrder {
  std::string column;    ///< "": in the order of the points
  bool falling = false;  ///< the highest first
  std::size_t top = 0;   ///< no more rows; 0: all
};
/// `sort`: a column, after a '-' the highest first. Throws UserError naming the nearest.
SweepOrder parse_sweep_order(const std::string& sort, int top);

struct SweepOptions {
  /// Answers are kept there as they come, a line each, and those of an earlier run of the same points are taken from
  /// it; empty: nowhere.
  std::filesystem::path journal;
  std::function<void(std::size_t done, std::size_t of)> progress;
};

/// All points, in order, by workers on the processors there are. Ends early when `interrupted()`: points that are not done
/// have `done` false. Throws UserError where no point is possible.
std::vector<SweepPoint> run_sweep(const Sweep&, const SweepOptions& = {});

/// Adds to every point that is possible its speedup over the `baseline` (from 1), the samples/s of ideal scaling from
/// there, and the share of them that it reaches: GPUs cost, whether the batch is the same (strong scaling) or grows with
/// them (weak). Gives the baseline. Throws UserError where there is no such point, or it is impossible.
GpusAndRate add_scaling(std::vector<SweepPoint>&, std::size_t baseline);
/// The fastest point of each number of GPUs, by that number.
std::vector<GpusAndRate> scaling_points(const std::vector<SweepPoint>&);
/// In a line: the most GPUs that still help, and up to which they give half of what they ideally add. "" of one number.
std::string scaling_knee(const std::vector<GpusAndRate>&);

/// A line a point: the swept paths, then the figures that any point has; doubles as the shortest text that reads back the same.
std::string sweep_csv(const Sweep&, const std::vector<SweepPoint>&, const SweepOrder& = {});
nlohmann::ordered_json sweep_json(const Sweep&, const std::vector<SweepPoint>&, const SweepOrder& = {});

}  // namespace trainyard
