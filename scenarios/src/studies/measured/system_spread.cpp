#include "scenarios/src/studies/measured/system_spread.hpp"

#include <cmath>

#include "models/fitted/fitting.hpp"

namespace trainyard {
namespace {

/// Adds the errors of each system. Together, the errors of a system weigh the square root of their number. Returns the
/// mean weight of a system.
double add_systems(std::vector<WeightedValue>& values, const SystemErrors& systems) {
  double sum = 0;
  for (const auto& [name, errors] : systems) {
    const double weight = std::sqrt(static_cast<double>(errors.size()));
    for (const double error : errors) values.push_back({std::abs(error), weight / static_cast<double>(errors.size())});
    sum += weight;
  }
  return systems.empty() ? 1 : sum / static_cast<double>(systems.size());
}

}  // namespace

double spread_of_kind(const SystemErrors& kind_errors, const std::vector<const SystemErrors*>& other_kinds,
                      double probability) {
  std::vector<WeightedValue> errors, others;
  const double mean = add_systems(errors, kind_errors);
  for (const SystemErrors* kind : other_kinds) add_systems(others, *kind);
  double sum = 0;
  for (const WeightedValue& e : others) sum += e.weight;
  for (const WeightedValue& e : others) errors.push_back({e.value, e.weight / sum * mean});
  return weighted_quantile(std::move(errors), probability);
}

}  // namespace trainyard
