#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/repeat.hpp"

namespace trainyard::execution {

/// First in, first out. What a collective yields differs from step to step by the same: the count of a dependency is one
/// more, a chunk's number one less. Such runs of operations are kept as the next and the difference, so that queues of
/// thousands take the memory, and the cache lines, of a few. Operations without a rule take what they took alone.
class OpQueue {
 public:
  void push(const Op& op) {
    if (count_ > 0) {
      Run& run = last_run();
      const Stride stride = run.operations == 1 ? stride_between(last_, op) : run.stride;
      if (follows(op, last_, stride)) {
        run.stride = stride;
        ++run.operations;
        last_ = op;
        return;
      }
    }
    if (count_ == runs_.size()) grow();
    ++count_;
    Run& run = last_run();
    run.next = last_ = op;
    run.operations = 1;
    run.taken = run.at_once = 0;
  }
  /// So many operations which differ by the same, one from the next; how many of them took no place of their own.
  std::uint32_t push(Op next, const Stride& stride, std::uint32_t operations) {
    for (; operations > 0; --operations, advance(next, stride)) {
      push(next);
      Run& run = last_run();
      if (run.operations > 1 && run.stride != stride) continue;
      run.stride = stride;
      run.operations += operations - 1;
      run.at_once += operations - 1;
      advance(last_, stride, operations - 1);
      return operations - 1;
    }
    return 0;
  }
  /// How many took no place of their own: 0 or 1.
  std::uint32_t pop(Op& op) {
    Run& run = runs_[first_];
    if (run.taken > 0) advance(run.next, run.stride);
    op = run.next;
    const std::uint32_t at_once = run.at_once > 0 ? 1 : 0;
    run.at_once -= at_once;
    if (++run.taken < run.operations) return at_once;
    first_ = (first_ + 1) & (runs_.size() - 1);
    --count_;
    return at_once;
  }

  /// How operations differ that are of one run with the one that was popped last.
  struct Regular {
    std::uint32_t popped = 0, left = 0;  ///< of that run; 0: what was popped last was the last of one
    const Stride* stride = nullptr;
  };
  Regular regular() const {
    if (count_ == 0 || runs_[first_].taken == 0) return {};
    const Run& run = runs_[first_];
    return {run.taken, run.operations - run.taken, &run.stride};
  }
  /// As if so many had been popped, fewer than are left of the run; the last of them.
  std::uint32_t skip(std::uint32_t operations, Op& op) {
    Run& run = runs_[first_];
    advance(run.next, run.stride, operations);
    run.taken += operations;
    op = run.next;
    const std::uint32_t at_once = std::min(run.at_once, operations);
    run.at_once -= at_once;
    return at_once;
  }

 private:
  struct Run {  // what every operation touches lies together: it is taken up from cold memory
    std::uint32_t operations = 0, taken = 0;
    std::uint32_t at_once = 0;  // of those not taken, so many have come with another one
    Stride stride;
    Op next;
  };
  std::vector<Run> runs_;  // a power of two of them
  std::size_t first_ = 0, count_ = 0;
  Op last_;  // that came

  Run& last_run() { return runs_[(first_ + count_ - 1) & (runs_.size() - 1)]; }
  void grow() {
    std::rotate(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first_), runs_.end());
    first_ = 0;
    runs_.resize(std::max<std::size_t>(1, 2 * runs_.size()));
  }
};

}  // namespace trainyard::execution
