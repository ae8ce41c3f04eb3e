#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// What a search chooses of a plan, in the words of scenario files. The rest of the plan stays as the scenario says it;
/// data-parallel ranks are what the others leave of the GPUs.
struct PlanPoint {
  int tensor = 1, context = 1, expert = 1, pipeline = 1;
  std::int64_t micro_batch = 1;
  bool sequence = false;
  std::string recompute = "none";
  std::string schedule = "1f1b";  ///< where there is a pipeline
  int chunks = 1;
  int zero = 0;
  bool reshard = true, sync_last = false;  ///< at stage 3
  int zero_group = 0;                      ///< at stage 3; 0: all replicas
  std::string offload = "none";            ///< of the optimizer
  Overrides extra;                         ///< fields that the user lets vary besides

  bool operator==(const PlanPoint&) const = default;
};

/// What the plan of a scenario is among them. A list of layers, and keys that no search chooses, are not part of it.
PlanPoint point_of(const Scenario&);

/// A scenario whose plan is to be chosen.
struct PlanQuestion {
  Scenario base;                ///< on one device, whatever its plan says: cluster, model, batch and software count
  Node section;                 ///< its plan as given
  std::optional<Scenario> own;  ///< with the plan as given, where that is one
};
/// Throws UserError for what cannot be read, whatever the plan, and for scenarios whose plan a search cannot choose.
PlanQuestion read_plan_question(Node document, const std::string& name, const Overrides& = {});

/// Which of them a search looks at.
struct PlanSpaceOptions {
  /// Values of a field of the plan, in the place of its own ("plan.tensor_parallel"), or of another one besides.
  struct Axis {
    std::string path;
    std::vector<std::string> values;
  };
  std::vector<Axis> vary;
  bool offload = false;  ///< optimizer states on the CPU too
};

/// All plans of a scenario's model, batch and cluster that a search looks at.
///
/// tensor, pipeline: divisors of the GPUs; context: 1, or divisors of the GPUs for sequences of 16,384 tokens and more
/// (or where the scenario has it); expert: divisors of the replicas, where the network has experts; micro-batch: divisors
/// of a replica's samples; recomputation: all kinds, for transformers; sequence parallelism with and without; schedules:
/// all that are registered, with chunks that have equally many layers; ZeRO stages 0 to 3, at stage 3 with and without
/// resharding, gradients exchanged after each micro-batch or the last, over all replicas or those of a node. Left out is only
/// what the reader of scenarios refuses: axes that do not divide GPUs, batch or replicas, more stages than layers,
/// sequence parallelism without tensor ranks, ZeRO stage 2 with a pipeline, and stage 3 of a weight on two stages. What else it refuses, it refuses there.
class PlanSpace {
 public:
  /// The question must outlive it. Throws UserError for fields that cannot vary.
  PlanSpace(const PlanQuestion&, PlanSpaceOptions = {});

  /// Plans that make the same of each layer: mesh, micro-batch, recomputation, sequence parallelism. The rest is default.
  std::vector<PlanPoint> groups() const;
  /// All plans of a group.
  std::vector<PlanPoint> points(const PlanPoint& group) const;
  /// Plans that differ from one in a single choice, and there by as little as possible; the rest follows where it must.
  std::vector<std::pair<std::string, PlanPoint>> neighbours(const PlanPoint&) const;
  /// The section `plan` of such a scenario.
  Node section(const PlanPoint&) const;
  /// "tensor 8 x pipeline 8 x data 16, micro-batch 1, interleaved-1f1b of 3 chunks, selective recomputation, ZeRO 1".
  std::string words(const PlanPoint&) const;
  std::int64_t data(const PlanPoint& p) const { return gpus_ / (std::int64_t{1} * p.tensor * p.context * p.pipeline); }
  std::int64_t gpus() const { return gpus_; }

 private:
  const Scenario& of_;
  PlanSpaceOptions options_;
  Node base_;  // the plan without what is chosen
  std::int64_t gpus_ = 1, layers_ = 0;
  bool transformer_ = false, experts_ = false, long_sequences_ = false;

  /// The values that the user gives for a field; null: the space's own.
  const PlanSpaceOptions::Axis* given(const std::string& path) const;
  std::vector<std::int64_t> numbers(const std::string& path, std::vector<std::int64_t> own) const;
  std::vector<std::string> texts(const std::string& path, std::vector<std::string> own) const;
  std::vector<std::int64_t> tensors() const;
  std::vector<std::int64_t> contexts(int tensor) const;
  std::vector<std::int64_t> pipelines(const PlanPoint&) const;
  std::vector<std::int64_t> experts(const PlanPoint&) const;
  std::vector<std::int64_t> micro_batches(const PlanPoint&) const;
  std::vector<std::pair<std::string, int>> schedules(const PlanPoint&) const;
  std::vector<PlanPoint> sharings(const PlanPoint&) const;
  bool fits_gpus(const PlanPoint&) const;
  bool refused_stage(const PlanPoint&) const;
};

}  // namespace trainyard
