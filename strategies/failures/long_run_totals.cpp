#include "strategies/failures/long_run_totals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/error.hpp"

namespace trainyard {

FailuresBySteps::FailuresBySteps(const std::vector<SetFailure>& failures) : failures_(failures) {
  for (std::size_t i = 0; i < failures.size(); ++i)
    if (failures[i].after_step >= 0) order_.push_back(i);
  std::stable_sort(order_.begin(), order_.end(), [&failures](std::size_t a, std::size_t b) {
    return failures[a].after_step < failures[b].after_step;
  });
}

double FailuresBySteps::next() const {
  return taken_ < order_.size() ? failures_[order_[taken_]].after_step : HUGE_VAL;
}

void settle(LongRunResult& r, const SavedWork& work, Seconds step, Seconds end, Seconds partial) {
  constexpr double kNothing = 1e-9, kRounding = 1e-6;  // of the whole run
  r.end = end;
  r.steps = work.steps();
  r.useful = step * work.steps();
  r.slower = work.trained() + partial - r.useful;
  if (std::abs(r.slower.value) < kNothing * end.value) r.slower = Seconds{0};
  const Seconds sum = r.useful + r.slower + r.lost_work + r.stalled + r.down + r.without_node;
  if (std::abs((sum - end).value) > kRounding * end.value)
    throw InternalError(fmt::format("a long run of {} s whose parts sum to {} s", end.value, sum.value));
}

}  // namespace trainyard
