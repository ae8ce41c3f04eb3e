#pragma once
#include <string>

#include "models/reading/document.hpp"
#include "models/reading/figure.hpp"
#include "models/software/nccl_version.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

struct Collective;
struct LibraryModel;

/// A plan's choice for a collective: the name of its algorithm, or `{algorithm, channels, chunk, torus, fidelity}`.
struct CollectiveChoice {
  const Collective* algorithm = nullptr;  ///< null: `auto`, the fastest algorithm that can run it (see tune)
  CollectiveSettings settings;
  std::string scaled;     ///< if modelled: why the model is less certain than a fit
  int measured_gpus = 0;  ///< if modelled: the most GPUs of a node that were measured, if a node has more; else 0
  LibraryErrors errors;   ///< if modelled
  Sources sources;        ///< if modelled: sources of the model
  Place place;
};

/// Place of a collective: alone, or part of a step. Only if it runs alone can switches take part in it.
enum class CollectiveUse { alone, in_a_step };

/// Reads the choice for a collective. `node` null: all defaults. Also sets the settings that depend on the cluster
/// (ranks on a node, its rings). `library`: the model of the cluster's library if it is known already; null: the NCCL
/// of `nccl`. Throws UserError.
CollectiveChoice read_collective(const Node* node, const std::string& what, Operation, const ClusterSpec&, int ranks,
                                 CollectiveUse, int root = 0, const LibraryModel* library = nullptr,
                                 const NcclChoice& nccl = {});
/// Returns the algorithm that is used if a scenario names none. Between the chips of a pod all-reduce, reduce-scatter and
/// all-gather use the links of all dimensions in both directions, as XLA does (jax-ml/scaling-book, tpus.md).
const Collective& usual_collective(Operation, const ClusterSpec&);
/// Sets the collective to be modelled as the library does it.
void take_library_model(CollectiveChoice&, const LibraryModel&);

/// Sets the settings that depend on the nodes of the ranks 0 … ranks−1.
void place_on(CollectiveSettings&, const ClusterSpec&, int ranks);

}  // namespace trainyard
