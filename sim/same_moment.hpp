#pragma once

namespace trainyard {

/// Moments of a run that differ by less than this part of themselves are one: where the same sums are made in another
/// order, as of ranks that are folded, rounding moves them by some 1e-15.
constexpr double kSameMoment = 1e-12;

/// Is an earlier moment the same as a later one? In s from the start of the run; a moment below 0 never was.
constexpr bool same_moment(double earlier, double later) {
  return earlier >= 0 && earlier >= later * (1 - kSameMoment);
}

}  // namespace trainyard
