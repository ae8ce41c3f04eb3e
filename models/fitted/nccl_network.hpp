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
  /// Latency of a step from node to node, software and wires, for LL, LL128 and Simple.
  std::array<Seconds, 3> hop;
  Seconds wires;       ///< the part of each hop for adapters and one switch; a cluster replaces it by its own
  Seconds peer;        ///< start-up for each rank on other nodes that a rank sends to at the same time
  Seconds chunk_time;  ///< Simple forwards chunks: a hop waits at most this long for its first chunk
  /// Shares of the rate of a node's network: LL, LL128, then Simple in rings, in trees, and from rank to rank.
  double share_ll = 1, share_ll128 = 1, share_ring = 1, share_tree = 1, share_pairs = 1;
  /// Entries to use instead for nodes with at least one adapter for each GPU, and for nodes whose adapters do not reach
  /// the GPUs' memory; empty: this entry.
  std::string own_adapters, without_gpudirect;
  /// Absolute errors of systems that were left out of the fit in turn: median and 90th percentile of all sizes, and the
  /// median from 64 MiB on. 0: no system was left out.
  double median_error = 0, p90_error = 0, large_error = 0;
  int systems = 0;  ///< number of systems in the fit
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclNetwork read_nccl_network(const Node& entry);

/// Returns the catalog entry. `head` is its first comment; `fit` and `errors` are the sources of its figures.
std::string nccl_network_text(const NcclNetwork&, const std::string& head, const std::string& fit,
                              const std::string& errors);

}  // namespace trainyard
