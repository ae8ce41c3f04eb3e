#include <set>

#include "sim/hashing.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/observers/trace.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/observers/values.hpp"
#include "sim/timer_queue.hpp"
#include "tests/support.hpp"

namespace sim_test_observers {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("the breakdown books compute, then exposed communication, then bubbles", "[sim][observers]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  m.connect(1, 0, {{m.link(kRate), 1}});
  Names names;
  names.group("compute", Role::work);
  const GroupId collective = names.group("all-reduce", Role::collective),
                handover = names.group("pipeline", Role::point_to_point);
  Op out = send(3e9, 0, 0, 1), in = recv(0, 0, 1), wait = recv(0, 1, 1), give = send(1e9, 0, 1, 1);
  out.group = in.group = collective;
  wait.group = give.group = handover;
  // Rank 0: 2 s of work beside a transfer of 3 s (1 s exposed); then it waits 2 s for a message that rank 1 has not
  // produced yet, and receives it in 1 s.
  Breakdown breakdown(names);
  ends_of(m,
          programs(ListProgram({compute(2, 0), out, wait}, {1}, 2),
                   ListProgram({in, after(compute(2, 0), 1, 1), after(give, 0, 1)}, {0}, 2)),
          {}, {&breakdown});
  const BreakdownParts p = breakdown.parts(0);
  CHECK(json{p.total.value, p.work.at("compute").value, p.exposed.at("all-reduce").value,
             p.exposed.at("pipeline").value, p.bubble.value, p.other.value} == json({6.0, 2.0, 1.0, 1.0, 2.0, 0.0}));
}

TEST_CASE("the critical path leads through the messages that were waited for", "[sim][observers]") {
  TableMachine m;
  const LinkId slow = m.link(kRate, "slow");
  m.connect(0, 1, {{m.link(kRate * 2, "fast"), 1}, {slow, 1}}, {500000000000});  // half a second
  Timeline timeline;
  ends_of(m, programs(ListProgram({compute(1), send(1e9)}, {1}), ListProgram({compute(0.2), recv(), compute(3)}, {0})),
          {}, {&timeline});
  json path = json::array();
  for (const PathStep& s : critical_path(timeline, m.links())) path.push_back({s.resource, s.begin, s.end});
  CHECK(path == json({{"compute", 0.0, 1.0}, {"latency", 1.0, 1.5}, {"slow", 1.5, 2.5}, {"compute", 2.5, 5.5}}));
}

TEST_CASE("an operation takes memory at its start and gives it back at its end, counted by class", "[sim][observers]") {
  const auto holds = [](Op op, double change, double high_water, std::uint8_t memory_class) {
    op.memory = {change, high_water};
    op.set_memory_class(memory_class);
    return op;
  };
  TableMachine machine;
  MemoryUse memory(true);
  ends_of(
      machine,
      programs(ListProgram({holds(compute(1), 100, 0, 0), holds(compute(1), 50, 30, 1), holds(compute(1), -50, 5, 1)})),
      {}, {&memory});
  json samples = json::array();
  for (const MemoryUse::Sample& s : memory.samples(0)) samples.push_back({s.time, s.bytes});
  const auto parts = memory.parts_at_peak(0);
  CHECK(memory.peak(0).value == 180);
  CHECK(parts[0] == 100);
  CHECK(parts[1] == 80);
  CHECK(memory.final_bytes(0).value == 100);
  CHECK(samples == json({{0.0, 100.0}, {1.0, 180.0}, {2.0, 150.0}, {2.0, 155.0}, {3.0, 100.0}}));
}

TEST_CASE("a trace is JSON in microseconds with bytes and algorithm", "[sim][observers]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  Names names;
  names.group("compute", Role::work);
  Op out = send(1e6);
  out.group = names.group("all-reduce", Role::collective, "ring");
  out.name = names.intern("bucket \"0\"");
  Timeline timeline;
  MemoryUse memory(true);
  ends_of(m, programs(ListProgram({compute(0.5), out}, {1}), ListProgram({recv()}, {0})), {}, {&timeline, &memory});
  const json trace = parse_json(chrome_trace(timeline, memory, m, names, {"compute"}));
  bool found = false;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("ph") == "X" && e.at("cat") == "send") {
      found = true;
      CHECK(e.at("ts") == 0.5e6);
      CHECK(e.at("dur").get<double>() == near(1000));
      CHECK(e.at("name") == "bucket \"0\"");
      CHECK(e.at("args").at("bytes") == 1e6);
      CHECK(e.at("args").at("algorithm") == "ring");
    }
  CHECK(found);
}

TEST_CASE("the timer queue forgets cancelled timers and does not grow with them", "[sim][timers]") {
  TimerQueue<int> timers;
  std::vector<int> due;
  const auto late = timers.add(5, 1);
  timers.add(3, 2);
  CHECK(timers.next() == 3);
  timers.cancel(late);
  for (int i = 0; i < 100000; ++i) timers.cancel(timers.add(10 + i, 7));
  timers.collect(2.9, due);
  CHECK(due.empty());
  timers.collect(100, due);
  CHECK(due == std::vector<int>{2});
  CHECK(timers.next() == -1);
}

TEST_CASE("timers end in the order of their times while others are cancelled, equal times too", "[sim][timers]") {
  for (const int different : {3, 1000}) {
    TimerQueue<int> timers;
    std::vector<TimerId> ids;
    std::multiset<double> times;
    std::uint64_t state = 1;
    const auto next_time = [&] { return static_cast<double>((state = mix_bits(state)) % position(different)); };
    for (int i = 0; i < 200; ++i) {
      times.insert(next_time());
      ids.push_back(timers.add(static_cast<double>(state % position(different)), i));
    }
    for (int i = 0; i < 200; i += 3) {
      times.erase(times.find(timers.due(ids[position(i)])));
      timers.cancel(ids[position(i)]);
    }
    std::vector<double> ended;
    for (std::vector<int> due; timers.size() > 0; due.clear()) {
      const double time = timers.next();
      timers.collect(time, due);
      ended.insert(ended.end(), due.size(), time);
    }
    CHECK(ended == std::vector<double>(times.begin(), times.end()));
  }
}

