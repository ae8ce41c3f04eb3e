// Folding on machines and programs small enough to be written down.
#include <catch2/catch.hpp>
#include <random>

#include "sim/folding/fold_check.hpp"
#include "sim/folding/folded_machine.hpp"
#include "sim/program.hpp"
#include "tests/support.hpp"

namespace sim_test_fold {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr BytesPerSecond kRate{1e9};

/// A machine on which all actors compute equally fast.
class EqualMachine : public TableMachine {
 public:
  std::uint64_t equivalence_class(Actor) const override { return 0; }
};

/// Rings of actors that pass on a message a number of times, each time after some work.
class Rings : public ProgramSource {
 public:
  Rings(int actors, int ring, std::uint32_t steps) : actors_(actors), ring_(ring), steps_(steps) {}
  Actor actors() const override { return actors_; }
  ActorOutline outline(Actor a) const override {
    return {a == stuck ? 2U : work(a) > 1 ? 1U : 0U, {next(a), previous(a)}, {}};
  }
  std::unique_ptr<Program> program(Actor a) const override {
    std::vector<Op> ops;
    for (std::uint32_t step = 0; step < steps_; ++step) {
      ops.push_back(compute(work(a) * 1e-3));
      ops.back().stream = 2;
      ops.push_back(after(send(1e6, 0, 0, 0), 2, step + 1));
      ops.push_back(message(Kind::recv, 0, 1, 0, 1));
      if (stuck == a) ops.pop_back();
    }
    return std::make_unique<ListProgram>(ops, std::vector<Actor>{next(a), previous(a)}, 3);
  }
  Programs all() const {
    Programs programs;
    for (Actor a = 0; a < actors_; ++a) programs.push_back(program(a));
    return programs;
  }
  Actor slow = -1, stuck = -1;

 private:
  int actors_, ring_;
  std::uint32_t steps_;
  double work(Actor a) const { return a == slow ? 3 : 1; }
  Actor next(Actor a) const { return a / ring_ * ring_ + (a + 1) % ring_; }
  Actor previous(Actor a) const { return a / ring_ * ring_ + (a + ring_ - 1) % ring_; }
};

/// Connects the actors as a star. The actors of a node share one link out of the node and one link into it.
void wire(EqualMachine& m, int actors, int per_node, int ring) {
  std::vector<LinkId> up, down, out, in;
  for (int a = 0; a < actors; ++a) {
    up.push_back(m.link(kRate));
    down.push_back(m.link(kRate));
  }
  for (int n = 0; n < actors / per_node; ++n) {
    out.push_back(m.link(kRate * 0.5));
    in.push_back(m.link(kRate * 0.5));
  }
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int a = 0; a < actors; ++a)
    for (const int step : {1, ring - 1}) {
      const int b = a / ring * ring + (a + step) % ring;
      std::vector<LinkUse> links{{up[at(a)], 1}};
      if (a / per_node != b / per_node) {
        links.push_back({out[at(a / per_node)], 1});
        links.push_back({in[at(b / per_node)], 1});
      }
      links.push_back({down[at(b)], 1});
      m.connect(a, b, links, {1000000});
      if (ring == 2) break;
    }
}

double end_of(const Rings& rings, int per_node, int ring, bool folded, int* classes = nullptr) {
  EqualMachine m;
  wire(m, rings.actors(), per_node, ring);
  const Fold fold(m, rings);
  if (classes) *classes = static_cast<int>(fold.classes());
  if (!folded) return run_programs(m, rings.all()).end.value;
  FoldedMachine quotient(m, fold);
  return run_programs(quotient, fold.programs(rings)).end.value;
}

}  // namespace

TEST_CASE("rings over nodes fold to one class for each place in a node, and take the same time", "[sim][folding]") {
  int classes = 0;
  const Rings rings(32, 32, 9);
  CHECK(end_of(rings, 4, 32, true, &classes) == Approx(end_of(rings, 4, 32, false)).epsilon(1e-12));
  CHECK(classes == 4);
  const Rings pairs(32, 2, 9);  // within a node: all alike
  CHECK(end_of(pairs, 4, 2, true, &classes) == Approx(end_of(pairs, 4, 2, false)).epsilon(1e-12));
  CHECK(classes == 1);
}

TEST_CASE("a slow actor puts its ring, and no other, into a class of its own", "[sim][folding]") {
  Rings rings(32, 8, 9);
  rings.slow = 3;
  int classes = 0;
  CHECK(end_of(rings, 8, 8, true, &classes) == Approx(end_of(rings, 8, 8, false)).epsilon(1e-12));
  CHECK(classes == 8 + 1);
}

