#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/repeat.hpp"

namespace trainyard::execution {

/// First in, first out. What a collective yields differs from step to step by the same: the count of a dependency is one
/// more, a chunk's number one less. Such runs of operations are kept as the next and the difference, so that queues of
/// thousands take the memory, and the cache lines, of a few. Operations without a rule take what they took alone.
class OpQueue {
 public:
  void push(const Op& op) { push(op_words(op)); }
  /// So many operations which differ by the same, one from the next; how many of them took no place of their own.
  std::uint32_t push(OpWords next, const OpWords& step, std::uint32_t operations) {
    for (; operations > 0; --operations, next = plus(next, step)) {
      push(next);
      Run& run = last_run();
      if (run.operations > 1 && run.step != step) continue;
      run.step = step;
      run.operations += operations - 1;
      run.at_once += operations - 1;
      last_ = plus(next, step, operations - 1);
      return operations - 1;
    }
    return 0;
  }
  /// How many took no place of their own: 0 or 1.
  std::uint32_t pop(Op& op) {
    Run& run = runs_[first_];
    if (run.taken > 0) run.next = plus(run.next, run.step);
    op = std::bit_cast<Op>(run.next);
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
    const OpWords* step = nullptr;
  };
  Regular regular() const {
    if (count_ == 0 || runs_[first_].taken == 0) return {};
    const Run& run = runs_[first_];
    return {run.taken, run.operations - run.taken, &run.step};
  }
  /// As if so many had been popped, fewer than are left of the run; the last of them.
  std::uint32_t skip(std::uint32_t operations, Op& op) {
    Run& run = runs_[first_];
    run.next = plus(run.next, run.step, operations);
    run.taken += operations;
    op = std::bit_cast<Op>(run.next);
    const std::uint32_t at_once = std::min(run.at_once, operations);
    run.at_once -= at_once;
    return at_once;
  }

 private:
  struct Run {  // what every operation touches lies together: it is taken up from cold memory
    std::uint32_t operations = 0, taken = 0;
    std::uint32_t at_once = 0;  // of those not taken, so many have come with another one
    OpWords step, next;
  };
  std::vector<Run> runs_;  // a power of two of them
  std::size_t first_ = 0, count_ = 0;
  OpWords last_{};  // that came

  Run& last_run() { return runs_[(first_ + count_ - 1) & (runs_.size() - 1)]; }
  void push(const OpWords& words) {
    if (count_ > 0) {
      Run& run = last_run();
      if (run.operations == 1) run.step = minus(words, last_);
      if (run.operations == 1 || follows(words, last_, run.step)) {
        ++run.operations;
        last_ = words;
        return;
      }
    }
    if (count_ == runs_.size()) grow();
    ++count_;
    Run& run = last_run();
    run.next = last_ = words;
    run.operations = 1;
    run.taken = run.at_once = 0;
  }
  static bool follows(const OpWords& words, const OpWords& last, const OpWords& step) {
    std::uint32_t differences = 0;  // of all words, without a branch: the compiler compares four at once
    for (std::size_t i = 0; i < words.size(); ++i) differences |= words[i] - last[i] - step[i];
    return differences == 0;
  }
  void grow() {
    std::rotate(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first_), runs_.end());
    first_ = 0;
    runs_.resize(std::max<std::size_t>(1, 2 * runs_.size()));
  }
};

}  // namespace trainyard::execution
