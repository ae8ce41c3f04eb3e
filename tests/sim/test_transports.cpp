// The flow transport against SimGrid's, which is the oracle: the same random cases on both, operation by operation.
#include <random>

#include "sim/observers/traffic.hpp"
#include "sim/transports/flow_net.hpp"
#include "tests/support.hpp"

namespace sim_test_transports {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// A random case from a seed: shared links, unequal latencies, simultaneous and staggered ends, zero bytes, links that
/// a route uses twice, weights, rate caps, cancels, links that change, fail and come back.
struct TransportCase {
  TableMachine machine;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<LinkChange> changes;
  Executor* executor = nullptr;

  explicit TransportCase(unsigned seed) : random_(seed) {
    const int actors = pick(2, 8), links = pick(1, 8);
    const bool even = pick(0, 2) == 0;  // equal rates, sizes and latencies: many ends at once
    for (int l = 0; l < links; ++l) machine.link(BytesPerSecond{1e9 * (even ? 1 : pick(1, 4) + 0.1 * pick(0, 9))});
    for (Actor a = 0; a < actors; ++a)
      for (Actor b = 0; b < actors; ++b)
        if (a != b) machine.connect(a, b, path(links), {even ? 1000000 : pick(0, 5) * 333333});
    add_programs(actors, even);
    if (pick(0, 1) == 1) add_changes(links);
    if (pick(0, 2) == 0)
      programs.push_back(std::make_unique<Canceller>(1e-4 * pick(1, 20), executor, pick(0, actors - 1),
                                                     static_cast<Stream>(pick(1, 2))));
  }

 private:
  std::mt19937 random_;

  int pick(int from, int to) { return static_cast<int>(random_() % static_cast<unsigned>(to - from + 1)) + from; }
  std::vector<LinkUse> path(int links) {
    std::vector<LinkUse> uses;
    for (int hop = pick(1, 4); hop > 0; --hop) uses.push_back({pick(0, links - 1), pick(0, 3) == 0 ? 2.0F : 1.0F});
    return uses;
  }
  void add_programs(int actors, bool even) {
    std::vector<std::vector<Op>> ops(static_cast<std::size_t>(actors));
    for (int m = pick(4, 40); m > 0; --m) {
      const Actor from = pick(0, actors - 1), to = (from + pick(1, actors - 1)) % actors;
      const double size = pick(0, 5) == 0 ? 0 : even ? 2e5 : 1e5 / 3 * pick(1, 9);
      Op out = send(size, static_cast<std::uint16_t>(to), static_cast<Tag>(m), 1, static_cast<Mode>(pick(0, 2)));
      if (pick(0, 4) == 0) out.message.rate_cap = BytesPerSecond{1e8 * pick(1, 15)};
      ops[static_cast<std::size_t>(from)].push_back(out);
      ops[static_cast<std::size_t>(to)].push_back(recv(static_cast<std::uint16_t>(from), static_cast<Tag>(m), 2));
      if (pick(0, 2) == 0) ops[static_cast<std::size_t>(from)].push_back(compute(1e-4 * pick(0, 3), 0));
    }
    const std::vector<Actor> everyone = consecutive_numbers(Actor{0}, actors);
    for (auto& list : ops) programs.push_back(std::make_unique<ListProgram>(list, everyone, 3));
  }
  void add_changes(int links) {
    for (int n = pick(1, 5); n > 0; --n) {
      const LinkId link = pick(0, links - 1);
      const double at = 1e-4 * pick(0, 20);
      const bool fails = pick(0, 2) == 0;
      changes.push_back({Seconds{at}, link, BytesPerSecond{fails ? 0 : 1e9 * pick(1, 5)}});
      if (fails) changes.push_back({Seconds{at + 1e-4 * pick(1, 9)}, link, BytesPerSecond{1e9 * pick(1, 3)}});
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const LinkChange& a, const LinkChange& b) { return a.time < b.time; });
    // No link stays down: the last change of a link gives it a rate.
    for (LinkId link = 0; link < links; ++link) changes.push_back({Seconds{0.05}, link, BytesPerSecond{1e9}});
  }
};

/// The end of the run, the ends of all operations sorted by actor and stream, and the bytes of all links. Two ends that
/// nearly coincide do not change the order.
json ends_on(unsigned seed, TransportKind kind) {
  TransportCase test(seed);
  Simulation simulation(test.machine, kind);
  test.executor = &simulation.executor();
  simulation.add(std::move(test.programs));
  Ends ends;
  Traffic traffic(test.machine.links());
  simulation.observe(ends);
  simulation.observe(traffic);
  for (const LinkChange& change : test.changes) simulation.change(change);
  json result = json::array();
  try {
    result.push_back(simulation.run().end.value);
  } catch (const Deadlock&) {  // a cancel can leave the other half of a message waiting
    result.push_back(-1.0);
  }
  std::stable_sort(ends.ends.begin(), ends.ends.end(), [](const Ends::End& a, const Ends::End& b) {
    return std::pair(a.actor, a.stream) < std::pair(b.actor, b.stream);
  });
  for (const Ends::End& e : ends.ends) result.push_back({e.actor, e.stream, e.kind, e.time, e.done});
  for (LinkId l = 0; l < static_cast<LinkId>(test.machine.links().size()); ++l)
    result.push_back(traffic.on_link(l).value);
  return result;
}

