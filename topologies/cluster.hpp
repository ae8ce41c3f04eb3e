#pragma once
#include "models/hardware/node.hpp"
#include "models/reading/registry.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// One level of a folded Clos, from the hosts up.
struct FabricLevel {
  int down = 1;                 ///< what a switch (or group of switches) of this level has below it: HCAs, leaves, …
  double oversubscription = 1;  ///< rate from below over rate to above
};

/// Nodes of another type.
struct NodeGroup {
  int count = 0;
  NodeType type;
};

/// A switch, or a wire ("A - B"), that is not there.
struct TakenOut {
  std::string name;
  Place place;
};

/// A wire of a fabric that is given link by link.
struct FabricWire {
  std::string a, b;     ///< a switch that the fabric names, or "node0/hca0"
  BytesPerSecond rate;  ///< 0: that of the HCA at its end
  Picoseconds latency;
  bool half_duplex = false;
  Place place;
};

/// What only some kinds of fabric have.
struct FabricShape {
  Place place;                      ///< of the fabric in the scenario, for errors
  std::vector<FabricLevel> levels;  ///< of a folded Clos
  bool rails = false;               ///< leaves take the HCAs of one index of several nodes, not all HCAs of a node
  /// Static hashed routing: every pair of HCAs keeps one way, chosen by a hash of the pair and the seed. False: ideal
  /// spraying over all.
  bool hashed = false;
  std::uint64_t seed = 1;

  std::vector<int> dims;       ///< of a torus; empty: as near to a cube as the count allows
  int rank = 1;                ///< of a torus without dims: how many dimensions
  std::vector<int> node_dims;  ///< the block of chips that a node holds; empty: a row
  bool wrap = true;            ///< false: a mesh
  int wrap_multiple = 1;       ///< only dimensions of a multiple of this length are closed to rings
  BytesPerSecond link_rate;    ///< of a port between switches (or chips), per direction; 0: see `fabric_link_rate`

  int hosts_a_switch = 0, switches_a_group = 0, global_links = 0;  ///< of a dragonfly; global links of each switch
  bool valiant = false;                                            ///< by way of a random third group (Valiant 1982)
  BytesPerSecond global_rate;

  double payload = 1;  ///< of an Ethernet: share of the rate that is left to the data of full frames
  bool hub = false;    ///< everything on one medium

  std::vector<std::string> switches;  ///< of a fabric that is given link by link
  std::vector<FabricWire> wires;
};

/// Nodes and what joins them.
struct ClusterSpec {
  int nodes = 1;  ///< of all types
  NodeType node;
  std::vector<NodeGroup> others;  ///< the last nodes are of these types
  std::string fabric;             ///< name of a builder; unused by one node
  Picoseconds switch_latency;
  BytesPerSecond switch_rate;  ///< of a port, of the switch that the fabric names; 0: no limit
  int switch_ports = 0;        ///< of that switch; 0: no limit
  Picoseconds distance;        ///< what the cables between any two nodes add, one way
  FabricShape shape;
  bool joins_chips = false;  ///< the fabric joins the chips themselves (a TPU pod), not HCAs
  std::vector<TakenOut> taken_out;
  Sources fabric_sources;
  Place place;  ///< of the cluster in the scenario, for errors

  const NodeType& type_of(int node_index) const;
  std::vector<const NodeType*> types() const;  ///< each once, in order
  const NodeType& type_of_gpu(int rank) const { return type_of(node_of_gpu(rank)); }
  int node_of_gpu(int rank) const;
  int gpus() const;
};

/// Reads an entry of the catalog's fabrics, `{type, switch_latency}` and what its type adds, into the cluster. `switch:
/// NAME`, of the catalog's switches, gives the latency in its place. Throws UserError with the place.
void read_fabric(ClusterSpec&, const Node& entry, const Catalog& = Catalog());

/// The wire from an HCA of this node to a switch, at its rate, with half of the switch's latency and of the distance.
Wire hca_wire(const ClusterSpec&, int node);
/// Rate of a port between two switches (or chips), per direction: the fabric's, else the fastest HCA's, of a torus of
/// nodes that of all HCAs of one, and of chips that of their own links.
BytesPerSecond fabric_link_rate(const ClusterSpec&);
/// Length as a latency: light in fibre takes 5 us/km (c over a refractive index of 1.47 gives 4.9).
Picoseconds fibre_latency(double km);

/// Wires the inside of one node: adds its GPUs, switches, CPU and HCAs.
using NodeBuilder = void (*)(DeviceGraph&, const NodeType&, int node);
/// Wires the HCAs of all nodes together; reads what only this kind of fabric has.
struct FabricBuilder {
  void (*build)(DeviceGraph&, const ClusterSpec&) = nullptr;
  void (*read)(ClusterSpec&, Fields&) = nullptr;  ///< null: nothing besides the switch latency
  /// What of `taken_out` the builder leaves out by itself; the rest is taken out of the graph that it has made. Null:
  /// nothing.
  bool (*leaves_out)(const ClusterSpec&, const TakenOut&) = nullptr;
};
Registry<NodeBuilder>& node_builders();
Registry<FabricBuilder>& fabric_builders();

template <class Builder>
struct RegisterBuilder {
  RegisterBuilder(Registry<Builder>& registry, const char* name, Builder builder) { registry.add(name, builder); }
};

/// The whole graph. Throws UserError for unknown builders, and for several nodes without HCAs.
DeviceGraph build_cluster(const ClusterSpec&);

/// What a cluster is called in one line: "4 × dgx-a100, 8 × 200 Gbit/s HCA, nonblocking".
std::string describe(const ClusterSpec&);

}  // namespace trainyard
