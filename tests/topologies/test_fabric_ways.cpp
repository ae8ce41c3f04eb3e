// Properties that hold for paths through fabrics of every kind, with random figures.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/analysis/fabric_check.hpp"
#include "topologies/analysis/fabric_cuts.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_fabric_ways {

using namespace trainyard;
using namespace trainyard::test;

namespace {

class Random {
 public:
  explicit Random(unsigned seed) : bits_(seed) {}
  int pick(int from, int to) { return static_cast<int>(bits_() % static_cast<unsigned>(to - from + 1)) + from; }
  bool flip() { return pick(0, 1) == 1; }

 private:
  std::mt19937 bits_;
};

ClusterSpec fabric_of(int nodes, int hcas, const std::string& fabric) {
  return cluster_of(1,
                    fmt::format("interconnect: pcie\npcie: {{rate: 1 TB/s, latency: 0 us}}\n"
                                "hca: {{count: {}, rate: 10 GB/s, latency: 1 us}}\n",
                                hcas),
                    nodes, fabric);
}

const Device& device_at(const DeviceGraph& graph, DeviceId id) { return graph.devices()[static_cast<std::size_t>(id)]; }

/// The devices on a path. Empty if the wires do not lead from one end to the other, or pass a device twice.
std::vector<DeviceId> stations(const DeviceGraph& graph, DeviceId from, DeviceId to, const std::vector<LinkId>& wires) {
  std::vector<DeviceId> passed{from};
  for (const LinkId wire : wires) {
    if (graph.ends(wire).from != passed.back()) return {};
    passed.push_back(graph.ends(wire).to);
  }
  const std::set<DeviceId> once(passed.begin(), passed.end());
  return passed.back() == to && once.size() == passed.size() ? passed : std::vector<DeviceId>{};
}

/// The smallest and largest number of wires that a path from the a-th to the b-th end over these devices may have.
struct Hops {
  int least = 0, most = 0;
};
using ExpectedHops = std::function<Hops(int a, int b, const DeviceGraph&, const std::vector<DeviceId>& passed)>;
enum class Back { same, any };

void check_ways(const ClusterSpec& spec, const std::string& fabric, const ExpectedHops& expected, Back back) {
  CAPTURE(fabric, spec.nodes);
  DeviceGraph graph = build_cluster(spec);
  const std::vector<DeviceId> ends = graph.devices_of_kind(spec.joins_chips() ? DeviceKind::gpu : DeviceKind::hca);
  int wrong = 0;
  for (std::size_t a = 0; a < ends.size(); ++a)
    for (std::size_t b = 0; b < ends.size(); ++b) {
      if (a == b) continue;
      const auto wires = graph.path(ends[a], ends[b], PathClass::fabric);
      REQUIRE(wires);
      const std::vector<DeviceId> passed = stations(graph, ends[a], ends[b], *wires);
      const Hops hops = expected(static_cast<int>(a), static_cast<int>(b), graph, passed);
      const int count = static_cast<int>(wires->size());
      bool good = !passed.empty() && count >= hops.least && count <= hops.most;
      for (std::size_t i = 1; good && i + 1 < passed.size(); ++i)
        good = device_at(graph, passed[i]).kind == DeviceKind::network_switch;
      if (good && back == Back::same) {
        std::vector<LinkId> reversed = *graph.path(ends[b], ends[a], PathClass::fabric);
        std::reverse(reversed.begin(), reversed.end());
        for (LinkId& wire : reversed) wire ^= 1;
        good = reversed == *wires;
      }
      wrong += good ? 0 : 1;
    }
  CHECK(wrong == 0);
}

ExpectedHops always(int hops) {
  return [hops](int, int, const DeviceGraph&, const std::vector<DeviceId>&) { return Hops{hops, hops}; };
}

/// A path goes up to the first group that contains both ends, and down. Ends are numbered by the leaves' ports: each
/// rail has leaves of its own.
ExpectedHops clos_hops(const std::vector<int>& down, int nodes, int hcas, bool rails) {
  return [=](int a, int b, const DeviceGraph&, const std::vector<DeviceId>&) {
    const int rail = (nodes + down[0] - 1) / down[0] * down[0];
    const auto number = [&](int hca) { return rails ? hca % hcas * rail + hca / hcas : hca; };
    int x = number(a), y = number(b), level = 0;
    for (; level < static_cast<int>(down.size()); ++level) {
      x /= down[static_cast<std::size_t>(level)];
      y /= down[static_cast<std::size_t>(level)];
      if (x == y) break;
    }
    return Hops{2 * (level + 1), 2 * (level + 1)};
  };
}

/// Returns the words of a routing, with a seed if it draws.
std::string drawn_routing(Random& random, const char* routing, bool draws) {
  const int seed = random.pick(0, 9);
  return draws ? fmt::format("{}, seed: {}", routing, seed) : routing;
}

void clos_case(Random& random, bool hashed) {
  std::vector<int> down;
  std::string levels;
  for (int l = random.pick(1, 3); l > 0; --l) {
    down.push_back(random.pick(1, 4));
    // ECMP needs integer numbers of uplinks; ideal spraying takes any rate.
    const double ratio = hashed ? down.back() / static_cast<double>(random.pick(1, 3)) : random.pick(1, 7) / 2.0;
    levels += fmt::format("{}{{down: {}, oversubscription: {}}}", levels.empty() ? "" : ", ", down.back(), ratio);
  }
  const int nodes = random.pick(2, 12), hcas = random.pick(1, 3);
  const bool rails = random.flip();
  const std::string fabric =
      fmt::format("{{type: folded-clos, switch_latency: 1 us, levels: [{}], rails: {}, routing: {}}}", levels, rails,
                  drawn_routing(random, hashed ? "ecmp" : "spray", hashed));
  check_ways(fabric_of(nodes, hcas, fabric), fabric, clos_hops(down, nodes, hcas, rails),
             hashed ? Back::any : Back::same);
}

/// The Manhattan distance between the routers at both ends, which are named by their numbers, plus the wires to them.
ExpectedHops torus_hops(const std::vector<int>& dims, bool wrap) {
  return [=](int, int, const DeviceGraph& graph, const std::vector<DeviceId>& passed) {
    if (passed.size() < 3) return Hops{-1, -1};
    const auto number = [&](DeviceId id) {
      const std::string& name = device_at(graph, id).name;
      return std::stoi(name.substr(name.find_first_of("0123456789")));
    };
    int a = number(passed[1]), b = number(passed[passed.size() - 2]), hops = 2;
    for (const int length : dims) {
      const int apart = std::abs(a % length - b % length);
      hops += wrap ? std::min(apart, length - apart) : apart;
      a /= length;
      b /= length;
    }
    return Hops{hops, hops};
  };
}

void torus_case(Random& random, bool chips) {
  std::vector<int> dims, block;
  int places = 1, a_node = 1;
  for (int d = random.pick(1, 4); d > 0; --d) {
    const int part = chips ? random.pick(1, 2) : 1, length = part * random.pick(1, chips ? 3 : 5);
    if (places * length > 72) continue;
    dims.push_back(length);
    block.push_back(part);
    places *= length;
    a_node *= part;
  }
  const bool wrap = random.flip(), named = random.flip();
  if (places / a_node < 2) return;
  const std::string fabric =
      fmt::format("{{type: torus, switch_latency: 1 us, joins: {}, dims: [{}], wrap: {}, link_rate: 5 GB/s{}}}",
                  chips ? "chips" : "nodes", fmt::join(dims, ", "), wrap,
                  chips && named ? fmt::format(", node_dims: [{}]", fmt::join(block, ", ")) : "");
  const ClusterSpec spec =
      chips ? cluster_of(a_node, "interconnect: pcie\npcie: {rate: 16 GB/s, latency: 0 us}\n", places / a_node, fabric)
            : fabric_of(places, random.pick(1, 2), fabric);
  // There and back differ: dimensions are crossed in the same order in both directions.
  check_ways(spec, fabric, torus_hops(dims, wrap), dims.size() == 1 && !wrap ? Back::same : Back::any);
}

void ring_case(Random& random) {
  const int nodes = random.pick(2, 9);
  const bool wrap = random.flip();
  const std::string fabric = fmt::format("{{type: ring, switch_latency: 1 us, wrap: {}}}", wrap);
  check_ways(fabric_of(nodes, random.pick(1, 2), fabric), fabric, torus_hops({nodes}, wrap), Back::any);
}

void dragonfly_case(Random& random) {
  const int switches = random.pick(1, 5), hosts = random.pick(1, 3), links = random.pick(1, 3);
  const int most = std::min(40, switches * hosts * (switches * links + 1));
  const int nodes = random.pick(2, std::max(2, most));
  const int a_group = switches * hosts, groups = (nodes + a_group - 1) / a_group;
  if (groups - 1 > switches * links) return;
  const bool valiant = random.flip();
  const std::string fabric = fmt::format(
      "{{type: dragonfly, switch_latency: 1 us, switches_a_group: {}, hosts_a_switch: {}, global_links: {}, "
      "routing: {}}}",
      switches, hosts, links, drawn_routing(random, valiant ? "valiant" : "minimal", valiant));
  check_ways(
      fabric_of(nodes, 1, fabric), fabric,
      [=](int a, int b, const DeviceGraph&, const std::vector<DeviceId>&) {
        if (a / hosts == b / hosts) return Hops{2, 2};
        if (a / a_group == b / a_group) return Hops{3, 3};
        const bool detour = valiant && groups > 2;
        return detour ? Hops{4, 7} : Hops{3, 5};
      },
      Back::any);
}

/// Switches in a random tree with some additional links, and each HCA at one of them.
std::string random_graph_fabric(Random& random, int nodes, int switches) {
  std::string links;
  const auto add = [&](const std::string& a, const std::string& b, bool rate) {
    links += fmt::format("{}{{from: {}, to: {}{}, latency: {} ns}}", links.empty() ? "" : ", ", a, b,
                         rate ? fmt::format(", rate: {} GB/s", random.pick(1, 30)) : "", random.pick(0, 2000));
  };
  std::vector<std::string> names;
  for (int s = 0; s < switches; ++s) {
    names.push_back(fmt::format("s{}", s));
    if (s > 0) add(names.back(), fmt::format("s{}", random.pick(0, s - 1)), true);
  }
  for (int extra = random.pick(0, switches); extra > 0; --extra) {
    const int a = random.pick(0, switches - 1), b = random.pick(0, switches - 1);
    if (a != b) add(fmt::format("s{}", a), fmt::format("s{}", b), true);
  }
  for (int n = 0; n < nodes; ++n)
    add(fmt::format("node{}/hca0", n), fmt::format("s{}", random.pick(0, switches - 1)), random.flip());
  return fmt::format("{{type: graph, switch_latency: 1 us, switches: [{}], links: [{}]}}", fmt::join(names, ", "),
                     links);
}

/// The smallest rate at which HCAs on one side can send to the others, over all partitions of the switches.
double least_cut(const DeviceGraph& graph, const std::set<DeviceId>& side) {
  const std::vector<DeviceId> switches = graph.devices_of_kind(DeviceKind::network_switch);
  double least = HUGE_VAL;
  for (unsigned split = 0; split < 1U << switches.size(); ++split) {
    std::set<DeviceId> inside = side;
    for (std::size_t s = 0; s < switches.size(); ++s)
      if ((split >> s) & 1U) inside.insert(switches[s]);
    double cut = 0;
    for (LinkId wire = 0; wire < static_cast<LinkId>(graph.wires().size()); ++wire) {
      const Link& link = graph.wires()[static_cast<std::size_t>(wire)];
      if (link.kind != "HCA" && link.kind != "uplink") continue;
      if (inside.contains(graph.ends(wire).from) && !inside.contains(graph.ends(wire).to)) cut += link.capacity.value;
    }
    least = std::min(least, cut);
  }
  return least;
}

void graph_case(Random& random, bool simulated) {
  const int nodes = random.pick(2, 7), switches = random.pick(1, 5);
  const std::string fabric = random_graph_fabric(random, nodes, switches);
  const ClusterSpec spec = fabric_of(nodes, 1, fabric);
  check_ways(
      spec, fabric,
      [=](int, int, const DeviceGraph&, const std::vector<DeviceId>&) {
        return Hops{2, switches + 1};
      },
      Back::any);
  CAPTURE(fabric);
  const DeviceGraph graph = build_cluster(spec);
  const std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca);
  std::vector<DeviceId> side;
  for (const DeviceId hca : hcas)
    if (random.flip()) side.push_back(hca);
  if (side.empty() || side.size() == hcas.size()) return;
  const double cut = least_cut(graph, {side.begin(), side.end()});
  if (check_fabric(graph).nonblocking != Nonblocking::unknown) CHECK(test::cut_capacity(graph, side) == near(cut));
  if (!simulated) return;
  // All HCAs of one side send to the other side at once, no faster than the cut, on any paths. Traffic checks every
  // link.
  std::vector<Transfer> all;
  for (const DeviceId from : side)
    for (const DeviceId to : hcas)
      if (std::find(side.begin(), side.end(), to) == side.end() && all.size() < 8)
        all.push_back({device_at(graph, from).node, device_at(graph, to).node, Bytes{1e9}});
  CHECK(transfer_ms(spec, all) >= static_cast<double>(all.size()) * 1e12 / cut * (1 - 1e-9));
}

void check_kinds(unsigned seed, int rounds, int simulated) {
  Random random(seed);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed, round);
    const int nodes = random.pick(2, 9), hcas = random.pick(1, 3);
    for (const char* fabric : {"{type: nonblocking, switch_latency: 1 us}", "{type: ethernet, switch_latency: 1 us}",
                               "{type: ethernet, switch_latency: 1 us, hub: true, mtu: 1500}"})
      check_ways(fabric_of(nodes, hcas, fabric), fabric, always(2), Back::same);
    clos_case(random, false);
    clos_case(random, true);
    torus_case(random, false);
    torus_case(random, true);
    ring_case(random);
    dragonfly_case(random);
    graph_case(random, round < simulated);
  }
}

}  // namespace

TEST_CASE(
    "paths through every kind of fabric reach their target, cross nothing twice, and are as short as they should be",
    "[fabrics]") {
  check_kinds(1, 25, 10);
}
TEST_CASE("many paths through every kind of fabric", "[.deep][fabrics]") { check_kinds(2, 1500, 200); }

}  // namespace topologies_test_fabric_ways
