// Compares the designs with an exhaustive search of the families that clos_design.hpp defines.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support.hpp"
#include "topologies/analysis/clos_design.hpp"

namespace topologies_test_clos_design {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

int rounded_up(double v) { return static_cast<int>(std::ceil(v - 1e-9)); }
constexpr int kNone = 1 << 20;

/// The fewest spines for leaves with these hosts if every leaf splits its traffic equally, with any wiring: spine j
/// takes the share p of all traffic if leaf i has at least d_i p / r links to it. Only shares that fill some leaf's
/// links matter; they come in descending order.
class FewestSpines {
 public:
  FewestSpines(std::vector<int> hosts, int ports, double r) : hosts_(std::move(hosts)), ports_(ports), r_(r) {
    for (const int d : hosts_)
      for (int links = 1; links < ports; ++links) shares_.insert(std::min(1.0, links * r / d));
  }
  int find(int most) {
    most_ = most;
    std::vector<int> up(hosts_.size());
    extend(up, 1.0, 1.0, 0);
    return best_;
  }

 private:
  std::vector<int> hosts_;
  int ports_;
  double r_;
  std::set<double> shares_;
  int most_ = 0, best_ = kNone;

  void extend(const std::vector<int>& up, double largest, double left, int spines) {
    if (left <= 1e-9) best_ = std::min(best_, spines);
    if (left <= 1e-9 || spines + 1 >= best_ || spines == most_) return;
    for (const double share : shares_) {
      if (share > largest + 1e-12 || share * (most_ - spines) < left - 1e-9) continue;
      std::vector<int> next = up;
      int column = 0;
      bool fits = true;
      for (std::size_t i = 0; i < hosts_.size(); ++i) {
        const int links = rounded_up(hosts_[i] * std::min(share, left) / r_);
        column += links;
        next[i] += links;
        fits &= hosts_[i] + next[i] <= ports_;
      }
      if (fits && column <= ports_) extend(next, share, left - share, spines + 1);
    }
  }
};

/// All ways to write `hosts` as `leaves` descending parts of at most `most`.
void partitions(int hosts, int leaves, int most, std::vector<int>& parts,
                const std::function<void(const std::vector<int>&)>& use) {
  if (leaves == 0) {
    if (hosts == 0) use(parts);
    return;
  }
  for (int d = std::min(most, hosts - (leaves - 1)); d * leaves >= hosts && d >= 1; --d) {
    parts.push_back(d);
    partitions(hosts - d, leaves - 1, d, parts, use);
    parts.pop_back();
  }
}

int fewest_of_two_levels(int hosts, int ports, double r) {
  int best = kNone;
  for (int leaves = 2; leaves <= hosts && leaves + 1 < best; ++leaves) {
    std::vector<int> parts;
    partitions(hosts, leaves, ports - 1, parts, [&](const std::vector<int>& of_leaf) {
      const int most = std::min(best - leaves - 1, ports);
      if (most >= 1) best = std::min(best, leaves + FewestSpines(of_leaf, ports, r).find(most));
    });
  }
  return best;
}

/// The fewest switches above the leaves for pods of `leaves` leaves with at most d hosts each and D in all. Each
/// aggregation switch has e links to every leaf and w up, and takes the share min(e r / d, w r / D).
struct FewestAbove {
  int ports, pods, leaves, d, D;
  double r;
  int best = kNone;

