#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/hardware/link_fields.hpp"
#include "sim/program.hpp"
#include "sim/units.hpp"
#include "strategies/collectives/numbering.hpp"

namespace trainyard {

struct ChipPlaces;
class NodeRings;

/// Collective operations of a group (MPI 4.0, chapter 6; NCCL's user guide).
enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  all_to_all_v,
  broadcast,
  reduce,
  scatter,
  gather,
  send_recv,  ///< every rank sends to the next one and receives from the one before, as nccl-tests' sendrecv
  barrier,
};
constexpr int kOperations = 11;
const char* name_of(Operation);
/// Reads the name of an operation; '-' and '_' are equivalent. For an unknown name, throws UserError with the nearest
/// one.
Operation parse_operation(const std::string&);
bool has_root(Operation);
bool reduces(Operation);
bool has_rank_blocks(Operation);  ///< every rank has its own block of the data: all-to-all, gather, …
bool gives_block(Operation);      ///< each rank contributes a block of its own: all-gather, gather
bool takes_block(Operation);      ///< each rank ends up with a block of its own: reduce-scatter, scatter
/// Bus bandwidth divided by algorithm bandwidth (nccl-tests, PERFORMANCE.md): the least that a rank must send, as a
/// fraction of the size. 0 for a barrier.
double bus_factor(Operation, int ranks);

enum class Reduction : std::uint8_t { sum, average, maximum, product };
const char* name_of(Reduction);
Reduction parse_reduction(const std::string&);

/// Level of detail at which a collective is simulated. messages: every message of the algorithm. flows: one flow for
/// each pair of ranks and phase, with the same bytes and the summed latencies; contention is kept. modelled: flows
/// round a ring that take no less than a fitted model of a library predicts.
enum class Fidelity : std::uint8_t { messages, flows, modelled };
const char* name_of(Fidelity);
Fidelity parse_fidelity(const std::string&);

/// Switches that reduce the data passing through them. In a group of n ranks, switch k is member n + k.
struct SwitchTree {
  std::vector<int> of_member;  ///< for each rank: the switch that it is wired to
  std::vector<int> parent;     ///< for each switch: its parent; −1 for the root
};

/// The cost of a collective according to a fitted model of a library.
struct ModelledCost {
  Seconds latency;
  Bytes wire;                 ///< bytes that each rank sends
  BytesPerSecond rate;        ///< rate at which a rank sends these bytes
  std::string detail;         ///< the model's name for the method, for example "ring, LL128"
  LinkKind limited_by;        ///< kind of links that limits the rate
  bool rings = false;         ///< true: data go round rings (see modelled_rings)
  Seconds network_latency{};  ///< the part of `latency` that adapters and switches between nodes take
};
/// The errors to expect of a library's calls inside a node and between nodes, measured on systems of the same class that
/// were left out of the fit. "": there are no such calls.
struct LibraryErrors {
  std::string inside, between;

  /// Returns the errors of the calls that are made: inside nodes, between nodes, or both.
  std::string in_words(bool in_nodes, bool between_nodes) const;
};

/// Distribution of a group's ranks over nodes.
struct NodeSpread {
  int ranks = 1, nodes = 1;
  int fewest = 1;  ///< smallest number of ranks on a node
};
/// Predicts the cost of a library's own collectives. It is made once machine and software are known.
class CollectiveModel {
 public:
  virtual ~CollectiveModel() = default;
  virtual ModelledCost cost(Operation, Bytes, NodeSpread) const = 0;
  /// Returns the model for a group whose members lie on these nodes, if nodes differ. Groups on the same types of
  /// nodes share one model.
  virtual std::shared_ptr<const CollectiveModel> model_for(const std::vector<int>& nodes) const = 0;
  /// Bytes that leave for a node, divided by the bytes that its ranks receive, in an all-to-all that sends the bytes
  /// for another node once. The rank with the sender's place receives them and passes them on inside its node. 0: every
  /// rank sends to every other rank itself.
  virtual double rows_between_nodes(NodeSpread) const { return 0; }
  /// True if a message to another node goes by NVLink to the rank with the receiver's place, and leaves by the adapter
  /// of that rank (PXN).
  virtual bool relays(NodeSpread) const { return false; }
  /// True if a ring leaves a node by the adapter by which it enters the next one, because the network joins adapters of
  /// the same place.
  virtual bool keeps_rails(NodeSpread) const { return false; }
};
/// The edges of a modelled collective.
struct ModelledFlow : GroupFlow {
  int ways = 0;  ///< an edge of weight w carries w / ways of the bytes that a rank sends
};

