#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/search/layer_pieces.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/search/stage_division.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A stage of a division, whose step was simulated.
struct LayerStage {
  int from = 0, to = 0;     ///< layers of the network
  std::string first, last;  ///< their names
  int tensor = 1, data = 1;
  std::vector<LinearSplit> splits;  ///< of an MLP's layers, where tensor ranks share them; else empty
  std::vector<int> ranks;           ///< of the cluster
  double micro_batch = 0,
         tail = 0;  ///< s of its layers alone: a micro-batch forward and backward; what comes once a step
  double busy = 0;  ///< s of the step in which it waits for no other stage
  double peak = 0;  ///< bytes of a device
};

/// A division of layers and devices.
struct LayerDivision {
  std::vector<LayerStage> stages;
  double estimate = 0;  ///< s: `pipeline_time` of layers that were simulated one by one
  double step = 0;      ///< s: simulated, as `run` does
  bool leaves_headroom = true;
  Node document;  ///< the scenario with these stages
};

/// What `trainyard plan --layers` answers.
struct LayerPlanAnswer {
  std::string scenario;
  int gpus = 0, micro_batches = 1;
  std::int64_t micro_batch = 1;       ///< samples, over all data-parallel ranks of a stage
  double capacity = 0;                ///< bytes of a GPU
  double headroom = 0;                ///< share of them that stays free
  LayerDivision division;             ///< the fastest that was simulated of these micro-batches
  std::optional<LayerDivision> even;  ///< the best of those whose stages have equally many devices
  double own_step = 0;                ///< s: the scenario's own plan; 0: it does not fit
  bool own_leaves_headroom = true;
  std::optional<PlanRow>
      plan;  ///< the fastest that `answer_plan` finds, of any micro-batch; none: not asked, or none fits
  bool plan_proved = false;
  std::optional<PlanRow> data;  ///< the fastest that is data-parallel alone
  std::size_t simulated = 0;    ///< layers that were simulated, each on one mesh and in one way

  /// No plan that was simulated and leaves the headroom is faster than the division.
  bool division_is_best() const { return division.step <= best_step(); }
  double best_step() const;  ///< s
};

struct LayerPlanOptions {
  /// How plans without unequal stages are searched, and the headroom.
  PlanAnswerOptions plans;
  bool compare = true;  ///< looks for them
  std::function<void(const std::string&)> progress;
};

/// Divides layers into pipeline stages on unequally many devices, and each MLP's layers by columns, rows or not at all.
///
/// Alpa's two passes (Zheng et al., OSDI 2022). Intra-operator: on each mesh of tensor and data ranks the cheapest way for
/// every layer, what ranks exchange between two ways included (`cheapest_ways`; transformers and CNNs have one way,
/// Megatron's). Inter-operator: `divide_stages`. Costs are those of layers simulated alone on the first devices of the cluster;
/// the gradients' exchange and the update, which come once a step, count with their share of a micro-batch. The division is
/// then a plan, of `plan.pipeline.stages`, and simulated as any; where it takes more memory than was thought, layers are
/// divided again for less. Networks of more than 24 layers are divided between 24 groups of layers of about equal time.
/// Micro-batches are those of the scenario's plan, whose schedule is 1F1B: the best of these is compared with what
/// `answer_plan` finds of any, with data parallelism alone, and with the scenario's own plan. Throws UserError.
LayerPlanAnswer plan_layers(const PlanQuestion&, const LayerPlanOptions& = {});

const JsonFields<LayerPlanAnswer>& layer_plan_fields();

}  // namespace trainyard
