// Links that fail, and messages that are cancelled, on routes with buffers.
#include <random>

#include "tests/sim/leg_machine.hpp"

namespace sim_test_leg_failures {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a link of a later leg fails: bytes that had left the buffer are sent again from the start", "[sim][legs]") {
  const double out_begins = 3e-6 + 1e-3, halfway = out_begins + 0.25e-3;
  const Watched m = one_message(1e6, {{halfway, 0}}, true);
  CHECK(m.end == near(halfway + 2e-3));
  CHECK(m.path == near(m.end));
  CHECK(m.resources.at("in") == near(1e-3));
  CHECK(m.resources.at("out") == near(0.25e-3));
  CHECK(m.resources.at("detour") == near(2e-3));
  CHECK_THAT(m.carried, near_all({1e6, 0.5e6, 1e6}));
  CHECK(m.sent == 1e6);
  // The link fails before the second leg begins: nothing ever moves there.
  const Watched before = one_message(1e6, {{0.5e-3, 0}}, true);
  CHECK(before.end == near(1e-6 + 1e-3 + 2e-3));
  CHECK(before.path == near(before.end));
  CHECK_THAT(before.carried, near_all({1e6, 0, 1e6}));
  // The link fails during the latency of the second leg.
  const Watched between = one_message(1e6, {{1e-3 + 2e-6, 0}}, true);
  CHECK(between.end == near(1e-3 + 2e-6 + 2e-3));
  CHECK(between.path == near(between.end));
}

TEST_CASE("a link of a later leg fails without another path: the message stalls until the link is back",
          "[sim][legs]") {
  const double halfway = 3e-6 + 1e-3 + 0.25e-3;
  for (const double fails : {0.5e-3, 1e-6 + 1e-3 + 1e-6, halfway}) {
    const Watched m = one_message(1e6, {{fails, 0}, {5e-3, 2e9}});
    CHECK(m.end == near(fails == halfway ? 5e-3 + 0.25e-3 : 5e-3 + 0.5e-3));
    CHECK(m.path == near(m.end));
    CHECK_THAT(m.carried, near_all({1e6, 1e6}));
  }
  // The link becomes slower in mid-leg.
  CHECK(one_message(1e6, {{halfway, 1e9}}).end == near(halfway + 0.5e-3));
}

TEST_CASE("only the rest of a large message takes the other path", "[sim][legs]") {
  const double begins = 3e-6 + 0.5e-3;
  const Watched m = one_message(10e6, {{begins + 4e-3, 0}}, true);
  CHECK(m.end == near(begins + 4e-3 + 6e6 / 0.5e9));
  CHECK(m.path == near(m.end));
  CHECK(m.sent == near(10e6));
  CHECK_THAT(m.carried, near_all({4e6, 4e6, 6e6}));
}

TEST_CASE("a message cancelled on any leg ends for sender and receiver, and frees its links", "[sim][legs]") {
  for (const double when : {0.5e-6, 0.4e-3, 1e-3 + 2e-6, 1.2e-3}) {
    TwoLegs two;
    Simulation simulation(two.machine);
    Executor* executor = &simulation.executor();
    simulation.add(programs(ListProgram({send(1e6, 0, 1), send(1e6, 0, 2)}, {1}),
                            ListProgram({recv(0, 1), recv(0, 2)}, {0}), Canceller(when, executor, 0, Stream{0})));
    Ends ends;
    Timeline timeline;
    Traffic traffic(two.machine.links());
    for (Observer* o : std::initializer_list<Observer*>{&ends, &timeline, &traffic}) simulation.observe(*o);
    const double end = simulation.run().end.value;
    traffic.check(Seconds{end});
    double path = 0;
    for (const PathStep& step : critical_path(timeline, two.machine.links())) path += step.end - step.begin;
    json outcomes = json::array();
    for (const Ends::End& e : ends.ends)
      if (e.actor != 2) outcomes.push_back(e.done);
    CHECK(outcomes == json({false, false, true, true}));
    CHECK(end == near(when + 3e-6 + 1.5e-3));  // the next message has the links to itself
    CHECK(path == near(end));
  }
}

