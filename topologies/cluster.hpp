#pragma once
#include "models/hardware/node.hpp"
#include "topologies/background.hpp"
#include "topologies/device_graph.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

struct ClusterSpec;

/// The cables between two fabrics. Messages are spread over all of them.
struct IslandLinks {
  int count = 0;
  BytesPerSecond rate;  ///< rate of one cable, in each direction
  Picoseconds latency;  ///< latency of a cable, without that of the switches at its ends
  Place place;          ///< in the scenario, for errors
  BytesPerSecond all() const { return rate * count; }
};

/// A number of nodes of another type than the first ones, or with a fabric of their own.
struct NodeGroup {
  int count = 0;
  NodeType type;
  /// An island: these nodes with a fabric of their own. Null: the cluster's fabric joins them with the first nodes.
  std::shared_ptr<const ClusterSpec> island = nullptr;
  IslandLinks links = {};  ///< join the island's fabric with that of the cluster
};

/// The user's description of a host that will run a node, to be checked before a training starts there.
struct DeclaredHost {
  std::string name;
  std::vector<int> open_ports;
  std::vector<std::pair<std::string, std::string>> versions;  ///< installed versions: {"cuda", "12.2"}
};

/// The nodes of a cluster and the fabric that joins them.
struct ClusterSpec {
  // Defined in the .cpp file, because many files copy and destroy clusters.
  ClusterSpec() = default;
  ClusterSpec(const ClusterSpec&);
  ClusterSpec(ClusterSpec&&) noexcept;
  ClusterSpec& operator=(const ClusterSpec&);
  ClusterSpec& operator=(ClusterSpec&&) noexcept;
  ~ClusterSpec();

  int nodes = 1;  ///< number of nodes of all types
  NodeType node;
  std::vector<NodeGroup> others;         ///< the last nodes are of these types
  std::shared_ptr<const Fabric> fabric;  ///< joins the nodes; null for a single node
  std::string fabric_name;               ///< in the catalog; "": the scenario itself describes the fabric
  // Figures of any fabric:
  Picoseconds switch_latency;
  BytesPerSecond switch_rate;  ///< rate of a port, if the fabric names a switch; 0: no limit
  int switch_ports = 0;        ///< ports of that switch; 0: no limit
  PowerDraw switch_power;      ///< power of that switch
  Picoseconds distance;        ///< latency that the cables between any two nodes add, one way
  bool sharp = false;          ///< its switches reduce in collectives (InfiniBand SHARP), and NCCL's plugin uses them
  Sources fabric_sources;
  Place fabric_place;  ///< in the scenario, for errors
  std::vector<RemovedPart> taken_out;
  std::vector<BackgroundTraffic> background;
  std::vector<DeclaredHost> hosts;  ///< one for each node; empty: none were declared
  Place place;                      ///< the cluster's place in the scenario, for errors
  // The place of an island in the cluster that it is a part of:
  int island = 0;         ///< number of its entry in the list of nodes; 0: the nodes that the cluster's fabric joins
  int first_node = 0;     ///< number of its first node
  int border_cables = 0;  ///< number of cables to other islands
  BytesPerSecond border_rate;  ///< rate of all cables to other islands; 0: there are none

  bool joins_chips() const { return fabric && fabric->joins_chips(); }  ///< a pod of chips; its nodes need no HCAs
  int slices() const { return fabric ? fabric->slices() : 1; }
  bool uses_hcas() const { return nodes > 1 && (!joins_chips() || slices() > 1); }
  /// Returns true if chips of these nodes reach each other over their own links.
  bool same_slice(int one, int other) const { return one * slices() / nodes == other * slices() / nodes; }
  const NodeType& type_of(int node_index) const;
  std::vector<const NodeType*> types() const;                          ///< each once, in order
  std::vector<std::pair<const NodeType*, int>> counted_types() const;  ///< each type once, with its number of nodes
  int nodes_of_first_type() const;
  bool has_islands() const;
  /// Lists the parts of the cluster that have a fabric each: the first nodes, then each island. Without islands it is
  /// the whole cluster.
  std::vector<ClusterSpec> parts() const;
  /// Returns the number of the island of this node; 0: the cluster's fabric joins it with the first nodes.
  int island_of(int node_index) const;
  /// Returns the fabric that joins this node with others of its island.
  const Fabric* fabric_of(int node_index) const;
  /// Returns the latency of the cables on the way from one island to another, without the switches; 0 s within one.
  Picoseconds latency_between(int island, int other) const;
  const NodeType& type_of_gpu(int rank) const { return type_of(node_of_gpu(rank)); }
  int node_of_gpu(int rank) const;
  int gpus() const;
};

/// Reads an entry of the catalog's fabrics, `{type, switch_latency}` and the keys of its type, into the cluster.
/// `switch: NAME` refers to the catalog's switches and gives the latency instead. Throws UserError with the place.
void read_fabric(ClusterSpec&, const Node& entry, const Catalog& = Catalog());

/// Lists the HCAs of the nodes of this part of a cluster.
std::vector<DeviceId> fabric_hcas(const DeviceGraph&, const ClusterSpec& part);
/// Returns the first device of this part. Hashes of routes count from it, so that an island has the routes that its fabric
/// has alone.
DeviceId first_device(const DeviceGraph&, const ClusterSpec& part);
/// Returns a switch of this part's fabric. Those of an island have its number in their names: "island1-leaf0".
Device fabric_switch(const ClusterSpec& part, const std::string& name, int index);

/// Adds the border switch of a fabric without one top switch, which shares the cables to other islands evenly among these
/// switches. Returns the wires that lead to it from each of them; none if no cables lead to other islands.
std::vector<LinkId> add_border(DeviceGraph&, const ClusterSpec& part, const std::vector<DeviceId>& switches);

/// The wire from an HCA of this node to a switch, at its rate, with half of the latency of the switch and of the
/// distance.
Wire hca_wire(const ClusterSpec&, int node);
/// The fastest rate at which an HCA sends into its port.
BytesPerSecond fastest_port(const ClusterSpec&);
/// The fastest rate at which all HCAs of one node send.
BytesPerSecond fastest_node(const ClusterSpec&);

/// Wires the inside of one node: adds its GPUs, switches, CPU and HCAs.
using NodeBuilder = void (*)(DeviceGraph&, const NodeType&, int node);
Registry<NodeBuilder>& node_builders();

/// Builds the whole graph. Throws UserError for an unknown interconnect, and for several nodes without a fabric.
DeviceGraph build_cluster(const ClusterSpec&);

/// Describes a cluster in one line: "4 × dgx-a100, 8 × 200 Gbit/s HCA, nonblocking".
std::string describe(const ClusterSpec&);

}  // namespace trainyard
