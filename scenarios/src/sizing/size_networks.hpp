#pragma once
#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// The most clusters for which networks are compared.
constexpr std::size_t kClustersOfNetworks = 3;

/// Throws UserError for an unknown kind of network, and for an unknown type of switch.
void check_networks(const SizeQuestion&);

/// Compares the requested networks on the cheapest clusters in time of a judged answer, else on the nearest. Each row is
/// the cluster's plan, simulated on that network. Sets `networks`. If networks have prices, judges all clusters again
/// with the chosen network between their nodes, or else with the cheapest one in time. Throws Interruption.
void compare_networks(SizeAnswer&, const SizeQuestion&);

/// Returns a row of an answer with this network between its nodes. The row stays as it is if there is no such network.
SizeRow row_on_network(const SizeRow&, const std::string& kind, SizeAnswer, const SizeQuestion&);

}  // namespace trainyard
