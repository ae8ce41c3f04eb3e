// Actors that fail and come back: operations under way have no effect, and nobody is notified.
#include "sim/observers/values.hpp"
#include "tests/support.hpp"

namespace sim_test_failures {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr TransportKind kTransports[] = {TransportKind::native, TransportKind::flow};

/// Two actors, joined by a link of 1 GB/s in each direction.
struct Pair {
  TableMachine machine;
  Pair() {
    machine.connect(0, 1, {{machine.link(kRate)}}, {1000000});
    machine.connect(1, 0, {{machine.link(kRate)}}, {1000000});
  }
};

std::unique_ptr<Program> list(std::vector<Op> ops, std::vector<Actor> slots = {}, int streams = 1) {
  return std::make_unique<ListProgram>(std::move(ops), std::move(slots), streams);
}

/// Result: [end, or what stopped the run, [actor, stream, kind, time, done] of every end].
json run(TransportKind transport, Programs programs, std::vector<ActorChange> changes) {
  Pair pair;
  Ends ends;
  RunSetup setup{.observers = {&ends}, .transport = transport};
  setup.actor_changes = std::move(changes);
  json result = json::array({0, json::array()});
  try {
    result[0] = run_programs(pair.machine, std::move(programs), std::move(setup)).end.value;
  } catch (const Deadlock& e) {
    result[0] = e.what();
  }
  for (const Ends::End& e : ends.ends) result[1].push_back({e.actor, e.stream, e.kind, e.time, e.done});
  return result;
}

std::vector<ActorChange> fails(double at, Actor actor) {
  std::vector<ActorChange> changes;
  changes.push_back({Seconds{at}, actor, nullptr});
  return changes;
}

Programs both(std::unique_ptr<Program> a, std::unique_ptr<Program> b) {
  Programs all;
  all.push_back(std::move(a));
  all.push_back(std::move(b));
  return all;
}

constexpr int kCompute = static_cast<int>(Kind::compute), kRecv = static_cast<int>(Kind::recv);

}  // namespace

TEST_CASE("operations that end as their actor fails have ended; all others have no effect", "[sim][failures]") {
  for (const TransportKind transport : kTransports) {
    const json got = run(transport, both(list({compute(1), compute(1), compute(1)}), list({compute(5)})), fails(2, 0));
    CHECK(got[0] == 5);
    CHECK(got[1] == json{{0, 0, kCompute, 1.0, true}, {0, 0, kCompute, 2.0, true}, {1, 0, kCompute, 5.0, true}});
    const json interrupted = run(transport, both(list({compute(1), compute(1)}), list({compute(5)})), fails(1.5, 0));
    CHECK(interrupted[1][1] == json{0, 0, kCompute, 1.5, false});
  }
}

TEST_CASE("a run that waits for a dead actor names it and the time of its failure", "[sim][failures]") {
  for (const TransportKind transport : kTransports) {
    for (const double at : {0.5, 1.0005}) {  // before the message, and in the middle of it
      const json got =
          run(transport, both(list({compute(1), send(1e6, 0, 7)}, {1}), list({recv(0, 7)}, {0})), fails(at, 0));
      CHECK(got[0].get<std::string>().find("rank 1 receives from rank 0, which failed at ") != std::string::npos);
      CHECK(got[1].back()[4] == false);
    }
    const json sender =
        run(transport, both(list({send(1e6, 0, 7)}, {1}), list({compute(1), recv(0, 7)}, {0})), fails(0.5, 1));
    CHECK(sender[0].get<std::string>().find("rank 0 sends to rank 1, which failed at 500 ms") != std::string::npos);
  }
}

TEST_CASE("a join whose group has lost a member never completes, and the error names that member", "[sim][failures]") {
  for (const TransportKind transport : kTransports) {
    Op join;
    join.kind = Kind::join;
    join.message.steps = 2;
    join.message.tag = 3;
    const json got = run(transport, both(list({join}), list({compute(1), join})), fails(0.5, 1));
    CHECK(got[0].get<std::string>().find("not rank 1, which failed at 500 ms") != std::string::npos);
  }
}