/// Settings that all ranks of a collective share. Each algorithm reads those that concern it.
struct CollectiveSettings {
  Fidelity fidelity = Fidelity::messages;
  int root = 0;
  Reduction reduction = Reduction::sum;
  /// Number of rings that run at the same time, each with an equal share of the data. In each node, each ring begins
  /// one rank after the previous ring (see channel_ring).
  int channels = 1;
  /// Chains and trees pass on pieces of this size. The default of 512 KiB is a slice of NCCL's buffers (4 MiB in 8
  /// steps: src/include/device.h, NCCL_STEPS; src/init.cc, DEFAULT_BUFFSIZES).
  Bytes chunk{512.0 * 1024};
  int per_node = 0;             ///< number of consecutive ranks on each node; 0: all ranks share one node
  std::vector<int> node_sizes;  ///< number of consecutive ranks on each node, if nodes differ; else empty
  bool meshed = false;          ///< every two ranks of a node have a link of their own
  std::vector<int>
      torus;  ///< lengths for the torus algorithms; along the last one ranks follow each other. Empty: none stated
  std::shared_ptr<const ChipPlaces> chips;  ///< places of the machine's chips on their torus; null: it has none
  std::vector<int>
      box;         ///< lengths of the box of chips on which the ranks are, the first fastest; empty: they fill none
  int slices = 1;  ///< slices of chips that the ranks are on; each contains one such box
  std::vector<WeightedRing> rings;  ///< rings of the algorithm multi-ring
  std::shared_ptr<const NodeRings>
      node_rings;                            ///< finds them for each group on one node; null: nodes have no such links
  SwitchTree switches;                       ///< switches that take part in the collective
  std::vector<std::vector<double>> amounts;  ///< all-to-all-v: bytes from each rank (row) to each rank (column)
  /// All-to-all of rows to and from experts: rows of each member's experts, relative to the fullest member's. Each member
  /// sends 1 / n of the size to the fullest one, and to others in proportion. Empty: all members are alike.
  std::vector<double> loads;
  bool returns = false;  ///< with `loads`: rows come back from the members that have the experts
  std::shared_ptr<const CollectiveModel> model;  ///< cost model of the fidelity `modelled`
  double slowdown = 1;                           ///< factor on the model's time
  std::shared_ptr<const ModelledFlow> flow;      ///< edges of the fidelity `modelled` (see modelled_flow)

  /// Sets the distribution over nodes from the node of each rank, and replaces `model` by the one for these nodes. Sets
  /// `rings` if the ranks are on one node. gpus: numbers of the ranks' GPUs; empty: they are the first ones.
  void place(const std::vector<int>& node_of_rank, const std::vector<int>& gpus = {});
  /// Sets `box` and `slices` for a group on these chips.
  void place_on_chips(const std::vector<int>& members);

  /// Returns the bytes that a member sends to another one, relative to those to or from the fullest member.
  double load_between(int from, int to) const { return loads.empty() ? 1 : loads[returns ? from : to]; }
  /// Number of consecutive ranks on one node, in a group of `ranks` ranks.
  int ranks_per_node(int ranks) const { return per_node > 0 && per_node < ranks ? per_node : ranks; }
  NodeSpread spread(int ranks) const;
};

/// A rank's index in its group, the size of the group, and the settings of the collective.
struct GroupPlace {
  int index = 0;
  int size = 1;
  const CollectiveSettings* settings = &plain();

 private:
  static const CollectiveSettings& plain();
};

}  // namespace trainyard
