#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "sim/names.hpp"
#include "sim/observer.hpp"

namespace trainyard {

/// Messages of one rank at an operator of tensor parallelism in a run.
struct OperatorTraffic {
  int messages = 0;
  double bytes = 0;
};

/// A part of a layer whose matrices are cut over the tensor ranks, between the conjugate operators f and g of
/// Megatron-LM (Shoeybi et al. 2019, fig. 3). f is the identity forward and an all-reduce backward, g the reverse.
struct CutPart {
  std::string name;                            ///< for example "attention"
  std::vector<std::string> forward, backward;  ///< kernels between f and g, in the order of each pass
  /// By rank of the tensor group: its messages at f in the backward pass, and at g in the forward pass.
  std::vector<OperatorTraffic> f_backward, g_forward;
};

/// The parts of one layer between f and g. The layer is the first of a network that has such parts.
struct CutLayer {
  std::string name;
  std::vector<int> ranks;  ///< the tensor group of rank 0
  std::vector<CutPart> parts;
  /// True if the ranks send other messages of tensor parallelism in this layer, so that f or g is no identity.
  bool sends_more = false;

  /// Returns true if the run had all-reduces at f and g, and nothing else was sent there.
  bool has_operators() const;
};

/// Returns the layer and its parts. No parts: no matrix is cut, or layers run their forward pass again, or they exchange
/// in another way, as under sequence parallelism.
CutLayer cut_layer(const Network&, std::vector<int> tensor_ranks);

/// Counts the messages of a layer's ranks at f and g.
class CutLayerTraffic : public Observer {
 public:
  CutLayerTraffic(CutLayer& layer, const Names& names) : layer_(layer), names_(names) {}
  void transferred(const TransferRun&) override;
  Interest interest() const override { return {.level = Level::ops, .operations = false}; }

 private:
  CutLayer& layer_;
  const Names& names_;
};

/// Draws both passes of the layer, with f and g in the order in which each rank comes to them. Empty if the layer has no
/// operators.
std::vector<LessonFrame> operator_frames(const CutLayer&);

}  // namespace trainyard
