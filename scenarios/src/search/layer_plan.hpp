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

/// A stage of a simulated division.
struct LayerStage {
  int from = 0, to = 0;     ///< range of layers of the network; `to` is not included
  std::string first, last;  ///< names of its first and last layer
  int tensor = 1, data = 1;
  std::vector<LinearSplit> splits;  ///< splits of an MLP's layers among tensor ranks; empty: not split
  std::vector<int> ranks;           ///< its ranks in the cluster
  double micro_batch = 0;           ///< time of a micro-batch, forward and backward, if its layers run alone, s
  double tail = 0;                  ///< time after the last micro-batch, if its layers run alone, s
  double busy = 0;                  ///< time of the step in which it does not wait for other stages, s
  double peak = 0;                  ///< peak memory of a device, bytes
};

/// A division of layers and devices among pipeline stages.
struct LayerDivision {
  std::vector<LayerStage> stages;
  double estimate = 0;  ///< `pipeline_time` of the costs of layers that were simulated alone, s
  double step = 0;      ///< step time, simulated as by `run`, s
  bool leaves_headroom = true;
  Node document;  ///< the scenario with these stages
};

/// The answer of `trainyard plan --layers`.
struct LayerPlanAnswer {
  std::string scenario;
  int gpus = 0, micro_batches = 1;
  std::int64_t micro_batch = 1;       ///< samples, over all data-parallel ranks of a stage
  double capacity = 0;                ///< memory of a GPU, bytes
  double headroom = 0;                ///< share of the memory that must stay free
  LayerDivision division;             ///< the fastest simulated division with these micro-batches
  std::optional<LayerDivision> even;  ///< the best division with equally many devices per stage
  double own_step = 0;                ///< step time of the scenario's own plan, s; 0: it does not fit
  bool own_leaves_headroom = true;
  /// The fastest plan of `answer_plan`, with any micro-batch. No value: not searched, or no plan fits.
  std::optional<PlanRow> plan;
  bool plan_proved = false;
  std::optional<PlanRow> data;  ///< fastest plan with data parallelism only
  std::size_t simulated = 0;    ///< number of layer simulations, each on one mesh with one split
  std::string unfinished;       ///< says which plans a signal left out; empty: none

  /// Returns true if no simulated plan that leaves the headroom is faster than the division.
  bool division_is_best() const { return division.step <= best_step(); }
  double best_step() const;  ///< s
};

struct LayerPlanOptions {
  /// The headroom, and options of the search for plans with equal stages.
  PlanAnswerOptions plans;
  bool compare = true;  ///< searches plans with equal stages for comparison
  std::function<void(const std::string&)> progress;
};

/// Divides layers into pipeline stages, which may have different numbers of devices. Also chooses for each layer of an
/// MLP whether tensor ranks split it by columns, by rows or not at all.
///
/// It follows Alpa's two passes (Zheng et al., OSDI 2022):
/// - Intra-operator: on each mesh of tensor and data ranks, it chooses the cheapest split for every layer, including
///   the communication between different splits (`cheapest_shardings`). Transformers and CNNs have a single split,
///   Megatron's.
/// - Inter-operator: `divide_stages`.
/// The costs are those of layers simulated alone on the first devices of the cluster. The gradient exchange and the
/// update come once per step and count with their share per micro-batch. The division becomes a plan
/// (`plan.pipeline.stages`) and is simulated as any other. If it needs more memory than expected, layers are divided
/// again with less memory. The layers of a larger network are first merged into 24 groups of about equal time.
/// Micro-batches are those of the scenario's plan, and the schedule is 1F1B. The best division is compared with the
/// best plan of `answer_plan`, with data parallelism alone, and with the scenario's own plan. Throws UserError. A signal
/// before the first division throws Interruption; a later one leaves the other plans out.
LayerPlanAnswer plan_layers(const PlanQuestion&, const LayerPlanOptions& = {});

const JsonFields<LayerPlanAnswer>& layer_plan_fields();

}  // namespace trainyard
