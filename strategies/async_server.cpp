#include "strategies/async_server.hpp"

#include <numeric>

#include "sim/ops.hpp"
#include "strategies/local.hpp"

namespace trainyard {
namespace {

constexpr Tag kPush = 1, kPull = 2;

Op message(Kind kind, Stream stream, std::uint16_t slot, Tag tag, Bytes bytes, Mode mode, GroupId group, NameId name) {
  Op op;
  op.kind = kind;
  op.stream = stream;
  op.group = group;
  op.name = name;
  op.message.slot = slot;
  op.message.tag = tag;
  op.message.bytes = bytes;
  op.message.mode = mode;
  return op;
}

Op work(const Work& amount, GroupId group, NameId name) {
  Op op;
  op.kind = Kind::compute;
  op.work = amount;
  op.group = group;
  op.name = name;
  return op;
}

/// Compute, push, pull, until the horizon.
class Worker : public CoroutineProgram {
 public:
  Worker(const AsyncServerPlan& plan, Names& names)
      : CoroutineProgram({plan.workers}, 1, true),
        plan_(plan),
        compute_(names.group("compute", Role::work)),
        exchange_(names.group("server", Role::handover, "asynchronous server")),
        batch_(names.intern("mini-batch")),
        push_(names.intern("push")),
        pull_(names.intern("pull")) {}

 protected:
  Ops run() override {
    // Mini-batches that end on the horizon count, whatever the rounding of the clock.
    const double end = plan_.horizon.value * (1 - 1e-12);
    for (double now = 0; now < end;) {
      const Op batch = work(plan_.mini_batch, compute_, batch_);
      co_yield batch;
      co_await next_event;
      const Op push = message(Kind::send, 0, 0, kPush, plan_.gradient, Mode::eager, exchange_, push_);
      co_yield push;
      co_await next_event;
      const Op pull = message(Kind::recv, 0, 0, kPull, plan_.weights, Mode::eager, exchange_, pull_);
      co_yield pull;
      const Event event = co_await next_event;
      now = event.now.value;
    }
  }

 private:
  AsyncServerPlan plan_;
  GroupId compute_, exchange_;
  NameId batch_, push_, pull_;
};

/// Takes the oldest push of anyone, applies it, sends the weights back.
class Server : public CoroutineProgram {
 public:
  Server(const AsyncServerPlan& plan, Names& names)
      : CoroutineProgram(all(plan.workers), 2, true),
        plan_(plan),
        compute_(names.group("compute", Role::work)),
        exchange_(names.group("server", Role::handover, "asynchronous server")),
        take_(names.intern("take a gradient")),
        apply_(names.intern("apply a gradient")),
        give_(names.intern("give weights")) {}
  bool daemon() const override { return true; }

 protected:
  Ops run() override {
    for (;;) {
      const Op take = message(Kind::recv, 0, kAnyPeer, kPush, Bytes{0}, Mode::eager, exchange_, take_);
      co_yield take;
      Event event = co_await next_event;
      while (event.kind != Kind::recv) event = co_await next_event;  // ends of earlier replies
      const auto worker = static_cast<std::size_t>(event.peer);
      Op apply = work(plan_.apply, compute_, apply_);
      apply.effect.action = Action::call;
      apply.effect.call = 1;
      apply.effect.read.buffer = static_cast<std::uint16_t>(worker);
      co_yield apply;
      event = co_await next_event;
      while (event.kind != Kind::compute) event = co_await next_event;
      const Op give = message(Kind::send, 1, static_cast<std::uint16_t>(worker), kPull, plan_.weights, Mode::eager,
                              exchange_, give_);
      co_yield give;
    }
  }

 private:
  AsyncServerPlan plan_;
  GroupId compute_, exchange_;
  NameId take_, apply_, give_;

  static std::vector<Actor> all(int workers) {
    std::vector<Actor> actors(static_cast<std::size_t>(workers));
    std::iota(actors.begin(), actors.end(), 0);
    return actors;
  }
};

}  // namespace

std::unique_ptr<Program> async_worker(int, const AsyncServerPlan& plan, Names& names) {
  return std::make_unique<Worker>(plan, names);
}
std::unique_ptr<Program> async_server(const AsyncServerPlan& plan, Names& names) {
  return std::make_unique<Server>(plan, names);
}

}  // namespace trainyard
