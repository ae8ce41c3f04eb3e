#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/exchange.hpp"

namespace trainyard {

/// Where a rank stands in the mesh.
struct Coordinates {
  int tensor = 0, context = 0, data = 0, pipeline = 0;
  constexpr bool operator==(const Coordinates&) const = default;
};

/// Ranks of one pipeline stage, tensor × data of them from `first` on.
struct StageWidth {
  int tensor = 1, data = 1, first = 0;
};

/// The mesh of ranks: tensor × context × data × pipeline of them, in Megatron-LM's words and order. Experts are spread
/// over the ranks that share a place in tensor and pipeline (context × data of them): `expert` of these, neighbours in
/// the mesh's order, hold all experts together, each split over the tensor axis like any other layer. Where experts have tensor ranks of
/// their own, all ranks of a stage are, in the mesh's order, expert-tensor × expert × replicas of experts instead
/// (Megatron-Core's parallel folding).
struct Mesh {
  int tensor = 1, context = 1, data = 1, pipeline = 1, expert = 1;
  int expert_tensor = 0;  ///< 0: experts have the tensor axis' ranks
  /// From the axis whose ranks are neighbours to the one whose ranks are furthest apart.
  std::vector<Axis> order{Axis::tensor, Axis::context, Axis::data, Axis::pipeline};
  /// Of every stage, where each has ranks of its own number; data ranks then share the samples of a micro-batch, and axes
  /// other than the pipeline have one rank.
  std::vector<StageWidth> widths;

  int ranks() const;
  int size(Axis, int stage = 0) const;
  int widest(Axis) const;  ///< of the stages
  int stage_ranks(int stage) const { return size(Axis::tensor, stage) * context * size(Axis::data, stage); }
  Coordinates of(int rank) const;
  int rank(const Coordinates&) const;

  /// Ranks that differ in this axis alone, in their order on it; of Axis::expert those that share the experts.
  std::vector<int> group(int rank, Axis) const;
  /// Ranks of the same place in the pipeline, in order.
  std::vector<int> stage(int rank) const;
  /// Ranks that hold the same parameters and other samples or tokens: data × context. Gradients are summed over them.
  std::vector<int> replicas(int rank) const;
  /// The same for the parameters of routed experts.
  std::vector<int> expert_replicas(int rank) const;
  /// Which of the `expert` parts of the experts it holds.
  int expert_of(int rank) const;
  /// Which of the parts of an expert's columns it holds.
  int expert_tensor_of(int rank) const;

  /// "tensor 8 x data 16 x pipeline 8": axes of more than one rank; "1 rank".
  std::string in_words() const;

 private:
  std::vector<int> folded_group(int rank, int first, int stride, int count) const;
  int in_stage(int rank) const;
  int of_stage(int pipeline, int index) const;
};

}  // namespace trainyard
