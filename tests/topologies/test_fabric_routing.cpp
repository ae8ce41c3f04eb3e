// Hashed and sprayed paths, removed parts, failing wires, and hubs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_fabric_routing {

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::string clos(const std::string& levels, const std::string& more = "") {
  return fmt::format("{{type: folded-clos, switch_latency: 0 us, levels: [{}]{}}}", levels, more);
}

/// Hosts with one HCA of 10 GB/s each.
ClusterSpec hosts_on(int nodes, const std::string& fabric, const std::vector<std::string>& taken_out = {}) {
  ClusterSpec spec = hosts_of(nodes, "rate: 10 GB/s", fabric);
  for (const std::string& name : taken_out) spec.taken_out.push_back({name, spec.place});
  return spec;
}

/// Every host sends 1 GB to the host `distance` ranks further, all at the same time. Returns the time in ms: 100 if
/// nothing slows the messages.
double shift_ms(const ClusterSpec& spec, int distance) {
  std::vector<Transfer> all;
  for (Actor a = 0; a < spec.nodes; ++a) all.push_back({a, (a + distance) % spec.nodes, Bytes{1e9}});
  return transfer_ms(spec, all);
}

using Ways = std::map<std::pair<int, int>, std::vector<std::string>>;

/// The names of the wires on the paths between any two HCAs.
Ways all_ways(const ClusterSpec& spec) {
  DeviceGraph graph = build_cluster(spec);
  const std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca);
  Ways ways;
  for (std::size_t a = 0; a < hcas.size(); ++a)
    for (std::size_t b = 0; b < hcas.size(); ++b) {
      std::vector<std::string>& names = ways[{static_cast<int>(a), static_cast<int>(b)}];
      const auto wires = graph.path(hcas[a], hcas[b], PathClass::fabric);
      REQUIRE(wires);
      for (const LinkId wire : *wires) names.push_back(graph.wires()[static_cast<std::size_t>(wire)].name);
    }
  return ways;
}

std::string build_error(const ClusterSpec& spec) {
  return user_error([&] { build_cluster(spec); });
}

}  // namespace

TEST_CASE("hashed paths do not change, differ by seed, and use all uplinks", "[fabrics][ecmp]") {
  const auto ecmp = [](int seed) {
    return hosts_on(16, clos("{down: 4}", fmt::format(", routing: ecmp, seed: {}", seed)));
  };
  const Ways ways = all_ways(ecmp(1));
  CHECK(ways == all_ways(ecmp(1)));
  CHECK(ways != all_ways(ecmp(2)));
  std::set<std::string> uplinks;
  int crossing = 0, longest = 0;
  for (const auto& [pair, names] : ways) {
    crossing += names.size() == 4 ? 1 : 0;
    longest = std::max(longest, static_cast<int>(names.size()));
    for (const std::string& name : names)
      if (name.find("spine") != std::string::npos) uplinks.insert(name);
  }
  CHECK(crossing == 16 * 12);
  CHECK(longest == 4);
  CHECK(uplinks.size() == 2 * 16);  // four uplinks of four leaves, there and back
}

TEST_CASE("two flows hashed to the same uplink get half of it each; sprayed flows do not", "[fabrics][ecmp]") {
  const ClusterSpec ecmp = hosts_on(8, clos("{down: 4}", ", routing: ecmp"));
  const ClusterSpec spray = hosts_on(8, clos("{down: 4}"));
  const Ways ways = all_ways(ecmp);
  int collided = 0, apart = 0;
  for (Actor to = 4; to < 8; ++to)
    for (Actor other = 4; other < 8; ++other) {
      if (to == other) continue;
      const std::vector<Transfer> both{{0, to, Bytes{1e9}}, {1, other, Bytes{1e9}}};
      const bool collide = ways.at({0, to})[1] == ways.at({1, other})[1];
      int& seen = collide ? collided : apart;
      if (seen++ >= 2) continue;
      CHECK(transfer_ms(ecmp, both) == near(collide ? 200 : 100));
      CHECK(transfer_ms(spray, both) == near(100));
    }
  CHECK(collided > 0);
  CHECK(apart > 0);
}

