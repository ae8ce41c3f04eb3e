#pragma once
#include <cmath>
#include <cstdint>
#include <optional>

#include "topologies/analysis/clos_network.hpp"

namespace trainyard {

/// The best design with exactly two or three levels. No value: there is none.
std::optional<ClosDesign> two_level_clos(const ClosRequest&);
std::optional<ClosDesign> three_level_clos(const ClosRequest&);

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// ⌈links / r⌉, with a margin for an r like 1.2, which is not a binary fraction.
inline std::int64_t divide_links(double links, double r) {
  return static_cast<std::int64_t>(std::ceil(links / r - 1e-9));
}

/// Largest number of hosts of a leaf; the rest of its ports go up.
std::int64_t most_hosts_of_leaf(std::int64_t ports, double oversubscription);
/// Returns true if the first design has fewer switches; if equal, fewer levels; if equal, fewer links.
bool better(const ClosDesign&, const std::optional<ClosDesign>&);
/// Sets the totals from the levels.
void total_parts(ClosDesign&, const ClosRequest&);

}  // namespace trainyard
