#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "models/reading/figure.hpp"
#include "models/software/nccl_version.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

struct Collective;
struct LibraryModel;

/// What a plan says about a collective: its algorithm by name, or `{algorithm, channels, chunk, torus, fidelity}`.
struct CollectiveChoice {
  const Collective* algorithm = nullptr;  ///< null: `auto`, the fastest of those that can do it (see tune)
  CollectiveSettings settings;
  std::string scaled;  ///< of a modelled one: why it is less sure than a fit
  std::string judged;  ///< of a modelled one: the error to expect
  Sources sources;     ///< of a modelled one
  Place place;
};

/// Where a collective is to run: on its own, switches can take part in it.
enum class CollectiveUse { alone, in_a_step };

/// `node` may be null: all defaults. What depends on the cluster (ranks of a node, its rings) is filled in; `library`: its
/// library's model, where that is known already; else it is the NCCL of `nccl`. Throws UserError.
CollectiveChoice read_collective(const Node* node, const std::string& what, Operation, const ClusterSpec&, int ranks,
                                 CollectiveUse, int root = 0, const LibraryModel* library = nullptr,
                                 const NcclChoice& nccl = {});
/// As the cluster's library does it, by its fitted model.
void take_library_model(CollectiveChoice&, const LibraryModel&);

/// Settings that follow from where the ranks 0 … ranks−1 are.
void place_on(CollectiveSettings&, const ClusterSpec&, int ranks);

}  // namespace trainyard
