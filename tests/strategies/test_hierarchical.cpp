#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "scenarios/src/reading/read_cluster.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/collectives/node_rings.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/transfers.hpp"
#include "tests/strategies/chosen_collective.hpp"
#include "tests/strategies/exact_values.hpp"
#include "tests/user_errors.hpp"

namespace strategies_test_hierarchical {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr double kSize = 16e6;

CollectiveRunOptions options(const std::string& algorithm, Operation operation, int ranks) {
  return collective_options(operation, algorithm, ranks, Bytes{kSize});
}

/// Returns nodes of devices behind a switch with 4 GB/s per port. Each device has an adapter of 1 GB/s. A hop within a
/// node takes 1 us, a hop between nodes 3 us.
ClusterSpec rails(int nodes, int gpus) {
  ClusterSpec spec = star_cluster(gpus, BytesPerSecond{4e9}, {1000000});
  spec.nodes = nodes;
  spec.fabric = make_fabric("nonblocking");
  spec.node.hcas = gpus;
  spec.node.hca_rate = kRate;
  spec.switch_latency = {3000000};
  return spec;
}

/// Returns chips with a link of a latency of 1 us to each of their four neighbours. There are at least 3 × 3 chips.
ClusterSpec torus(int rows, int columns) {
  std::string mesh;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      for (const int neighbour : {r * columns + (c + 1) % columns, (r + 1) % rows * columns + c})
        mesh += fmt::format("{}[{}, {}, 1]", mesh.empty() ? "" : ", ", r * columns + c, neighbour);
  return cluster_of(rows * columns,
                    "interconnect: nvlink-mesh\npcie: {rate: 1 GB/s, latency: 0 us}\n"
                    "nvlink: {link_rate: 1 GB/s, latency: 1 us, mesh: [" +
                        mesh + "]}\n");
}

std::string refusal(const ClusterSpec& cluster, const CollectiveRunOptions& o) {
  return user_error([&] { run_collective(cluster, o); });
}

double time_of(const ClusterSpec& cluster, CollectiveRunOptions o, Fidelity fidelity) {
  o.options.settings.fidelity = fidelity;
  return run_collective(cluster, o).time;
}

}  // namespace

TEST_CASE("bidirectional rings give exact values on any number of ranks and channels", "[collectives]") {
  for (const Operation operation : kBlockOperations)
    for (int n = 1; n <= 17; ++n)
      for (const int channels : {1, 3}) {
        CollectiveRunOptions o = options("bidirectional-ring", operation, n);
        o.options.settings.channels = channels;
        check_values(star_cluster(n, kRate), o);
      }
}

TEST_CASE("bidirectional rings are twice as fast with links to both neighbours, and no faster behind one port",
          "[collectives]") {
  for (const Operation operation : kBlockOperations) {
    const int steps = (operation == Operation::all_reduce ? 2 : 1) * 4;
    const CollectiveRunOptions o = options("bidirectional-ring", operation, 5);
    CHECK(run_collective(star_cluster(5, kRate), o).time == near(steps * (0 + kSize / 5 / 1e9)));
    const ClusterSpec ring = cluster_of(5,
                                        "interconnect: nvlink-mesh\npcie: {rate: 1 GB/s, latency: 0 us}\n"
                                        "nvlink: {link_rate: 1 GB/s, latency: 1 us, "
                                        "mesh: [[0, 1, 1], [1, 2, 1], [2, 3, 1], [3, 4, 1], [0, 4, 1]]}\n");
    const CollectiveRun run = run_collective(ring, o);
    CHECK(run.time == near(steps * (1e-6 + kSize / 10 / 1e9)));
    CHECK(run.links.size() == 10);  // both directions of each of five wires
    for (const auto& [link, bytes] : run.links) CHECK(bytes == near(steps * kSize / 10));
    CHECK(time_of(ring, o, Fidelity::flows) == near(run.time));
  }
  CollectiveRunOptions sixteen_channels = options("bidirectional-ring", Operation::all_reduce, 4);
  sixteen_channels.options.settings.channels = 16;
  CHECK(refusal(star_cluster(4, kRate), sixteen_channels) ==
        "all-reduce: all-reduce by bidirectional-ring: 16 channels, each in both directions; at most 15");
}

