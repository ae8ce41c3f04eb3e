#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/run_pictures.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/sweeps/study_shard.hpp"

namespace trainyard {

/// A field of the scenario and its values.
struct SweepAxis {
  std::string path;
  std::vector<std::string> values;
  bool with_previous = false;  ///< the field changes together with that of the axis before
};

/// Parses "path=a,b,c". Commas inside quotes, [], () and {} belong to a value. range(FROM, TO, STEP = 1) and
/// log-range(FROM, TO, FACTOR = 2) give a list of values, which includes TO if a step meets it. Throws UserError.
SweepAxis parse_sweep_axis(const std::string& option, const std::string& flag = "--set");
/// Parses one field, or several fields that change together: "path=a,b & other=c,d" are the points (a, c) and (b, d).
/// Throws UserError if their lists differ in length.
std::vector<SweepAxis> parse_sweep_axes(const std::string& option, const std::string& flag = "--set");

constexpr std::size_t kMostSweepValues = 100000;  ///< largest number of values of a field
/// A sweep of more than kMostKeptPoints is streamed: its points are only in files. At 4 ms per point, kMostSweepPoints
/// take a day on one core.
constexpr std::size_t kMostKeptPoints = 100000, kMostSweepPoints = 20000000;

/// A scenario at every combination of the axes' values. The last axis varies fastest.
struct Sweep {
  std::filesystem::path scenario;
  std::vector<SweepAxis> axes;
  /// Conditions that points must meet, such as "plan.tensor_parallel * plan.pipeline_parallel <= 64"; see `keep_where`.
  std::vector<std::string> conditions = {};
  std::optional<std::vector<std::size_t>> selected = {};  ///< combinations that meet the conditions; no value: all
  std::optional<Node> document = {};                      ///< contents of the scenario, if there is no file

  std::size_t points() const;  ///< throws UserError above kMostSweepPoints, or if two axes have the same path
  Overrides point(std::size_t index) const;
  /// Reads the scenario's document. Throws UserError.
  Node read_document() const;
  /// Removes the points that do not meet `conditions`. A condition has products of varying fields and numbers on both
  /// sides of <, <=, >, >=, == or !=; the latter two also compare names. Throws UserError for a malformed condition,
  /// and if no point is left.
  void keep_where();
};

/// Reads the file of `trainyard sweep`: `scenario`, `set` (values by field), `together` (maps of fields that change
/// together) and `where`. `document`: contents to use instead of the file. If the file is a scenario, the sweep has one
/// point. Throws UserError with the place.
Sweep read_study(const std::filesystem::path&, const std::optional<Node>& document = {});

/// The answer at one point. An impossible point has `error` and no figures.
struct SweepPoint {
  bool done = false;
  std::string error;
  std::string figures;   ///< JSON object of its columns
  std::string key = {};  ///< fingerprint of scenario, catalog and program; "" if the scenario cannot be read
};

/// Returns the point that `simulate` fills. An error is the point's own, a fault of the program and memory that runs out
/// too: the other points go on. Without a key, a journal does not keep the last two.
SweepPoint simulated_point(const std::function<void(SweepPoint&)>& simulate);

/// A column of the tables: a field of the answer and its column name.
struct SweepColumn {
  const char* name;
  const char* path;  ///< path in the answer's JSON; an object of numbers gives their sum
  bool simulated;    ///< missing if the scenario states the step time
};
const std::vector<SweepColumn>& sweep_columns();
/// Returns the JSON object of the columns that an answer has.
std::string column_figures(const Result&);

/// The order of a table's rows and their number.
struct SweepOrder {
  std::string column;    ///< column to sort by; "": the order of the points
  bool falling = false;  ///< highest value first
  std::size_t top = 0;   ///< largest number of rows; 0: all
};
/// Parses a column name; a leading '-' puts the highest value first. Throws UserError with the nearest name.
SweepOrder parse_sweep_order(const std::string& sort, int top);

struct SweepOptions {
  /// File to which each answer is written as a line as soon as it is known. Answers of an earlier run are taken from
  /// it. Empty: no file.
  std::filesystem::path journal;
  std::function<void(std::size_t done, std::size_t total)> progress;
  StudyShard shard = {};  ///< share of the points to simulate
};

/// Receives a finished point and its index.
using TakePoint = std::function<void(std::size_t index, SweepPoint&&)>;
/// Simulates the points of the shard in parallel on all processors and passes them on in order. Only points that are
/// being simulated are in memory. Ends early when `is_interrupted()`: unfinished points have `done` false. Throws
/// UserError if no point is possible.
void stream_sweep(const Sweep&, const SweepOptions&, const TakePoint&);
/// Simulates and returns all points; those of other shards are not done.
std::vector<SweepPoint> run_sweep(const Sweep&, const SweepOptions& = {});

/// Writes a point as one line of JSON, with "figures" or "error":
/// {"key":KEY, "point":INDEX,"set":{...},"scenario":FILE,"version":PROGRAM,"figures":{...}}
/// In a file the line is sealed. The only space outside of strings follows the key: a journal splits the line there.
std::string sweep_line(const Sweep&, std::size_t index, const SweepPoint&);
/// Returns the part of a point's line before its space, by which a journal finds the line.
std::string sweep_line_key(const std::string& key);
/// Reads a point from a line. Throws json::exception if it is malformed.
SweepPoint sweep_point_in(const nlohmann::ordered_json& line);

/// Writes the points of a shard as JSON Lines: first the study, then each point. `merge_sweeps` merges shards into the
/// order of a single process. It throws UserError for files of different studies, unfinished files, and missing points.
std::string sweep_lines(const Sweep&, const std::vector<SweepPoint>&, const StudyShard&);
std::string sweep_head_line(const Sweep&, const StudyShard&);  ///< the first line of `sweep_lines`
struct MergedSweep {
  Sweep sweep;
  std::vector<SweepPoint> points;  ///< empty if the study is streamed
};
MergedSweep merge_sweeps(const std::vector<std::string>& files);
/// Passes on the points of a streamed study one after the other.
void stream_merged(const Sweep&, const std::vector<std::string>& files, const TakePoint&);

/// Adds to every possible point its speedup over the point number `baseline` (from 1), the samples/s of ideal scaling
/// from there, and the share of them that it reaches. Ideal samples/s grow with the number of GPUs, both in strong
/// scaling (equal batch) and in weak scaling (growing batch). Returns the baseline. Throws UserError if it does not
/// exist or is impossible.
GpusAndRate add_scaling(std::vector<SweepPoint>&, std::size_t baseline);
/// Returns the fastest point for each number of GPUs, sorted by that number.
std::vector<GpusAndRate> scaling_points(const std::vector<SweepPoint>&);
/// Describes the scaling knee in a line: the largest number of GPUs that still helps, and the number up to which GPUs
/// give half of their ideal gain. "" if there is only one number of GPUs.
std::string scaling_knee(const std::vector<GpusAndRate>&);

/// Writes a line per point: the swept paths, then the figures that any point has. A double is written as the shortest
/// text that reads back the same.
std::string sweep_csv(const Sweep&, const std::vector<SweepPoint>&, const SweepOrder& = {});
/// Writes the table of `sweep_csv` piece by piece: first `note` each point to collect the columns, then write the head,
/// then rows.
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
