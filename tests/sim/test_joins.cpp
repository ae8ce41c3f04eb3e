// Joins: groups that wait for all their members, then move bytes together.
#include "tests/support.hpp"

namespace sim_test_joins {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Operations whose joins use one group flow.
class MemberProgram : public ListProgram {
 public:
  MemberProgram(std::vector<Op> ops, const GroupFlow& flow, int streams = 1)
      : ListProgram(std::move(ops), {}, streams), flows_{&flow} {}
  std::span<const GroupFlow* const> group_flows() const override { return flows_; }

 private:
  std::vector<const GroupFlow*> flows_;
};

Op join_of_two(double bytes) {
  Op op = message(Kind::join, bytes, 0, 3, 0);
  op.message.steps = 2;
  return op;
}

/// Two actors exchange 1 GB at 1 GB/s in each direction; the first computes for 10 s at the same time.
json exchange(const GroupFlow& flow, TableMachine machine, const std::function<void(Simulation&)>& disturb) {
  machine.connect(0, 1, {{machine.link(kRate)}});
  machine.connect(1, 0, {{machine.link(kRate)}});
  Simulation simulation(machine);
  Op kernel = compute(10);
  kernel.stream = 1;
  simulation.add(programs(MemberProgram({join_of_two(1e9), kernel}, flow, 2), MemberProgram({join_of_two(1e9)}, flow)));
  disturb(simulation);
  Ends ends;
  simulation.observe(ends);
  std::string stopped;
  try {
    simulation.run();
  } catch (const Deadlock& e) {
    stopped = e.what();
  }
  return json{stopped, ends.last(0, 0), ends.last(0, 1)};
}

}  // namespace

TEST_CASE("a join whose flow stalls on a failed link is reported", "[sim][joins]") {
  const GroupFlow flow{.edges = {{0, 1}, {1, 0}}, .by_engines = false};
  const json got = exchange(flow, {}, [](Simulation& s) { s.change(LinkChange{Seconds{0.5}, 0, BytesPerSecond{0}}); });
  CHECK(got[0].get<std::string>().find("rank 0 moves bytes with its group (tag 3)") != std::string::npos);
}

TEST_CASE("a group moved by copy engines that loses a member does not slow the others' kernels", "[sim][joins]") {
  const GroupFlow flow{.edges = {{0, 1}, {1, 0}}, .by_engines = true};
  TableMachine machine;
  machine.interference = [](Actor, Kind, KindSet active) { return (active & bit(Kind::send)) != 0 ? 0.5 : 1.0; };
  const json got = exchange(flow, std::move(machine), [](Simulation& s) {
    s.change(ActorChange{Seconds{0.5}, 1, nullptr});
  });
  CHECK(got[2] == near(10));
}

}  // namespace sim_test_joins
