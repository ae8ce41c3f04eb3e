#include "models/generation/answer_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "sim/hashing.hpp"

namespace trainyard {
namespace {

double normal_share_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Returns the mean of min(X, cut) for a lognormal X with these parameters.
double mean_after_cut(double mu, double sigma, double cut) {
  const double z = (std::log(cut) - mu) / sigma;
  return std::exp(mu + sigma * sigma / 2) * normal_share_below(z - sigma) + cut * (1 - normal_share_below(z));
}

/// Returns the parameter mu with which the mean after the cut is `mean`, by bisection.
double location_for(double mean, double sigma, double cut) {
  double low = std::log(mean) - sigma * sigma - 1, high = std::log(cut) + 20 * sigma + 20;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (mean_after_cut(middle, sigma, cut) < mean ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Returns a standard normal number, the same on every machine.
double normal_draw(std::mt19937_64& random) {
  const double first = uniform_number(random());
  return normal_number(first, uniform_number(random()));
}

}  // namespace

std::vector<double> AnswerLengths::draw(std::size_t count) const {
  std::vector<double> lengths(count, std::max(1.0, std::round(mean)));
  std::mt19937_64 random(seed);
  const auto cut = static_cast<double>(most);
  if (!values.empty()) {
    for (double& length : lengths) {
      const auto index = static_cast<std::size_t>(uniform_number(random()) * static_cast<double>(values.size()));
      length = std::clamp(std::round(values[index]), 1.0, cut);
    }
  } else if (variation > 0) {
    const double sigma = std::sqrt(std::log1p(variation * variation)), mu = location_for(mean, sigma, cut);
    for (double& length : lengths)
      length = std::clamp(std::round(std::exp(mu + sigma * normal_draw(random))), 1.0, cut);
  }
  return lengths;
}

std::vector<double> draw_lognormal(std::size_t count, double mean, double variation, std::uint64_t seed) {
  std::vector<double> numbers(count, mean);
  if (variation == 0 || mean == 0) return numbers;
  const double sigma = std::sqrt(std::log1p(variation * variation)), mu = std::log(mean) - sigma * sigma / 2;
  std::mt19937_64 random(seed);
  for (double& number : numbers) number = std::exp(mu + sigma * normal_draw(random));
  return numbers;
}

}  // namespace trainyard