TEST_CASE("more queue pairs spread a message over more hashed paths, and fewer flows collide", "[fabrics][ecmp]") {
  const auto mean_ms = [](int queue_pairs) {
    constexpr int seeds = 8;
    double sum = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      const std::string hash = fmt::format(", routing: ecmp, seed: {}, queue_pairs: {}", seed, queue_pairs);
      sum += shift_ms(hosts_on(16, clos("{down: 8}", hash)), 8);
    }
    return sum / seeds;
  };
  const double one = mean_ms(1), four = mean_ms(4), many = mean_ms(64);
  CHECK(one > four);
  CHECK(four > many);
  CHECK(many > 100 * (1 - 1e-9));  // sprayed messages take 100 ms
  CHECK(many < 150);
  const ClusterSpec alone = hosts_on(16, clos("{down: 8}", ", routing: ecmp, queue_pairs: 3"));
  CHECK(transfer_ms(alone, {{0, 8, Bytes{1e9}}}) == near(100));  // its own HCA is the limit
  for (const auto& [key, error] : {std::pair{", queue_pairs: 4", "expected routing: ecmp"},
                                   {", seed: 4", ": seed: with routing ecmp, adaptive or flowlets only"},
                                   {", flowlet: 1 MB", ": flowlet: with routing flowlets only"}})
    CHECK_THAT(user_error([key = key] { hosts_on(4, clos("{down: 2}", key)); }), Catch::Contains(error));
  CHECK_THAT(user_error([] { hosts_on(4, "{base: dragonfly, seed: 4}"); }),
             Catch::Contains(": seed: with routing valiant only"));
  for (const char* routing : {"ecmp", "adaptive", "flowlets"})
    CHECK_NOTHROW(hosts_on(4, clos("{down: 2}", std::string(", seed: 4, routing: ") + routing)));
}

TEST_CASE("a part removed from a sprayed fabric costs its share of the rate", "[fabrics][taken_out]") {
  const auto ms = [](const std::vector<std::string>& out) { return shift_ms(hosts_on(8, clos("{down: 4}"), out), 4); };
  CHECK(ms({}) == near(100));
  CHECK(ms({"spine3"}) == near(100 * 4 / 3.0));
  CHECK(ms({"spine3", "spine0"}) == near(200));
  CHECK(ms({"leaf0 - spine1"}) == near(100 * 4 / 3.0));
  CHECK(ms({"spine1 - leaf0"}) == near(100 * 4 / 3.0));
  CHECK(ms({"spine1", "leaf0 - spine1"}) == near(100 * 4 / 3.0));  // the same uplink
  CHECK(ms({"leaf0 - spine0", "leaf1 - spine1"}) == near(100 * 4 / 3.0));
  // Three levels: leaves of two, pods of two leaves.
  const auto deep = [](const std::vector<std::string>& out, int distance) {
    return shift_ms(hosts_on(8, clos("{down: 2}, {down: 2}"), out), distance);
  };
  CHECK(deep({}, 4) == near(100));
  CHECK(deep({"pod0.1"}, 4) == near(200));
  CHECK(deep({"pod0.1"}, 2) == near(200));
  CHECK(deep({"core0"}, 4) == near(100 * 4 / 3.0));
  CHECK(deep({"core0"}, 1) == near(100));  // one of four leaves the pod
}

TEST_CASE("messages avoid parts removed from a hashed fabric", "[fabrics][taken_out]") {
  const auto spec = [](const std::vector<std::string>& out) {
    return hosts_on(8, clos("{down: 4}", ", routing: ecmp"), out);
  };
  const auto passes = [](const Ways& ways, const std::string& what) {
    return std::any_of(ways.begin(), ways.end(), [&what](const auto& way) {
      return std::any_of(way.second.begin(), way.second.end(),
                         [&what](const std::string& name) { return name.find(what) != std::string::npos; });
    });
  };
  CHECK(passes(all_ways(spec({})), "spine3"));
  CHECK_FALSE(passes(all_ways(spec({"spine3"})), "spine3"));
  const Ways cut = all_ways(spec({"leaf0 - spine1"}));
  CHECK_FALSE(passes(cut, "leaf0 -> spine1"));
  CHECK_FALSE(passes(cut, "spine1 -> leaf0"));
  CHECK_FALSE(passes(cut, "leaf1 -> spine1"));  // from spine1 nothing leads to leaf0
  for (const auto& [pair, names] : cut) CHECK(names.size() <= 4);
}

TEST_CASE("removing a leaf cuts its hosts off, unless they have another HCA", "[fabrics][taken_out]") {
  for (const char* routing : {"spray", "ecmp"}) {
    const std::string fabric = clos("{down: 4}", fmt::format(", rails: true, routing: {}", routing));
    CHECK_THROWS_WITH(transfer_ms(hosts_on(8, fabric, {"leaf1"}), {{0, 5, Bytes{1}}}),
                      Catch::EndsWith("cluster.taken_out: without leaf1, rank 0 (node0/gpu0) cannot reach rank 5 "
                                      "(node5/gpu0): no path between them"));
    CHECK(transfer_ms(hosts_on(8, fabric, {"leaf1"}), {{0, 3, Bytes{1e9}}}) == near(100));
    ClusterSpec two = cluster_of(2,
                                 "interconnect: pcie\npcie: {rate: 1 TB/s, latency: 0 us}\n"
                                 "hca: {count: 2, rate: 10 GB/s, latency: 0 us}\n",
                                 4, fabric);
    two.taken_out.push_back({"leaf1", two.place});
    CHECK(transfer_ms(two, {{0, 2, Bytes{1e9}}, {1, 3, Bytes{1e9}}}) == near(200));  // all by the first rail
  }
}

