#include <algorithm>

#include "sim/observers/values.hpp"
#include "tests/support.hpp"

namespace sim_test_executor {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("streams run side by side, and dependencies hold across them", "[sim][executor]") {
  TableMachine m;
  Ends ends;
  ends_of(m,
          programs(ListProgram({compute(1, 0), after(compute(2, 1), 0, 1), compute(4, 0), after(compute(1, 0), 1, 1)},
                               {}, 2)),
          {}, {&ends});
  CHECK(ends.last(0, 1) == near(3.0));
  CHECK(ends.last(0, 0) == near(6.0));
}

TEST_CASE("interference slows work only while a transfer runs", "[sim][executor]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  m.interference = [](Actor, Kind kind, KindSet active) {
    return kind == Kind::compute && (active & bit(Kind::send)) ? 0.5 : 1.0;
  };
  // 4 s of work; a 2 s transfer starts after 1 s: 1 + 1 (half speed for 2 s) + 2 = 5 s.
  const json t = ends_of(
      m, programs(ListProgram({compute(4, 0), compute(1, 1), send(2e9, 0, 0, 1)}, {1}, 2), ListProgram({recv()}, {0})));
  CHECK(t[1] == near(5.0));
  CHECK(t[2] == near(3.0));
}

TEST_CASE("work on an actor slows the transfers through that actor's ports", "[sim][executor]") {
  TableMachine m;
  const LinkId link = m.link(kRate);
  m.connect(0, 1, {{link, 1}});
  m.port_links[0] = {link};
  m.interference = [](Actor, Kind kind, KindSet active) {
    return kind == Kind::send && (active & bit(Kind::compute)) ? 0.5 : 1.0;
  };
  // 1 s of work halves the rate: 0.5 GB in the first second, the rest of 2 GB in 1.5 s.
  const json t =
      ends_of(m, programs(ListProgram({compute(1, 0), send(2e9, 0, 0, 1)}, {1}, 2), ListProgram({recv()}, {0})));
  CHECK(t[2] == near(2.5));
}

TEST_CASE("a transfer follows the capacity of its link, and waits until a failed link comes back", "[sim][executor]") {
  const auto run = [](const std::vector<LinkChange>& changes) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}});
    return ends_of(m, programs(ListProgram({send(2e9)}, {1}), ListProgram({recv()}, {0})), changes);
  };
  CHECK(run({{Seconds{0.5}, 0, kRate * 2}})[0] == near(0.5 + 1.5 / 2));
  CHECK(run({{Seconds{0.5}, 0, BytesPerSecond{0}}, {Seconds{3}, 0, kRate}})[0] == near(3 + 1.5));
  // If the link never comes back, the error names the messages that stand still.
  CHECK_THROWS_AS(run({{Seconds{0.5}, 0, BytesPerSecond{0}}}), Deadlock);
  CHECK_THROWS_WITH(run({{Seconds{0.5}, 0, BytesPerSecond{0}}}),
                    Catch::Contains("stand still on a link without capacity"));
}

TEST_CASE("if a link fails in mid-flow, the rest of the message takes another path", "[sim][executor]") {
  TableMachine m;
  const LinkId fast = m.link(kRate * 2), slow = m.link(kRate);
  m.connect(0, 1, {{fast, 1}}, {1000000});
  m.connect(0, 1, {{slow, 1}}, {5000000});
  // Latency 1 us, 1 s at 2 GB/s; then 5 us and the other 2 GB at 1 GB/s.
  const json t = ends_of(m, programs(ListProgram({send(4e9)}, {1}), ListProgram({recv()}, {0})),
                         {{Seconds{1 + 1e-6}, fast, BytesPerSecond{0}}});
  CHECK(t[0] == near(1 + 1e-6 + 5e-6 + 2));
}

TEST_CASE(
    "if a link fails at the end of a latency, the message takes another path; at the end of the flow, it has arrived",
    "[sim][executor]") {
  // Latency until 0.5 s, bytes until 1.5 s; the other path takes 0.25 s + 2 s.
  const auto run = [](double when) {
    TableMachine m;
    const LinkId fast = m.link(kRate), slow = m.link(kRate * 0.5);
    m.connect(0, 1, {{fast, 1}}, {500000000000});
    m.connect(0, 1, {{slow, 1}}, {250000000000});
    return ends_of(m, programs(ListProgram({send(1e9), send(1e3)}, {1}), ListProgram({recv(), recv()}, {0})),
                   {{Seconds{when}, fast, BytesPerSecond{0}}})[0];
  };
  CHECK(run(0.5) == near(0.5 + 0.25 + 2 + 0.25 + 2e-6));
  CHECK(run(1.5) == near(1.5 + 0.25 + 2e-6));
}

