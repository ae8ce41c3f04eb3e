#include <limits>
#include <thread>

#include "tests/support.hpp"

namespace sim_test_messages {

using namespace trainyard;
using namespace trainyard::test;

namespace {

ListProgram sender(double bytes, Mode mode = Mode::rendezvous) { return {{send(bytes, 0, 0, 0, mode)}, {1}}; }
ListProgram receiver() { return {{recv()}, {0}}; }
}  // namespace

TEST_CASE("a message takes its latency and its bytes over the rate", "[sim][messages]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}}, {1500000});
  const json t = ends_of(m, programs(sender(1e6), receiver()));
  CHECK(t[0] == near(1.5e-6 + 1e-3));
  CHECK(t[1] == t[2]);
}

TEST_CASE("a message may hold a fraction of a byte", "[sim][messages]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(BytesPerSecond{1000}), 1}});
  const json t = ends_of(m, programs(sender(1000.0 / 3), receiver()));
  CHECK(t[0] == near(1.0 / 3));
}

TEST_CASE("messages without bytes or without links take their latency only", "[sim][messages]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}}, {2000000});
  m.connect(2, 3, {}, {3000000});
  const json t = ends_of(m, programs(sender(0), receiver(), ListProgram({send(1e9)}, {3}), ListProgram({recv()}, {2})));
  CHECK(t[2] == near(2e-6));
  CHECK(t[4] == near(3e-6));
}

TEST_CASE("a send whose size its program could not know asks the observers", "[sim][messages]") {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  class Sizes : public Observer {
   public:
    Bytes size_of(const OpRun& run) override { return Bytes{run.op->message.tag == 0 ? 1e6 : unknown}; }
  };
  for (const Mode mode : {Mode::rendezvous, Mode::eager, Mode::put}) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}});
    Sizes sizes;
    const json t = ends_of(m, programs(sender(unknown, mode), receiver()), {}, {&sizes});
    CHECK(t[2] == near(1e-3));
  }
  TableMachine unobserved;
  unobserved.connect(0, 1, {{unobserved.link(kRate), 1}});
  CHECK_THROWS_WITH(ends_of(unobserved, programs(sender(unknown), receiver())),
                    Catch::Contains("a message of nan bytes"));
}

TEST_CASE("flows share a link max-min fair", "[sim][messages]") {
  // Flows A: links 1, 2; B: link 1; C: link 2. Link 1 has rate 1, link 2 rate 2 (GB/s): A and B get 1/2, C gets 3/2.
  TableMachine m;
  const LinkId one = m.link(kRate), two = m.link(kRate * 2);
  m.connect(0, 1, {{one, 1}, {two, 1}});
  m.connect(2, 3, {{one, 1}});
  m.connect(4, 5, {{two, 1}});
  const json t = ends_of(m, programs(sender(1e9), receiver(), ListProgram({send(1e9)}, {3}), ListProgram({recv()}, {2}),
                                     ListProgram({send(3e9)}, {5}), ListProgram({recv()}, {4})));
  CHECK(t[2] == near(2.0));
  CHECK(t[4] == near(2.0));
  CHECK(t[6] == near(2.0));
}

TEST_CASE("unequal latencies do not change the shares", "[sim][messages]") {
  TableMachine m;
  const LinkId link = m.link(kRate);
  m.connect(0, 1, {{link, 1}}, {1000000});
  m.connect(2, 3, {{link, 1}}, {3000000});
  const json t =
      ends_of(m, programs(sender(1e6), receiver(), ListProgram({send(1e6)}, {3}), ListProgram({recv()}, {2})));
  // The first is alone for 2 us, then both have half the rate.
  CHECK(t[2] == near(1e-6 + 2e-6 + (1e6 - 2e3) / 0.5e9));
  CHECK(t[4] == near(3e-6 + (1e6 - 2e3) / 0.5e9 + 2e3 / 1e9));
}

TEST_CASE("a flow keeps its rate cap, and other flows get the rest of the link", "[sim][messages]") {
  TableMachine m;
  const LinkId link = m.link(kRate);
  m.connect(0, 1, {{link, 1}});
  m.connect(2, 3, {{link, 1}});
  Op capped = send(1e9);
  capped.message.rate_cap = kRate * 0.25;
  const json t = ends_of(
      m, programs(ListProgram({capped}, {1}), receiver(), ListProgram({send(3e9)}, {3}), ListProgram({recv()}, {2})));
  CHECK(t[2] == near(4.0));
  CHECK(t[4] == near(4.0));
}

TEST_CASE("a route that lists a link k times takes k times the rate", "[sim][messages]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 8}});
  const json t = ends_of(m, programs(sender(1e9), receiver()));
  CHECK(t[0] == near(8.0));
}

