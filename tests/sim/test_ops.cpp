#include "sim/error.hpp"
#include "tests/support.hpp"

namespace sim_test_ops {

using namespace trainyard;
using namespace trainyard::test;

namespace {

Ops leaf(int first, int count) {
  for (int i = 0; i < count; ++i) {
    const Op op = compute(first + i);
    co_yield op;
  }
}
Ops nothing() { co_return; }
Ops nested() {
  co_yield leaf(0, 2);
  co_yield nothing();
  const Op op = compute(10);
  co_yield op;
  co_yield leaf(20, 1);
  for (int i = 0; i < 2; ++i) co_yield leaf(30 + i, 1);
}
Ops deep(int levels) {
  if (levels == 0) {
    co_yield leaf(1, 1);
    co_return;
  }
  co_yield deep(levels - 1);
}
Ops broken() {
  co_yield leaf(0, 1);
  throw UserError("broken inside");
}
Ops around() { co_yield broken(); }

std::vector<double> drain(Ops ops) {
  std::vector<double> all;
  const Op* op = nullptr;
  while (ops.next(op) == Pull::op) all.push_back(op->work.flops.value);
  return all;
}

}  // namespace

TEST_CASE("sequences nest, whatever their depth", "[sim][ops]") {
  CHECK(drain(nested()) == std::vector<double>{0, 1, 10, 20, 30, 31});
  CHECK(drain(nothing()).empty());
  CHECK(drain(deep(200)) == std::vector<double>{1});
}

TEST_CASE("errors pass through nested sequences; half-drained ones are destroyed", "[sim][ops]") {
  CHECK_THROWS_WITH(drain(around()), "broken inside");
  Ops half = nested();
  const Op* op = nullptr;
  CHECK(half.next(op) == Pull::op);
}

namespace {
class Counter : public CoroutineProgram {
 public:
  Counter() : CoroutineProgram({}, 1, true) {}
  std::vector<double> seen;

 protected:
  Ops run() override {
    co_yield inner();
    const Event last = co_await next_event;
    seen.push_back(last.now.value);
  }

 private:
  Ops inner() {
    for (int i = 0; i < 2; ++i) {
      const Event e = co_await next_event;
      seen.push_back(e.now.value);
    }
  }
};
}  // namespace

TEST_CASE("events that arrive while nobody waits are queued in order", "[sim][ops]") {
  Counter program;
  OpReader reader(program);
  Op op;
  CHECK(reader.next(op) == Pull::waiting);
  for (const double t : {1.0, 2.0, 3.0}) {
    Event e;
    e.now = Seconds{t};
    program.notify(e);
  }
  CHECK(reader.next(op) == Pull::done);
  CHECK(program.seen == std::vector<double>{1, 2, 3});
}

}  // namespace sim_test_ops
