#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard {

/// Distribution of the lengths of generated answers, in tokens. From a list, lengths are drawn with replacement.
/// Without a list, lengths are lognormal and cut at `most`: an answer that would be longer has `most` tokens. `mean` is
/// the mean after the cut, `variation` the standard deviation over the mean before it; 0: all answers have `mean`
/// tokens.
struct AnswerLengths {
  double mean = 0, variation = 0;
  std::int64_t most = 0;
  std::vector<double> values = {};  ///< empty: lognormal
  std::uint64_t seed = 1;

  /// Draws `count` lengths, whole numbers from 1 to `most`. The same seed gives the same lengths.
  std::vector<double> draw(std::size_t count) const;
};

/// Draws `count` lognormal numbers with this mean, and this standard deviation over the mean; 0: all are the mean. The
/// same seed gives the same numbers.
std::vector<double> draw_lognormal(std::size_t count, double mean, double variation, std::uint64_t seed);

}  // namespace trainyard
