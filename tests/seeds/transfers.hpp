#pragma once
#include "scenarios/src/running/server_cell.hpp"
#include "sim/program.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {

// Helpers of experiments with single messages.

/// Returns `nodes` nodes of `gpus` GPUs, whose figures do not matter. `links`: YAML of the rest of the node; `fabric`:
/// YAML of an entry of the catalog (empty: nonblocking).
ClusterSpec cluster_of(int gpus, const std::string& links, int nodes = 1, const std::string& fabric = "");
/// Returns `nodes` hosts of one device. Only their HCAs limit messages.
ClusterSpec hosts_of(int nodes, const std::string& hca, const std::string& fabric = "");

/// A message between two actors. All messages of a list start at once.
struct Transfer {
  Actor from = 0, to = 0;
  Bytes size;
};

struct TransferTimes {
  double ms = 0;            ///< until the last message has arrived
  double host_busy_ms = 0;  ///< time of copies, summed over all CPUs
};
TransferTimes run_transfers(const ClusterSpec&, const std::vector<Transfer>&);
/// Returns the time until the last message has arrived, in ms.
double transfer_ms(const ClusterSpec&, const std::vector<Transfer>&);

/// Returns the time of one run of parameter servers, in ms.
double server_cell_ms(const ServerCell&);

/// Returns the actor of CPU socket `socket` of a cluster of one node.
inline Actor host_of(const ClusterSpec& cluster, int socket = 0) { return cluster.gpus() + socket; }

}  // namespace trainyard