TEST_CASE("names of removed parts are checked", "[fabrics][taken_out]") {
  const auto error = [](const char* routing, const std::string& out) {
    return build_error(hosts_on(8, clos("{down: 4}", fmt::format(", routing: {}", routing)), {out}));
  };
  for (const char* routing : {"spray", "ecmp"}) {
    CAPTURE(routing);
    CHECK_THAT(error(routing, "spine4"), Catch::Contains("cluster.taken_out: unknown device \"spine4\"; did you mean"));
    CHECK_THAT(error(routing, "leaf0 - spin1"), Catch::Contains("unknown device \"spin1\"; did you mean \"spine1\"?"));
    CHECK_THAT(error(routing, "leaf0 - leaf1"),
               Catch::EndsWith("cluster.taken_out: \"leaf0 - leaf1\": no wire joins them"));
    CHECK_THAT(error(routing, "node0/hca7"), Catch::Contains("unknown device \"node0/hca7\"; did you mean"));
    CHECK(error(routing, "leaf0 - node0/hca0") == "");
    CHECK(error(routing, "node0/hca0 - leaf0") == "");
  }
}

namespace {

/// Host 0 sends 1 GB to host `to`, and the named wire fails after `when` ms. Returns the time of arrival in ms.
double with_failure_ms(const ClusterSpec& spec, Actor to, const std::string& wire, double when) {
  ClusterMachine m(spec, SoftwareStack{});
  Programs all(position(spec.nodes));
  all[0] = std::make_unique<ListProgram>(std::vector<Op>{send(1e9)}, std::vector<Actor>{to});
  all[position(to)] = std::make_unique<ListProgram>(std::vector<Op>{recv()}, std::vector<Actor>{0});
  RunSetup setup;
  for (std::size_t i = 0; i < m.links().size(); ++i)
    if (m.links()[i].name == wire)
      setup.link_changes.push_back({Seconds{when * 1e-3}, static_cast<LinkId>(i), BytesPerSecond{0}});
  return run_programs(m, std::move(all), std::move(setup)).end.value * 1e3;
}

}  // namespace

TEST_CASE("if a wire fails in mid-flight, the rest of the message takes another path", "[fabrics][failures]") {
  const ClusterSpec ring = hosts_on(5, "{type: ring, switch_latency: 1 us}");
  CHECK(with_failure_ms(ring, 1, "router2 -> router3", 40) == near(1e-3 + 1e-3 + 100));
  // The way round passes five switches. The first 2 us were latency: bytes of 60 ms and 2 us are left.
  CHECK(with_failure_ms(ring, 1, "router0 -> router1", 40) == near(40 + 5e-3 + 60 + 2e-3));
  const ClusterSpec ecmp = hosts_on(8, clos("{down: 4}", ", routing: ecmp"));
  const std::string uplink = all_ways(ecmp).at({0, 7})[1];
  CHECK(with_failure_ms(ecmp, 7, uplink, 40) == near(100));
  CHECK_THROWS_WITH(with_failure_ms(ecmp, 7, "leaf1 -> node7/hca0", 40),
                    Catch::Contains("its bytes stand still on a link without capacity"));
}

TEST_CASE("a hub is one medium, whatever the duplex of its wires, and Ethernet frames add their headers", "[fabrics]") {
  for (const char* duplex : {"full", "half"})
    for (const bool hub : {false, true}) {
      const ClusterSpec spec = hosts_of(4, fmt::format("rate: 10 GB/s, duplex: {}", duplex),
                                        fmt::format("{{type: ethernet, switch_latency: 0 us, hub: {}}}", hub));
      CHECK(transfer_ms(spec, {{0, 1, Bytes{1e9}}, {2, 3, Bytes{1e9}}}) == near(hub ? 200 : 100));
    }
  const ClusterSpec frames = hosts_on(2, "{type: ethernet, switch_latency: 0 us, mtu: 1500}");
  CHECK(transfer_ms(frames, {{0, 1, Bytes{1e9}}}) == near(100 * 1538 / 1460.0));
}

}  // namespace topologies_test_fabric_routing
