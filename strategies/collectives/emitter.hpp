#pragma once
#include <array>

#include "sim/ops.hpp"

namespace trainyard {

/// What a program has yielded so far, stream by stream, and the one operation it is yielding: coroutines give a
/// reference to it, so their frames stay small and hold nothing to destroy.
class Emitter {
 public:
  const Op& emit(const Op& op) {
    scratch_ = op;
    scratch_.work.sample = sample_;
    ++emitted_[op.stream];
    return scratch_;
  }
  /// The next operation of `stream`, which waits for `after` besides: its other fields are to be filled in place.
  Op& begin(Kind kind, Stream stream, NameId name = 0, GroupId group = 0, Dep after = {}) {
    scratch_ = {.stream = stream, .kind = kind, .group = group, .deps = {after}, .name = name};
    return scratch_;
  }
  /// The same, made ready.
  Op& begin(const Op& op) { return scratch_ = op; }
  const Op& emit() {
    scratch_.work.sample = sample_;
    ++emitted_[scratch_.stream];
    return scratch_;
  }
  /// The operation given last, changed before anybody has seen it.
  template <class Change>
  const Op& amend(Change change) {
    change(scratch_);
    return scratch_;
  }
  /// A dependency on everything yielded so far on `stream`.
  Dep after(Stream stream) const { return {emitted_[stream], stream}; }

  /// Work yielded from now on belongs to that step (see Work::sample).
  void begin_sample(std::uint32_t number) { sample_ = number; }

  /// So many operations are yielded on the stream at once (Repeat).
  void skip(Stream stream, std::uint32_t operations) { emitted_[stream] += operations; }

  /// A number for a collective that begins.
  std::uint32_t new_call() { return ++calls_; }
  /// Is this the first operation of that call on the stream?
  bool first_of(std::uint32_t call, Stream stream) {
    if (call_[stream] == call) return false;
    call_[stream] = call;
    return true;
  }
  bool used_by(std::uint32_t call, Stream stream) const { return call_[stream] == call; }

 private:
  Op scratch_;
  std::array<std::uint32_t, kMaxStreams> emitted_{};
  std::array<std::uint32_t, kMaxStreams> call_{};
  std::uint32_t calls_ = 0, sample_ = 0;
};

}  // namespace trainyard
