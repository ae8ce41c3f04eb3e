// Traffic of others: it takes its share of links, and the simulated messages share the rest.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "scenarios/src/reading/read_cluster.hpp"
#include "sim/observers/traffic.hpp"
#include "tests/collective_options.hpp"
#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "tests/user_errors.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_background {

using namespace trainyard;
using namespace trainyard::test;

namespace {

using Links = BackgroundTraffic::Links;

/// Hosts with adapters of 10 GB/s and background traffic.
ClusterSpec with_background(int hosts, std::shared_ptr<const Fabric> fabric, std::vector<BackgroundTraffic> traffic) {
  ClusterSpec spec = bare_hosts(hosts, std::move(fabric));
  spec.background = std::move(traffic);
  return spec;
}

BackgroundTraffic constant(double share, Links links = Links::all) {
  return {links, {{Seconds{0}, share}}, {}, nowhere()};
}

double ring_time(const ClusterSpec& spec, Bytes size, Folding folding = Folding::automatic) {
  CollectiveRunOptions o = collective_options(Operation::all_reduce, "ring", spec.nodes, size);
  o.folding = folding;
  return run_collective(spec, o).time;
}

/// Every host sends `size` to to[host], all at once. Returns the traffic and the time.
struct Exchange {
  Traffic traffic;
  double time;
};
Exchange exchange(ClusterMachine& machine, const std::vector<Actor>& to, double size) {
  std::vector<Actor> from(to.size());
  for (std::size_t a = 0; a < to.size(); ++a) from[static_cast<std::size_t>(to[a])] = static_cast<Actor>(a);
  Programs all;
  for (std::size_t a = 0; a < to.size(); ++a)
    all.push_back(std::make_unique<ListProgram>(std::vector<Op>{send(size, 0, 0, 0), recv(1, 0, 1)},
                                                std::vector<Actor>{to[a], from[a]}, 2));
  Exchange found{Traffic(machine.links()), 0};
  found.time = run_programs(machine, std::move(all),
                            {.observers = {&found.traffic},
                             .link_changes = background_changes(machine.spec().background, machine.graph())})
                   .end.value;
  return found;
}

std::string error_of(const std::string& background, const std::string& more = "nodes: 8, node: dgx-a100") {
  return user_error([&] {
    const Node node =
        parse_document(fmt::format("{{{}, fabric: leaf-spine, background: {}}}", more, background), "x.yaml");
    const ClusterSpec spec = read_cluster(node, Catalog());
    background_changes(spec.background, build_cluster(spec));
  });
}

}  // namespace

TEST_CASE("background traffic that takes half of each link doubles the time of a ring", "[background]") {
  const double alone = ring_time(bare_hosts(4, make_fabric("nonblocking")), Bytes{4e9});
  CHECK(alone == near(2 * 3 * 1e9 / 1e10));
  const ClusterSpec half = with_background(4, make_fabric("nonblocking"), {constant(0.5)});
  CHECK(ring_time(half, Bytes{4e9}) == near(2 * alone));
  CHECK(ring_time(half, Bytes{4e9}, Folding::off) == near(2 * alone));
  const ClusterSpec adapters = with_background(4, make_fabric("nonblocking"), {constant(0.75, Links::adapters)});
  CHECK(ring_time(adapters, Bytes{4e9}) == near(4 * alone));
}

TEST_CASE("bursts and profiles count by their mean over whole periods, and by their course before", "[background]") {
  // A quarter of each 10 ms is taken at 80 %: a fifth of the rate.
  const BackgroundTraffic bursts{Links::all, {{Seconds{0}, 0.8}, {Seconds{0.0025}, 0}}, Seconds{0.01}, nowhere()};
  const auto time = [](const BackgroundTraffic& traffic, double seconds_alone) {
    ClusterMachine machine(with_background(2, make_fabric("nonblocking"), {traffic}), SoftwareStack{});
    return exchange(machine, {1, 0}, seconds_alone * 1e10).time;
  };
  CHECK(time(bursts, 0.8) == near(1.0));
  CHECK(time(bursts, 0.0004) == near(0.002));                 // all of it within the first burst
  CHECK(time(bursts, 0.0005 + 0.0075) == near(0.01));         // one period
  CHECK(time(bursts, 0.008 + 0.0004) == near(0.01 + 0.002));  // the next burst
  const BackgroundTraffic once{Links::all, {{Seconds{0}, 0.5}, {Seconds{1}, 0}}, {}, nowhere()};
  CHECK(time(once, 0.4) == near(0.8));
  CHECK(time(once, 2.5) == near(1 + 2.0));
}

