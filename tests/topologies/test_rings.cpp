// Rings: known graphs, random graphs against an exhaustive search, and refused graphs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "tests/cases.hpp"
#include "topologies/analysis/ring_search.hpp"
#include "topologies/analysis/rings.hpp"

namespace topologies_test_rings {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

LinkGraph complete_graph(int devices, int links = 1) {
  LinkGraph graph{devices, {}};
  for (int a = 0; a < devices; ++a)
    for (int b = a + 1; b < devices; ++b) graph.bundles.push_back({a, b, links});
  return graph;
}

LinkGraph cube_mesh() {
  return {8,
          {{0, 3, 2},
           {0, 4, 2},
           {1, 2, 2},
           {1, 5, 2},
           {2, 3, 2},
           {4, 7, 2},
           {5, 6, 2},
           {6, 7, 2},
           {0, 1, 1},
           {0, 2, 1},
           {1, 3, 1},
           {2, 6, 1},
           {3, 7, 1},
           {4, 5, 1},
           {4, 6, 1},
           {5, 7, 1}}};
}

LinkGraph random_graph(std::mt19937& random, int devices, int tenths, int most_links) {
  LinkGraph graph{devices, {}};
  for (int a = 0; a < devices; ++a)
    for (int b = a + 1; b < devices; ++b)
      if (static_cast<int>(random() % 10) < tenths)
        graph.bundles.push_back({a, b, 1 + static_cast<int>(random() % static_cast<unsigned>(most_links))});
  return graph;
}

/// Checks that every ring passes through all devices, in the stated direction, over existing links, each used once.
void check_rings(const LinkGraph& graph, const RingDecomposition& found) {
  LinkMatrix left(graph);
  int weight = 0;
  for (const Ring& ring : found.rings) {
    std::vector<int> sorted = ring.order, all(static_cast<std::size_t>(graph.devices));
    std::iota(all.begin(), all.end(), 0);
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == all);
    CHECK(ring.order.front() == 0);
    CHECK(ring.order[1] <= ring.order.back());
    CHECK(ring.weight >= 1);
    left.add(ring.order, -ring.weight);
    weight += ring.weight;
  }
  for (int a = 0; a < graph.devices; ++a)
    for (int b = 0; b < graph.devices; ++b) CHECK(left.link_count(a, b) >= 0);
  CHECK(weight == found.weight);
  CHECK(found.weight <= found.bound);
  CHECK(found.unused_links == graph.links() - weight * graph.devices);
  CHECK(found.rings.empty() == !found.none.empty());
  CHECK(std::is_sorted(found.rings.begin(), found.rings.end(), [](const Ring& a, const Ring& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.order < b.order;
  }));
}

/// Finds all Hamiltonian rings by permutation, and then tries every set of them without pruning.
class EverySet {
 public:
  explicit EverySet(const LinkGraph& graph) : left_(graph) {
    std::vector<int> order(static_cast<std::size_t>(graph.devices));
    std::iota(order.begin(), order.end(), 0);
    do {
      if (order[1] < order.back()) orders_.push_back(order);
    } while (std::next_permutation(order.begin() + 1, order.end()));
  }
  std::vector<Ring> best() {
    extend(0);
    return best_;
  }

 private:
  LinkMatrix left_;
  std::vector<std::vector<int>> orders_;
  std::vector<Ring> rings_, best_;

  static int weight(const std::vector<Ring>& rings) {
    return std::accumulate(rings.begin(), rings.end(), 0, [](int sum, const Ring& r) { return sum + r.weight; });
  }
  /// Compares ring by ring: first the heavier, then the lexicographically smaller.
  static bool precedes(std::vector<Ring> a, std::vector<Ring> b) {
    if (weight(a) != weight(b)) return weight(a) > weight(b);
    const auto first = [](const Ring& x, const Ring& y) {
      return x.weight != y.weight ? x.weight > y.weight : x.order < y.order;
    };
    std::sort(a.begin(), a.end(), first);
    std::sort(b.begin(), b.end(), first);
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), first);
  }
  void extend(std::size_t at) {
    if (precedes(rings_, best_)) best_ = rings_;
    for (std::size_t i = at; i < orders_.size(); ++i) {
      int most = 1000;
      for (std::size_t k = 0; k < orders_[i].size(); ++k)
        most = std::min(most, left_.link_count(orders_[i][k], orders_[i][(k + 1) % orders_[i].size()]));
      for (int w = 1; w <= most; ++w) {
        left_.add(orders_[i], -w);
        rings_.push_back({orders_[i], w});
        extend(i + 1);
        rings_.pop_back();
        left_.add(orders_[i], w);
      }
    }
  }
};

