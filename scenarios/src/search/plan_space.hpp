#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/reading/searched_degrees.hpp"
#include "scenarios/src/search/plan_question.hpp"

namespace trainyard {

/// User options of the plan space.
struct PlanSpaceOptions {
  /// Values of a field. They replace the space's own values ("plan.tensor_parallel"), or add another field.
  struct Axis {
    std::string path;
    std::vector<std::string> values;
  };
  std::vector<Axis> vary;
  bool offload = false;  ///< true: also plans with optimizer states on the CPU
};

/// Returns the tensor ranks of a plain plan besides 1: all GPUs of a node, but at most the eight of most machines, since
/// the heads of few models divide among those of a rack.
constexpr int plain_tensor(int node_gpus) { return node_gpus <= 8 ? node_gpus : 8; }

/// All plans of a scenario's model, batch and cluster that a search considers.
///
/// - tensor, pipeline: divisors of the number of GPUs
/// - context: 1; for sequences of at least 16,384 tokens (or if the scenario uses it) divisors of the number of GPUs
/// - expert: divisors of the number of replicas, if the network has experts; with sequence parallelism also unsharded
///   experts over all ranks of a stage
/// - micro-batch: divisors of a replica's samples; for a loop whose training packs samples, 1 to 8 packs
/// - recomputation: all kinds, for transformers
/// - sequence parallelism: with and without
/// - schedules: those of the framework that `plan.strategy` names, else all registered ones that hold the network once,
///   with chunks of equally many layers; dualpipe, which holds it twice, only if `vary` names it
/// - ZeRO: stages 0 to 3; at stage 3 with and without resharding, with a gradient exchange after each micro-batch or
///   the last, over all replicas or those of a node
///
/// The space leaves out only plans that the scenario reader refuses: axes that do not divide GPUs, batch or replicas,
/// more stages than layers, sequence parallelism without tensor ranks, ZeRO stage 2 with a pipeline, and stage 3 with a
/// weight on two stages. The space may have further plans that the reader refuses.
class PlanSpace {
 public:
  /// The question must outlive the space. Throws UserError for fields that cannot vary.
  PlanSpace(const PlanQuestion&, PlanSpaceOptions = {});

  /// Returns one plan per group. Plans of a group treat each layer alike: they have the same mesh, micro-batch,
  /// recomputation and sequence parallelism. The other choices have their defaults here.
  std::vector<PlanPoint> groups() const;
  /// Returns all plans of a group.
  std::vector<PlanPoint> points(const PlanPoint& group) const;
  /// Returns the plan of the space with the choices of a point, which may come from another number of GPUs. Its
  /// micro-batch is the largest legal one up to that of the point. No value: there is none.
  std::optional<PlanPoint> legal_plan(PlanPoint) const;
  /// Returns the plans that differ from a plan in one choice, by the smallest step, with a description of the change.
  /// Other choices change only if they must.
  std::vector<std::pair<std::string, PlanPoint>> neighbours(const PlanPoint&) const;
  /// Returns the section `plan` of a scenario with this plan.
  Node section(const PlanPoint& p) const { return plan_section(bare_, p, data(p), stated_batch()); }
  std::string words(const PlanPoint& p) const {
    return words_of(p, data(p), scenario_.plan.context_exchange_in_words());
  }
  std::int64_t data(const PlanPoint& p) const { return data_ranks(scope_.gpus, p); }
  std::int64_t gpus() const { return scope_.gpus; }
  int gpus_of_node() const { return scenario_.cluster.node.gpus; }

 private:
  const Scenario& scenario_;
  PlanSpaceOptions options_;
  Node bare_;  // the scenario's plan without the keys that a search chooses
  DegreeScope scope_;
  std::int64_t layers_ = 0;

  /// Returns the number of samples of a step as the section states it: those of a loop are no packs.
  std::int64_t stated_batch() const;
  /// Returns the micro-batches of a rank in a step; 0: the batch does not divide into them. The packs of a loop fill any
  /// number of them.
  std::int64_t rank_batches(const PlanPoint&) const;
  /// Returns the user's values of a field. Null: the field has the space's own values.
  const PlanSpaceOptions::Axis* varied(const std::string& path) const;
  std::vector<std::int64_t> numbers(const std::string& path, std::vector<std::int64_t> default_values) const;
  std::vector<std::string> texts(const std::string& path, std::vector<std::string> default_values) const;
  void require_schedules() const;
  /// Returns the values of a degree to try: the user's, or else those of `searched_degrees`.
  std::vector<std::int64_t> ranks(const SearchedDegree&, const PlanPoint&) const;
  std::vector<PlanPoint> meshes() const;
  std::vector<std::int64_t> micro_batches(const PlanPoint&) const;
  std::vector<std::pair<std::string, int>> schedules(const PlanPoint&) const;
  std::vector<PlanPoint> sharings(const PlanPoint&) const;
  bool fits_gpus(const PlanPoint&) const;
  bool refused_stage(const PlanPoint&) const;
};

}  // namespace trainyard