TEST_CASE("hierarchical collectives give exact values for every size of node", "[collectives]") {
  for (const Operation operation : kBlockOperations)
    for (int n = 1; n <= 17; ++n)
      for (int per_node = 1; per_node <= n; ++per_node) {
        if (n % per_node != 0) continue;
        CollectiveRunOptions o = options("hierarchical", operation, n);
        o.options.settings.per_node = per_node;
        check_values(star_cluster(n, kRate), o);
        if (operation != Operation::all_reduce) continue;
        o.algorithm = "hierarchical-leader";
        o.options.settings.chunk = Bytes{100};  // several pieces
        check_values(star_cluster(n, kRate), o);
      }
}

TEST_CASE("hierarchical collectives take the time of their phases, and adapters send equal parts", "[collectives]") {
  const int m = 3, g = 4;
  const ClusterSpec cluster = rails(m, g);
  const double inner = (g - 1) * (1e-6 + kSize / g / 4e9), outer = (m - 1) * (3e-6 + kSize / g / m / 1e9);
  for (const Operation operation : kBlockOperations) {
    CAPTURE(name_of(operation));
    CollectiveRunOptions o = options("hierarchical", operation, m * g);
    o.options.settings.per_node = g;
    const CollectiveRun run = run_collective(cluster, o);
    const int passes = operation == Operation::all_reduce ? 2 : 1;
    CHECK(run.time == near(passes * (inner + outer)));
    for (int node = 0; node < m; ++node)
      for (int rail = 0; rail < g; ++rail)
        CHECK(run.links.at(fmt::format("node{}/hca{} -> fabric", node, rail)) ==
              near(passes * (m - 1.0) / m * kSize / g));
    for (const double sent : run.sent) CHECK(sent == near(passes * ((g - 1.0) / g + (m - 1.0) / m / g) * kSize));
    CHECK(time_of(cluster, o, Fidelity::flows) == near(run.time));
  }
}

TEST_CASE("with hierarchical-leader one adapter per node sends everything", "[collectives]") {
  const int m = 3, g = 4, pieces = 8;
  CollectiveRunOptions o = options("hierarchical-leader", Operation::all_reduce, m * g);
  o.options.settings.per_node = g;
  o.options.settings.chunk = Bytes{kSize / pieces};
  const CollectiveRun run = run_collective(rails(m, g), o);
  const double chain = (g - 2 + pieces) * (1e-6 + kSize / pieces / 4e9);
  CHECK(run.time == near(2 * chain + 2 * (m - 1) * (3e-6 + kSize / m / 1e9)));
  for (int node = 0; node < m; ++node)
    CHECK(run.links.at(fmt::format("node{}/hca0 -> fabric", node)) == near(2 * (m - 1.0) / m * kSize));
  CHECK(run.links.count("node0/hca1 -> fabric") == 0);
}

TEST_CASE("hierarchical refuses ranks that do not fill whole nodes", "[collectives]") {
  for (const char* algorithm : {"hierarchical", "hierarchical-leader"}) {
    CollectiveRunOptions o = options(algorithm, Operation::all_reduce, 6);
    o.options.settings.per_node = 4;
    CHECK(refusal(star_cluster(6, kRate), o) ==
          fmt::format("all-reduce: all-reduce by {}: 6 ranks are no whole number of nodes of 4 ranks", algorithm));
  }
}

