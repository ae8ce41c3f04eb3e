#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/sizing/size_training.hpp"
#include "topologies/analysis/network_design.hpp"

namespace trainyard {

constexpr const char* kFullNetwork = "nonblocking";  ///< the network to which the others are compared

/// Ports of a switch if the question states none: those of NVIDIA's Quantum-2 (catalog, switches).
constexpr int kPortsOfSwitch = 64;

/// The switches of a question, and the keys of its fabric that hold for any network.
struct QuestionSwitch {
  std::string name;  ///< empty: no type of switch is named
  int ports = kPortsOfSwitch;
  int rack_units = 0;             ///< height in units of a rack; 0: not stated
  std::vector<std::string> keys;  ///< "switch: quantum-2"
};

/// The nodes that a network joins: bought ones, and owned ones of another type in the same job. Owned nodes that keep a
/// fabric of their own (Purchase::owned_fabrics) are not among them: cables lead from the network to that fabric.
class JoinedNodes {
 public:
  /// The question must outlive this object. Throws UserError for a type of nodes that the catalog lacks.
  JoinedNodes(const ClusterName& cluster, const SizeQuestion& question);

  /// Returns true if switches join them.
  bool are_joined() const;
  /// Returns the number of cables to the fabric that owned nodes keep; 0: no owned nodes keep one.
  int border_cables() const { return border_cables_; }
  /// Returns the nodes and their adapters. Nodes of unlike numbers of adapters count as one node for each adapter.
  NetworkRequest request(int ports) const;
  /// Designs a kind of network ("2:1 on rails"). Throws UserError, also for rails between nodes of unlike numbers of adapters.
  NetworkDesign design(const std::string& kind, int ports) const;
  /// Returns the most nodes of a rack: as the site says, else as many as have 32 GPUs. Racks of two types are planned as
  /// those of the type with fewer adapters in a rack.
  int nodes_of_rack() const;
  /// Lists the cables, the shortest first, without their prices.
  std::vector<SizeCables> cables(const NetworkDesign&) const;
  /// Returns the racks of switches that have no room in the racks of nodes.
  int racks_of_switches(std::int64_t switches, const QuestionSwitch&) const;

 private:
  struct Group {
    NodeType type;
    int nodes = 0;
  };
  const SizeQuestion& question_;
  std::vector<Group> groups_;  // bought nodes, then owned ones
  bool keeps_fabric_ = false;  // the nodes are owned ones that keep their fabric
  int border_cables_ = 0;      // cables to the fabric that owned nodes keep

  bool have_equal_adapters() const;
  int nodes_of_rack(const NodeType&) const;
  int adapters_of_rack(const NodeType& type) const { return nodes_of_rack(type) * type.hcas; }
};

/// Throws UserError for an unknown type of switch.
QuestionSwitch read_question_switch(const SizeQuestion&);

/// The prices of switches and cables of a question.
class NetworkPrices {
 public:
  /// All arguments must outlive the prices.
  NetworkPrices(const Prices& prices, const QuestionSwitch& type) : prices_(prices), type_(type) {}

  /// Returns the price of so many switches that are bought. No value: they have none.
  std::optional<double> of_switches(double count) const;
  /// Returns the price of one of `count` cables, of which those beside the owned ones are bought, by its length if the prices know lengths. No value: cables have none.
  /// Throws UserError if the prices know lengths, but none that is long enough.
  std::optional<double> of_cable(const SizeCables&, double count) const;
  /// Names the prices that are missing; "": none.
  std::string missing() const;

 private:
  const Prices& prices_;
  const QuestionSwitch& type_;
};

/// Clusters for which all networks are compared. Of the others, those are compared that could cost least by their bounds.
constexpr std::size_t kClustersOfNetworks = 3;
/// The most numbers of leaves and spines that are tried evenly, without rails and on rails.
constexpr std::size_t kMostSpines = 24;
/// The most searches for a plan on another network than that of the question.
constexpr int kSearchesOfNetworks = 8;

/// Searches a plan for a cluster with another fabric between its nodes. No value: its type of node is no case.
using NetworkSearch = std::function<std::optional<SizeRow>(const SizeRow& cluster, const std::string& fabric)>;

/// Throws UserError for an unknown kind of network, and for an unknown type of switch.
void check_networks(const SizeQuestion&);

/// Compares the requested networks on the cheapest clusters in time of a judged answer, else on the nearest: all networks
/// on the first of them, and on each other cluster in time those networks whose price leaves it a chance to cost least. On
/// two levels of leaves, other numbers of leaves and spines are tried, too, without rails and on rails; those that another
/// network beats in cost and time are not kept. Each row is the cluster's plan, simulated on that network; if that loses time and the row could be the choice, a plan is searched for that network.
/// Sets `networks`. If networks have prices, judges all clusters again with the chosen network between their nodes, or
/// else with the cheapest one in time. Throws Interruption.
void compare_networks(SizeAnswer&, const SizeQuestion&, const NetworkSearch&);

JsonFields<SizeNetworks> size_networks_fields();

/// Removes the networks that are not among the requested kinds and that another one of the same cluster beats in cost and
/// time. The choice stays.
void drop_beaten_networks(std::vector<SizeNetwork>&, const std::vector<std::string>& requested);
/// Sorts networks by the order of their clusters; those of one cluster stay in the order in which they were tried.
void sort_networks(std::vector<SizeNetwork>&, const std::vector<SizeRow>& clusters);

/// States the choice with its figures beside the nonblocking network of its cluster (null: there is none) or the next
/// choice, and whether nodes and plan would be others if all networks were nonblocking; or why there is no choice.
std::string network_reason(const SizeAnswer&, const SizeNetworks&, const SizeNetwork* full);

/// Returns a row of an answer with this network between its nodes. The row stays as it is if there is no such network.
SizeRow row_on_network(const SizeRow&, const std::string& kind, SizeAnswer, const SizeQuestion&);

}  // namespace trainyard
