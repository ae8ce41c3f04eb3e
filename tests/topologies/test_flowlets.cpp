// Flowlets: a message chooses the least loaded of its paths again after every few bytes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace topologies_test_flowlets {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ClusterSpec clos(int hosts, const std::string& fields) {
  return bare_hosts(hosts, make_fabric("folded-clos", "{" + fields + "}"));
}

/// A cluster one of whose links has half of its rate.
class HalfLink : public ClusterMachine {
 public:
  HalfLink(const ClusterSpec& spec, const std::string& slow) : ClusterMachine(spec, SoftwareStack{}) {
    for (const Link& link : ClusterMachine::links()) {
      links_.push_back(link);
      if (link.name == slow) links_.back().capacity = link.capacity * 0.5;
    }
  }
  std::span<const Link> links() const override { return links_; }

 private:
  std::vector<Link> links_;
};

struct Arrivals {
  std::vector<double> ms;
  double bytes_on_links = 0;
};

/// Host i of the first half sends `size` to host i of the second half; all begin at once.
Arrivals cross(Machine& machine, int hosts, Bytes size) {
  Programs all;
  for (Actor a = 0; a < hosts; ++a) {
    const bool sends = a < hosts / 2;
    const Actor peer = sends ? a + hosts / 2 : a - hosts / 2;
    all.push_back(std::make_unique<ListProgram>(std::vector<Op>{sends ? send(size.value, 0, 0, 0) : recv(0, 0, 1)},
                                                std::vector<Actor>{peer}, 2));
  }
  Ends ends;
  Traffic traffic(machine.links());
  run_programs(machine, std::move(all), {{&ends, &traffic}});
  Arrivals found;
  for (Actor a = hosts / 2; a < hosts; ++a) found.ms.push_back(ends.last(a, 1) * 1e3);
  for (LinkId link = 0; link < static_cast<LinkId>(machine.links().size()); ++link)
    found.bytes_on_links += traffic.on_link(link).value;
  return found;
}

/// Sum over the senders of the rates, in Gb/s, with which their messages arrive.
double gigabits(const Arrivals& arrivals, Bytes size) {
  double sum = 0;
  for (const double ms : arrivals.ms) sum += size.value * 8e-6 / ms;
  return sum;
}

}  // namespace

TEST_CASE("where one of two spines has half of the rate, throughputs are those of CONGA's Figure 2",
          "[flowlets][fabrics]") {
  // Alizadeh et al. 2014, Figure 2: 100 Gb/s of traffic between two leaves, links of 80 Gb/s, one of 40 Gb/s. Static
  // ECMP carries 90, global congestion awareness 100.
  const Bytes size{1.25e9};
  const auto carried = [size](const std::string& routing) {
    ClusterSpec spec = clos(20, "levels: [{down: 10, oversubscription: 5}], link_rate: 80 Gbit/s, routing: " + routing);
    spec.node.hca_rate = BytesPerSecond{1.25e9};
    HalfLink machine(spec, "spine1 -> leaf1");
    return gigabits(cross(machine, 20, size), size);
  };
  CHECK(carried("flowlets") == Approx(100).epsilon(0.01));
  bool splits_evenly = false;  // with some seed, five messages take either path, as the figure assumes
  for (int seed = 1; seed <= 20 && !splits_evenly; ++seed)
    splits_evenly = std::abs(carried(fmt::format("ecmp, seed: {}", seed)) - 90) < 0.9;
  CHECK(splits_evenly);
}

TEST_CASE("flowlets leave a path that others share, where a message would stay", "[flowlets][fabrics]") {
  // Three messages on two paths of the adapters' rate: two of them share one path until the third is over. Then one of
  // the two takes its path if they have flowlets.
  const auto arrivals = [](const std::string& routing) {
    const ClusterSpec spec = clos(6, "levels: [{down: 3, oversubscription: 1.5}], routing: " + routing);
    ClusterMachine machine(spec, SoftwareStack{});
    return cross(machine, 6, Bytes{1e9});
  };
  std::vector<double> adaptive = arrivals("adaptive").ms;
  std::sort(adaptive.begin(), adaptive.end());
  CHECK(adaptive.front() == near(100));
  CHECK(adaptive.back() == near(200));
  const Arrivals flowlets = arrivals("flowlets, flowlet: 100 kB");
  CHECK(*std::ranges::max_element(flowlets.ms) == Approx(150).epsilon(0.005));
  CHECK(*std::ranges::min_element(flowlets.ms) > 99);
  // Every byte crosses the same number of links.
  CHECK(flowlets.bytes_on_links == near(arrivals("adaptive").bytes_on_links));
}

