#pragma once
#include <optional>
#include <string>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// What a search chooses of a plan, in the words of scenario files. The rest of the plan stays as the scenario says it;
/// data-parallel ranks are what the others leave of the GPUs.
struct PlanPoint {
  int tensor = 1, context = 1, expert = 1, pipeline = 1;
  int expert_tensor = 0;  ///< 0: unsaid
  std::int64_t micro_batch = 1;
  bool sequence = false;
  std::string recompute = "none";
  int recomputed_blocks = 0;      ///< of full recomputation, at the beginning of each virtual stage; 0: all
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
  std::optional<Scenario> own;  ///< with the plan as given, where that is one on all GPUs
  std::string own_error;        ///< why it is none
};
/// Throws UserError for what cannot be read, whatever the plan, and for scenarios whose plan a search cannot choose.
PlanQuestion read_plan_question(Node document, const std::string& name, const Overrides& = {});

/// A section `plan` without what a search chooses.
Node without_choices(const Node& section);
/// That with a point's choices, on so many data-parallel ranks, for a step of so many samples.
Node plan_section(const Node& bare, const PlanPoint&, std::int64_t data, std::int64_t global_batch_size);
/// "tensor 8 x pipeline 8 x data 16, micro-batch 1, interleaved-1f1b of 3 chunks, selective recomputation, ZeRO 1".
std::string words_of(const PlanPoint&, std::int64_t data);

}  // namespace trainyard
