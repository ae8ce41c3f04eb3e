#pragma once
#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// The most clusters for which networks are compared.
constexpr std::size_t kClustersOfNetworks = 3;

/// Throws UserError for an unknown kind of network, and for an unknown type of switch.
void check_networks(const SizeQuestion&);

/// Compares the requested networks on the cheapest clusters in time of a judged answer, else on the nearest. Each row is
/// the cluster's plan, simulated on that network. Sets `networks`. Throws Interruption.
void compare_networks(SizeAnswer&, const SizeQuestion&);

}  // namespace trainyard