TEST_CASE("an operation that ends in the step in which it is cancelled ends only once", "[sim][executor]") {
  for (const bool message : {false, true}) {
    TableMachine m;
    m.connect(1, 2, {{m.link(kRate), 1}});
    Simulation simulation(m);
    Executor* executor = &simulation.executor();
    simulation.add(programs(CancelOnEnd(1.0, executor, 1),
                            ListProgram({message ? send(1e9) : compute(1), compute(1)}, {2}),
                            ListProgram(message ? std::vector<Op>{recv()} : std::vector<Op>{}, {1})));
    Ends ends;
    simulation.observe(ends);
    const double end = simulation.run().end.value;
    CHECK(json{end, ends.ends.size()} == json({2.0, message ? 4 : 3}));
  }
}

TEST_CASE("without any path, a message waits for the link to come back", "[sim][executor]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  const json t = ends_of(m, programs(ListProgram({compute(2), send(1e9)}, {1}), ListProgram({recv()}, {0})),
                         {{Seconds{1}, 0, BytesPerSecond{0}}, {Seconds{5}, 0, kRate}});
  CHECK(t[0] == near(6.0));
}

namespace {

json cancelled(std::vector<Op> victim, std::vector<Op> partner) {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}}, {1000000});
  Simulation simulation(m);
  Executor* executor = &simulation.executor();
  simulation.add(programs(ListProgram(std::move(victim), {1}), ListProgram(std::move(partner), {0}),
                          Canceller(1.0, executor, 0, Stream{0})));
  Ends ends;
  simulation.observe(ends);
  simulation.run();
  json done = json::array();
  for (const Ends::End& e : ends.ends)
    if (e.actor != 2) done.push_back({e.actor, e.time, e.done});
  return done;
}

}  // namespace

TEST_CASE("cancelling ends work, both halves of a moving message, and a waiting message", "[sim][executor]") {
  CHECK(cancelled({compute(5), compute(1)}, {}) == json({{0, 1.0, false}, {0, 2.0, true}}));
  // 3 GB at 1 GB/s, cancelled after 1 s; then another message goes through.
  const json moving = cancelled({send(3e9, 0, 1), send(1e9, 0, 2)}, {recv(0, 1), recv(0, 2)});
  REQUIRE(moving.size() == 4);
  CHECK(moving[0] == json({0, 1.0, false}));
  CHECK(moving[1] == json({1, 1.0, false}));
  CHECK(moving[3][1] == near(2.0 + 1e-6));
  const json waiting = cancelled({send(1e9, 0, 1), send(1e9, 0, 2)}, {recv(0, 2)});
  CHECK(waiting[0] == json({0, 1.0, false}));
  CHECK(waiting[2][1] == near(2.0 + 1e-6));
}

TEST_CASE("operations that end together finish in the order of actor and stream", "[sim][executor]") {
  TableMachine m;
  for (const Actor to : {1, 3, 5}) m.connect(to - 1, to, {{m.link(kRate), 1}});
  Ends ends;
  ends_of(m,
          programs(ListProgram({send(1e9, 0, 0, 1), compute(1, 0)}, {1}, 2), ListProgram({recv()}, {0}),
                   ListProgram({compute(0.25), compute(0.75)}), ListProgram({compute(1)}),
                   ListProgram({send(1e9)}, {5}), ListProgram({recv()}, {4})),
          {}, {&ends});
  json order = json::array();
  for (const Ends::End& e : ends.ends)
    if (e.time == Approx(1.0)) order.push_back({e.actor, e.stream});
  // A message's halves finish together, at the place of its sender.
  CHECK(order == json({{0, 0}, {0, 1}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}}));
}

