// Random topologies and schedules: properties that hold in every case.
#include <random>

#include "sim/names.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/observers/path_sums.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"

namespace sim_test_properties {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// A random case: actors on random links with random latencies; each actor has work and messages on three streams. All
/// actors walk the same list of messages, so that every send has its receive and none waits in a circle.
struct RandomCase {
  TableMachine machine;
  std::vector<std::unique_ptr<Program>> programs;
  double bytes = 0;

  explicit RandomCase(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&random](int from, int to) {
      return static_cast<int>(random() % static_cast<unsigned>(to - from + 1)) + from;
    };
    const int actors = pick(2, 7), link_count = pick(2, 8);
    for (int l = 0; l < link_count; ++l) machine.link(BytesPerSecond{1e9 * pick(1, 4)});
    for (Actor a = 0; a < actors; ++a)
      for (Actor b = 0; b < actors; ++b) {
        if (a == b) continue;
        std::vector<LinkUse> path;
        for (int hop = pick(1, 3); hop > 0; --hop) {
          const LinkId l = pick(0, link_count - 1);
          bool fresh = true;
          for (const LinkUse& use : path) fresh &= use.link != l;
          if (fresh) path.push_back({l, 1});
        }
        machine.connect(a, b, path, {pick(0, 5) * 1000000});
      }
    if (pick(0, 1) == 1)
      machine.interference = [](Actor, Kind kind, KindSet active) {
        return kind == Kind::compute && (active & (bit(Kind::send) | bit(Kind::recv))) ? 0.75 : 1.0;
      };
    std::vector<std::vector<Op>> ops(static_cast<std::size_t>(actors));
    for (int m = pick(5, 40); m > 0; --m) {
      const Actor from = pick(0, actors - 1);
      const Actor to = (from + pick(1, actors - 1)) % actors;
      const double size = pick(0, 4) == 0 ? 0 : 1e5 * pick(1, 3);
      const Mode mode = static_cast<Mode>(pick(0, 2));
      bytes += size;
      ops[static_cast<std::size_t>(from)].push_back(
          send(size, static_cast<std::uint16_t>(to), static_cast<Tag>(m), 1, mode));
      ops[static_cast<std::size_t>(to)].push_back(recv(static_cast<std::uint16_t>(from), static_cast<Tag>(m), 2));
      for (const Actor a : {from, to})
        if (pick(0, 1) == 1) ops[static_cast<std::size_t>(a)].push_back(compute(1e-4 * pick(0, 3), 0));
    }
    const std::vector<Actor> everyone = consecutive_numbers(Actor{0}, actors);
    for (auto& list : ops) {
      // Some operations wait for all earlier ones of another stream. Earlier means in one common order; therefore no
      // circle arises.
      std::uint32_t count[3] = {};
      for (Op& op : list) {
        const auto other = static_cast<Stream>(pick(0, 2));
        if (other != op.stream && count[other] > 0 && pick(0, 2) == 0) op.deps[0] = {count[other], other};
        ++count[op.stream];
      }
      programs.push_back(std::make_unique<ListProgram>(list, everyone, 3));
    }
  }
};

class RatesBelowCapacity : public Observer {
 public:
  explicit RatesBelowCapacity(std::span<const Link> links) : links_(links), carried(links.size(), 0.0) {}
  Interest interest() const override { return {.level = Level::links}; }
  void link_rates(Seconds from, Seconds to, std::span<const BytesPerSecond> rates) override {
    for (std::size_t l = 0; l < rates.size(); ++l) {
      worst = std::max(worst, rates[l] / links_[l].capacity);
      carried[l] += (rates[l] * (to - from)).value;
    }
  }
  double worst = 0;

 private:
  std::span<const Link> links_;

 public:
  std::vector<double> carried;
};

json run_random(unsigned seed) {
  RandomCase random(seed);
  Names names;
  names.group("work", Role::work);
  Traffic traffic(random.machine.links());
  Timeline timeline;
  Breakdown breakdown(names);
  RatesBelowCapacity rates(random.machine.links());
  const PathSums::Naming naming;
  PathSums sums(random.machine.links(), naming);
  const std::size_t actors = random.programs.size();
  const double end =
      run_programs(random.machine, std::move(random.programs), {{&traffic, &timeline, &breakdown, &rates, &sums}})
          .end.value;
  traffic.check(Seconds{end});

  const auto path = critical_path(timeline, random.machine.links());
  double length = 0, gap = 0, at = 0;
  for (const PathStep& step : path) {
    length += step.end - step.begin;
    gap = std::max(gap, std::abs(step.begin - at));
    at = step.end;
  }
  double unbalanced = 0;
  for (std::size_t a = 0; a < actors; ++a) {
    const BreakdownParts p = breakdown.parts(static_cast<Actor>(a));
    double sum = p.host_wait.value + p.bubble.value + p.other.value;
    for (const auto& [group, s] : p.work) sum += s.value;
    for (const auto& [group, s] : p.exposed) sum += s.value;
    unbalanced = std::max(unbalanced, std::abs(sum - p.total.value));
  }
  double leak = 0;
  for (LinkId l = 0; l < static_cast<LinkId>(rates.carried.size()); ++l)
    leak = std::max(leak, std::abs(rates.carried[static_cast<std::size_t>(l)] - traffic.on_link(l).value));
  return {{"end", end},
          {"bytes", traffic.total().value},
          {"expected_bytes", random.bytes},
          {"length", length},
          {"gap", gap},
          {"over", rates.worst},
          {"sums_differ", sums.by_resource() != by_resource(path)},
          {"unbalanced", unbalanced},
          {"leak", leak}};
}

void check_random(unsigned seed) {
  CAPTURE(seed);
  const json r = run_random(seed);
  const double end = r["end"];
  CHECK(r["bytes"].get<double>() == near(r["expected_bytes"].get<double>()));
  CHECK(r["length"].get<double>() == near(end));
  CHECK(r["gap"].get<double>() <= 1e-12 * std::max(1.0, end));
  CHECK(r["over"].get<double>() <= 1 + 1e-6);
  CHECK_FALSE(r["sums_differ"].get<bool>());
  CHECK(r["unbalanced"].get<double>() <= 1e-12);
  CHECK(r["leak"].get<double>() <= 1e-3);  // bytes
  CHECK(r == run_random(seed));
}

}  // namespace

TEST_CASE("random schedules conserve bytes, keep capacities, and their critical path is the makespan",
          "[sim][property]") {
  for (unsigned seed = 1; seed <= 60; ++seed) check_random(seed);
}
TEST_CASE("many more random schedules", "[.deep][property]") {
  for (unsigned seed = 1000; seed < 4000; ++seed) check_random(seed);
}

}  // namespace sim_test_properties
