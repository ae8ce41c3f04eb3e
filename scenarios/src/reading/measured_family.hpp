#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// What the predictions of a family are held to, as shares; 0: not held.
struct MeasuredLimits {
  double mean_time = 0, mean_memory = 0;  ///< mean absolute error, at most
  double worst_memory = 0;                ///< the largest, at most
  double mean_efficiency = 0;             ///< mean absolute difference of scaling efficiencies, at most
  double rank_correlation = 0;            ///< Spearman's, of step times, at least
  double plan_rank = 0;                   ///< Spearman's among the plans of one model, machine and batch, at least
  double plan_regret = 0;  ///< by which the plan that is chosen among those takes longer than the best, mean, at most
};

/// Measured runs of one source that are alike, in one file: `scenario` is what all of them share, and a table has a row
/// for each. Its columns are `id`, optionally `scaled_from` (the row, of fewer devices, that a row's scaling efficiency is
/// reckoned from), and dotted paths of the scenario (`plan.tensor_parallel`, `measured.step_time`); an
/// empty cell leaves the field as the scenario has it.
class MeasuredFamily {
 public:
  std::string name;
  MeasuredLimits limits;
  std::vector<std::string> ids;          ///< of the rows, in order
  std::vector<std::size_t> scaled_from;  ///< of each row; its own number: of none

  /// Throws UserError with the place of what is wrong.
  explicit MeasuredFamily(const std::filesystem::path&);
  /// The scenario of a row, as a file of its own would have it.
  Node scenario(std::size_t row) const;
  bool measures_memory() const;  ///< has a column of peak or reserved memory
  /// Throws UserError with the nearest name.
  std::size_t row(std::string_view id) const;

 private:
  std::string file_;
  Node scenario_;
  std::vector<std::string> columns_;
  std::vector<Node> rows_;
};

/// Is that document such a family, and no scenario?
bool is_measured_family(const Node& document);

/// The document of a scenario's file, or of a row of a family: "scenarios/measured/training/mpt.yaml@7b-s2048".
Node read_scenario_document(const std::filesystem::path&);

}  // namespace trainyard