TEST_CASE("torus-2d gives exact values on every torus", "[collectives]") {
  for (const Operation operation : kBlockOperations)
    for (int n = 1; n <= 17; ++n)
      for (int rows = 1; rows <= n; ++rows) {
        if (n % rows != 0) continue;
        CollectiveRunOptions o = options("torus-2d", operation, n);
        o.options.settings.torus = {rows, n / rows};
        check_values(star_cluster(n, kRate), o);
      }
}

TEST_CASE("torus-2d keeps all links of a square torus equally busy", "[collectives]") {
  const int k = 4, n = k * k;
  const ClusterSpec cluster = torus(k, k);
  for (const Operation operation : kBlockOperations) {
    CAPTURE(name_of(operation));
    const int passes = operation == Operation::all_reduce ? 2 : 1;
    const CollectiveRunOptions o = options("torus-2d", operation, n);
    const CollectiveRun run = run_collective(cluster, o);
    const double bytes = passes * (n - 1.0) / n * kSize / 4;
    CHECK(run.time == near(passes * 2 * (k - 1) * 1e-6 + bytes / 1e9));
    CHECK(run.links.size() == static_cast<std::size_t>(4 * n));
    for (const auto& [link, carried] : run.links) CHECK(carried == near(bytes));
    CHECK(time_of(cluster, o, Fidelity::flows) == near(run.time));
  }
  CollectiveRunOptions o = options("torus-2d", Operation::all_reduce, 6);
  o.options.settings.torus = {2, 2};
  CHECK(refusal(star_cluster(6, kRate), o) == "all-reduce: all-reduce by torus-2d: 6 ranks are no 2 x 2 torus");
  o.options.settings.torus = {1, 2, 3};
  CHECK(refusal(star_cluster(6, kRate), o) ==
        "all-reduce: all-reduce by torus-2d: 3 dimensions; rows and columns expected");
}

TEST_CASE("torus gives exact values in any number of dimensions, and over several slices", "[collectives]") {
  for (const Operation operation : kBlockOperations)
    for (const std::vector<int>& lengths : {std::vector<int>{5}, {2, 3}, {2, 3, 2}, {3, 2, 2}, {2, 2, 2, 2}})
      for (const int slices : {1, 2, 3}) {
        const int n = std::accumulate(lengths.begin(), lengths.end(), slices, std::multiplies<>());
        CollectiveRunOptions o = options("torus", operation, n);
        o.options.settings.box = lengths;
        o.options.settings.slices = slices;
        check_values(star_cluster(n, kRate), o);
      }
}

TEST_CASE("torus keeps all six links of each chip of a cube busy", "[collectives]") {
  const Catalog catalog;
  ClusterSpec cluster;
  cluster.node = read_node(catalog.resolve("node", parse_document("base: tpu-v4-host", "test")), catalog);
  cluster.nodes = 16;
  cluster.fabric = make_fabric("torus", "{joins: chips, dims: [4, 4, 4], link_rate: 1 GB/s}");
  cluster.switch_latency = {1000000};
  const int k = 4, n = k * k * k;
  for (const Operation operation : kBlockOperations) {
    CAPTURE(name_of(operation));
    const int passes = operation == Operation::all_reduce ? 2 : 1;
    CollectiveRunOptions o = options("torus", operation, n);
    std::vector<int> members(static_cast<std::size_t>(n));
    std::iota(members.begin(), members.end(), 0);
    o.options.settings.chips = cluster.fabric->chip_places(cluster);
    o.options.settings.place_on_chips(members);
    CHECK(o.options.settings.box == std::vector<int>{4, 4, 4});
    const CollectiveRun run = run_collective(cluster, o);
    const double bytes = passes * (n - 1.0) / n * kSize / 6;
    for (const auto& [link, carried] : run.links)
      if (link.starts_with("ici") && link.find("-> ici") != std::string::npos) CHECK(carried == near(bytes));
    CHECK(run.time - bytes / 1e9 == Approx(passes * 3 * (k - 1) * 2e-6).epsilon(0.5));
    CHECK(time_of(cluster, o, Fidelity::flows) == Approx(run.time).epsilon(0.01));
  }
}