TEST_CASE("messages and background traffic together never exceed a link, and fill the one that limits",
          "[background]") {
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    const double share = static_cast<double>(random() % 95) / 100;
    const auto links = static_cast<Links>(random() % 4);
    const int ratio = 1 << random() % 3;
    const ClusterSpec spec = with_background(16, clos_of({{4, static_cast<double>(ratio)}}), {constant(share, links)});
    ClusterMachine machine(spec, SoftwareStack{});
    std::vector<Actor> to(16);
    for (Actor a = 0; a < 16; ++a) to[static_cast<std::size_t>(a)] = (a + 4) % 16;  // each message crosses the spines
    const Exchange found = exchange(machine, to, 1e9);
    CAPTURE(i, share, static_cast<int>(links), ratio);
    std::vector<double> left(machine.links().size(), 1);
    for (const LinkChange& change : background_changes(spec.background, machine.graph()))
      left[static_cast<std::size_t>(change.link)] =
          change.capacity.value / machine.links()[static_cast<std::size_t>(change.link)].capacity.value;
    double fullest = 0;
    for (std::size_t l = 0; l < left.size(); ++l) {
      const double full = found.traffic.on_link(static_cast<LinkId>(l)).value /
                          (machine.links()[l].capacity.value * left[l] * found.time);
      CHECK(full < 1 + 1e-9);
      fullest = std::max(fullest, full);
    }
    CHECK(fullest == near(1));
    const double adapter = links == Links::all || links == Links::adapters ? 1 - share : 1;
    const double uplink = links == Links::adapters ? 1 : 1 - share;
    CHECK(found.time == near(0.1 / std::min(adapter, uplink / ratio)));
  }
}

TEST_CASE("background traffic chooses links by their place in the fabric", "[background]") {
  const auto kinds_of = [](Links links) {
    const ClusterSpec spec = with_background(16, clos_of({{2, 1}, {4, 1}}), {constant(0.5, links)});
    const DeviceGraph graph = build_cluster(spec);
    std::map<std::string, int> counts;  // by what the name of the link contains
    for (const LinkChange& change : background_changes(spec.background, graph)) {
      const std::string& name = graph.links()[static_cast<std::size_t>(change.link)].name;
      ++counts[name.find("hca") != std::string::npos    ? "adapter"
               : name.find("core") != std::string::npos ? "core"
                                                        : "pod"];
    }
    return counts;
  };
  using Counts = std::map<std::string, int>;
  CHECK(kinds_of(Links::adapters) == Counts{{"adapter", 32}});
  CHECK(kinds_of(Links::spines) == Counts{{"core", 4}});
  CHECK(kinds_of(Links::uplinks) == Counts{{"core", 4}, {"pod", 16}});
  CHECK(kinds_of(Links::all) == Counts{{"adapter", 32}, {"core", 4}, {"pod", 16}});
}

TEST_CASE("changes of links that repeat do not hide a deadlock", "[background][executor]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  const std::vector<LinkChange> changes{{Seconds{0}, 0, kRate * 0.5, Seconds{0.1}},
                                        {Seconds{0.05}, 0, kRate, Seconds{0.1}}};
  CHECK(ends_of(m, programs(ListProgram({send(3e9)}, {1}), ListProgram({recv()}, {0})), changes)[0] == near(4.0));
  CHECK_THROWS_AS(ends_of(m, programs(ListProgram({send(3e9)}, {1}), ListProgram({recv(), recv(0, 1)}, {0})), changes),
                  Deadlock);
}

TEST_CASE("wrong background traffic is refused at its place", "[background]") {
  using Catch::Contains;
  CHECK(error_of("{share: 0.5}").empty());
  CHECK(error_of("[{links: uplinks, share: 0.5}, {links: adapters, share: 0.8, period: 10 ms, duty: 0.25}]").empty());
  CHECK(error_of("{links: spines, profile: [{share: 0.2}, {from: 5 ms, share: 0.8}], period: 8 ms}").empty());
  CHECK_THAT(error_of("{}"), Contains("share"));
  CHECK_THAT(error_of("{share: 1}"), Contains("x.yaml:1:") && Contains("share"));
  CHECK_THAT(error_of("{links: leaves, share: 0.5}"), Contains("leaves") && Contains("uplinks"));
  CHECK_THAT(error_of("{share: 0.5, period: 10 ms}"), Contains("expected both"));
  CHECK_THAT(error_of("{share: 0.5, duty: 0.5}"), Contains("expected both"));
  CHECK_THAT(error_of("{share: 0.5, duty: 0.5, period: 1 us}"), Contains("expected at least 10.0 us"));
  CHECK_THAT(error_of("{share: 0.5, profile: [{share: 0.2}]}"), Contains("leave `share` and `duty` out"));
  CHECK_THAT(error_of("{profile: [{share: 0.2}, {share: 0.4}]}"), Contains("ascending times"));
  CHECK_THAT(error_of("{profile: [{share: 0.2}, {from: 5 ms, share: 0.4}], period: 5 ms}"), Contains("the period is"));
  CHECK_THAT(error_of("[{share: 0.5}, {links: uplinks, share: 0.1}]"), Contains("two kinds of background traffic"));
  CHECK_THAT(error_of("{share: 0.5}", "node: dgx-a100"), Contains("one node has no cables to others"));
  const ClusterSpec one_switch = with_background(4, make_fabric("nonblocking"), {constant(0.5, Links::uplinks)});
  CHECK_THAT(user_error([&] { background_changes(one_switch.background, build_cluster(one_switch)); }),
             Contains("the fabric has no cables between switches"));
}

}  // namespace topologies_test_background
