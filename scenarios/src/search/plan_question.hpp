#pragma once
#include <optional>
#include <string>

#include "scenarios/src/reading/scenario.hpp"
#include "strategies/plan/step_options.hpp"

namespace trainyard {

/// The choices that decide how each layer is treated. Plans that share them form a group.
struct PlanGroup : Degrees {
  std::int64_t micro_batch = 1;
  bool sequence = false;
  std::string recompute = "none";

  auto operator<=>(const PlanGroup&) const = default;
};

/// The choices of a plan that a search makes, as scenario files write them. The rest of the plan is the scenario's. The
/// number of data-parallel ranks follows from the number of GPUs.
struct PlanPoint : PlanGroup, StateSharing {
  /// Number of blocks that full recomputation covers, from the beginning of each virtual stage. 0: all.
  int recomputed_blocks = 0;
  std::string schedule = "1f1b";  ///< used if there is a pipeline
  int chunks = 1;
  std::string offload = "none";  ///< offload of the optimizer
  Overrides extra;               ///< values of further fields that the user varies

  bool operator==(const PlanPoint&) const = default;
};

/// A choice of how replicas share states at ZeRO stage 3, between its default and another value. This row is all that the
/// search knows of it.
struct SharingChoice {
  const char* key;  ///< in `plan.data_parallel`
  bool StateSharing::*member;
  bool other;                        ///< the value that is no default
  const char* value;                 ///< that value as the key has it
  const char* words;                 ///< description of the other value
  bool needs_micro_batches = false;  ///< the choice changes nothing with a single micro-batch
};
inline constexpr SharingChoice kSharingChoices[] = {
    {"reshard", &StateSharing::reshard, false, "false", " without resharding"},
    {"gradient_sync", &StateSharing::sync_last, true, "last", ", gradients exchanged last", true}};

/// Returns the point of a scenario's plan. A list of layers, and keys that no search chooses, are not part of it.
PlanPoint point_of(const Scenario&);

/// A scenario for which a plan is searched.
struct PlanQuestion {
  Scenario base;  ///< the scenario with a plan on one device: only cluster, model, batch and software matter
  Node section;   ///< the section `plan` of the scenario
  std::optional<Scenario> own;  ///< the scenario with its own plan; no value: that is no plan for all GPUs
  std::string own_error;        ///< why there is no `own`
};
/// Reads a scenario without its plan. Throws UserError if no plan makes it readable, or if a search cannot choose its
/// plan.
PlanQuestion read_plan_question(Node document, const std::string& name, const Overrides& = {});

/// Returns the choices of the scenario's plan. If it cannot use all GPUs: those that it has with one replica; if it cannot
/// have one either: the default choices with its micro-batch.
PlanPoint stated_point(const PlanQuestion&);

/// Returns a section `plan` without the keys that a search chooses.
Node without_choices(const Node& section);
/// Returns such a section with the choices of a point. `data`: number of data-parallel ranks; `global_batch_size`:
/// samples per step.
Node plan_section(const Node& bare, const PlanPoint&, std::int64_t data, std::int64_t global_batch_size);
/// Describes how replicas share states, besides the ZeRO stage: " without resharding, gradients exchanged last".
std::string sharing_details(const StateSharing&);
/// Describes a plan: "tensor 8 x pipeline 8 x data 16, micro-batch 1, interleaved-1f1b of 3 chunks, selective
/// recomputation, ZeRO 1".
std::string words_of(const PlanPoint&, std::int64_t data, const std::string& context_exchange = "");

}  // namespace trainyard
