#pragma once
#include <vector>

#include "sim/index.hpp"
#include "sim/observer.hpp"

namespace trainyard {

/// Counts operations, those of a class of actors as often as it has members.
class OperationCount : public Observer {
 public:
  explicit OperationCount(std::vector<double> sizes) : sizes_(std::move(sizes)) {}
  bool sees_transfers() const override { return false; }
  Level level() const override { return Level::none; }
  void finished(const OpRun& run) override { count_ += sizes_[position(run.op->actor)]; }
  double count() const { return count_; }

 private:
  std::vector<double> sizes_;
  double count_ = 0;
};

}  // namespace trainyard
