// The refinement of actors, groups and links into classes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <tuple>

#include "sim/folding/partition.hpp"

namespace sim_test_partition {

using namespace trainyard::folding;

namespace {

ColouredGraph graph_of(std::vector<std::uint64_t> colours, const std::vector<std::pair<Element, Edge>>& edges) {
  ColouredGraph graph;
  graph.colours = std::move(colours);
  graph.store_edges([&edges](auto visit) {
    for (const auto& [from, edge] : edges) visit(from, edge);
  });
  return graph;
}

/// Refinement by rounds: all elements compare the multisets of edges that they receive, until no class splits.
std::vector<std::uint32_t> refined_by_rounds(const ColouredGraph& graph) {
  const std::size_t n = graph.colours.size();
  std::vector<std::uint64_t> colour = graph.colours;
  std::size_t classes = 0;
  std::vector<std::uint32_t> class_of(n);
  for (;;) {
    std::vector<std::vector<std::tuple<std::uint64_t, std::uint32_t, double>>> received(n);
    for (Element from = 0; from < n; ++from)
      for (std::size_t i = graph.first[from]; i < graph.first[from + 1]; ++i) {
        const EdgeKind& kind = graph.kinds[graph.edges[i].kind];
        received[graph.edges[i].to].emplace_back(colour[from], kind.label, kind.weight);
      }
    std::map<std::pair<std::uint64_t, std::vector<std::tuple<std::uint64_t, std::uint32_t, double>>>, std::uint32_t>
        class_numbers;
    for (Element e = 0; e < n; ++e) {
      std::sort(received[e].begin(), received[e].end());
      class_of[e] =
          class_numbers.try_emplace({colour[e], received[e]}, static_cast<std::uint32_t>(class_numbers.size()))
              .first->second;
    }
    for (Element e = 0; e < n; ++e) colour[e] = class_of[e];
    if (class_numbers.size() == classes) return class_of;
    classes = class_numbers.size();
  }
}

}  // namespace

TEST_CASE("refinement by a worklist gives the same classes as refinement by rounds", "[sim][folding]") {
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  int split = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t n = 1 + below(40);
    std::vector<std::uint64_t> colours(n);
    for (auto& c : colours) c = below(3);
    std::vector<std::pair<Element, Edge>> edges;
    const std::size_t many = below(4 * n);
    for (std::size_t e = 0; e < many; ++e) edges.push_back({below(n), {below(n), {below(2), 1.0 + below(2)}}});
    // Rings and stars have symmetry, random graphs little.
    if (below(2) == 0)
      for (Element e = 0; e < n; ++e) edges.push_back({e, {static_cast<Element>((e + 1) % n), {9}}});
    const ColouredGraph graph = graph_of(colours, edges);
    const Partition partition = refine(graph);
    CAPTURE(i);
    REQUIRE(partition.class_of == refined_by_rounds(graph));
    split += partition.splits.empty() ? 0 : 1;
  }
  CHECK(split > 1000);
}

TEST_CASE("a ring is one class; with one different member it has one class for each distance", "[sim][folding]") {
  constexpr Element n = 16384;
  std::vector<std::pair<Element, Edge>> edges;
  for (Element e = 0; e < n; ++e) {
    edges.push_back({e, {(e + 1) % n, {0}}});
    edges.push_back({e, {(e + n - 1) % n, {0}}});
  }
  std::vector<std::uint64_t> colours(n, 0);
  CHECK(refine(graph_of(colours, edges)).classes == 1);
  colours[5] = 1;
  CHECK(refine(graph_of(colours, edges)).classes == n / 2 + 1);
}

}  // namespace sim_test_partition