TEST_CASE("messages of at most one flowlet take the times of adaptive routes", "[flowlets][fabrics]") {
  const auto arrivals = [](const std::string& routing) {
    const ClusterSpec spec = clos(16, "levels: [{down: 8, oversubscription: 2}], routing: " + routing);
    ClusterMachine machine(spec, SoftwareStack{});
    return cross(machine, 16, Bytes{1e9}).ms;
  };
  CHECK(arrivals("flowlets, flowlet: 1 GB") == arrivals("adaptive"));
}

TEST_CASE("errors of flowlets name their key", "[flowlets][fabrics]") {
  const auto error_of = [](const std::string& fields) {
    return [fields] { make_fabric("folded-clos", "{levels: [{down: 4}], " + fields + "}"); };
  };
  CHECK_THROWS_WITH(error_of("routing: adaptive, flowlet: 1 MB")(),
                    Catch::Contains("flowlet: with routing flowlets only"));
  CHECK_THROWS_WITH(error_of("routing: flowlets, flowlet: 0.1 B")(), Catch::Contains("too small"));
}

TEST_CASE("with three levels and more than 64 paths, the paths to choose from differ and use all uplinks of a leaf",
          "[adaptive][fabrics]") {
  struct Case {
    int down, up;  // numbers of uplinks: those of a leaf, and those of a pod
  };
  for (const Case& c : {Case{16, 16}, Case{12, 16}, Case{12, 9}}) {
    CAPTURE(c.down, c.up);
    // Two pods of two leaves.
    const ClusterSpec spec = clos(4 * c.down, fmt::format("levels: [{{down: {}}}, {{down: 2, oversubscription: {}}}], "
                                                          "routing: adaptive",
                                                          c.down, 2.0 / c.up));
    ClusterMachine machine(spec, SoftwareStack{});
    const Route route = machine.route(0, 3 * c.down, PathClass::automatic);
    REQUIRE(route.alternatives != nullptr);
    CHECK(c.down * c.up > 64);
    CHECK(route.alternatives->size() == 64);
    std::set<std::vector<LinkId>> paths;
    std::set<LinkId> leaf_links, pod_links;
    for (const Route& choice : *route.alternatives) {
      std::vector<LinkId> links;
      for (const LinkUse& use : choice.links) {
        links.push_back(use.link);
        const std::string name = machine.links()[static_cast<std::size_t>(use.link)].name;
        if (name.starts_with("leaf0 -> ")) leaf_links.insert(use.link);
        if (name.starts_with("pod0") && name.find("core") != std::string::npos) pod_links.insert(use.link);
      }
      paths.insert(links);
    }
    CHECK(paths.size() == 64);
    CHECK(leaf_links.size() == static_cast<std::size_t>(c.down));
    CHECK(pod_links.size() == 64);
    // All hosts of one leaf send to another pod without sharing a link.
    Programs all;
    const int hosts = 4 * c.down;
    for (Actor a = 0; a < hosts; ++a) {
      const bool sends = a < c.down, takes = a >= 3 * c.down;
      const Actor peer = sends ? a + 3 * c.down : a - 3 * c.down;
      if (sends || takes)
        all.push_back(std::make_unique<ListProgram>(std::vector<Op>{sends ? send(1e9, 0, 0, 0) : recv(0, 0, 1)},
                                                    std::vector<Actor>{peer}, 2));
      else
        all.push_back(std::make_unique<ListProgram>(std::vector<Op>{}, std::vector<Actor>{}, 1));
    }
    Ends ends;
    run_programs(machine, std::move(all), {{&ends}});
    for (Actor a = 3 * c.down; a < hosts; ++a) CHECK(ends.last(a, 1) * 1e3 == near(100));
  }
}

}  // namespace topologies_test_flowlets
