#pragma once
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// What the errors of a set of points are held to, as shares; 0: not held. All but the rank correlation at most.
struct ErrorLimits {
  double mean = 0, median = 0, p90 = 0, worst = 0;  ///< of the absolute errors
  double rank = 0;                                  ///< Spearman's, at least
};

/// What the predictions of a family are held to.
struct MeasuredLimits {
  ErrorLimits time, memory;
  ErrorLimits efficiency;  ///< differences of scaling efficiencies
  ErrorLimits mfu;         ///< differences of what published rates are of the peak
  double plan_rank = 0;    ///< Spearman's among the plans of one model, machine and batch, at least
  double plan_regret = 0;  ///< by which the plan that is chosen among those takes longer than the best, mean, at most
};

/// A figure of the answer that runs were measured by, besides what their section `measured` says.
struct MeasuredFigure {
  std::string name;
  std::string
      predicted;  ///< a formula of the answer's figures as `--json` names them: "compute_measured.step_time_s / step_time_s"
  bool points = false;  ///< errors are differences of shares, else relative
  ErrorLimits limits = {};
  std::size_t column = 0;  ///< of the table, where the measured ones stand
};

/// A family of measured runs without them.
struct FamilyDescription {
  std::string name, source;
  std::string note;  ///< said below the errors; "{ratio}": predicted over measured of the rows that calibrate, mean
  MeasuredLimits limits;
  std::vector<MeasuredFigure> figures;
};

/// Measured runs of one source that are alike, in one file: `scenario` is what all of them share (a map; the path of a
/// scenario's file; or such a `base`, and what is changed of it), and a table has a row for each. Its columns are `id`, dotted paths of the scenario
/// (`plan.tensor_parallel`, `measured.step_time`), and optionally `scaled_from` (the row, of fewer devices, that a row's
/// scaling efficiency is reckoned from) and `figure.NAME` (a measured figure of the answer). An empty cell leaves the field as
/// the scenario has it.
///
/// The rows stand in the file (`columns` a list of names, `rows` a list of cells), or in a CSV file: `table` has the `file`,
/// `where` (what cells of the rows say, by column), `words` (others for cells, by column) and `calibrates` (as `where`: the
/// rows that a constant was set by, which are not judged); then `columns` gives each column its text, in which `${…}` is a
/// cell or a formula of cells: `plan.global_batch_size: ${batch * gpus}`. Or each row is a scenario of a folder: `scenarios`.
class MeasuredFamily : public FamilyDescription {
 public:
  std::vector<std::string> ids;          ///< of the rows, in order
  std::vector<std::size_t> scaled_from;  ///< of each row; its own number: of none

  /// Throws UserError with the place of what is wrong.
  explicit MeasuredFamily(const std::filesystem::path&);
  /// The scenario of a row, as a file of its own would have it.
  Node scenario(std::size_t row) const;
  /// What was measured of a figure; none where the cell is empty.
  std::optional<double> measured(std::size_t row, const MeasuredFigure&) const;
  bool calibrates(std::size_t row) const { return calibrating_.contains(row); }
  bool measures_memory() const;  ///< has a column of peak or reserved memory
  /// Throws UserError with the nearest name.
  std::size_t row(std::string_view id) const;

 private:
  std::string file_;
  Node scenario_;
  std::vector<std::string> columns_;
  std::vector<Node> rows_;
  std::set<std::size_t> calibrating_;
  std::vector<std::filesystem::path> scenarios_;  ///< of a folder, in place of all these

  void read_base();
  void read_rows(const Node& columns, const std::vector<Node>& rows);
  void read_table(const Node& columns, const Node& table);
  void read_figures(const Node* figures);
  const Node* cell(std::size_t row, std::string_view column) const;
};

/// Is that document such a family, and no scenario?
bool is_measured_family(const Node& document);

/// The document of a scenario's file, or of a row of a family: "scenarios/measured/training/mpt.yaml@7b-s2048".
Node read_scenario_document(const std::filesystem::path&);

}  // namespace trainyard
