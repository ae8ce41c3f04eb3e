#pragma once
#include <array>

#include "sim/ops.hpp"

namespace trainyard {

/// Counts what a program has yielded on each stream, and holds the one operation that it is yielding. Coroutines yield
/// a reference to that operation, so that their frames stay small and hold nothing to destroy.
class Emitter {
 public:
  const Op& emit(const Op& op) {
    scratch_ = op;
    scratch_.work.sample = sample_;
    ++emitted_[op.stream];
    return scratch_;
  }
  /// Starts the next operation of `stream`, which also waits for `after`. The caller fills in the other fields in
  /// place.
  Op& begin(Kind kind, Stream stream, NameId name = 0, GroupId group = 0, Dep after = {}) {
    scratch_ = {.stream = stream, .kind = kind, .group = group, .deps = {after}, .name = name};
    return scratch_;
  }
  /// Starts a copy of a prepared operation.
  Op& begin(const Op& op) { return scratch_ = op; }
  const Op& emit() {
    scratch_.work.sample = sample_;
    ++emitted_[scratch_.stream];
    return scratch_;
  }
  /// Changes the operation emitted last, before anyone has seen it.
  template <class Change>
  const Op& amend(Change change) {
    change(scratch_);
    return scratch_;
  }
  /// Returns a dependency on everything yielded so far on `stream`.
  Dep last_operation(Stream stream) const { return {emitted_[stream], stream}; }

  /// Assigns the work yielded from now on to sample `number` (see Work::sample).
  void begin_sample(std::uint32_t number) { sample_ = number; }

  /// Counts `operations` more operations on the stream, which a Repeat yields at once.
  void skip(Stream stream, std::uint32_t operations) { emitted_[stream] += operations; }

  /// Returns a number for a new collective call.
  std::uint32_t new_call() { return ++calls_; }
  /// Returns true for the first operation of that call on the stream.
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
