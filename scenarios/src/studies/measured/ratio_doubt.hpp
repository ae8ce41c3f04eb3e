#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace trainyard {

// The doubt of the ratio of two step times. Its logarithm follows Student's t with 4 degrees of freedom.

/// Scales of that distribution for two plans of one model, stack, GPU and precision, beyond what unlike terms explain:
/// with equally many tensor ranks, and with others. `validate coverage` fits both to pairs of measured steps.
constexpr double kSpreadOfPlans = 0.059, kSpreadOfTensorDegrees = 0.086;

/// Returns the scale of Student's t whose 80 % interval is that of a `StepDoubt` with a spread of 1.
double student_scale();
/// Returns the variance of the ratio by the terms that the steps do not share. The error of a shared term cancels up to
/// the difference of its two sizes.
double unshared_variance(const StepDoubt&, const StepDoubt&);
/// Returns the scale of the ratio of two steps: the terms that they do not share, and the scatter of plans if both are
/// of one stack, GPU and precision. It is at most that of two steps that share nothing.
double scale_of_ratio(const StepDoubt&, const StepDoubt&);
/// Returns the half width of the 80 % interval of the ratio, as a share.
double half_width_of_ratio(const StepDoubt&, const StepDoubt&);
/// Steps that are slower than another with less probability than this count as equal to it.
constexpr double kSurelySlower = 0.8;
/// Returns the probability that the second of two steps is in truth longer.
double probability_of_longer(double first, const StepDoubt&, double second, const StepDoubt&);

/// Returns the spread of `DoubtModel` that an anchor to the steps of some plans leaves for other plans like them. The
/// error of the model has a part that all plans of a machine share and one that each plan has for itself. The latter has
/// `kSpreadOfPlans` as its prior, which counts as four plans, and the steps' own errors after the fit; the more plans, the
/// better the former is known. `squares`: sum over the plans of the mean squared error of a plan's steps, as logarithms.
double spread_of_anchor(std::size_t plans, double squares);

/// Pairs of measured steps of one family with equal traits, whose predictions know nothing of the family.
struct PlanPairs {
  std::size_t pairs = 0, families = 0;
  double scale = 0;   ///< most probable scale of their ratios, beyond what unlike terms explain
  double inside = 0;  ///< share of the pairs in their 80 % intervals with this scale, by weight
};
/// Returns the pairs with equally many tensor ranks, and those with others. A group of steps with equal family and
/// traits weighs the square root of its number of steps; at most kMostOfFamily steps of a family are used.
std::array<PlanPairs, 2> measured_plan_pairs(const std::vector<LeftOutStep>&);

}  // namespace trainyard
