#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "topologies/analysis/link_graph.hpp"

namespace trainyard {

/// Links by pair of devices, with a bit mask of neighbours for each device. A search takes links from it and gives them
/// back.
struct LinkMatrix {
  int devices = 0;
  std::array<std::array<int, kMostRingDevices>, kMostRingDevices> links{};

  explicit LinkMatrix(const LinkGraph&);
  int link_count(int a, int b) const { return links[a][b]; }
  void add(const std::vector<int>& order, int count);            ///< adds `count` links to every hop of the ring
  std::vector<std::uint32_t> neighbours(int least_links) const;  ///< indexed by device
};

/// Finds rings of total weight `weight` through at least three devices, in the order that decompose_rings promises.
/// Decreases `steps` by the steps taken. No value: there are none if `steps` ≥ 0; unknown if `steps` < 0.
std::optional<std::vector<Ring>> search_rings(const LinkMatrix&, int weight, std::int64_t& steps);

/// Tries once at random: takes `weight` rings of weight 1, one after another, each through the neighbours in a random
/// order. Then merges equal rings and sorts them, the heaviest first. Decreases `steps` by the steps taken. No value:
/// this try failed, but other rings may exist.
std::optional<std::vector<Ring>> sample_rings(const LinkMatrix&, int weight, std::int64_t& steps, std::mt19937& random);

/// The heaviest ring, then the heaviest one of the remaining links, and so on, each searched for a bounded number of
/// steps.
std::vector<Ring> greedy_rings(const LinkMatrix&, std::int64_t steps_of_ring);

/// The rings of a complete graph with the same number of links between all pairs. No value: it is another graph.
std::optional<std::vector<Ring>> complete_graph_rings(const LinkMatrix&);

}  // namespace trainyard
