#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace trainyard {

/// The probabilities whose intervals are compared with measured values.
inline constexpr std::array kCoverageProbabilities{0.5, 0.8, 0.95};
inline constexpr std::size_t kLikelyIndex = 1;
static_assert(kCoverageProbabilities[kLikelyIndex] == kLikely);

/// A measured value and its intervals, which were fitted without its family.
struct CoveredRow {
  std::string family;
  std::array<bool, 3> inside{};  ///< indexed by probability: the interval holds the measured value
  double half_width = 0;         ///< half width of the 80 % interval, as a share of the predicted value
  double error = 0;              ///< |measured / predicted - 1|
  double expected_error = 0;     ///< the error to expect, by the same doubt as the intervals; 0: not stated
};
/// The doubt of a family's steps by the measured steps of all others.
class DoubtWithoutFamily {
 public:
  DoubtWithoutFamily(const std::vector<LeftOutStep>&, const std::string& family);
  StepDoubt doubt(const StepProfile& profile) const { return model_.doubt(profile, others_); }
  const DoubtModel& model() const { return model_; }
  const Experience& others() const { return others_; }

 private:
  DoubtModel model_;
  Experience others_;
};

/// Compares a measured value, as a multiple of the predicted one, with its intervals. `range` returns the interval of a
/// probability as factors of the predicted value.
CoveredRow covered_row(const std::string& family, double measured, const std::function<StepRange(double)>& range);

/// A measured step and its intervals.
struct CoveredStep : CoveredRow {
  LeftOutStep step;
  bool known_stack = false;  ///< another family has a step of the same stack, in any release
};

/// The share of the measured rows of a class that lie inside their intervals.
struct ClassCoverage {
  std::string name;
  std::size_t steps = 0, families = 0;  ///< number of rows (steps, collectives or memories) and of their families
  std::array<double, 3> by_steps{};     ///< share of the rows, by probability
  std::array<double, 3> by_families{};  ///< mean of the shares of the families, by probability
  double half_width = 0;                ///< median half width of the 80 % intervals
  double most_half_width = 0;           ///< largest half width that is aimed at; 0: no aim
  double error = 0;                     ///< mean |measured / predicted - 1| of the rows
  double expected_error = 0;            ///< mean of their errors to expect
};

/// Leaves out each family in turn, fits the doubt to the others and judges its intervals by the steps of that family
/// (at most kMostOfFamily of them). The predictions come from the tables, whose constants were fitted without the
/// family too.
std::vector<CoveredStep> cover_each_family(const std::vector<LeftOutStep>&);
/// Returns the coverage of each class: all steps, known stacks, mixtures of experts, and so on.
std::vector<ClassCoverage> coverage_by_class(const std::vector<CoveredStep>&);
/// Returns the coverage of all these rows. `most_half_width`: largest half width that is aimed at.
ClassCoverage coverage_of(const std::string& name, double most_half_width, const std::vector<CoveredRow>&);

}  // namespace trainyard