namespace {

/// Random messages over random legs while links fail and come back: returns the end, the length of the critical path,
/// and whether the path has no gap.
json random_legs(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](int from, int to) {
    return static_cast<int>(random() % static_cast<unsigned>(to - from + 1)) + from;
  };
  LegMachine m;
  const int actors = pick(2, 4), links = pick(3, 6);
  for (int l = 0; l < links; ++l) m.link(BytesPerSecond{1e9 * pick(1, 3)}, "link " + std::to_string(l));
  const auto some_links = [&] {
    std::vector<LinkUse> uses{{pick(0, links - 1), static_cast<float>(pick(1, 2))}};
    if (const LinkId other = pick(0, links - 1); other != uses[0].link) uses.push_back({other, 1});
    return uses;
  };
  std::vector<std::vector<Op>> ops(static_cast<std::size_t>(actors));
  for (Actor a = 0; a < actors; ++a)
    for (Actor b = 0; b < actors; ++b) {
      if (a == b) continue;
      for (int ways = pick(1, 2); ways > 0; --ways) {
        std::vector<LegMachine::Part> parts;
        for (int legs = pick(2, 4); legs > 0; --legs) parts.push_back({some_links(), {pick(0, 3) * kMicrosecond}});
        m.connect_by_legs(a, b, parts);
      }
      if (pick(0, 1) == 1) m.connect(a, b, some_links(), {kMicrosecond});
    }
  double bytes = 0;
  for (int i = pick(5, 30); i > 0; --i) {
    const Actor from = pick(0, actors - 1), to = (from + pick(1, actors - 1)) % actors;
    const double size = pick(0, 5) == 0 ? 0 : 4e5 * pick(1, 6);
    bytes += size;
    ops[static_cast<std::size_t>(from)].push_back(send(size, static_cast<std::uint16_t>(to), static_cast<Tag>(i),
                                                       static_cast<Stream>(1), static_cast<Mode>(pick(0, 2))));
    ops[static_cast<std::size_t>(to)].push_back(recv(static_cast<std::uint16_t>(from), static_cast<Tag>(i), 2));
    if (pick(0, 1) == 1) ops[static_cast<std::size_t>(to)].push_back(compute(1e-4 * pick(0, 5), 0));
  }
  std::vector<LinkChange> changes;
  for (int i = pick(0, 6); i > 0; --i) {
    const LinkId link = pick(0, links - 1);
    const double at = 1e-4 * pick(1, 100);
    changes.push_back({Seconds{at}, link, BytesPerSecond{pick(0, 2) * 0.5e9}});
    changes.push_back({Seconds{at + 1e-4 * pick(1, 30)}, link, m.links()[static_cast<std::size_t>(link)].capacity});
  }
  for (LinkId link = 0; link < links; ++link)  // in the end all links are up
    changes.push_back({Seconds{20e-3}, link, m.links()[static_cast<std::size_t>(link)].capacity});
  const std::vector<Actor> everyone = consecutive_numbers(Actor{0}, actors);
  std::vector<std::unique_ptr<Program>> all;
  for (const auto& list : ops) all.push_back(std::make_unique<ListProgram>(list, everyone, 3));
  Timeline timeline;
  Traffic traffic(m.links());
  const double end = ends_of(m, std::move(all), changes, {&timeline, &traffic})[0];
  traffic.check(Seconds{end});
  double sum = 0, at = 0;
  bool whole = true;
  for (const PathStep& step : critical_path(timeline, m.links())) {
    whole = whole && std::abs(step.begin - at) < 1e-12;
    at = step.end;
    sum += step.end - step.begin;
  }
  return {end, sum, whole, bytes, traffic.total().value};
}

void check_random_legs(unsigned from, unsigned to) {
  for (unsigned seed = from; seed < to; ++seed) {
    CAPTURE(seed);
    const json got = random_legs(seed);
    CHECK(got[1] == near(got[0].get<double>()));
    CHECK(got[2] == true);
    CHECK(got[4] == near(got[3].get<double>()));
  }
}

}  // namespace

TEST_CASE("random legs and failures: bytes are conserved, the critical path has no gap", "[sim][legs]") {
  check_random_legs(0, 60);
}
TEST_CASE("many random legs and failures", "[.deep][sim][legs]") { check_random_legs(60, 3000); }

}  // namespace sim_test_leg_failures
