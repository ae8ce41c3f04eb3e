#pragma once
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/index.hpp"
#include "sim/observers/growth.hpp"

namespace trainyard {

/// Counts operations. Each operation of a class counts once for each member, of other actors once.
class OperationCount : public NumberSums<OperationCount> {
 public:
  /// `fused` returns the number of consecutive operations that one operation stands for.
  explicit OperationCount(std::vector<double> sizes, std::function<double(const Op&)> fused = {})
      : sizes_(std::move(sizes)), fused_(std::move(fused)) {}
  Interest interest() const override { return kSums; }
  void finished(const OpRun& run) override {
    const double count = count_of(run);
    const std::size_t actor = position(run.op->actor);
    count_ += (actor < sizes_.size() ? sizes_[actor] : 1) * count;
  }
  double count() const { return count_; }

 private:
  friend NumberSums<OperationCount>;
  std::vector<double> sizes_;
  std::function<double(const Op&)> fused_;
  double count_ = 0;
  template <class Visit>
  void each_number(Visit visit) {
    visit(count_);
  }
  std::unordered_map<const SeriesTimes*, double> counts_of_whole_;  // a series runs many times
  double count_of(const OpRun& run) {
    double fresh = 0;
    const SeriesTimes* series = run.whole_series();
    double& count = series ? counts_of_whole_[series] : fresh;
    if (count == 0) run.for_each_op([&](const Op& op) { count += fused(op); });
    return count;
  }
  double fused(const Op& op) const { return fused_ ? fused_(op) : 1; }
};

}  // namespace trainyard
