#pragma once
#include <array>

#include "sim/op.hpp"

namespace trainyard {

/// What the next operation of the compute stream waits for besides the one before it. An operation holds two
/// dependencies: where there are more, marks before it take the others.
class PendingWaits {
 public:
  void add(Dep dep) { deps_.at(static_cast<std::size_t>(count_++)) = dep; }
  void add(const PendingWaits& others) {
    for (int i = 0; i < others.count_; ++i) add(others.deps_[static_cast<std::size_t>(i)]);
  }
  bool any() const { return count_ > 0; }
  bool exceed_one_op() const { return count_ > 2; }
  void clear() { count_ = 0; }
  /// Moves the latest ones into the operation.
  void take_into(Op& op) {
    for (Dep& dep : op.deps)
      if (count_ > 0) dep = deps_[--count_];
  }

 private:
  std::array<Dep, 24> deps_{};
  int count_ = 0;
};

}  // namespace trainyard
