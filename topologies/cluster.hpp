#pragma once
#include "models/hardware/node.hpp"
#include "topologies/device_graph.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

/// Nodes of another type.
struct NodeGroup {
  int count = 0;
  NodeType type;
};

/// What the user says of a host that is to run a node, to be checked before a training is started there.
struct DeclaredHost {
  std::string name;
  std::vector<int> open_ports;
  std::vector<std::pair<std::string, std::string>> versions;  ///< of what is installed: {"cuda", "12.2"}
};

/// Nodes and what joins them.
struct ClusterSpec {
  int nodes = 1;  ///< of all types
  NodeType node;
  std::vector<NodeGroup> others;         ///< the last nodes are of these types
  std::shared_ptr<const Fabric> fabric;  ///< what joins them; a single node needs none
  // Of any fabric:
  Picoseconds switch_latency;
  BytesPerSecond switch_rate;  ///< of a port, where the fabric names a switch; 0: no limit
  int switch_ports = 0;        ///< of that switch; 0: no limit
  PowerDraw switch_power;      ///< of that switch
  Picoseconds distance;        ///< what the cables between any two nodes add, one way
  bool sharp = false;          ///< its switches add for collectives (InfiniBand SHARP), and NCCL's plugin asks them to
  Sources fabric_sources;
  Place fabric_place;  ///< in the scenario, for errors
  std::vector<TakenOut> taken_out;
  std::vector<DeclaredHost> hosts;  ///< one a node, or none: nothing was declared
  Place place;                      ///< of the cluster in the scenario, for errors

  bool joins_chips() const { return fabric && fabric->joins_chips(); }  ///< a pod of chips; nodes need no HCAs
  const NodeType& type_of(int node_index) const;
  std::vector<const NodeType*> types() const;  ///< each once, in order
  const NodeType& type_of_gpu(int rank) const { return type_of(node_of_gpu(rank)); }
  int nodes_of_first_type() const;
  int node_of_gpu(int rank) const;
  int gpus() const;
};

/// Reads an entry of the catalog's fabrics, `{type, switch_latency}` and what its type adds, into the cluster. `switch:
/// NAME`, of the catalog's switches, gives the latency in its place. Throws UserError with the place.
void read_fabric(ClusterSpec&, const Node& entry, const Catalog& = Catalog());

/// The wire from an HCA of this node to a switch, at its rate, with half of the switch's latency and of the distance.
Wire hca_wire(const ClusterSpec&, int node);
/// The fastest rate at which an HCA sends into its port.
BytesPerSecond fastest_port(const ClusterSpec&);
/// The fastest rate at which all HCAs of one node send.
BytesPerSecond fastest_node(const ClusterSpec&);
/// Length as a latency: light in fibre takes 5 us/km (c over a refractive index of 1.47 gives 4.9).
Picoseconds fibre_latency(double km);

/// Wires the inside of one node: adds its GPUs, switches, CPU and HCAs.
using NodeBuilder = void (*)(DeviceGraph&, const NodeType&, int node);
Registry<NodeBuilder>& node_builders();

/// The whole graph. Throws UserError for an unknown interconnect, and for nodes that nothing joins.
DeviceGraph build_cluster(const ClusterSpec&);

/// What a cluster is called in one line: "4 × dgx-a100, 8 × 200 Gbit/s HCA, nonblocking".
std::string describe(const ClusterSpec&);

}  // namespace trainyard
