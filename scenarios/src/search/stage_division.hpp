#pragma once
#include <optional>
#include <vector>

namespace trainyard {

/// The devices of a pipeline stage: some devices of one node, or all devices of several nodes.
struct Submesh {
  int nodes = 1, devices = 1;  ///< `devices`: number in each of these nodes
  int count() const { return nodes * devices; }
  bool operator==(const Submesh&) const = default;
};

/// Returns submesh shapes that always tile the cluster (Alpa: Zheng et al., OSDI 2022, section 5.2), the smallest
/// first: parts of a node, each of which divides the next larger one, and any number of whole nodes.
std::vector<Submesh> submeshes(int nodes, int devices_of_node);

/// The cost of a stage of consecutive layers on a submesh.
struct StageCost {
  double time = 0;               ///< time of a micro-batch, forward and backward, s
  double fixed_bytes = 0;        ///< bytes per device besides those of micro-batches in flight
  double micro_batch_bytes = 0;  ///< bytes per device for each micro-batch in flight
};

/// Costs indexed by first layer, number of layers - 1, and submesh. No value: there is no such stage.
using StageCosts = std::vector<std::vector<std::vector<std::optional<StageCost>>>>;

/// One stage of a division: layers from `from` up to, not including, `to`.
struct StageChoice {
  int from = 0, to = 0;
  int submesh = 0;  ///< index in the list of submeshes
  bool operator==(const StageChoice&) const = default;
};

struct StageDivision {
  std::vector<StageChoice> stages;  ///< stages in the order of the layers
  double time = 0;                  ///< time of a step, s: see `pipeline_time`
};

/// Returns the time of a step under 1F1B, s. The first micro-batch goes through all stages, the others follow at the
/// pace of the slowest stage: sum + (micro_batches - 1) x slowest (Alpa, equation 2). Messages between stages do not
/// count.
double pipeline_time(const StageCosts&, const std::vector<StageChoice>&, int micro_batches);

/// Divides layers into stages, and all devices among the stages, so that `pipeline_time` is minimal. For every possible
/// time of the slowest stage, a dynamic program runs over the remaining layers, stages and devices (Alpa, equation 3).
/// Each stage fits into `capacity` bytes a device; the n-th stage from the end has min(n, micro_batches) micro-batches in
/// flight (1F1B). No value: no division fits.
std::optional<StageDivision> divide_stages(const StageCosts&, const std::vector<Submesh>&, int devices,
                                           int micro_batches, double capacity);

}  // namespace trainyard