void check_same(const std::vector<Ring>& found, std::vector<Ring> expected) {
  std::sort(expected.begin(), expected.end(), [](const Ring& a, const Ring& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.order < b.order;
  });
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].order == expected[i].order);
    CHECK(found[i].weight == expected[i].weight);
  }
}

}  // namespace

TEST_CASE("the mesh of 8 V100 is a ring of double and a ring of single links", "[topologies][rings]") {
  const RingDecomposition found = decompose_rings(cube_mesh());
  check_rings(cube_mesh(), found);
  REQUIRE(found.rings.size() == 2);
  CHECK(found.rings[0].weight == 2);
  CHECK(found.rings[0].order == std::vector<int>{0, 3, 2, 1, 5, 6, 7, 4});
  CHECK(found.rings[1].weight == 1);
  CHECK(found.rings[1].order == std::vector<int>{0, 1, 3, 7, 5, 4, 6, 2});
  CHECK(found.unused_links == 0);
  CHECK(found.complete);
  CHECK(found.bound == 3);
}

TEST_CASE("rings of small random graphs are the best of all sets", "[topologies][rings]") {
  std::mt19937 random(7);
  for (int i = 0; i < test::cases(200); ++i) {
    const int devices = 3 + i % 3;  // up to 12 rings to choose from
    const LinkGraph graph = random_graph(random, devices, 6 + i % 5, devices == 5 ? 2 : 4);
    CAPTURE(i);
    const RingDecomposition found = decompose_rings(graph);
    check_rings(graph, found);
    CHECK(found.complete);
    check_same(found.rings, EverySet(graph).best());
  }
}

TEST_CASE("rings of random graphs share no link", "[topologies][rings]") {
  std::mt19937 random(11);
  for (int i = 0; i < test::cases(150); ++i) {
    const int devices = 6 + i % 11;
    const LinkGraph graph = random_graph(random, devices, 2 + i % 9, 1 + i % 4);
    CAPTURE(i);
    const RingDecomposition found = decompose_rings(graph);
    check_rings(graph, found);
    if (found.complete) CHECK(found.weight == found.bound);
    // Equal links in another order and direction give equal rings.
    LinkGraph turned = graph;
    std::reverse(turned.bundles.begin(), turned.bundles.end());
    for (LinkBundle& bundle : turned.bundles) std::swap(bundle.a, bundle.b);
    check_same(decompose_rings(turned).rings, found.rings);
  }
}

TEST_CASE("complete graphs have as many rings as their links allow", "[topologies][rings]") {
  for (int devices = 3; devices <= 16; ++devices)
    for (const int links : {1, 2, 3, 6, 64}) {
      CAPTURE(devices, links);
      const LinkGraph graph = complete_graph(devices, links);
      const RingDecomposition found = decompose_rings(graph);
      check_rings(graph, found);
      CHECK(found.weight == links * (devices - 1) / 2);
      if (links == 1) CHECK(static_cast<int>(found.rings.size()) == (devices - 1) / 2);
      if (links == 1) CHECK(found.complete);
    }
}

TEST_CASE("the built-in decompositions of complete graphs use no link twice, and as many links as possible",
          "[topologies][rings]") {
  for (int devices = 3; devices <= 16; ++devices)
    for (int links = 1; links <= 5; ++links) {
      CAPTURE(devices, links);
      const LinkGraph graph = complete_graph(devices, links);
      const auto rings = complete_graph_rings(LinkMatrix(graph));
      REQUIRE(rings);
      RingDecomposition found;
      found.rings = *rings;
      for (const Ring& ring : *rings) found.weight += ring.weight;
      found.bound = links * (devices - 1) / 2;
      found.unused_links = graph.links() - found.weight * devices;
      check_rings(graph, found);
      CHECK(found.weight == found.bound);
    }
  CHECK_FALSE(complete_graph_rings(LinkMatrix(cube_mesh())));
}