TEST_CASE("look-ahead is bounded, and the result counts the operations that it delays", "[sim][executor]") {
  const auto run = [](int ahead) {
    std::vector<Op> ops;
    for (int i = 0; i < ahead; ++i) ops.push_back(compute(1, 0));
    ops.push_back(compute(1, 1));
    TableMachine m;
    Ends ends;
    const SimulationResult r = run_programs(m, programs(ListProgram(ops, {}, 2)), {{&ends}});
    return json{ends.last(0, 1), r.late_by_look_ahead};
  };
  CHECK(run(100) == json({1.0, 0}));
  const json far = run(static_cast<int>(look_ahead(1)) + 10);
  CHECK(look_ahead(1) == kMostLookAhead);
  CHECK(look_ahead(1 << 20) == kLeastLookAhead);
  CHECK(far[0] == near(12.0));
  CHECK(far[1] == 1);
}

TEST_CASE("an 8-rank ring folded by hand to one rank equals the full run", "[sim][executor][folding]") {
  // Ranks on a star, with all flows also over one shared bus: the representative crosses it with multiplicity 8.
  constexpr int kRanks = 8, kSteps = 2 * (kRanks - 1);
  const auto ring = [](Actor next, Actor previous) {
    std::vector<Op> ops;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      ops.push_back(after(send(1e6 / kRanks, 0, 0, 0), 1, step));
      ops.push_back(message(Kind::recv, 0, 1, 0, 1));
    }
    return std::make_unique<ListProgram>(ops, std::vector<Actor>{next, previous}, 2);
  };
  const auto run = [&ring](bool folded) {
    TableMachine m;
    const LinkId bus = m.link(kRate * 3);
    const int ranks = folded ? 1 : kRanks;
    std::vector<std::unique_ptr<Program>> all;
    for (int r = 0; r < ranks; ++r) {
      const LinkId up = m.link(kRate), down = m.link(kRate);
      m.connect(r, (r + 1) % ranks, {{up, 1}, {bus, folded ? static_cast<double>(kRanks) : 1.0}, {down, 1}}, {1000000});
      all.push_back(ring((r + 1) % ranks, (r + ranks - 1) % ranks));
    }
    return ends_of(m, std::move(all));
  };
  const json whole = run(false), one = run(true);
  CHECK(one[0].get<double>() == near(whole[0].get<double>()));
  CHECK(whole[0] == near(kSteps * (1e-6 + 1e6 / kRanks / (3e9 / kRanks))));
}

namespace {

class Pinger : public CoroutineProgram {
 public:
  Pinger() : CoroutineProgram({}, 1, true) {}

 protected:
  Ops run() override {
    double wait = 1;
    for (int i = 0; i < 3; ++i) {
      const Op op = compute(wait);
      co_yield op;
      const Event event = co_await next_event;
      wait = event.now.value;  // decided by the clock: 1, 1, 2
    }
  }
};

}  // namespace

TEST_CASE("a dynamic program decides its next operation by past events", "[sim][executor]") {
  TableMachine m;
  CHECK(ends_of(m, programs(Pinger()))[0] == near(4.0));
}

TEST_CASE("a deadlock names its cycle; a missing partner is named too", "[sim][executor]") {
  TableMachine both_ways, one_way;
  both_ways.connect(0, 1, {{both_ways.link(kRate), 1}});
  both_ways.connect(1, 0, {{both_ways.link(kRate), 1}});
  one_way.connect(0, 1, {{one_way.link(kRate), 1}});
  CHECK_THROWS_WITH(
      ends_of(both_ways, programs(ListProgram({send(1), recv()}, {1}), ListProgram({send(1), recv()}, {0}))),
      "deadlock at 0 ns, 2 operations wait: rank 0 sends to rank 1 (tag 0) -> rank 1 sends to rank 0 (tag 0) -> rank 0 "
      "again");
  CHECK_THROWS_WITH(ends_of(one_way, programs(ListProgram({compute(1), send(1, 0, 5)}, {1}), ListProgram({}))),
                    "nothing can go on at 1.00 s, 1 operations wait: rank 0 sends to rank 1 (tag 5)");
}

namespace {

/// Cancels a stream of another actor when one of its own operations ends.
class CancelPartner : public ListProgram {
 public:
  CancelPartner(Executor*& executor, std::vector<Op> ops, Actor partner)
      : ListProgram(std::move(ops), {partner}), executor_(executor), partner_(partner) {}
  bool dynamic() const override { return true; }
  void notify(const Event& event) override {
    if (event.kind == Kind::send) executor_->cancel(partner_, 0);
  }