  void extend(double left, int most_e, int most_w, int leaf_ports, int up, int aggregation) {
    if (pods * aggregation + 1 >= best) return;
    if (left <= 1e-9) {
      best = std::min(best, pods * aggregation + (up + ports / pods - 1) / (ports / pods));
      return;
    }
    for (int e = std::min({most_e, leaf_ports, ports / leaves}); e >= 1; --e)
      for (int w = ports - leaves * e; w >= 1; --w) {
        if (e == most_e && w > most_w) continue;
        extend(left - std::min(e * r / d, w * r / D), e, w, leaf_ports - e, up + w, aggregation + 1);
      }
  }
};

/// The fewest leaves that hold all hosts, in pods of at most `of_pod` leaves, with at most d hosts per leaf and D per pod.
/// kNone if the pods cannot hold them.
int fewest_leaves(int hosts, int pods, int of_pod, int d, int D) {
  int leaves = 0;
  std::vector<int> hosts_of_pod(static_cast<std::size_t>(pods)), count(static_cast<std::size_t>(pods));
  while (hosts > 0) {
    int gain = 0;
    std::size_t place = 0;
    for (std::size_t p = 0; p < hosts_of_pod.size(); ++p)
      if (count[p] < of_pod && std::min(d, D - hosts_of_pod[p]) > gain)
        gain = std::min(d, D - hosts_of_pod[p]), place = p;
    if (gain == 0) return kNone;
    hosts_of_pod[place] += gain, ++count[place], ++leaves;
    hosts -= gain;
  }
  return leaves;
}

int fewest_of_three_levels(int hosts, int ports, double r) {
  int best = kNone;
  for (int pods = 2; pods <= ports; ++pods)
    for (int of_pod = 1; of_pod < ports; ++of_pod)
      for (int d = 1; d < ports; ++d)
        for (int D = d; D <= of_pod * d && D * (pods - 1) < D + hosts && D < hosts; ++D) {
          const int leaves = fewest_leaves(hosts, pods, of_pod, d, D);
          if (leaves >= best || leaves < pods) continue;
          FewestAbove above{ports, pods, of_pod, d, D, r};
          above.best = std::min(kNone, best - leaves);
          above.extend(1.0, ports, ports, ports - d, 0, 0);
          best = std::min(best, leaves + above.best);
        }
  return best;
}

int designed(int hosts, int ports, double r, int levels) {
  if (hosts > most_clos_hosts(ports, levels, r)) return kNone;
  return static_cast<int>(design_clos({hosts, ports, r, levels}).switches);
}

}  // namespace

TEST_CASE("no two-level fabric of few hosts has fewer switches", "[topologies][clos]") {
  for (const double r : {1.0, 1.5, 2.0, 3.0})
    for (int ports = 2; ports <= 8; ++ports)
      for (int hosts = 2; hosts <= 20; ++hosts) {
        CAPTURE(hosts, ports, r);
        CHECK(designed(hosts, ports, r, 2) == fewest_of_two_levels(hosts, ports, r));
      }
}

TEST_CASE("no three-level fabric of few hosts has fewer switches", "[topologies][clos]") {
  for (const double r : {1.0, 2.0})
    for (int ports = 2; ports <= 6; ++ports)
      for (int hosts = 2; hosts <= 20; ++hosts) {
        CAPTURE(hosts, ports, r);
        CHECK(designed(hosts, ports, r, 3) == fewest_of_three_levels(hosts, ports, r));
      }
}

TEST_CASE("the largest leaf-spines and fat trees have the known numbers of hosts, switches and links",
          "[topologies][clos]") {
  for (const int k : {4, 8, 36, 40, 64}) {
    CAPTURE(k);
    CHECK(most_clos_hosts(k, 1) == k);
    CHECK(most_clos_hosts(k, 2) == k * k / 2);
    CHECK(most_clos_hosts(k, 3) == k * k * k / 4);
    const ClosDesign two = design_clos({k * k / 2, k});
    REQUIRE(two.levels.size() == 2);
    CHECK(two.levels[0].switches == k);
    CHECK(two.levels[1].switches == k / 2);
    CHECK(two.links == k * k / 2);
    CHECK(two.ports_left == 0);
    const ClosDesign three = design_clos({k * k * k / 4, k});
    REQUIRE(three.levels.size() == 3);
    CHECK(three.pods == k);
    CHECK(three.switches == 5 * k * k / 4);
    CHECK(three.links == 2 * (k * k * k / 4));
    CHECK(three.ports_left == 0);
  }
  // With an odd number of ports a leaf has one more uplink than hosts: a fat tree of k/2 rounded down has 20.
  CHECK(most_clos_hosts(5, 3) == 30);
  CHECK(design_clos({30, 5}).switches == 36);
}

