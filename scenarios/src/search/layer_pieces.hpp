#pragma once
#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/networks/mlp/mlp.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/search/stage_division.hpp"

namespace trainyard {

constexpr int kLinearShardings = 5;
/// Cost of a layer for each LinearSharding, including its communication; infinite: the layer cannot be split in this way.
using LinearShardingCosts = std::array<double, kLinearShardings>;

/// The splits of consecutive layers and their total cost.
struct LinearChain {
  double cost = 0;
  std::vector<LinearSharding> shardings;
};

/// Finds the cheapest splits of a chain of layers. Before and after the chain, every rank has the whole activation. A
/// layer split by columns hands shards to a layer split by rows; all other layers hand on whole activations. The
/// method is a dynamic program over the layout between two layers, as in Alpa's intra-operator pass (section 4). The
/// cost is infinite if there is no legal split.
LinearChain cheapest_shardings(std::span<const LinearShardingCosts>);

/// Converts shardings to the splits of a scenario, for `Sharding::linear_splits`.
std::vector<LinearSplit> splits_of(const std::vector<LinearSharding>&);

/// The devices of a stage: tensor x data devices share a micro-batch.
struct StageMesh {
  int submesh = 0;  ///< index in the list of submeshes
  int tensor = 1, data = 1;
  bool operator==(const StageMesh&) const = default;
};

/// Simulated times and memory of consecutive layers on a mesh of their own.
struct PieceTimes {
  /// Time of a further micro-batch, forward and backward, with the collectives of tensor ranks, s. Infinite if there is
  /// an error.
  double time = 0;
  double tail = 0;               ///< time after the last micro-batch for gradients and the update of weights, s
  double parameters = 0;         ///< bytes per device of parameters, gradients, optimizer states and buffers
  double micro_batch_bytes = 0;  ///< bytes per device and micro-batch in flight
  double transient = 0;          ///< further bytes per device while a layer runs
  std::string error;             ///< why the layers cannot be split in this way; empty: they can
};

/// Simulates parts of a scenario's network, each on the first devices of its cluster. `splits` has an element per layer
/// of the network, or is empty.
class LayerPieces {
 public:
  /// The scenario must have a readable plan. Its micro-batch counts the samples over all ranks of a stage.
  explicit LayerPieces(const Scenario&);

  int layers() const { return static_cast<int>(scenario_.network.layers.size()); }
  /// Simulates the layers from `from` up to, not including, `to`.
  PieceTimes times(int from, int to, const StageMesh&, const std::vector<LinearSplit>& splits);
  /// Returns a text of the layer's kernels, exchanges, parameters and memory. Layers with equal texts take the same
  /// time on this mesh.
  std::string equivalence_key(int layer, const StageMesh&, const std::vector<LinearSplit>& splits);

 private:
  struct Share {
    Scenario few, more;  // scenarios with `few_` micro-batches, and with one more
    std::shared_ptr<const Network> network;
    std::string error;
  };
  Scenario scenario_;
  std::int64_t micro_batch_;  // samples
  int few_;                   // number of micro-batches of the shorter simulation: 2 if possible, to add up gradients
  std::map<std::string, Share> shares_;

  const Share& share(const StageMesh&, const std::vector<LinearSplit>& splits);
  Scenario scenario(const StageMesh&, const std::vector<LinearSplit>& splits, int micro_batches) const;
};

/// Writes splits as scenarios do: "columns, rows, replicated".
std::string in_words(const std::vector<LinearSplit>&);

}  // namespace trainyard
