// Adaptive routing: each message takes the least loaded of its paths when it starts.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/transfers.hpp"
#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_adaptive {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Hosts with adapters of 10 GB/s on leaves of `down` hosts, without oversubscription.
ClusterSpec clos(int hosts, int down, const std::string& routing, int seed = 1) {
  return bare_hosts(hosts,
                    make_fabric("folded-clos", fmt::format("{{levels: [{{down: {}}}], routing: {}{}}}", down, routing,
                                                           routing == "spray" ? "" : fmt::format(", seed: {}", seed))));
}

/// The times in ms at which 1 GB of each host arrives, all sent at once; 100 ms if nothing slows a message.
std::vector<double> arrivals(const ClusterSpec& spec, const std::vector<Actor>& to) {
  ClusterMachine machine(spec, SoftwareStack{});
  std::vector<Actor> from(to.size());
  for (std::size_t a = 0; a < to.size(); ++a) from[static_cast<std::size_t>(to[a])] = static_cast<Actor>(a);
  Programs all;
  for (std::size_t a = 0; a < to.size(); ++a)
    all.push_back(std::make_unique<ListProgram>(std::vector<Op>{send(1e9, 0, 0, 0), recv(1, 0, 1)},
                                                std::vector<Actor>{to[a], from[a]}, 2));
  Ends ends;
  run_programs(machine, std::move(all), {{&ends}});
  std::vector<double> ms;
  for (std::size_t a = 0; a < to.size(); ++a) ms.push_back(ends.last(static_cast<Actor>(a), 1) * 1e3);
  return ms;
}

/// Mean over the hosts of the share of its adapter's rate with which a message of each arrives.
double mean_rate(const std::vector<double>& ms) {
  double sum = 0;
  for (const double arrival : ms) sum += 100 / arrival;
  return sum / static_cast<double>(ms.size());
}

double last(const std::vector<double>& ms) { return *std::ranges::max_element(ms); }

}  // namespace

TEST_CASE("a message avoids the path of another one, where hashed routes collide", "[adaptive][fabrics]") {
  int collided = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const auto time = [seed](const std::string& routing) {
      return transfer_ms(clos(8, 4, routing, seed), {{0, 4, Bytes{1e9}}, {1, 5, Bytes{1e9}}});
    };
    CHECK(time("adaptive") == near(100));
    const double hashed = time("ecmp");
    CHECK((hashed == near(100) || hashed == near(200)));
    collided += hashed > 150 ? 1 : 0;
  }
  CHECK(collided > 0);
}

TEST_CASE("adaptive routes are never faster than sprayed ones, and in the mean not slower than hashed ones",
          "[adaptive][fabrics]") {
  std::mt19937 random(5);
  double adaptive_sum = 0, hashed_sum = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<Actor> to(16);
    for (Actor a = 0; a < 16; ++a) to[static_cast<std::size_t>(a)] = a;
    std::shuffle(to.begin(), to.end(), random);
    for (std::size_t a = 0; a < to.size(); ++a)  // nobody sends to itself
      if (to[a] == static_cast<Actor>(a)) std::swap(to[a], to[(a + 1) % to.size()]);
    const double sprayed = last(arrivals(clos(16, 4, "spray"), to));
    const double adaptive = last(arrivals(clos(16, 4, "adaptive"), to));
    const double hashed = last(arrivals(clos(16, 4, "ecmp", i + 1), to));
    CHECK(sprayed == near(100));
    CHECK(adaptive > sprayed * (1 - 1e-9));
    adaptive_sum += adaptive;
    hashed_sum += hashed;
  }
  CHECK(adaptive_sum < hashed_sum);
}

TEST_CASE("permutations get the share of the rate that is published for hashed and for adaptive routes",
          "[adaptive][fabrics]") {
  // NVIDIA about Spectrum-X (newsroom, 28 October 2024): 95 % data throughput; 60 % with flow collisions of Ethernet.
  std::mt19937 random(9);
  double adaptive = 0, hashed = 0;
  constexpr int runs = 6;
  for (int i = 0; i < runs; ++i) {
    std::vector<Actor> to(64);
    std::vector<Actor> order(64);
    for (Actor a = 0; a < 64; ++a) order[static_cast<std::size_t>(a)] = a;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t a = 0; a < order.size(); ++a)
      to[static_cast<std::size_t>(order[a])] = order[(a + 1) % order.size()];
    adaptive += mean_rate(arrivals(clos(64, 8, "adaptive"), to)) / runs;
    hashed += mean_rate(arrivals(clos(64, 8, "ecmp", i + 1), to)) / runs;
  }
  CAPTURE(adaptive, hashed);
  CHECK(hashed == Approx(0.60).margin(0.01));
  CHECK(adaptive == Approx(0.95).margin(0.01));
}

