#pragma once
#include <array>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace trainyard {

/// The probabilities whose intervals are compared with measured steps.
inline constexpr std::array kCoverageProbabilities{0.5, 0.8, 0.95};

/// A measured step and its intervals, which were fitted without its family.
struct CoveredStep {
  LeftOutStep step;
  bool known_stack = false;      ///< another family has a step of the same stack, in any release
  std::array<bool, 3> inside{};  ///< indexed by probability: the interval holds the measured step time
  double half_width = 0;         ///< half width of the 80 % interval, as a share of the predicted step
  double error = 0;              ///< |measured / predicted - 1|
  double expected_error = 0;     ///< the error to expect, by the same doubt as the intervals
};

/// The share of the measured steps of a class that lie inside their intervals.
struct ClassCoverage {
  std::string name;
  std::size_t steps = 0, families = 0;
  std::array<double, 3> by_steps{};     ///< share of the steps, by probability
  std::array<double, 3> by_families{};  ///< mean of the shares of the families, by probability
  double half_width = 0;                ///< median half width of the 80 % intervals
  double most_half_width = 0;           ///< largest half width that is aimed at; 0: no aim
  double error = 0;                     ///< mean |measured / predicted - 1| of the steps
  double expected_error = 0;            ///< mean of their errors to expect
};

/// Leaves out each family in turn, fits the doubt to the others and judges its intervals by the steps of that family
/// (at most kMostOfFamily of them). The predictions come from the tables, whose constants were fitted without the
/// family too.
std::vector<CoveredStep> cover_each_family(const std::vector<LeftOutStep>&);
/// Returns the coverage of each class: all steps, known stacks, mixtures of experts, and so on.
std::vector<ClassCoverage> coverage_by_class(const std::vector<CoveredStep>&);

}  // namespace trainyard
