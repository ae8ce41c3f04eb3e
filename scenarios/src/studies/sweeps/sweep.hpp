#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/scaling_picture.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/sweeps/study_shard.hpp"

namespace trainyard {

/// A field of the scenario and the values it takes in turn.
struct SweepAxis {
  std::string path;
  std::vector<std::string> values;
  bool with_previous = false;  ///< it moves together with the axis before it
};

/// "path=a,b,c". Commas inside quotes, [], () and {} belong to a value. range(FROM, TO, STEP = 1) stands for its values, and so
/// does log-range(FROM, TO, FACTOR = 2), both with TO where they meet it. Throws UserError.
SweepAxis parse_sweep_axis(const std::string& option);
/// The same, or several fields that move together: "path=a,b & other=c,d" are the two points (a, c) and (b, d). Throws
/// UserError where their lists are not of one length.
std::vector<SweepAxis> parse_sweep_axes(const std::string& option);

constexpr std::size_t kMostSweepValues = 100000;  ///< of a field
/// More points are streamed: kept in files alone, in their order. At 4 ms a point, the most of all take a day on one core.
constexpr std::size_t kMostKeptPoints = 100000, kMostSweepPoints = 20000000;

/// What is asked: a scenario at every combination of the axes' values, the last axis varying fastest.
struct Sweep {
  std::filesystem::path scenario;
  std::vector<SweepAxis> axes;
  /// Conditions that points must meet, such as "plan.tensor_parallel * plan.pipeline_parallel <= 64"; see `keep_where`.
  std::vector<std::string> where = {};
  std::optional<std::vector<std::size_t>> kept = {};  ///< the combinations that meet them; nothing: all
  std::optional<Node> document = {};                  ///< what stands in the scenario's file, where there is none

  std::size_t points() const;  ///< throws UserError above kMostSweepPoints, or for a path given twice
  Overrides point(std::size_t index) const;
  /// The scenario's document. Throws UserError.
  Node read_document() const;
  /// Leaves out the points that do not meet `where`: products of fields that vary and numbers, on both sides of <, <=, >, >=,
  /// == or !=; names with the latter two. Throws UserError for what is no condition, and where no point is left.
  void keep_where();
};

/// `trainyard sweep` of a file that has `scenario`, `set` (values by field), `together` (maps of fields that move together) and
/// `where`; `document` may stand for the file. The scenario alone where it is one. Throws UserError with the place.
Sweep read_study(const std::filesystem::path&, const std::optional<Node>& document = {});

/// The answer at one point. An impossible one has `error`, and no figures.
struct SweepPoint {
  bool done = false;
  std::string error;
  std::string figures;   ///< the JSON object of its columns
  std::string key = {};  ///< of scenario, catalog and program; "" where it cannot be read
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
  StudyShard shard = {};  ///< the others are left undone
};

/// Points of the shard, in order, by workers on the processors there are; no more of them are in memory than are simulated
/// together. Ends early when `interrupted()`: points that are not done have `done` false. Throws UserError where no point is
/// possible.
using TakePoint = std::function<void(std::size_t index, SweepPoint&&)>;
void stream_sweep(const Sweep&, const SweepOptions&, const TakePoint&);
/// All points at once; those of other shards are not done.
std::vector<SweepPoint> run_sweep(const Sweep&, const SweepOptions& = {});

/// A point whole, in one line of JSON: {"key":KEY, "point":INDEX,"set":{...},"scenario":FILE,"version":PROGRAM,"figures":{...}} or
/// "error". In a file it is sealed. The only space outside of texts is that behind the key, at which a journal splits it.
std::string sweep_line(const Sweep&, std::size_t index, const SweepPoint&);
/// What stands before that space.
std::string sweep_line_key(const std::string& key);
/// Throws json::exception where the line is none.
SweepPoint sweep_point_in(const nlohmann::ordered_json& line);

/// JSON Lines of what a shard has: first the study, then each point whole. `merge_sweeps` puts shards together again, in the
/// order of one process. Throws UserError for files of different studies, those that are not finished, and missing points.
std::string sweep_lines(const Sweep&, const std::vector<SweepPoint>&, const StudyShard&);
std::string sweep_head_line(const Sweep&, const StudyShard&);  ///< the first of them
struct MergedSweep {
  Sweep sweep;
  std::vector<SweepPoint> points;  ///< none of a study that is streamed
};
MergedSweep merge_sweeps(const std::vector<std::string>& files);
/// The points of a study that is streamed, one after the other.
void stream_merged(const Sweep&, const std::vector<std::string>& files, const TakePoint&);

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
/// The same piece by piece: columns of one point after the other, then the head, then rows.
class SweepTable {
 public:
  explicit SweepTable(const Sweep& sweep) : sweep_(sweep) {}
  void note(const SweepPoint&);
  std::string head() const;
  std::string row(std::size_t index, const SweepPoint&) const;

 private:
  const Sweep& sweep_;
  std::vector<std::string> columns_;
};
nlohmann::ordered_json sweep_json(const Sweep&, const std::vector<SweepPoint>&, const SweepOrder& = {});

}  // namespace trainyard
