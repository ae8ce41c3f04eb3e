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
  std::array<bool, 3> inside{};  ///< indexed by probability: whether the interval holds the measured step time
  double half_width = 0;         ///< half width of the 80 % interval, as a share of the predicted step
};

/// Number of measured steps of a class that lie inside their intervals.
struct ClassCoverage {
  std::string name;
  std::size_t steps = 0, families = 0;
  std::array<double, 3> by_steps{};     ///< share of the steps, by probability
  std::array<double, 3> by_families{};  ///< mean over the families of each one's share
  double half_width = 0;                ///< median half width of the 80 % intervals
  double most_half_width = 0;           ///< the aim for it; 0: none
};

/// Leaves out each family in turn, fits the doubt to the others and judges its intervals by the family's steps (at most
/// kMostOfFamily of them). The predictions are those of the tables, which were fitted without the family too.
std::vector<CoveredStep> cover_each_family(const std::vector<LeftOutStep>&);
std::vector<ClassCoverage> coverage_by_class(const std::vector<CoveredStep>&);

}  // namespace trainyard
