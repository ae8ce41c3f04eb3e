#pragma once
#include <coroutine>
#include <exception>
#include <utility>

#include "sim/program.hpp"

namespace trainyard {

/// A lazy sequence of operations, written as a coroutine. `co_yield op;` yields one operation, `co_yield other_ops(…);`
/// yields all of another sequence, and `const Event e = co_await next_event;` waits for the end of one of the actor's
/// operations.
///
/// g++ 12 destroys some temporaries inside a co_yield expression twice. Therefore yield only trivially copyable
/// operations or sequences, each in a statement of its own. Nested sequences are resumed directly, at any depth.
class [[nodiscard]] Ops {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  struct NextEvent {};

  struct promise_type {
    const Op* op = nullptr;
    Repeat* repeat = nullptr;      // root only: yielded rounds that have not all been taken yet
    const Event* event = nullptr;  // root only: the event waited for
    promise_type* root = this;
    promise_type* parent = nullptr;
    Handle leaf;           // root only: the innermost running sequence
    bool waiting = false;  // root only
    std::exception_ptr error;

    Ops get_return_object() { return Ops(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }

    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle self) noexcept {
        promise_type& p = self.promise();
        if (!p.parent) return std::noop_coroutine();
        Handle up = Handle::from_promise(*p.parent);
        p.root->leaf = up;
        return up;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void unhandled_exception() { error = std::current_exception(); }
    void return_void() {}

    std::suspend_always yield_value(const Op& yielded) {
      root->op = &yielded;
      return {};
    }

    std::suspend_always yield_value(Repeat& yielded) {
      root->repeat = &yielded;
      return {};
    }

    struct NestedOps {
      Handle inner;
      bool await_ready() noexcept { return !inner; }
      std::coroutine_handle<> await_suspend(Handle outer) noexcept {
        promise_type& in = inner.promise();
        in.parent = &outer.promise();
        in.root = outer.promise().root;
        in.root->leaf = inner;
        return inner;
      }
      void await_resume() {
        if (inner && inner.promise().error) std::rethrow_exception(inner.promise().error);
      }
    };
    NestedOps yield_value(Ops&& inner) { return {inner.handle_}; }  // `inner` lives in the caller's frame until resumed
    NestedOps yield_value(Ops& inner) { return {inner.handle_}; }

    struct Await {
      promise_type* root;
      bool await_ready() noexcept { return false; }
      void await_suspend(Handle) noexcept { root->waiting = true; }
      Event await_resume() noexcept { return *root->event; }
    };
    Await await_transform(NextEvent) { return {root}; }
  };

  Ops() = default;
  Ops(Ops&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Ops& operator=(Ops&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Ops() {
    if (handle_) handle_.destroy();
  }

  /// Returns the next operation, valid until the next call. Rounds that repeat are returned operation by operation.
  Pull next(const Op*& op) {
    for (;;) {
      if (take_repeated(op)) return Pull::op;
      if (const Pull pull = resume(op); pull != Pull::repeat) return pull;
    }
  }
  /// Returns the next operation. Rounds that repeat are returned as one Repeat, valid until the next call.
  Pull next(const Op*& op, Repeat*& rounds) {
    if (take_repeated(op)) return Pull::op;
    const Pull pull = resume(op);
    if (pull == Pull::repeat) rounds = std::exchange(handle_.promise().repeat, nullptr);
    return pull;
  }
  bool waiting() const { return handle_.promise().waiting; }
  /// Delivers the event that the sequence waits for. The sequence resumes at the next call of `next`.
  void deliver(const Event& event) {
    handle_.promise().event = &event;
    handle_.promise().waiting = false;
  }

 private:
  explicit Ops(Handle handle) : handle_(handle) {}
  Handle handle_;

  bool take_repeated(const Op*& op) {
    promise_type& root = handle_.promise();
    if (!root.repeat) return false;
    op = root.repeat->take();
    if (!op) root.repeat = nullptr;
    return op != nullptr;
  }
  Pull resume(const Op*& op) {
    promise_type& root = handle_.promise();
    if (handle_.done()) return Pull::done;
    if (root.waiting) return Pull::waiting;
    root.op = nullptr;
    Handle leaf = root.leaf ? root.leaf : handle_;
    leaf.resume();
    if (handle_.done()) {
      if (root.error) std::rethrow_exception(root.error);
      return Pull::done;
    }
    if (root.waiting) return Pull::waiting;
    op = root.op;
    return root.repeat ? Pull::repeat : Pull::op;
  }
};

constexpr Ops::NextEvent next_event{};

/// A program whose operations come from a coroutine.
class CoroutineProgram : public Program {
 public:
  CoroutineProgram(std::vector<Actor> slots, int streams, bool dynamic = false)
      : slots_(std::move(slots)), streams_(streams), dynamic_(dynamic) {}

  /// The first call creates the sequence, because the derived object is complete only then.
  Pull next(const Op*& op, const Repeat*& rounds) final {
    if (!begun_) {
      ops_ = run();
      begun_ = true;
    }
    if (ops_.waiting()) {
      if (events_.size() == read_) return Pull::waiting;
      hand_over_event();
    }
    for (;;) {
      Repeat* repeat = nullptr;
      const Pull pull = ops_.next(op, repeat);
      rounds = repeat;
      // Events that arrive while nobody waits are queued: a wait takes the oldest.
      if (pull != Pull::waiting || events_.size() == read_) return pull;
      hand_over_event();
    }
  }
  void notify(const Event& event) final { events_.push_back(event); }
  bool dynamic() const final { return dynamic_; }
  std::span<const Actor> slots() const final { return slots_; }
  int streams() const final { return streams_; }

 protected:
  virtual Ops run() = 0;

 private:
  std::vector<Actor> slots_;
  int streams_;
  bool dynamic_;
  bool begun_ = false;
  Ops ops_;
  std::vector<Event> events_;
  std::size_t read_ = 0;
  Event current_;

  void hand_over_event() {
    current_ = events_[read_++];
    if (read_ == events_.size()) {
      events_.clear();
      read_ = 0;
    }
    ops_.deliver(current_);
  }
};

}  // namespace trainyard
