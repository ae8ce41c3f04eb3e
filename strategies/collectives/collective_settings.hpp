#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/hardware/link_kind.hpp"
#include "sim/program.hpp"
#include "sim/units.hpp"
#include "strategies/collectives/numbering.hpp"

namespace trainyard {

/// What a group does together (MPI 4.0, chapter 6; NCCL's user guide).
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
/// '-' and '_' are the same. Throws UserError naming the nearest.
Operation parse_operation(const std::string&);
bool has_root(Operation);
bool reduces(Operation);
bool gives_block(Operation);  ///< each rank gives a block of its own: all-gather, gather
bool takes_block(Operation);  ///< each rank ends with a block of its own: reduce-scatter, scatter
/// Bus bandwidth over algorithm bandwidth (nccl-tests, PERFORMANCE.md): what a rank must send at least, as a share of the
/// size. 0 for a barrier.
double bus_factor(Operation, int ranks);

enum class Reduction : std::uint8_t { sum, average, maximum, product };
const char* name_of(Reduction);
Reduction parse_reduction(const std::string&);

/// How finely a collective is simulated. messages: every message of the algorithm. flows: one flow a pair of ranks and
/// phase, with the same bytes and the latencies summed up; contention is kept. modelled: what a fitted model of a library
/// takes, as flows round a ring that are no faster than that.
enum class Fidelity : std::uint8_t { messages, flows, modelled };
const char* name_of(Fidelity);
Fidelity parse_fidelity(const std::string&);

/// A ring and its share of the bytes.
struct WeightedRing {
  RingOrder order;
  int weight = 1;
};

/// Switches that add up what passes through them. In a group of n ranks, switch k is member n + k.
struct SwitchTree {
  std::vector<int> of_member;  ///< the switch that each rank is wired to
  std::vector<int> parent;     ///< of each switch; −1: the root
};

/// What a collective takes by a fitted model of a library.
struct ModelledCost {
  Seconds latency;
  Bytes wire;           ///< that a rank sends
  BytesPerSecond rate;  ///< of these
  std::string detail;   ///< its own word for how: a protocol
  LinkKind limited_by;  ///< the links by which the rate goes
};
/// How the ranks of a group lie on nodes.
struct NodeSpread {
  int ranks = 1, nodes = 1;
  int fewest = 1;  ///< ranks on the node that has the fewest
};
/// What a library's own collectives cost; made where machine and software are known.
class CollectiveModel {
 public:
  virtual ~CollectiveModel() = default;
  virtual ModelledCost cost(Operation, Bytes, NodeSpread) const = 0;
  /// The model of a group whose members lie on these nodes, where nodes differ: the same for groups on the same types.
  virtual std::shared_ptr<const CollectiveModel> on(const std::vector<int>& nodes) const = 0;
  /// Of an all-to-all whose bytes for another node leave once, for the rank there with the same place, and go on inside:
  /// the bytes that leave for a node, over those that its ranks are given. 0: each rank sends to each.
  virtual double rows_between_nodes(NodeSpread) const { return 0; }
  /// Messages to another node go by NVLink to the rank with the receiver's place, and leave by that one's adapter (PXN).
  virtual bool relays(NodeSpread) const { return false; }
};
/// The ways of a modelled collective.
struct ModelledFlow : GroupFlow {
  int ways = 0;  ///< edges that leave a rank, each with its weight: its bytes are spread over them
};

/// What all ranks of a collective know. Every algorithm reads what concerns it.
struct CollectiveSettings {
  Fidelity fidelity = Fidelity::messages;
  int root = 0;
  Reduction reduction = Reduction::sum;
  /// Rings that run at the same time, each with its share of the data; in each node they begin one rank further on.
  int channels = 1;
  /// Chains and trees pass on pieces of this size. 512 KiB is a slice of NCCL's buffers (4 MiB in 8 steps: src/include/
  /// device.h, NCCL_STEPS; src/init.cc, DEFAULT_BUFFSIZES).
  Bytes chunk{512.0 * 1024};
  int per_node = 0;                          ///< neighbouring ranks that share a node; 0: all of them
  std::vector<int> node_sizes;               ///< neighbours on each node in turn, where these differ
  std::array<int, 2> torus{};                ///< rows and columns; rank r is in row r / columns. 0: the most even split
  std::vector<WeightedRing> rings;           ///< of multi-ring
  SwitchTree switches;                       ///< of collectives in which switches take part
  std::vector<std::vector<double>> amounts;  ///< bytes of all-to-all-v, from a rank (row) to each
  std::shared_ptr<const CollectiveModel> model;  ///< of the fidelity `modelled`
  double slowdown = 1;                           ///< times that of the model
  std::shared_ptr<const ModelledFlow> flow;      ///< of the same: the ways it takes (see modelled_flow)

  /// Takes in which node each rank is on, and the model of these nodes.
  void place(const std::vector<int>& node_of_rank);

  /// Neighbouring ranks on one node, in a group of that many.
  int ranks_per_node(int ranks) const { return per_node > 0 && per_node < ranks ? per_node : ranks; }
  NodeSpread spread(int ranks) const;
  std::array<int, 2> torus_of(int ranks) const;
};

/// Where a rank stands in its group.
struct GroupPlace {
  int index = 0;
  int size = 1;
  const CollectiveSettings* settings = &plain();

 private:
  static const CollectiveSettings& plain();
};

}  // namespace trainyard
