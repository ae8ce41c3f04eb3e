#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/sizing/size_islands.hpp"

namespace trainyard {

constexpr int kMostSizedNodes = 4096;

/// Finds the phases of a training on bought nodes that are delivered in batches. It begins on the first batch and goes on
/// with more nodes at each further one. Each phase has the best plan on the largest number of delivered nodes that has one.
/// Restarts between phases are not counted. There are no phases beside owned nodes of another type.
class DeliveryPhases {
 public:
  /// The question must outlive this object. `searches` returns rows without phases.
  DeliveryPhases(SizeQuestion& question, IslandSearches searches)
      : question_(question), searches_(std::move(searches)) {}

  /// Lists the phases before all nodes are delivered; their `share` and `end_days` are not set. Throws Interruption.
  std::vector<SizePhase> before(const SizeCase&, int nodes);
  /// Returns the most days that the whole training may take on all nodes, so that it ends by the deadline with its earlier
  /// phases. 0: any number, since the earlier phases do all of it.
  double useful_days(const SizeCase&, int nodes);
  /// Returns the first doubling of the unit whose nodes meet the deadline at a rough speed.
  int first_guess(const SizeCase&);

 private:
  SizeQuestion& question_;
  const IslandSearches searches_;
  std::map<std::tuple<std::string, std::string, int>, SizeRow>
      rows_;  // indexed by model, node type and number of nodes

  std::vector<Purchase::Batch> batches(const SizeCase&, int nodes) const;
  /// Returns the largest number of nodes that has a plan, up to the delivered ones and above those of the phase before. 0:
  /// none has.
  int most_with_plan(const SizeCase&, int delivered, int before) const;
  const SizeRow& row(const SizeCase&, int nodes);
};

/// Returns the phase that begins on a day and trains on the nodes of a row. `share` and `end_days` are not set.
SizePhase phase_of(const SizeRow&, double begin);
/// Simulates phases on a network, all of which is there from the first delivery on. A phase whose nodes the network does not
/// join is left out.
std::vector<SizePhase> phases_on_network(const SizeQuestion&, const SizeNetwork&, const std::vector<SizePhase>&);
/// Takes the phases before all nodes of a row are delivered: its energy, and the cost of owning it for the training, are
/// those of the nodes that train in each phase.
void take_phases(SizeRow&, std::vector<SizePhase>);
/// States the phases of the decision, or of the nearest cluster, if it grows.
void add_growth(SizeAnswer&);

template <class T>
class JsonFields;
JsonFields<SizeGrowth> size_growth_fields();

}  // namespace trainyard
