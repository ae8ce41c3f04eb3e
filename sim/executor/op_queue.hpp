#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/op.hpp"

namespace trainyard::execution {

/// First in, first out. What a collective yields differs from step to step by the same: the count of a dependency is one
/// more, a chunk's number one less. Such runs of operations are kept as the next and the difference, so that queues of
/// thousands take the memory, and the cache lines, of a few. Operations without a rule take what they took alone.
class OpQueue {
 public:
  void push(const Op& op) {
    const Words words = std::bit_cast<Words>(op);
    if (count_ > 0) {
      Run& run = runs_[(first_ + count_ - 1) & (runs_.size() - 1)];
      if (run.operations == 1) run.step = minus(words, last_);
      if (run.operations == 1 || follows(words, last_, run.step)) {
        ++run.operations;
        last_ = words;
        return;
      }
    }
    if (count_ == runs_.size()) grow();
    Run& run = runs_[(first_ + count_++) & (runs_.size() - 1)];
    run.next = last_ = words;
    run.operations = 1;
    run.taken = 0;
  }
  void pop(Op& op) {
    Run& run = runs_[first_];
    if (run.taken > 0) run.next = plus(run.next, run.step);
    op = std::bit_cast<Op>(run.next);
    if (++run.taken < run.operations) return;
    first_ = (first_ + 1) & (runs_.size() - 1);
    --count_;
  }

 private:
  using Words = std::array<std::uint32_t, sizeof(Op) / sizeof(std::uint32_t)>;
  struct Run {  // what every operation touches lies together: it is taken up from cold memory
    std::uint32_t operations = 0, taken = 0;
    Words step, next;
  };
  std::vector<Run> runs_;  // a power of two of them
  std::size_t first_ = 0, count_ = 0;
  Words last_{};  // that came

  static bool follows(const Words& words, const Words& last, const Words& step) {
    std::uint32_t differences = 0;  // of all words, without a branch: the compiler compares four at once
    for (std::size_t i = 0; i < words.size(); ++i) differences |= words[i] - last[i] - step[i];
    return differences == 0;
  }
  static Words plus(const Words& a, const Words& b) {
    Words sum;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
    return sum;
  }
  static Words minus(const Words& a, const Words& b) {
    Words difference;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = a[i] - b[i];
    return difference;
  }
  void grow() {
    std::rotate(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first_), runs_.end());
    first_ = 0;
    runs_.resize(std::max<std::size_t>(1, 2 * runs_.size()));
  }
};

}  // namespace trainyard::execution