TEST_CASE("messages on their way to and from a dead actor are lost; those that had arrived completely stay",
          "[sim][failures]") {
  for (const TransportKind transport : kTransports) {
    // The first message arrives after 1 µs + 1 ms. Half of the second, sent 10 ms later, has arrived when its sender
    // fails.
    const auto sends = [] {
      return list({send(1e6, 0, 1, 0, Mode::eager), compute(0.01), send(1e6, 0, 2, 0, Mode::eager), compute(1)}, {1});
    };
    const json got = run(transport, both(sends(), list({compute(0.1), recv(0, 1), recv(0, 2)}, {0})), fails(0.0105, 0));
    CHECK(got[1].back()[4] == true);  // the first was received after its sender's end
    CHECK(got[1].back()[2] == kRecv);
    CHECK(got[0].get<std::string>().find("tag 2") != std::string::npos);
  }
}

TEST_CASE("an actor comes back with another program; messages sent to it while it was down are lost",
          "[sim][failures]") {
  for (const TransportKind transport : kTransports) {
    std::vector<ActorChange> changes = fails(0.5, 1);
    changes.push_back({Seconds{2}, 1, list({recv(0, 1), compute(1)}, {0})});
    const json got = run(
        transport,
        both(list({compute(1), send(1e6, 0, 1, 0, Mode::eager), compute(3), send(2e6, 0, 1)}, {1}), list({compute(9)})),
        std::move(changes));
    CHECK(got[0].get<double>() == near(4 + 1e-6 + 2e-3 + 1));
  }
}

TEST_CASE("a receiver that comes back takes the message of a sender that waited", "[sim][failures]") {
  for (const TransportKind transport : kTransports)
    for (const Mode mode : {Mode::rendezvous, Mode::put}) {
      std::vector<ActorChange> changes = fails(0.0005, 1);  // in the middle of the message
      changes.push_back({Seconds{2}, 1, list({recv(0, 1)}, {0})});
      const json got =
          run(transport, both(list({send(1e6, 0, 1, 0, mode)}, {1}), list({recv(0, 1)}, {0})), std::move(changes));
      CHECK(got[0].get<double>() == near(2 + 1e-6 + 1e-3));
    }
}

TEST_CASE("data that a failed actor had exposed are lost: a get waits until they are exposed anew", "[sim][failures]") {
  for (const TransportKind transport : kTransports) {
    std::vector<ActorChange> changes = fails(0.5, 0);
    changes.push_back({Seconds{2}, 0, list({send(1e6, 0, 1, 0, Mode::get)}, {1})});
    const json got = run(
        transport, both(list({send(1e6, 0, 1, 0, Mode::get), compute(3)}, {1}), list({compute(1), recv(0, 1)}, {0})),
        std::move(changes));
    CHECK(got[0].get<double>() == near(2 + 2e-6 + 1e-3));
  }
}

namespace {

/// Waits for a message no longer than a timeout; then continues alone.
class Impatient : public CoroutineProgram {
 public:
  Impatient(Executor*& executor, double timeout)
      : CoroutineProgram({1}, 3, true), executor_(executor), timeout_(timeout) {}

 protected:
  Ops run() override {
    const Op take = recv(0, 1, 0);
    co_yield take;
    const Op wait = compute(timeout_, 1);
    co_yield wait;
    const Event first = co_await next_event;
    executor_->cancel(0, first.stream == 0 ? 1 : 0);
    const Op go_on = compute(first.stream == 0 ? 1 : 2, 2);
    co_yield go_on;
  }

 private:
  Executor*& executor_;
  double timeout_;
};

}  // namespace

TEST_CASE("a program detects a failure by a timeout, and continues", "[sim][failures]") {
  for (const TransportKind transport : kTransports)
    for (const double at : {0.2, 0.8}) {
      Pair pair;
      Simulation simulation(pair.machine, transport);
      Executor* executor = &simulation.executor();
      simulation.add(0, std::make_unique<Impatient>(executor, 1.0));
      simulation.add(1, list({compute(0.5), send(1e6, 0, 1)}, {0}));
      simulation.change(ActorChange{Seconds{at}, 1, nullptr});
      CHECK(simulation.run().end.value == near(at < 0.5 ? 3 : 0.5 + 1e-6 + 1e-3 + 1));
    }
}

}  // namespace sim_test_failures
