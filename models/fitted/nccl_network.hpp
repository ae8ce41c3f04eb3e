#pragma once
#include <array>
#include <string>

#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// NCCL over one kind of network: an entry of models/catalog/nccl-networks, which `trainyard fit nccl` writes.
struct NcclNetwork {
  std::string name;
  /// A step from node to node, software and wires, by protocol: LL, LL128, Simple.
  std::array<Seconds, 3> hop;
  Seconds wires;       ///< of each hop: adapters and one switch; a cluster's own take their place
  Seconds peer;        ///< for each rank on other nodes that a rank sends to at the same time
  Seconds chunk_time;  ///< Simple passes chunks on: for so long at most a hop waits for the first of them
  /// Of the rate of a node's network: LL, LL128, then Simple in rings, trees, and from rank to rank.
  double share_ll = 1, share_ll128 = 1, share_ring = 1, share_tree = 1, share_pairs = 1;
  /// The entries for nodes that have an adapter or more for each GPU, and for those whose adapters do not reach the GPUs'
  /// memory; empty: the same.
  std::string own_adapters, without_gpudirect;
  /// Absolute errors of systems that were left out of the fit in turn: all sizes, and the median from 64 MiB on. 0:
  /// none were.
  double median_error = 0, p90_error = 0, large_error = 0;
  int systems = 0;  ///< of the fit
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclNetwork read_nccl_network(const Node& entry);

/// The entry as the catalog has it. `fit` and `errors` say where its figures are from.
std::string nccl_network_text(const NcclNetwork&, const std::string& head, const std::string& fit,
                              const std::string& errors);

}  // namespace trainyard
