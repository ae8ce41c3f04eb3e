#pragma once
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Limits on the errors of a set of points, as shares; 0: no limit. The rank correlation has a lower limit, all others
/// have upper limits.
struct ErrorLimits {
  double mean = 0, median = 0, p90 = 0, worst = 0;  ///< upper limits on the absolute errors
  double rank = 0;                                  ///< lower limit on Spearman's rank correlation
  bool aim = false;                                 ///< an aim: to miss it is said, and is no failure
};

/// Limits on the errors of the predictions of a family.
struct MeasuredLimits {
  ErrorLimits time, memory;
  ErrorLimits efficiency;  ///< limits on differences of scaling efficiencies
  ErrorLimits mfu;         ///< limits on differences of model FLOPs utilization
  /// Lower limit on Spearman's rank correlation among the plans of one model, machine and batch.
  double plan_rank = 0;
  /// Upper limit on the mean excess of the chosen plan's time over that of the best plan, as a share.
  double plan_regret = 0;
};

/// A measured figure of the answer, besides those of the section `measured`.
struct MeasuredFigure {
  std::string name;
  /// Formula of figures of the answer as `--json` names them: "compute_measured.step_time_s / step_time_s".
  std::string predicted;
  bool points = false;  ///< true: errors are differences of shares; false: relative errors
  ErrorLimits limits = {};
  std::size_t column = 0;  ///< column of the table with the measured values
};

/// The description of a family of measured runs, without the runs.
struct FamilyDescription {
  std::string name, source;
  /// Printed below the errors. "{ratio}" stands for predicted over measured, the mean over the rows that calibrate.
  std::string note;
  MeasuredLimits limits;
  std::vector<MeasuredFigure> figures;
};

/// Similar measured runs of one source, in one file. `scenario` is the part that all of them share: a map, the path of
/// a scenario's file, or such a path as `base` with changes. A table has one row for each run. Its columns are `id`,
/// dotted paths of the scenario (`plan.tensor_parallel`, `measured.step_time`), and optionally `scaled_from` (id of the
/// row with fewer devices from which the scaling efficiency counts) and `figure.NAME` (a measured figure of the
/// answer). An empty cell leaves the field of the scenario unchanged.
///
/// There are three places for the rows. In the file: `columns` is a list of names, `rows` a list of cells. In a CSV
/// file: `table` has the `file`, `where` (the rows to take, by column and text), `words` (replacements of cells, by
/// column) and `calibrates` (like `where`: the rows to which a constant was fitted; they are not judged). Then
/// `columns` has a text for each column, in which `${…}` is a cell or a formula of cells: `plan.global_batch_size:
/// ${batch * gpus}`. In a folder: `scenarios` names the folder, and each scenario in it is a row.
class MeasuredFamily : public FamilyDescription {
 public:
  std::vector<std::string> ids;          ///< ids of the rows, in order
  std::vector<std::size_t> scaled_from;  ///< for each row, the row that it is scaled from; its own number: none

  /// Reads a family. Throws UserError with the place of an error.
  explicit MeasuredFamily(const std::filesystem::path&);
  /// Returns the scenario of a row, like a document of its own file.
  Node scenario(std::size_t row) const;
  /// Returns the measured value of a figure. No value: the cell is empty.
  std::optional<double> measured(std::size_t row, const MeasuredFigure&) const;
  bool calibrates(std::size_t row) const { return calibrating_.contains(row); }
  /// Returns the number of the row with this id. Throws UserError with the nearest id.
  std::size_t row(std::string_view id) const;

 private:
  std::string file_;
  Node scenario_;
  std::vector<std::string> columns_;
  std::vector<Node> rows_;
  std::set<std::size_t> calibrating_;
  std::vector<std::filesystem::path> scenarios_;  ///< files of a folder, in place of all members above

  void read_base();
  void read_rows(const Node& columns, const std::vector<Node>& rows);
  void read_table(const Node& columns, const Node& table);
  void read_figures(const Node* figure_map);
  const Node* cell(std::size_t row, std::string_view column) const;
};

/// Returns true if a document is such a family and no scenario.
bool is_measured_family(const Node& document);

/// Reads the document of a scenario's file, or of a row of a family: "scenarios/measured/training/mpt.yaml@7b-s2048".
Node read_scenario_document(const std::filesystem::path&);

}  // namespace trainyard
