#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "topologies/analysis/rings.hpp"

namespace trainyard {

/// Links by pair of devices, with a bit mask of neighbours a device; what a search takes from and gives back to.
struct LinkMatrix {
  int devices = 0;
  std::array<std::array<int, kMostRingDevices>, kMostRingDevices> links{};

  explicit LinkMatrix(const LinkGraph&);
  int at(int a, int b) const { return links[a][b]; }
  void add(const std::vector<int>& order, int count);            ///< to every hop of the ring
  std::vector<std::uint32_t> neighbours(int least_links) const;  ///< by device
};

/// Rings of exactly `weight` in all through three devices or more, found in the order that decompose_rings promises.
/// `steps` is lowered by the steps taken. Nothing, and steps not below 0: there are none; below 0: unknown.
std::optional<std::vector<Ring>> search_rings(const LinkMatrix&, int weight, std::int64_t& steps);

/// The same without order: unit rings through neighbours in random order, links of devices that have many left first.
std::optional<std::vector<Ring>> sample_rings(const LinkMatrix&, int weight, std::int64_t& steps, std::mt19937& random);

/// The heaviest ring, then the heaviest of what is left, and so on, each sought for a bounded number of steps.
std::vector<Ring> greedy_rings(const LinkMatrix&, std::int64_t steps_of_ring);

/// The rings of a complete graph with the same number of links between all pairs; nothing for other graphs.
std::optional<std::vector<Ring>> complete_graph_rings(const LinkMatrix&);

}  // namespace trainyard