TEST_CASE("ranks of a torus of chips fill a box, or none", "[collectives]") {
  CollectiveSettings settings;
  std::vector<int> position(32);
  std::iota(position.begin(), position.end(), 0);
  settings.chips = std::make_shared<ChipPlaces>(ChipPlaces{{4, 8}, position});  // two slices of them
  const auto box_of = [&](const std::vector<int>& members) {
    settings.place_on_chips(members);
    return settings.box;
  };
  CHECK(box_of({0, 1, 2, 3}) == std::vector<int>{4});
  CHECK(box_of({1, 5, 9, 13, 17, 21, 25, 29}) == std::vector<int>{8});
  CHECK(box_of({0, 1, 4, 5}) == std::vector<int>{2, 2});
  CHECK(settings.slices == 1);
  CHECK(box_of({0, 1, 2, 3, 32, 33, 34, 35}) == std::vector<int>{4});
  CHECK(settings.slices == 2);
  CHECK(box_of({0, 32}).empty());
  CHECK(settings.slices == 1);
  CHECK(box_of({0, 1, 5}).empty());     // no box
  CHECK(box_of({0, 4, 1, 5}).empty());  // a box, but in another order
}

TEST_CASE("multi-ring gives exact values on rings of any order and weight", "[collectives]") {
  for (const char* algorithm : {"multi-ring", "bidirectional-multi-ring"})
    for (const Operation operation : kBlockOperations)
      for (int n = 1; n <= 17; ++n) {
        CollectiveRunOptions o = options(algorithm, operation, n);
        std::vector<int> order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        for (const int weight : {3, 1, 2}) {
          o.options.settings.rings.push_back({RingOrder(order), weight});
          std::swap(order.front(), order[order.size() / 2]);
          std::reverse(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(order.size() * 2 / 3));
        }
        check_values(star_cluster(n, kRate), o);
      }
}

TEST_CASE("multi-ring on a DGX-1 fills all NVLinks of its rings", "[collectives]") {
  const Catalog catalog;
  ClusterSpec cluster = star_cluster(1, kRate);
  cluster.node = read_node(catalog.resolve("node", parse_document("base: dgx-1v", "test")), catalog);
  cluster.node.gpu.compute_while_communicating = cluster.node.gpu.communication_while_computing = 1;
  for (const Operation operation : kBlockOperations)
    for (const int directions : {1, 2}) {
      CollectiveRunOptions o = options(directions == 1 ? "multi-ring" : "bidirectional-multi-ring", operation, 8);
      o.options.settings.rings = node_rings(cluster.node);
      const int steps = operation == Operation::all_reduce ? 14 : 7;
      const CollectiveRun run = run_collective(cluster, o);
      CHECK(run.time == near(steps * (0.965e-6 + kSize / 8 / directions / 75e9)));
      CHECK(time_of(cluster, o, Fidelity::flows) == near(run.time));
      CHECK(run.links.size() == static_cast<std::size_t>(16 * directions));
    }
}

TEST_CASE("rings of several channels use each link of a full mesh once, and all adapters", "[collectives]") {
  for (const int local : {2, 3, 4, 5, 6, 7, 8, 16})
    for (const int nodes : {2, 3}) {
      CollectiveSettings settings;
      settings.meshed = true;
      std::vector<int> node_of_rank;
      for (int rank = 0; rank < local * nodes; ++rank) node_of_rank.push_back(rank / local);
      settings.place(node_of_rank);
      std::map<std::pair<int, int>, int> rings_of_link;
      std::vector<int> leaves(node_of_rank.size()), enters(node_of_rank.size());
      for (int channel = 0; channel < local; ++channel) {
        const Numbering ring = channel_ring(local * nodes, settings, channel);
        for (int v = 0; v < ring.size(); ++v) {
          const int from = ring.member(v), to = ring.member((v + 1) % ring.size());
          CHECK(ring.number(from) == v);
          if (from / local == to / local)
            ++rings_of_link[{from, to}];
          else
            ++leaves[static_cast<std::size_t>(from)], ++enters[static_cast<std::size_t>(to)];
        }
      }
      CAPTURE(local, nodes);
      const int most = local % 2 == 0 ? 1 : 2;
      CHECK(static_cast<int>(rings_of_link.size()) == nodes * local * (local - 1) / most);
      for (const auto& [link, rings] : rings_of_link) CHECK(rings == most);
      CHECK(leaves == std::vector<int>(leaves.size(), 1));
      CHECK(enters == leaves);
    }
}

