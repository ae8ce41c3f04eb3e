#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// The searches of clusters that a comparison of islands needs.
struct IslandSearches {
  std::function<bool(const SizeCase&, int nodes)> has_plan;
  /// Returns the best plan on a number of nodes. `useful`: longest useful training, days; 0: any.
  std::function<SizeRow(const SizeCase&, int nodes, double useful)> row;
  /// Tries plans of other sizes on the sizes of a case. Returns true if a late one is in time now.
  std::function<bool(const SizeCase&)> improve;
};

/// Compares the ways to train on nodes that are owned and on bought ones of another type, if clusters are bought and one
/// model is asked about. It adds the sizes of one job on both to the rows of the answer,
/// which all take part in its decision, and sets `islands` without their reasons. The rows of the answer must have the
/// sizes of all cases. Throws Interruption.
void search_islands(SizeAnswer&, SizeQuestion&, const std::vector<SizeCase>&, const IslandSearches&);

/// States which way to train one model costs least, and the others in figures.
std::string island_reason(const SizeAnswer&, const SizeIslands&);

/// Returns the job on owned and bought nodes that costs least, of those that meet all conditions if there are any. Null:
/// there is none.
const SizeIsland* best_shared_job(const SizeAnswer&);

}  // namespace trainyard