void compare(unsigned seed) {
  CAPTURE(seed);
  const json native = ends_on(seed, TransportKind::native), flow = ends_on(seed, TransportKind::flow);
  CHECK(native.size() == flow.size());
  if (native.size() != flow.size()) return;
  for (std::size_t i = 0; i < native.size(); ++i) {
    CAPTURE(i, native[i], flow[i]);
    if (native[i].is_number()) {
      CHECK(flow[i].get<double>() == Approx(native[i].get<double>()).epsilon(1e-9).margin(1e-3 * (i > 0)));
      continue;
    }
    for (const std::size_t key : {0U, 1U, 2U, 4U}) CHECK(native[i][key] == flow[i][key]);
    CHECK(flow[i][3].get<double>() == Approx(native[i][3].get<double>()).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("both transports end every operation of random cases at the same time", "[sim][transport]") {
  for (unsigned seed = 1; seed <= 150; ++seed) compare(seed);
}
// A message that waits for its link takes its share again as soon as the link is back. SimGrid's own resume does not
// share anew before the next event; therefore the oracle restarts the message (found by comparing the two).
TEST_CASE("a flow whose link comes back takes its share at once, on both transports", "[sim][transport]") {
  for (const TransportKind kind : {TransportKind::native, TransportKind::flow}) {
    TableMachine m;
    const LinkId shared = m.link(kRate), fails = m.link(kRate);
    m.connect(0, 1, {{shared, 1}});
    m.connect(2, 3, {{shared, 1}, {fails, 1}});
    Ends log;
    run_programs(m,
                 programs(ListProgram({send(4e9)}, {1}), ListProgram({recv()}, {0}), ListProgram({send(4e9)}, {3}),
                          ListProgram({recv()}, {2})),
                 {.observers = {&log},
                  .link_changes = {{Seconds{1}, fails, BytesPerSecond{0}}, {Seconds{2}, fails, kRate}},
                  .transport = kind});
    // Both move half a GB in the first second. The first moves 1 GB alone in the next. Then 2.5 GB and 3.5 GB are left,
    // and both have half the rate again.
    CHECK(log.last(1) == near(7.0));
    CHECK(log.last(3) == near(8.0));
  }
}
TEST_CASE("2,000 random cases on both transports", "[.deep][transport]") {
  for (unsigned seed = 5000; seed < 7000; ++seed) compare(seed);
}

TEST_CASE("FlowNet: max-min shares with weights and caps, by hand", "[sim][transport]") {
  const std::vector<Link> links{{"a", "wire", BytesPerSecond{12}}, {"b", "wire", BytesPerSecond{5}}};
  const LinkUse a{0, 1}, twice{0, 2}, b{1, 1};
  FlowNet net(links);
  const std::vector<LinkUse> on_a{a}, on_both{a, b}, heavy{twice};
  const FlowId f1 = net.add(on_a, Bytes{100}, {}, 1, 0);
  const FlowId f2 = net.add(on_both, Bytes{100}, {}, 2, 0);
  const FlowId f3 = net.add(heavy, Bytes{100}, {}, 3, 0);
  const auto rate = [&net](FlowId f) { return (net.remaining(f, 0) - net.remaining(f, 1)).value; };
  net.next(0);
  CHECK(rate(f1) == near(3));  // 12 over weights 1 + 1 + 2
  CHECK(rate(f2) == near(3));
  CHECK(rate(f3) == near(3));
  CHECK(net.used_share(0) == near(1));
  CHECK(net.used_share(1) == near(3.0 / 5));
  const FlowId f4 = net.add(std::vector<LinkUse>{b}, Bytes{100}, BytesPerSecond{4}, 4, 0);  // capped, and alone on b
  net.next(0);
  CHECK(rate(f4) == near(2.5));  // b is the tightest: 5 over two
  CHECK(rate(f2) == near(2.5));
  CHECK(rate(f1) == near(9.5 / 3));
  net.set_capacity(1, BytesPerSecond{0});
  net.next(0);
  CHECK(rate(f4) == 0);
  CHECK(rate(f2) == 0);
  CHECK(rate(f1) == near(4));
  net.remove(f3);
  net.set_capacity(1, BytesPerSecond{50});
  net.next(0);
  CHECK(rate(f4) == near(4));  // its cap
  CHECK(rate(f1) == near(6));
  std::vector<FlowToken> done;
  net.collect(17, 0, done);
  CHECK(done == std::vector<FlowToken>{1, 2});  // 100 / 6
}

}  // namespace sim_test_transports