TEST_CASE("modes: rendezvous waits, eager continues, put needs no receiver yet", "[sim][messages]") {
  const auto run = [](Mode mode) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}});
    // The receiver computes for 2 s first; the message takes 1 s.
    return ends_of(m, programs(sender(1e9, mode), ListProgram({compute(2), recv()}, {0})));
  };
  const json rendezvous = run(Mode::rendezvous), eager = run(Mode::eager), put = run(Mode::put);
  CHECK(rendezvous[1] == near(3.0));
  CHECK(rendezvous[2] == near(3.0));
  CHECK(eager[1] == near(0.0));
  CHECK(eager[2] == near(2.0));
  CHECK(put[1] == near(1.0));
  CHECK(put[2] == near(2.0));
}

TEST_CASE("get reads what the sender has exposed, and pays the latency of its route twice", "[sim][messages]") {
  const auto run = [](Mode mode, double sender_at, double receiver_at) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}}, Picoseconds{250'000'000'000});  // 0.25 s
    return ends_of(m, programs(ListProgram({compute(sender_at), send(1e9, 0, 0, 0, mode)}, {1}),
                               ListProgram({compute(receiver_at), recv()}, {0})));
  };
  CHECK(run(Mode::put, 0, 0)[2] == near(1.25));
  const json together = run(Mode::get, 0, 0);
  CHECK(together[1] == near(0.0));
  CHECK(together[2] == near(1.5));
  const json receiver_late = run(Mode::get, 0, 2);  // nothing has moved before it asks
  CHECK(receiver_late[1] == near(0.0));
  CHECK(receiver_late[2] == near(3.5));
  const json sender_late = run(Mode::get, 2, 0);
  CHECK(sender_late[1] == near(2.0));
  CHECK(sender_late[2] == near(3.5));
}

TEST_CASE("messages match by tag, whatever the order of posting", "[sim][messages]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  Ends ends;
  json t = ends_of(m,
                   programs(ListProgram({send(1e9, 0, 7, 0), send(2e9, 0, 8, 1)}, {1}, 2),
                            ListProgram({recv(0, 8, 0), recv(0, 7, 1)}, {0}, 2)),
                   {}, {&ends});
  t.push_back(ends.last(1, 1));
  CHECK(t[3] == near(2.0));  // tag 7: 1 GB at half the rate
  CHECK(t[2] == near(3.0));  // tag 8: 1 GB by then, then alone
}

TEST_CASE("a receive from anyone takes the oldest message", "[sim][messages]") {
  TableMachine m;
  m.connect(1, 0, {{m.link(kRate), 1}});
  m.connect(2, 0, {{m.link(kRate), 1}});
  struct Order : Observer {
    void finished(const OpRun& run) override {
      if (run.op->kind == Kind::recv) from.push_back(run.peer);
    }
    std::vector<Actor> from;
  } order;
  ends_of(m,
          programs(ListProgram({compute(3), recv(kAnyPeer), recv(kAnyPeer)}, {1, 2}),
                   ListProgram({compute(2), send(1e3, 0, 0, 0, Mode::eager)}, {0}),
                   ListProgram({compute(1), send(1e3, 0, 0, 0, Mode::eager)}, {0})),
          {}, {&order});
  CHECK(order.from == std::vector<Actor>{2, 1});
}

TEST_CASE("a link without a valid capacity is refused, and so is a message without a path", "[sim][messages]") {
  const auto with_capacity = [](double capacity) {
    TableMachine m;
    m.connect(0, 1, {{m.link(BytesPerSecond{capacity}), 1}});
    return ends_of(m, programs(sender(1), receiver()));
  };
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) CHECK_THROWS_AS(with_capacity(bad), UserError);
  TableMachine apart;
  CHECK_THROWS_WITH(ends_of(apart, programs(sender(1), receiver())),
                    "rank 0 cannot reach rank 1: no path between them");
}

TEST_CASE("simulations may take turns and run side by side, on every transport", "[sim]") {
  const auto end = [](TransportKind transport, double bytes) {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}}, {1500000});
    return run_programs(m, programs(sender(bytes), receiver()), {.transport = transport}).end.value;
  };
  TableMachine first, second;
  for (TableMachine* m : {&first, &second}) m->connect(0, 1, {{m->link(kRate), 1}}, {1500000});
  Simulation one(first), two(second);
  for (Simulation* simulation : {&two, &one}) {
    simulation->add(programs(sender(1e6), receiver()));
    CHECK(simulation->run().end.value == near(1.5e-6 + 1e-3));
  }
  for (const TransportKind transport : {TransportKind::flow, TransportKind::native}) {
    std::vector<double> ends(8);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < ends.size(); ++i)
        threads.emplace_back(
            [&ends, &end, transport, i] { ends[i] = end(transport, 1e6 * static_cast<double>(i + 1)); });
    }
    for (std::size_t i = 0; i < ends.size(); ++i) CHECK(ends[i] == near(1.5e-6 + 1e-3 * static_cast<double>(i + 1)));
  }
}

}  // namespace sim_test_messages