TEST_CASE("links in a row are one bundle, but classes of their own by their rates", "[sim][folding]") {
  const Rings pairs(8, 2, 9);
  EqualMachine m;
  for (int a = 0; a < 8; ++a) {
    std::vector<LinkUse> links;
    for (const double share : {1.0, 0.5, 1.0}) links.push_back({m.link(kRate * share), 1});
    m.connect(a, a ^ 1, links, {1000000});
  }
  const folding::FoldGraph graph(m, pairs, {});
  CHECK(graph.links.size() == 24);
  CHECK(graph.bundles.size() == 8);
  const Fold fold(m, pairs);
  CHECK(fold.classes() == 1);
  CHECK(fold.links().size() == 2);
  FoldedMachine quotient(m, fold);
  CHECK(run_programs(quotient, fold.programs(pairs)).end.value ==
        Approx(run_programs(m, pairs.all()).end.value).epsilon(1e-12));
}

/// A change of a link that no message crosses. With it, no shift is looked for, and actors are compared one by one.
std::vector<LinkChange> idle_change(EqualMachine& m) { return {{Seconds{1}, m.link(kRate), kRate * 0.5}}; }

TEST_CASE("actors fold by the orbits of a shift as they do one by one", "[sim][folding]") {
  const auto [per_node, ring, slow, orbits] = GENERATE(
      table<int, int, int, int>({{4, 512, -1, 4}, {4, 8, -1, 8}, {8, 2, -1, 2}, {16, 32, -1, 32}, {4, 8, 5, 512}}));
  Rings rings(512, ring, 9);
  rings.slow = slow;
  EqualMachine m;
  wire(m, 512, per_node, ring);
  const std::vector<LinkChange> change = idle_change(m);
  CHECK(folding::CyclicSymmetry::find(m, rings).orbits() == orbits);
  const Fold by_orbits(m, rings), one_by_one(m, rings, change);
  CHECK(by_orbits.refusal() == one_by_one.refusal());
  REQUIRE(by_orbits.classes() == one_by_one.classes());
  for (Actor a = 0; a < 512; ++a) CHECK(by_orbits.class_of(a) == one_by_one.class_of(a));
  for (LinkId l = 0; l < static_cast<LinkId>(m.links().size()); ++l)
    CHECK(by_orbits.class_of_link(l) == one_by_one.class_of_link(l));
  CHECK(by_orbits.multiplicity().links == one_by_one.multiplicity().links);
  FoldedMachine orbit_machine(m, by_orbits), single_machine(m, one_by_one);
  CHECK(run_programs(orbit_machine, by_orbits.programs(rings)).end.value ==
        run_programs(single_machine, one_by_one.programs(rings)).end.value);
}

TEST_CASE("a link of another rate, or on a longer path, leaves no shift", "[sim][folding]") {
  const Rings rings(512, 512, 3);
  const double rate = GENERATE(1.0, 0.7);
  EqualMachine m;
  m.connect(300, 301, {{m.link(kRate * rate), 1}}, {rate < 1 ? 1000000 : 1100000});  // before others: it is preferred
  wire(m, 512, 4, 512);
  CHECK(!folding::CyclicSymmetry::find(m, rings).moves());
}

TEST_CASE("the check refuses classes whose members are not equivalent", "[sim][folding]") {
  std::mt19937 random(3);
  Rings rings(24, 24, 3);
  rings.slow = 5;
  EqualMachine m;
  wire(m, 24, 4, 24);
  const folding::FoldGraph graph(m, rings, {});
  const folding::Partition right = folding::refine(graph.coloured_graph());
  CHECK(folding::broken_condition(graph, right) == "");
  std::vector<char> bundled(graph.links.size(), 0);  // each link is in one bundle
  for (std::size_t b = 0; b < graph.bundles.size(); ++b)
    for (const std::uint32_t link : graph.bundles[b]) bundled[link] += 1;
  CHECK(std::count(bundled.begin(), bundled.end(), 1) == static_cast<std::ptrdiff_t>(bundled.size()));
  for (int i = 0; i < 200; ++i) {
    folding::Partition merged = right;
    const auto a = static_cast<std::uint32_t>(random() % right.classes),
               b = static_cast<std::uint32_t>(random() % right.classes);
    if (a == b) continue;
    for (std::uint32_t& c : merged.class_of)
      if (c == std::max(a, b)) c = std::min(a, b);
    // Classes of different kinds are never compared; within a kind, one of the conditions is violated.
    const auto kind = [&](std::uint32_t c) {
      const auto at = std::find(right.class_of.begin(), right.class_of.end(), c) - right.class_of.begin();
      return static_cast<folding::Element>(at) < graph.bundle_element(0);
    };
    if (kind(a) == kind(b)) CHECK(folding::broken_condition(graph, merged) != "");
  }
}

TEST_CASE("a deadlock names its rank, whether the actors are folded or not", "[sim][folding]") {
  Rings rings(8, 8, 2);
  rings.stuck = 0;
  for (const bool folded : {false, true}) {
    CHECK_THROWS_AS(end_of(rings, 8, 8, folded), Deadlock);
    CHECK_THROWS_WITH(end_of(rings, 8, 8, folded), Catch::Contains("rank 0"));
  }
}

}  // namespace sim_test_fold
