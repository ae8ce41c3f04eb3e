#pragma once
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {

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
/// tensor, pipeline: divisors of the GPUs; context: 1, or divisors of the GPUs for sequences of 16,384 tokens and
/// more (or where the scenario has it); expert: divisors of the replicas, where the network has experts; with
/// sequence parallelism also whole experts over all ranks of a stage; micro-batch:
/// divisors of a replica's samples; recomputation: all kinds, for transformers; sequence parallelism with and
/// without; schedules: those of the framework that `plan.strategy` names, without one all that are registered, with
/// chunks that have equally many layers; ZeRO stages 0 to 3, at
/// stage 3 with and without resharding, gradients exchanged after each micro-batch or the last, over all replicas or
/// those of a node. Left out is only what the reader of scenarios refuses: axes that do not divide GPUs, batch or
/// replicas, more stages than layers, sequence parallelism without tensor ranks, ZeRO stage 2 with a pipeline, and
/// stage 3 of a weight on two stages. What else it refuses, it refuses there.
class PlanSpace {
 public:
  /// The question must outlive it. Throws UserError for fields that cannot vary.
  PlanSpace(const PlanQuestion&, PlanSpaceOptions = {});

  /// Plans that make the same of each layer: mesh, micro-batch, recomputation, sequence parallelism. The rest is
  /// default.
  std::vector<PlanPoint> groups() const;
  /// All plans of a group.
  std::vector<PlanPoint> points(const PlanPoint& group) const;
  /// Plans that differ from one in a single choice, and there by as little as possible; the rest follows where it must.
  std::vector<std::pair<std::string, PlanPoint>> neighbours(const PlanPoint&) const;
  /// The section `plan` of such a scenario.
  Node section(const PlanPoint& p) const { return plan_section(bare_, p, data(p), of_.global_batch_size); }
  std::string words(const PlanPoint& p) const { return words_of(p, data(p)); }
  std::int64_t data(const PlanPoint& p) const { return gpus_ / (std::int64_t{1} * p.tensor * p.context * p.pipeline); }
  std::int64_t gpus() const { return gpus_; }
  int gpus_of_node() const { return of_.cluster.node.gpus; }

 private:
  const Scenario& of_;
  PlanSpaceOptions options_;
  Node bare_;  // the plan without what is chosen
  std::int64_t gpus_ = 1, layers_ = 0;
  bool transformer_ = false, experts_ = false, long_sequences_ = false;

  /// The values that the user gives for a field; null: the space's own.
  const PlanSpaceOptions::Axis* given(const std::string& path) const;
  std::vector<std::int64_t> numbers(const std::string& path, std::vector<std::int64_t> own) const;
  std::vector<std::string> texts(const std::string& path, std::vector<std::string> own) const;
  void require_schedules() const;
  std::vector<std::int64_t> tensors() const;
  std::vector<std::int64_t> contexts(int tensor) const;
  std::vector<std::int64_t> pipelines(const PlanPoint&) const;
  std::vector<std::int64_t> experts(const PlanPoint&) const;
  std::vector<std::int64_t> expert_tensors(const PlanPoint&) const;
  std::int64_t expert_ranks(const PlanPoint&) const;  ///< over which experts can be spread
  std::vector<std::int64_t> micro_batches(const PlanPoint&) const;
  std::vector<std::pair<std::string, int>> schedules(const PlanPoint&) const;
  std::vector<PlanPoint> sharings(const PlanPoint&) const;
  bool fits_gpus(const PlanPoint&) const;
  bool refused_stage(const PlanPoint&) const;
};

}  // namespace trainyard