TEST_CASE("between nodes whose GPUs form a full mesh, the adapters limit a modelled all-gather", "[collectives]") {
  const auto time_with = [](const char* rate) {
    const ClusterSpec cluster = read_cluster(
        parse_document(fmt::format("{{nodes: 2, node: mi300x-8x, fabric: nonblocking, hca: {{rate: {}}}}}", rate), "c"),
        Catalog());
    return run_chosen(cluster, Operation::all_gather, Bytes{1e9}).time;
  };
  const double slow = time_with("100 Gbit/s"), usual = time_with("400 Gbit/s"), fast = time_with("800 Gbit/s");
  CHECK(slow > 3 * usual);
  CHECK(fast <= usual);
}

TEST_CASE("some GPUs of a full mesh have as many rings as their links allow, on any node and in any order",
          "[collectives]") {
  const Catalog catalog;
  int nodes = 0;
  for (const std::string& name : catalog.names("node")) {
    const NodeType node = read_node(catalog.resolve("node", parse_document("base: " + name, "test")), catalog);
    if (!has_full_mesh(node)) continue;
    CAPTURE(name);
    ++nodes;
    const auto rings = std::make_shared<NodeRings>(node);
    for (int size = 3; size <= node.gpus; ++size) {
      CollectiveSettings settings;
      settings.node_rings = rings;
      std::vector<int> gpus;
      for (int k = 0; k < size; ++k)
        gpus.push_back(node.gpus + (5 * k + 2) % node.gpus);  // they are on the second node
      if (std::gcd(5, node.gpus) > 1) continue;
      settings.place(std::vector<int>(gpus.size(), 1), gpus);
      const int links = node.nvlink_mesh.front().links, of_single_links = 2 * ((size - 1) / 2) * links;
      CHECK(modelled_rings(settings, size) >= of_single_links);  // parallel links can be in different rings
      if (links == 1) CHECK(modelled_rings(settings, size) == of_single_links);
      std::map<std::pair<int, int>, int> uses;
      for (const GroupFlow::Edge& edge : modelled_flow(Operation::all_gather, settings, gpus).edges)
        uses[{edge.from, edge.to}] += edge.weight;
      for (const auto& [ends, used] : uses) CHECK(used <= links);
    }
  }
  CHECK(nodes > 5);
}

TEST_CASE("multi-ring refuses missing rings, and rings of another size", "[collectives]") {
  CollectiveRunOptions o = options("multi-ring", Operation::all_reduce, 4);
  CHECK(refusal(star_cluster(4, kRate), o) ==
        "all-reduce: all-reduce by multi-ring: there are no rings to run on; expected GPUs of one node that a mesh of "
        "links joins, such as dgx-1v, or another algorithm, such as ring");
  o.options.settings.rings = {{RingOrder({0, 2, 1}), 1}};
  CHECK(refusal(star_cluster(4, kRate), o) ==
        "all-reduce: all-reduce by multi-ring: a ring of 3 ranks, in a group of 4");
  CHECK_THROWS_WITH(node_rings(star_cluster(4, kRate).node),
                    "node star has no point-to-point links to make rings of: its interconnect is nvswitch");
}

}  // namespace strategies_test_hierarchical