TEST_CASE("chunks of a buffer differ by at most one element and cover it", "[sim][values]") {
  for (const Eigen::Index length : {0, 1, 7, 64, 1000003})
    for (const int chunks : {1, 3, 8}) {
      Eigen::Index at = 0;
      for (int c = 0; c < chunks; ++c) {
        const auto [begin, end] =
            Values::range(length, {0, static_cast<std::uint16_t>(c), static_cast<std::uint16_t>(chunks)});
        CHECK(begin == at);
        CHECK(end - begin - length / chunks <= 1);
        CHECK(end - begin - length / chunks >= 0);
        at = end;
      }
      CHECK(at == length);
    }
}

TEST_CASE("the time of a message cancelled while it waits counts as bubble, and its memory is free",
          "[sim][observers]") {
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}});
  m.connect(1, 0, {{m.link(kRate), 1}});
  Names names;
  names.group("compute", Role::work);
  const GroupId handover = names.group("pipeline", Role::point_to_point);
  Op out = send(1e9), in = recv(0, 5), late = send(0, 0, 5);
  out.group = in.group = late.group = handover;
  out.memory.high_water = 100;
  Simulation simulation(m);
  Executor* executor = &simulation.executor();
  // 1 s of waiting, cancelled; 3 s of work; 6 s of waiting for a message that the other rank sends at 10 s.
  simulation.add(programs(ListProgram({out, compute(3), in}, {1}), ListProgram({compute(10), late}, {0}),
                          CancelOnEnd(1.0, executor, 0)));
  Breakdown breakdown(names);
  MemoryUse memory;
  simulation.observe(breakdown);
  simulation.observe(memory);
  simulation.run();
  const BreakdownParts p = breakdown.parts(0);
  CHECK(json{p.bubble.value, p.exposed.at("pipeline").value, p.work.at("compute").value, memory.final_bytes(0).value} ==
        json({7.0, 0.0, 3.0, 0.0}));
}

TEST_CASE("traffic counts messages that are rerouted, cancelled, or cross a link that became faster",
          "[sim][observers]") {
  {
    TableMachine m;
    const LinkId fast = m.link(kRate * 2), slow = m.link(kRate);
    m.connect(0, 1, {{fast, 1}});
    m.connect(0, 1, {{slow, 1}});
    Traffic traffic(m.links());
    const json t = ends_of(m, programs(ListProgram({send(4e9)}, {1}), ListProgram({recv()}, {0})),
                           {{Seconds{1}, fast, BytesPerSecond{0}}}, {&traffic});
    traffic.check(Seconds{t[0].get<double>()});
    CHECK(traffic.on_link(fast).value == near(2e9));
    CHECK(traffic.on_link(slow).value == near(2e9));
    CHECK(traffic.sent(0).value == near(4e9));
    CHECK(traffic.messages() == 1);
  }
  {
    TableMachine m;
    m.connect(0, 1, {{m.link(kRate), 1}});
    Traffic traffic(m.links());
    const json t = ends_of(m, programs(ListProgram({send(4e9)}, {1}), ListProgram({recv()}, {0})),
                           {{Seconds{1}, 0, kRate * 3}}, {&traffic});
    traffic.check(Seconds{t[0].get<double>()});
    CHECK(traffic.on_link(0).value == near(4e9));
    CHECK(t[0].get<double>() == near(2.0));
  }
  TableMachine m;
  m.connect(0, 1, {{m.link(kRate), 1}}, {500000000000});
  Simulation simulation(m);
  Executor* executor = &simulation.executor();
  simulation.add(programs(ListProgram({send(3e9)}, {1}), ListProgram({recv()}, {0}), CancelOnEnd(0.25, executor, 0)));
  Traffic traffic(m.links());
  simulation.observe(traffic);
  traffic.check(simulation.run().end);
  CHECK(traffic.total().value == 0.0);
}

TEST_CASE("the critical path names the link that is full, not the one with most flows", "[sim][observers]") {
  TableMachine m;
  // A over l1 (6) and l2 (10), B over l2 and l3 (1): l1 limits A, although l2 has two flows.
  const LinkId l1 = m.link(BytesPerSecond{6e9}, "l1"), l2 = m.link(BytesPerSecond{1e10}, "l2"),
               l3 = m.link(BytesPerSecond{1e9}, "l3");
  m.connect(0, 1, {{l1, 1}, {l2, 1}});
  m.connect(2, 3, {{l2, 1}, {l3, 1}});
  Timeline timeline;
  ends_of(m,
          programs(ListProgram({send(12e9)}, {1}), ListProgram({recv()}, {0}), ListProgram({send(1e9)}, {3}),
                   ListProgram({recv()}, {2})),
          {}, {&timeline});
  CHECK(json(by_resource(critical_path(timeline, m.links()))) == json({{"l1", 2.0}}));
}

TEST_CASE("observers are notified of the end of a run; an actor without a program does nothing", "[sim][observers]") {
  struct SeesEnd : Observer {
    std::vector<double> ends;
    void ended(Seconds end) override { ends.push_back(end.value); }
  };
  TableMachine m;
  Programs all = programs(ListProgram({compute(2)}));
  all.push_back(nullptr);
  SeesEnd seen;
  run_programs(m, std::move(all), {{&seen, nullptr}});
  CHECK(seen.ends == std::vector<double>{2.0});
}

}  // namespace sim_test_observers
