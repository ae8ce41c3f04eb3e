// A host that launches operations ahead of its GPU.
#include <catch2/catch.hpp>

#include "sim/observers/breakdown.hpp"
#include "tests/support.hpp"

namespace sim_test_host {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// A kernel takes one second per FLOP. The host takes `launch` seconds to launch it. It launches kernel 1 once all
/// earlier kernels have ended.
class LaunchingMachine : public TableMachine {
 public:
  explicit LaunchingMachine(double launch) : launch_(launch) {}
  Cost price(const Work& work, Actor) const override {
    const Seconds on_gpu{work.flops.value};
    return {on_gpu, Seconds{launch_} + on_gpu, Seconds{launch_}, work.kernel == 1};
  }

 private:
  double launch_;
};

double end_of(double launch, const std::vector<Op>& ops) {
  LaunchingMachine machine(launch);
  return ends_of(machine, programs(ListProgram(ops)))[0];
}

Op waiting(Op op) {
  op.work.kernel = 1;
  return op;
}

}  // namespace

TEST_CASE("a host runs ahead of a busy GPU, and its launches set the pace of an idle GPU", "[sim][host]") {
  // Kernels of 1 s, launched in 2 s each: the GPU waits for every one.
  CHECK(end_of(2, {compute(1), compute(1), compute(1)}) == Approx(7));
  // The host has launched short kernels by the time that a long one ends.
  CHECK(end_of(2, {compute(10), compute(1), compute(1)}) == Approx(14));
  // The host does not get ahead if short kernels come first.
  CHECK(end_of(2, {compute(1), compute(1), compute(10)}) == Approx(16));
  CHECK(end_of(0, {compute(1), compute(1), compute(10)}) == Approx(12));
}

TEST_CASE("waits for the host are no work in the breakdown", "[sim][host]") {
  LaunchingMachine machine(2);
  Names names;
  names.group("compute", Role::work);
  Breakdown breakdown(names);
  ends_of(machine, programs(ListProgram({compute(1), compute(1), compute(1)})), {}, {&breakdown});
  const BreakdownParts parts = breakdown.parts(0);
  CHECK(parts.total.value == Approx(7));
  CHECK(parts.host_wait.value == Approx(4));
  CHECK(parts.work.at("compute").value == Approx(3));
}

TEST_CASE("what runs beside a kernel slows it, but not the wait for its launch", "[sim][host]") {
  // Until 2 s the GPU waits for the launch. Then the kernel of 10 s runs at half speed until the message ends.
  for (const double message : {1.0, 2.0, 6.0}) {
    LaunchingMachine machine(2);
    machine.interference = [](Actor, Kind kind, KindSet active) {
      return kind == Kind::compute && (active & bit(Kind::send)) != 0 ? 0.5 : 1.0;
    };
    machine.connect(0, 1, {{machine.link(kRate), 1}});
    const double beside = std::max(0.0, message - 2);
    CAPTURE(message);
    CHECK(ends_of(machine, programs(ListProgram({compute(10), send(message * 1e9, 0, 0, 1)}, {1}, 2),
                                    ListProgram({recv()}, {0})))[0] == Approx(12 + beside / 2));
  }
}

TEST_CASE("a host that waits launches an operation once all earlier ones have ended", "[sim][host]") {
  CHECK(end_of(2, {compute(10), waiting(compute(1)), compute(1)}) == Approx(17));
}

}  // namespace sim_test_host