 private:
  Executor*& executor_;
  Actor partner_;
};

class EndlessDaemon : public CoroutineProgram {
 public:
  EndlessDaemon() : CoroutineProgram({}, 1) {}
  bool daemon() const override { return true; }

 protected:
  Ops run() override {
    const Op op = compute(1);
    for (;;) co_yield op;
  }
};

}  // namespace

TEST_CASE("a sender that cancels its receiver as their message ends comes too late", "[sim][executor]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  Simulation simulation(m);
  Executor* executor = &simulation.executor();
  simulation.add(programs(CancelPartner(executor, {send(1e9), compute(1)}, 1), ListProgram({recv(), compute(1)}, {0})));
  Ends ends;
  simulation.observe(ends);
  const double end = simulation.run().end.value;
  CHECK(json{end, ends.ends.size()} == json({2.0, 4}));
}

TEST_CASE("the run ends with its last operation, whatever else is going on", "[sim][executor]") {
  const auto end = [](std::vector<std::unique_ptr<Program>> (*make)(), const std::vector<LinkChange>& changes) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}});
    const SimulationResult r = run_programs(m, make(), {.link_changes = changes});
    return json{r.end.value, r.unmatched};
  };
  const auto alone = [] { return programs(ListProgram({compute(1)}), ListProgram({})); };
  const auto unread = [] {
    return programs(ListProgram({send(2e9, 0, 0, 0, Mode::eager), compute(1)}, {1}), ListProgram({}));
  };
  const auto served = [] { return programs(ListProgram({compute(3)}), EndlessDaemon()); };
  CHECK(end(alone, {{Seconds{100}, 0, kRate * 2}}) == json({1.0, 0}));
  CHECK(end(unread, {}) == json({1.0, 1}));
  CHECK(end(served, {}) == json({3.0, 0}));
}

TEST_CASE("a message without bytes waits for a dead link too", "[sim][executor]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}}, {1000000000000});
  const json t = ends_of(m, programs(ListProgram({send(0)}, {1}), ListProgram({recv()}, {0})),
                         {{Seconds{0.5}, 0, BytesPerSecond{0}}, {Seconds{5}, 0, kRate}});
  CHECK(t[0] == near(6.0));  // and pays its latency anew
}

TEST_CASE("a look-ahead that is too short is not reported as a deadlock", "[sim][executor]") {
  std::vector<Op> ops{recv()};
  for (std::uint32_t i = 0; i < look_ahead(2) + 10; ++i) ops.push_back(compute(1));
  ops.push_back(send(1, 0, 0, 1));
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  m.connect(1, 0, {{m.link(kRate), 1}});
  CHECK_THROWS_WITH(ends_of(m, programs(ListProgram(ops, {1}, 2), ListProgram({recv(), send(1)}, {0}))),
                    Catch::Contains("rank 0 would have to look more than 65536 operations ahead"));
}

TEST_CASE("a dependency on a stream that does not exist is refused", "[sim][executor]") {
  TableMachine m;
  CHECK_THROWS_AS(ends_of(m, programs(ListProgram({after(compute(1), 5, 1)}))), InternalError);
}

namespace {

/// Says that it has seen enough after a number of operations.
struct Enough : Observer {
  int left;
  bool enough = false;
  double cancelled_at = -1;
  explicit Enough(int operations) : left(operations) {}
  void finished(const OpRun& run) override {
    if (run.outcome == Outcome::cancelled) cancelled_at = run.ended.value;
    if (--left == 0) enough = true;
  }
};

}  // namespace

TEST_CASE("a run ends when an observer has seen enough, and operations under way are cancelled", "[sim][executor]") {
  for (const TransportKind transport : {TransportKind::flow, TransportKind::native}) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}});
    Enough observer(2);
    std::vector<Op> endless(1000, compute(1, 0));
    endless.push_back(send(1e12, 0, 0, 1));
    std::rotate(endless.begin(), endless.end() - 1, endless.end());
    RunSetup setup{{&observer}};
    setup.transport = transport;
    setup.enough = &observer.enough;
    const SimulationResult r =
        run_programs(m, programs(ListProgram(endless, {1}, 2), ListProgram({recv()}, {0})), std::move(setup));
    CHECK(r.end.value == near(2.0));
    CHECK(observer.cancelled_at == near(2.0));
  }
}

}  // namespace sim_test_executor
