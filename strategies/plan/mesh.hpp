#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/exchange.hpp"
#include "models/networks/layers/sharding.hpp"

namespace trainyard {

/// The coordinates of a rank in the mesh.
struct Coordinates {
  int tensor = 0, context = 0, data = 0, pipeline = 0;
  constexpr bool operator==(const Coordinates&) const = default;
};

/// The tensor × data ranks of one pipeline stage; `first` is the first of them.
struct StageWidth {
  int tensor = 1, data = 1, first = 0;
};

/// The degrees of parallelism that split a model: numbers of ranks.
struct Degrees : LayerDegrees {
  int pipeline = 1;

  auto operator<=>(const Degrees&) const = default;
};

/// The mesh of tensor × context × data × pipeline ranks, in Megatron-LM's terms and order. Experts are spread over the
/// context × data ranks that share a place in tensor and pipeline. `expert` neighbours among these hold all experts
/// together, and each expert is split over the tensor axis like any other layer. With `expert_tensor`, experts have a
/// mesh of their own: the ranks of a stage, in order, form expert-tensor × expert × replicas of experts
/// (Megatron-Core's parallel folding).
struct Mesh : Degrees {
  int data = 1;
  /// Number of copies of the network in a pipeline, 1 or 2. With 2, stages s and pipeline − 1 − s hold the same layers,
  /// for other samples.
  int copies = 1;
  /// Axes, from the one whose ranks are neighbours to the one whose ranks are furthest apart.
  std::vector<Axis> order{Axis::tensor, Axis::context, Axis::data, Axis::pipeline};
  /// The width of each stage, if stages have different numbers of ranks; otherwise empty. Data ranks then share the
  /// samples of a micro-batch, and axes other than tensor, data and pipeline have one rank.
  std::vector<StageWidth> widths;

  int ranks() const;
  int size(Axis, int stage = 0) const;
  int widest(Axis) const;  ///< largest size over the stages
  /// Number of context ranks that exchange heads in a group if there are several groups; otherwise 1.
  int ulysses_ranks() const { return splits_context() ? ulysses : 1; }
  int stage_ranks(int stage) const { return size(Axis::tensor, stage) * context * size(Axis::data, stage); }
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates&) const;

  /// Returns the ranks that differ in this axis alone, in their order on it; for Axis::expert, those that share the
  /// experts.
  std::vector<int> group(int rank, Axis) const;
  /// Returns the number of parts into which the pipeline divides the network: the virtual stages of one copy.
  int parts(int chunks) const { return pipeline * chunks / copies; }
  /// Returns the ranks of the same pipeline stage, in order.
  std::vector<int> stage(int rank) const;
  /// Returns the stage that holds the same layers; the stage itself, if there is one copy of the network.
  int opposite_stage(int stage) const { return copies > 1 ? pipeline - 1 - stage : stage; }
  /// Returns the ranks that hold the same parameters and other samples or tokens: data × context, over both copies of
  /// the network if there are two. Gradients are summed over them.
  std::vector<int> replicas(int rank) const;
  /// Returns the ranks that hold the same parameters of routed experts as this rank.
  std::vector<int> expert_replicas(int rank) const;
  /// Index of the rank's part of the experts, below `expert`.
  int expert_of(int rank) const;
  /// Index of the rank's part of an expert's columns.
  int expert_tensor_of(int rank) const;

  /// Lists the axes of more than one rank, for example "tensor 8 x data 16 x pipeline 8"; "1 rank" if there are none.
  /// `exchange` is what context ranks do with keys and values, for example "ring"; "": the text does not say it.
  std::string in_words(const std::string& exchange = "") const;

 private:
  using Group = std::vector<int> (Mesh::*)(int rank) const;
  std::vector<int> over_copies(int rank, Group) const;
  std::vector<int> replicas_in_stage(int rank) const;
  std::vector<int> expert_replicas_in_stage(int rank) const;
  std::vector<int> folded_group(int rank, int first, int stride, int count) const;
  int index_in_stage(int rank) const;
  int rank_of_stage(int pipeline, int index) const;
};

}  // namespace trainyard
