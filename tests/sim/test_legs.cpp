// Messages over routes with buffers. A message of up to one chunk goes leg by leg; a larger one uses all legs at once.
#include "sim/json_text.hpp"
#include "sim/names.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/trace.hpp"
#include "tests/sim/leg_machine.hpp"

namespace sim_test_legs {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a message up to a chunk goes leg by leg", "[sim][legs]") {
  const Watched m = one_message(1e6);
  CHECK(m.end == near(1e-6 + 1e-3 + 2e-6 + 0.5e-3));
  CHECK(m.path == near(m.end));
  CHECK(m.resources.at("in") == near(1e-3));
  CHECK(m.resources.at("out") == near(0.5e-3));
  CHECK(m.resources.at("latency") == near(3e-6));
  CHECK_THAT(m.carried, near_all({1e6, 1e6}));
  CHECK(m.sent == 1e6);
  CHECK(one_message(0).end == near(3e-6));
  CHECK(one_message(1).end == near(3e-6 + 1.5e-9));
}

TEST_CASE("all legs of a larger message run at once, each a chunk behind the previous one", "[sim][legs]") {
  const Watched m = one_message(10e6);
  const double fill = 1e6 / 2e9;  // a chunk on the leg that is not the slowest
  CHECK(m.end == near(3e-6 + fill + 10e6 / 1e9));
  CHECK(m.path == near(m.end));
  CHECK(m.resources.at("in") == near(10e-3));
  CHECK_THAT(m.carried, near_all({10e6, 10e6}));
  // Both modes take the same time if the message is one chunk.
  CHECK(one_message(1e6 * (1 + 1e-12)).end == Approx(one_message(1e6).end).epsilon(1e-6));
}

TEST_CASE("a link of both legs counts twice if the legs run at once", "[sim][legs]") {
  const auto time = [](double bytes) {
    LegMachine m;
    const LinkId memory = m.link(kRate, "memory");
    m.connect_by_legs(0, 1, {{{{memory, 1}}, {}}, {{{memory, 1}}, {}}});
    return ends_of(m, programs(ListProgram({send(bytes)}, {1}), ListProgram({recv()}, {0})))[0];
  };
  CHECK(time(1e6) == near(2e-3));
  CHECK(time(10e6) == near(1e-3 + 20e-3));
}

TEST_CASE("extra latency is paid once, a rate cap holds on each leg", "[sim][legs]") {
  Op op = send(1e6);
  op.message.extra_latency = {5 * kMicrosecond};
  op.message.rate_cap = kRate * 0.5;
  const Watched m = watched([&] { return programs(ListProgram({op}, {1}), ListProgram({recv()}, {0})); }, {}, false);
  CHECK(m.end == near(8e-6 + 2e-3 + 2e-3));
  CHECK(m.resources.at("message's own limit") == near(4e-3));
}

TEST_CASE("messages that meet on a later leg share it once both have arrived there", "[sim][legs]") {
  const auto ends = [](double second_rate) {
    LegMachine m;
    const LinkId one = m.link(kRate), two = m.link(BytesPerSecond{second_rate}), shared = m.link(kRate);
    m.connect_by_legs(0, 1, {{{{one, 1}}, {}}, {{{shared, 1}}, {}}});
    m.connect_by_legs(2, 3, {{{{two, 1}}, {}}, {{{shared, 1}}, {}}});
    return ends_of(m, programs(ListProgram({send(1e6)}, {1}), ListProgram({recv()}, {0}), ListProgram({send(1e6)}, {3}),
                               ListProgram({recv()}, {2})));
  };
  const json together = ends(1e9), apart = ends(0.5e9);
  CHECK(together[2] == near(3e-3));
  CHECK(together[4] == near(3e-3));
  CHECK(apart[2] == near(2e-3));  // gone when the second one comes
  CHECK(apart[4] == near(3e-3));
}

TEST_CASE("an eager or put message crosses its legs before the receiver asks for it", "[sim][legs]") {
  // The receiver asks while the second leg is under way, or long after.
  const double arrival = 3e-6 + 1.5e-3;
  for (const Mode mode : {Mode::eager, Mode::put}) {
    const Watched early = one_message(1e6, {}, false, mode, 1.2e-3);
    CHECK(early.end == near(arrival));
    CHECK(early.path == near(arrival));
    CHECK(early.resources.at("in") == near(1e-3));
    CHECK(early.resources.at("out") == near(0.5e-3));
    const Watched late = one_message(1e6, {}, false, mode, 5e-3);
    CHECK(late.end == near(5e-3));
    CHECK(late.resources == std::map<std::string, double>{{"compute", 5e-3}});
    CHECK(late.sent == 1e6);
  }
}

TEST_CASE("a trace shows the path of a message", "[sim][legs]") {
  TwoLegs two;
  two.machine.connect(1, 0, {{two.in, 1}});
  Names names;
  names.group("messages", Role::work);
  Timeline timeline;
  MemoryUse memory(true);
  ends_of(two.machine,
          programs(ListProgram({send(1e6, 0, 0, 0, Mode::eager), recv()}, {1}),
                   ListProgram({compute(1), recv(), send(1e3)}, {0})),
          {}, {&timeline, &memory});
  const json trace = parse_json(chrome_trace(timeline, memory, two.machine, names, {"messages"}));
  std::vector<std::string> paths;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("ph") == "X" && e.at("args").contains("path")) paths.push_back(e.at("args").at("path"));
  std::sort(paths.begin(), paths.end());
  CHECK(paths == std::vector<std::string>{"by legs", "by legs", "direct", "direct"});
}

}  // namespace sim_test_legs