TEST_CASE("a design's parts add up", "[topologies][clos]") {
  for (const double r : {1.0, 1.2, 2.0, 3.0, 7.5})
    for (const int ports : {2, 3, 5, 16, 31, 48})
      for (std::int64_t hosts : {1, 2, 3, 7, 16, 33, 100, 129, 500, 1151, 4000, 20000}) {
        CAPTURE(hosts, ports, r);
        if (hosts > most_clos_hosts(ports, 0, r)) {
          CHECK_THROWS_AS(design_clos({hosts, ports, r}), UserError);
          continue;
        }
        const ClosDesign design = design_clos({hosts, ports, r});
        std::int64_t switches = 0;
        for (const ClosLevel& level : design.levels) {
          switches += level.switches;
          CHECK(level.down + level.up <= ports);
          CHECK(level.switches >= 1);
        }
        CHECK(switches == design.switches);
        CHECK(design.cables() == hosts + design.links);
        CHECK(design.ports_left == switches * ports - hosts - 2 * design.links);
        CHECK(design.ports_left >= 0);
        CHECK(design.oversubscription <= r + 1e-9);
        CHECK((design.levels.size() == 1) == (hosts <= ports));
        // Every level carries what the hosts may send upwards.
        if (design.levels.size() > 1)
          CHECK(static_cast<double>(design.links) * r >=
                static_cast<double>(hosts * (design.levels.size() == 2 ? 1 : 2)) - 1e-6);
      }
}

TEST_CASE("a bigger fabric or less oversubscription takes no fewer switches", "[topologies][clos]") {
  for (const int ports : {6, 9, 16}) {
    std::int64_t before = 0;
    for (std::int64_t hosts = 1; hosts <= most_clos_hosts(ports, 0) && hosts <= 600; ++hosts) {
      CAPTURE(hosts, ports);
      const std::int64_t switches = design_clos({hosts, ports}).switches;
      CHECK(switches >= before);
      CHECK(design_clos({hosts, ports, 2}).switches <= switches);
      before = switches;
    }
  }
}

TEST_CASE("designs at scale do not change", "[topologies][clos]") {
  CHECK(design_clos({1024, 64}).switches == 48);
  CHECK(design_clos({1024, 64, 1, 3}).switches == 80);
  CHECK(design_clos({20, 8}).switches == 9);  // counting ports would say 8
  CHECK(design_clos({64, 64}).switches == 1);
  CHECK(design_clos({524288, 128}).switches == 20480);
  CHECK(design_clos({1000000, 256}).levels.size() == 3);
  CHECK(design_clos({48, 48, 1, 2}).levels.size() == 2);
}

TEST_CASE("errors of impossible designs name the largest number of hosts", "[topologies][clos]") {
  CHECK_THROWS_WITH(design_clos({9, 4, 1, 2}), Contains("in 2 levels; the most is 8"));
  CHECK_THROWS_WITH(design_clos({17, 4}), Contains("in up to 3 levels; the most is 16"));
  CHECK_THROWS_WITH(design_clos({5, 4, 1, 1}), Contains("in 1 level; the most is 4"));
  CHECK_THROWS_WITH(design_clos({1000, 4, 3}), Contains("at 3:1; the most is"));
  CHECK_THROWS_WITH(design_clos({0, 4}), Contains("0 hosts"));
  CHECK_THROWS_WITH(design_clos({4, 0}), Contains("0 ports"));
  CHECK_THROWS_WITH(design_clos({4, 1025}), Contains("1025 ports"));
  CHECK_THROWS_WITH(design_clos({4, 4, 0.5}), Contains("oversubscription 0.5"));
  CHECK_THROWS_WITH(design_clos({4, 4, std::nan("")}), Contains("oversubscription"));
  CHECK_THROWS_WITH(design_clos({4, 4, 1, 4}), Contains("4 levels"));
  CHECK_THROWS_WITH(design_clos({1, 4, 1, 2}), Contains("at least 2 hosts"));
  CHECK_THROWS_WITH(design_clos({4, 1}), Contains("the most is 1"));
}

}  // namespace topologies_test_clos_design