TEST_CASE("of more than 64 paths a message has 64 different ones, which use the uplinks of each level alike",
          "[adaptive][fabrics]") {
  // Leaves of 100 hosts have 100 paths; over 16 uplinks of a leaf and 12 of each switch above lead 192.
  for (const auto& [hosts, levels, uplinks] : {std::tuple{200, "[{down: 100}]", 100},
                                               {384, "[{down: 16}, {down: 12}]", 16},
                                               {240, "[{down: 10}, {down: 12}]", 10}}) {
    CAPTURE(levels);
    ClusterMachine machine(
        bare_hosts(hosts, make_fabric("folded-clos", fmt::format("{{levels: {}, routing: adaptive}}", levels))),
        SoftwareStack{});
    const std::vector<Route>* paths = machine.route(0, hosts - 1, PathClass::automatic).alternatives;
    REQUIRE(paths);
    CHECK(paths->size() == 64);
    std::set<std::vector<LinkId>> different;
    std::map<LinkId, int> uses;
    for (const Route& path : *paths) {
      std::vector<LinkId> links;
      for (const LinkUse& use : path.links) {
        links.push_back(use.link);
        if (machine.links()[static_cast<std::size_t>(use.link)].name.text().starts_with("leaf0 -> ")) ++uses[use.link];
      }
      different.insert(std::move(links));
    }
    CHECK(different.size() == 64);
    CHECK(static_cast<int>(uses.size()) == std::min(uplinks, 64));
    for (const auto& [link, count] : uses) CHECK(std::abs(count - 64 / uplinks) <= 1);
  }
}

TEST_CASE("three levels of adaptive routes carry a permutation at the mean rate of sprayed ones, or less",
          "[adaptive][fabrics]") {
  std::vector<Actor> to(64);
  for (std::size_t a = 0; a < to.size(); ++a) to[a] = static_cast<Actor>((a + 32) % 64);  // all cross the top
  const auto rate = [&to](const char* routing) {
    return mean_rate(arrivals(
        bare_hosts(64, make_fabric("folded-clos",
                                   fmt::format("{{levels: [{{down: 4}}, {{down: 4}}], routing: {}}}", routing))),
        to));
  };
  const double sprayed = rate("spray"), adaptive = rate("adaptive"), hashed = rate("ecmp");
  CHECK(sprayed == near(1));
  CHECK(adaptive < sprayed * (1 + 1e-9));
  CHECK(adaptive > hashed);
}

TEST_CASE("groups that move bytes at the same time share adaptive routes: a step lies between sprayed and hashed ones",
          "[adaptive][scenarios]") {
  const auto time = [](const char* name, Overrides sets, const std::string& routing, int seed) {
    sets.push_back({"cluster.fabric", fmt::format("{{base: leaf-spine, routing: {}{}}}", routing,
                                                  routing == "spray" ? "" : fmt::format(", seed: {}", seed))});
    const Scenario s = read_scenario(fmt::format(TRAINYARD_SOURCE_DIR "/scenarios/{}.yaml", name), sets);
    return simulate(s, SimulateOptions{.critical_path = false}).step_time.value;
  };
  for (const auto& [name, sets] :
       {std::pair<const char*, Overrides>{"mixtral-ep8", {{"cluster.nodes", "64"}, {"plan.global_batch_size", "2048"}}},
        {"mixtral-ep8", {{"cluster.nodes", "16"}, {"plan.global_batch_size", "512"}}},
        {"llama3-70b-tp8-pp4", {}},
        {"llama3-8b-fsdp-64xh100", {{"cluster.nodes", "32"}, {"plan.global_batch_size", "512"}}}}) {
    CAPTURE(name);
    const double sprayed = time(name, sets, "spray", 1);
    for (int seed = 1; seed <= 3; ++seed) {
      const double adaptive = time(name, sets, "adaptive", seed), hashed = time(name, sets, "ecmp", seed);
      CAPTURE(seed, sprayed, adaptive, hashed);
      CHECK(adaptive <= hashed * 1.01);
      CHECK(adaptive >= sprayed * 0.99);
      CHECK(adaptive == Approx(sprayed).epsilon(0.05));  // the share of 95 % of above
    }
  }
}

TEST_CASE("all ranks are simulated where the load chooses paths, and values stay right", "[adaptive][folding]") {
  CollectiveRunOptions o = collective_options(Operation::all_reduce, "ring", 8, Bytes{8e9});
  const double adaptive = run_collective(clos(8, 4, "adaptive"), o).time;
  CHECK(adaptive == near(2 * 7 * 1e9 / 1e10));
  o.options.settings.fidelity = Fidelity::flows;
  CHECK(run_collective(clos(8, 4, "adaptive"), o).time > 0);
  ClusterMachine machine(clos(8, 4, "adaptive"), SoftwareStack{});
  CHECK(machine.route(0, 4, PathClass::automatic).alternatives->size() == 4);
  CHECK(machine.route(0, 1, PathClass::automatic).alternatives == nullptr);  // one leaf switch joins them
  // A path that is down is no choice any more.
  const DeviceGraph& graph = machine.graph();
  const auto named = [&graph](const std::string& name) {
    for (LinkId wire = 0; wire < static_cast<LinkId>(graph.wires().size()); ++wire)
      if (graph.wires()[static_cast<std::size_t>(wire)].name == name) return wire;
    return LinkId{-1};
  };
  machine.link_state(named("leaf0 -> spine1"), false);
  CHECK(machine.route(0, 4, PathClass::automatic).alternatives->size() == 3);
  const ClusterMachine hashed(clos(8, 4, "ecmp"), SoftwareStack{});
  CHECK(hashed.route(0, 4, PathClass::automatic).alternatives == nullptr);
  CHECK_THROWS_WITH(make_fabric("folded-clos", "{levels: [{down: 4}], routing: adaptive, queue_pairs: 4}"),
                    Catch::Contains("chooses a path for each message"));
}

}  // namespace topologies_test_adaptive
