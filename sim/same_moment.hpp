#pragma once

namespace trainyard {

/// Moments that differ by less than this relative amount are the same. Sums made in another order, as those of folded
/// ranks, differ by some 1e-15.
constexpr double kSameMoment = 1e-12;

/// Returns true if an earlier moment equals a later one, in s from the start of the run. A negative moment never
/// happened.
constexpr bool same_moment(double earlier, double later) {
  return earlier >= 0 && earlier >= later * (1 - kSameMoment);
}

}  // namespace trainyard
