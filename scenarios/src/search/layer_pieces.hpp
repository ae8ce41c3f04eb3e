#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/search/stage_division.hpp"

namespace trainyard {

/// Devices of a stage: tensor x data of them share a micro-batch.
struct StageMesh {
  int submesh = 0;  ///< of a list
  int tensor = 1, data = 1;
  bool operator==(const StageMesh&) const = default;
};

/// Layers in a row, simulated on a mesh of their own.
struct PieceTimes {
  /// s of a further micro-batch, forward and backward, with what tensor ranks exchange; infinite with an error.
  double time = 0;
  double tail = 0;        ///< s after the last micro-batch: gradients are exchanged, weights updated
  double parameters = 0;  ///< bytes of a device, with gradients, states and buffers
  double kept = 0;        ///< bytes of a device for a micro-batch under way
  double transient = 0;   ///< bytes of a device above these while a layer runs
  std::string error;      ///< why they cannot be split so; else empty
};

/// Simulates parts of a scenario's network, each on the first devices of its cluster. Splits, where there are any, are of
/// all layers of the network.
class LayerPieces {
 public:
  /// A scenario whose plan can be read, and its micro-batches over all ranks of a stage.
  explicit LayerPieces(const Scenario&);

  int layers() const { return static_cast<int>(of_.network.layers.size()); }
  /// From one layer up to another, simulated.
  PieceTimes times(int from, int to, const StageMesh&, const std::vector<LinearSplit>& splits);
  /// Equal for layers that take the same time on that mesh.
  std::string likeness(int layer, const StageMesh&, const std::vector<LinearSplit>& splits);

 private:
  struct Share {
    Scenario few, more;  // of `few_` micro-batches, and of one more
    std::shared_ptr<const Network> network;
    std::string error;
  };
  Scenario of_;
  std::int64_t micro_batch_;  // samples
  int few_;                   // micro-batches: gradients are added from the second one on
  std::map<std::string, Share> shares_;

  const Share& share(const StageMesh&, const std::vector<LinearSplit>& splits);
  Scenario scenario(const StageMesh&, const std::vector<LinearSplit>& splits, int micro_batches) const;
};

/// "columns, rows, replicated", as a scenario has them.
std::string in_words(const std::vector<LinearSplit>&);

}  // namespace trainyard
