#pragma once
#include <optional>
#include <vector>

namespace trainyard {

/// Devices that a pipeline stage may have: some of one node, or all of several.
struct Submesh {
  int nodes = 1, devices = 1;  ///< of each of these nodes
  int count() const { return nodes * devices; }
  bool operator==(const Submesh&) const = default;
};

/// Shapes that always tile a cluster of so many nodes, as Alpa has them (Zheng et al., OSDI 2022, section 5.2): parts of a
/// node each of which divides the next larger one, and any number of whole nodes. The smallest first.
std::vector<Submesh> submeshes(int nodes, int devices_of_node);

/// A stage that has some layers in a row, on some devices.
struct StageCost {
  double time = 0;  ///< s of a micro-batch, forward and backward
  double held = 0;  ///< bytes of a device, whatever is under way
  double kept = 0;  ///< bytes of a device for each micro-batch under way
};

/// costs[from][layers - 1][submesh]; none: no such stage.
using StageCosts = std::vector<std::vector<std::vector<std::optional<StageCost>>>>;

/// One stage of a division: layers from `from` up to `to`.
struct StageChoice {
  int from = 0, to = 0;
  int submesh = 0;  ///< of the list
  bool operator==(const StageChoice&) const = default;
};

struct StageDivision {
  std::vector<StageChoice> stages;  ///< in the order of the layers
  double time = 0;                  ///< s: see `pipeline_time`
};

/// A step of so many micro-batches under 1F1B: the first goes through all stages, the others follow at the pace of the
/// slowest, sum + (micro_batches - 1) x slowest (Alpa, equation 2). Messages between stages do not count.
double pipeline_time(const StageCosts&, const std::vector<StageChoice>&, int micro_batches);

/// Does every stage fit into so many bytes? The n-th stage from the end has n micro-batches under way (1F1B), or all of
/// them.
bool stages_fit(const StageCosts&, const std::vector<StageChoice>&, int micro_batches, double capacity);

/// Layers divided into stages, and all devices among them, so that `pipeline_time` is the least there is: for every
/// time that the slowest stage may take, by dynamic programming over layers, stages and devices that are left (Alpa,
/// equation 3). None: no division fits.
std::optional<StageDivision> divide_stages(const StageCosts&, const std::vector<Submesh>&, int devices,
                                           int micro_batches, double capacity);

}  // namespace trainyard