TEST_CASE("random restarts find rings too", "[topologies][rings]") {
  std::mt19937 random(3);
  for (const auto& [graph, weight] : {std::pair{cube_mesh(), 3}, {complete_graph(9), 4}}) {
    RingDecomposition found;
    for (int trial = 0; trial < 200 && found.rings.empty(); ++trial) {
      std::int64_t steps = 10'000;
      if (const auto rings = sample_rings(LinkMatrix(graph), weight, steps, random)) found.rings = *rings;
    }
    REQUIRE_FALSE(found.rings.empty());
    found.weight = found.bound = weight;
    found.unused_links = graph.links() - weight * graph.devices;
    check_rings(graph, found);
  }
}

TEST_CASE("rings, hypercubes and bipartite graphs decompose into rings that use all links", "[topologies][rings]") {
  LinkGraph ring{16, {}}, cube{16, {}}, bipartite{16, {}};
  for (int a = 0; a < 16; ++a) {
    ring.bundles.push_back({a, (a + 1) % 16, 3});
    for (int bit = 1; bit < 16; bit *= 2)
      if (a < (a ^ bit)) cube.bundles.push_back({a, a ^ bit, 1});
    for (int b = 8; a < 8 && b < 16; ++b) bipartite.bundles.push_back({a, b, 1});
  }
  for (const auto& [graph, weight, count] :
       {std::tuple{ring, 3, 1}, std::tuple{cube, 2, 2}, std::tuple{bipartite, 4, 4}}) {
    const RingDecomposition found = decompose_rings(graph);
    check_rings(graph, found);
    CHECK(found.weight == weight);
    CHECK(static_cast<int>(found.rings.size()) == count);
    CHECK(found.unused_links == 0);
  }
  const RingDecomposition pair = decompose_rings({2, {{0, 1, 5}}});
  REQUIRE(pair.rings.size() == 1);
  CHECK(pair.rings[0].weight == 2);
  CHECK(pair.unused_links == 1);
}

TEST_CASE("a graph without a ring is reported with the reason", "[topologies][rings]") {
  LinkGraph path{5, {}}, star{6, {}}, petersen{10, {}}, uneven{5, {}};
  for (int a = 0; a < 4; ++a) path.bundles.push_back({a, a + 1, 2});
  for (int a = 1; a < 6; ++a) star.bundles.push_back({0, a, 2});
  for (int a = 0; a < 5; ++a) {
    petersen.bundles.push_back({a, (a + 1) % 5, 1});
    petersen.bundles.push_back({a, a + 5, 1});
    petersen.bundles.push_back({a + 5, (a + 2) % 5 + 5, 1});
  }
  for (int a = 0; a < 2; ++a)
    for (int b = 2; b < 5; ++b) uneven.bundles.push_back({a, b, 1});
  for (const LinkGraph& graph : {path, star, petersen, uneven}) {
    const RingDecomposition found = decompose_rings(graph);
    check_rings(graph, found);
    CHECK(found.rings.empty());
    CHECK(found.complete);
    CHECK(found.bound == 0);
    CHECK_THAT(found.none, Contains("no ring passes through every device"));
  }
  CHECK_THAT(decompose_rings(petersen).none, Contains("all ways were tried"));
  CHECK_THAT(decompose_rings(uneven).none, Contains("devices 2, 3, 4 have too few links among themselves"));
  CHECK_THAT(decompose_rings({3, {{0, 1, 1}, {1, 2, 1}}}).none, Contains("device 0 has only one link"));
  CHECK_THAT(decompose_rings({3, {{0, 1, 4}}}).none, Contains("no link to the others"));
  CHECK_THAT(decompose_rings({2, {{0, 1, 1}}}).none, Contains("only one link"));
}

TEST_CASE("impossible links are refused", "[topologies][rings]") {
  CHECK_THROWS_WITH(decompose_rings({17, {}}), Contains("17 devices, expected 2 to 16"));
  CHECK_THROWS_WITH(decompose_rings({1, {}}), Contains("1 devices"));
  CHECK_THROWS_WITH(decompose_rings({4, {{0, 4, 1}}}), Contains("no device 4"));
  CHECK_THROWS_WITH(decompose_rings({4, {{-1, 2, 1}}}), Contains("no device -1"));
  CHECK_THROWS_WITH(decompose_rings({4, {{2, 2, 1}}}), Contains("linked to itself"));
  CHECK_THROWS_WITH(decompose_rings({4, {{1, 2, 0}}}), Contains("0 links, expected 1 to 64"));
  CHECK_THROWS_WITH(decompose_rings({4, {{1, 2, 40}, {2, 1, 40}}}), Contains("more than 64 links"));
}

}  // namespace topologies_test_rings
