#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/energy/energy.hpp"
#include "models/energy/prices.hpp"
#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/site_room.hpp"

namespace trainyard {

inline constexpr double kSecondsOfDay = 86400;

struct PlanQuestion;
struct PlanSpaceOptions;

/// Returns the candidate node types. `names`: names of node types, or of chips, which mean all node types that have
/// them. Empty: all node types of the catalog that compute in bf16, can form a cluster, have 32 GB per GPU, and have a
/// price if prices are given (of a purchase if `purchase`, else of a rent); TPUs only if prices are given. `left_out`
/// receives TPUs and types without a price, with the reason. Throws UserError.
std::vector<NodeType> sized_nodes(const Catalog&, const std::vector<std::string>& names, const Prices&, bool purchase,
                                  std::vector<std::string>& left_out);

/// Nodes that are owned already.
struct OwnedNodes {
  NodeType node;
  int nodes = 0;
};

/// Returns the site without the room, power and ports that these nodes take. No value: it has no room for others.
std::optional<Site> site_beside(Site, const OwnedNodes&, const Catalog&);

/// Returns the scenario on a number of nodes, without its failures. `model`: its model; "": the document's own.
/// `searched` true: a scenario for a plan search, without the training's length; false: a scenario with the smallest
/// plan that can be read. `beside`: owned nodes of another type in the same job, null for none. Nodes with more memory
/// are the first, since the first stages of a pipeline keep the most activations, and stages get layers by their time.
/// `purchase`: states the fabric of owned nodes, if they have one of their own; null for none.
Node sized_scenario(const Node& document, const std::string& model, const NodeType&, int nodes, bool searched,
                    const OwnedNodes* beside = nullptr, const Purchase* purchase = nullptr);

/// Returns the path of the fabric that joins the bought nodes of this type in a document that `sized_scenario` made.
std::string path_of_fabric(const Node& document, const std::string& node);

/// Returns the plans that a size considers: schedules 1f1b and interleaved-1f1b unless the document states a pipeline
/// or its plan is its own, and no pipelines on TPUs.
PlanSpaceOptions sized_space(const PlanQuestion&, const Node& document);

/// Returns the price of a device by which node types are compared before any search: its share of a node's purchase
/// price, its hourly rent, or 1 if it has no rent. Throws UserError if the prices do not name it.
double compared_price(const Prices&, const NodeType&, bool purchase);

/// Changes the number of steps in `plan.training`, if it states one, so that another batch has equally many samples.
void keep_samples(Node& training, std::int64_t batch, std::int64_t new_batch);

/// The result of evaluating a number of nodes.
struct NodesOutcome {
  bool good = false;     ///< a training is possible
  bool in_time = false;  ///< it meets the deadline
  double time = 0;       ///< time of the training, s
};

/// The candidate numbers of nodes: multiples of `unit` up to `most`, and how to evaluate them.
struct NodeCounts {
  int unit = 1, most = 4096;
  std::function<bool(int nodes)> has_plan;
  /// Evaluates a number of nodes. `late_is_enough` true: it may stop as soon as it finds that the deadline is
  /// missed.
  std::function<NodesOutcome(int nodes, bool late_is_enough)> look;
  int beside = 0;  ///< nodes of another type in the same job: round numbers count them, too
};

/// Returns the next larger number of nodes that has a plan. The first 64 numbers are all tried, the next 64 in steps of two
/// units, and so on, so that a power of two is found however far it is. 0: none was found.
int next_with_plan(const NodeCounts&, int nodes);

/// The result of a search for the fewest nodes. `in_time`: the fewest that were found to meet the deadline; 0: none.
/// `late`: the largest smaller number that was evaluated, which does not meet it; 0: no smaller number has a plan. No
/// multiple of the unit between the two has a plan.
struct FewestNodes {
  int late = 0, in_time = 0;
};

/// Finds the fewest nodes that meet the deadline. It doubles or halves the guess until two numbers enclose the
/// deadline, then tries the round numbers between them, the middle one first, and at last each number between the
/// nearest two. If a number is late, smaller ones are skipped. The search stops at larger numbers if more nodes do not
/// help.
FewestNodes find_fewest_nodes(int guess, const NodeCounts&);

/// One model on one type of node.
struct SizeCase {
  std::string model;  ///< "": the scenario's model
  NodeType node;
  double rough_cost = 0;                  ///< cost before any search; 0: it is the only node type
  std::optional<OwnedNodes> beside = {};  ///< owned nodes of another type in the same job
  int gpus(int nodes) const { return nodes * node.gpus + (beside ? beside->nodes * beside->node.gpus : 0); }
};

/// A request to evaluate a case on a number of nodes.
struct RowRequest {
  int nodes = 1;
  double useful = 0;                    ///< longest useful training, days; 0: any
  std::optional<double> headroom = {};  ///< no value: the options' headroom
  std::int64_t batch = 0;               ///< 0: the scenario's batch, or another one within the tolerance
  std::string fabric = {};  ///< network between the nodes, as `cluster.fabric` takes it; empty: the document's
};

inline bool is_tpu(const NodeType& node) { return node.gpu.kind == ChipKind::tpu; }

/// Sets the checkpoint times of a step on TPUs in `faults`, if it names a store. Hosts reach the store by their own
/// adapters, not over the chips' links, so the times are computed instead of simulated. The state is written at the
/// rate of the store or of all adapters, whichever is less. The snapshot copies each chip's share at PCIe's rate.
/// Nothing changes if `faults` names no store.
void set_checkpoint_times(Node& faults, const Scenario& step);

}  // namespace trainyard
