#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/collective_doubt.hpp"
#include "scenarios/src/studies/measured/error_set.hpp"

namespace trainyard {

/// A set of points with common error limits.
struct PointSet {
  std::string name;
  ErrorLimits limits = {};
  std::vector<MeasuredPoint> points = {};
  bool part = false;  ///< true: the set is a part of the set before it
};
/// Returns the set of that name, and adds an empty one at the end if there is none.
PointSet& set_called(std::vector<PointSet>&, const std::string& name);

/// Predicted against measured sweeps of the machines in scenarios/measured/tables/nccl_systems.csv.
struct JudgedSystems {
  std::vector<PointSet> classes;  ///< points by class: those of the fit, and those with their source left out of it
  std::vector<PointSet> systems;  ///< points by system and operation
  /// The errors of predictions that use no measured time of their own system, and of predictions within one node.
  std::vector<CollectiveError> errors;
  std::string text;  ///< a table of the systems, then the rows that are left out and the reasons
  std::string svg;
};
/// `shown`: names of the systems in the picture, separated by commas; empty: all with eight sizes or more. Throws
/// UserError for unknown names.
JudgedSystems judge_systems(const std::string& shown = "");
/// Returns the errors of all measured collectives whose fit does not know them: those of `judge_systems`, and those of
/// GPUs with a fit and of published runs within a node.
std::vector<CollectiveError> collective_errors();

}  // namespace trainyard
