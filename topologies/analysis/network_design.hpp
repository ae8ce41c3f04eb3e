#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topologies/analysis/cable_plan.hpp"
#include "topologies/cluster.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

/// A kind of switched network between equal nodes.
struct NetworkKind {
  std::string name;             ///< "nonblocking", "2:1", "16 leaves and 4 spines", "rail-optimized", "2:1 on rails"
  double oversubscription = 1;  ///< ratio of the hosts of a leaf to its uplinks
  bool rails = false;           ///< a leaf takes the adapters of one place in their nodes
  bool joined = true;           ///< false: no switch joins two rails
  std::int64_t leaves = 0;      ///< number of leaves, below `spines` spines; 0: as few as the ratio needs
  std::int64_t spines = 0;
};

/// Lists the kinds that are compared by default.
std::vector<std::string> network_kinds();
/// Reads "nonblocking", "N:1", "N leaves and M spines", both also "on rails", "rail-optimized" or "rail-only". Throws
/// UserError, with the nearest name, for another one. `flag` begins the error.
NetworkKind read_network_kind(const std::string& name, const std::string& flag);

/// Nodes of one type, and the ports of each switch between them.
struct NetworkRequest {
  int nodes = 0, adapters = 0;  ///< `adapters`: of each node, one port each
  int ports = 0;
};

/// A network of as few switches as such leaves need, and the fabric by which it is simulated.
struct NetworkDesign {
  std::int64_t leaves = 0;          ///< switches that have ports to nodes
  std::int64_t switches = 0;        ///< all switches
  std::int64_t links = 0;           ///< cables between switches
  std::int64_t hosts = 0;           ///< cables to nodes
  std::int64_t hosts_of_leaf = 0;   ///< most cables to nodes of a leaf
  std::int64_t uplinks = 0;         ///< cables from a leaf upwards
  std::int64_t pods = 0;            ///< groups of leaves with aggregation switches of their own; 0: two levels or one
  std::int64_t rails = 0;           ///< adapters of a node, each on leaves of its own; 0: leaves take whole nodes
  std::int64_t border_cables = 0;   ///< cables to another fabric
  std::int64_t border_links = 0;    ///< cables to the border switch of a network without one top, where those end
  std::string base;                 ///< name of the fabric in the catalog
  std::vector<FabricLevel> levels;  ///< levels of that fabric; empty: one switch joins all

  std::int64_t spines() const { return switches - leaves; }  ///< switches without a cable to a node
  /// Returns the cables from a leaf to nodes over those to spines.
  double oversubscription() const {
    return uplinks > 0 ? static_cast<double>(hosts_of_leaf) / static_cast<double>(uplinks) : 1;
  }
  std::int64_t cables() const { return hosts + links + border_links + border_cables; }
  /// Returns the number of ports of switches that cables use.
  std::int64_t ports() const { return hosts + 2 * (links + border_links) + border_cables; }
  /// Writes the fabric as `cluster.fabric` takes it. `more`: further keys, "switch: quantum-2".
  std::string fabric(const std::vector<std::string>& more) const;
};

/// Designs the network. Leaves have equally many hosts, whole nodes if possible, and spread their uplinks evenly over
/// spines, or over the aggregation switches of a pod, whose uplinks spread over cores without oversubscription. With
/// stated numbers of leaves and spines, each leaf has as many uplinks as these take. Throws UserError if three levels are
/// not enough, if the nodes have no rails, or if such leaves and spines cannot be joined or fewer spines would do.
NetworkDesign design_network(const NetworkKind&, const NetworkRequest&);

/// Adds cables to another fabric, and the switches that they need: they take free ports first. `has_top`: see Fabric.
void add_border(NetworkDesign&, std::int64_t cables, bool has_top, int ports);

/// Lists the kinds with leaves and spines, without rails or on rails, that no other kind with as few switches beats in
/// oversubscription: those of the fewest switches (if equal, cables) first, the last one without oversubscription.
std::vector<std::string> efficient_networks(const NetworkRequest&, bool rails);

/// Designs the network that a cluster's fabric describes, of switches with so many ports: a nonblocking network as above, a
/// folded Clos with the leaves, uplinks and rails of the fabric. No value: the parts of such a fabric are not known.
/// Throws UserError like `design_network`.
std::optional<NetworkDesign> network_of_fabric(const ClusterSpec&, int ports);

/// Describes the network as its cables need it. The adapters of a node are neighbouring hosts.
CabledNetwork cabled_network(const NetworkDesign&);

}  // namespace trainyard
