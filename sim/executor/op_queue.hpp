#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/repeat.hpp"

namespace trainyard::execution {

/// A first-in, first-out queue. Operations of a collective differ from step to step by the same stride: the count of a
/// dependency is one more, the number of a chunk one less. Such a run of operations is stored as its next operation and
/// the stride, so that queues of thousands take the memory, and the cache lines, of a few. Other operations take one
/// entry each.
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
  /// Appends `operations` operations, of which `next` is the first. Each differs from the previous one by `stride`.
  /// Returns how many of them occupy no entry.
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
  /// Removes the first operation. Returns 1 if it occupied no entry of its own, otherwise 0.
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

  /// The run of the operation that was popped last.
  struct RunPosition {
    std::uint32_t popped = 0, left = 0;  ///< operations of that run, popped and still queued
    const Stride* stride = nullptr;
  };
  RunPosition run_position() const {
    if (count_ == 0 || runs_[first_].taken == 0) return {};
    const Run& run = runs_[first_];
    return {run.taken, run.operations - run.taken, &run.stride};
  }
  /// Skips operations as if they had been popped: fewer than are left of the run. `op` becomes the last of them. Returns
  /// how many of them occupied no entry.
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
  struct Run {  // the data that every operation touches lies together, because it is read from cold memory
    std::uint32_t operations = 0, taken = 0;
    std::uint32_t at_once = 0;  // how many of the operations left occupy no entry: they were appended with another one
    Stride stride;
    Op next;
  };
  std::vector<Run> runs_;  // ring buffer; its size is a power of two
  std::size_t first_ = 0, count_ = 0;
  Op last_;  // the operation that was appended last

  Run& last_run() { return runs_[(first_ + count_ - 1) & (runs_.size() - 1)]; }
  void grow() {
    std::rotate(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first_), runs_.end());
    first_ = 0;
    runs_.resize(std::max<std::size_t>(1, 2 * runs_.size()));
  }
};

}  // namespace trainyard::execution
