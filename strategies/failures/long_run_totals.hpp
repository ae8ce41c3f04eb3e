#pragma once
#include <vector>

#include "strategies/failures/long_run.hpp"
#include "strategies/failures/saved_work.hpp"

namespace trainyard {

/// The prescribed failures that come when so many steps have ended, in that order.
class FailuresBySteps {
 public:
  explicit FailuresBySteps(const std::vector<SetFailure>&);
  /// Steps before the next one; infinite where there is none.
  double next() const;
  /// Its number in the plan.
  std::size_t take() { return order_[taken_++]; }

 private:
  const std::vector<SetFailure>& failures_;
  std::vector<std::size_t> order_;
  std::size_t taken_ = 0;
};

/// The totals of a run that ends at `end`, from what was done and what was booked on the way; `step` is that of a whole
/// machine, `partial` the time of the step under way. Throws InternalError where the parts do not sum to the end.
void settle(LongRunResult&, const SavedWork&, Seconds step, Seconds end, Seconds partial);

}  // namespace trainyard
