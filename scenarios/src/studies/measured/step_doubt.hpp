#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/measured/experience.hpp"

namespace trainyard {

// A model of the distance between a predicted step time and a measured one.
//
// ln(measured / predicted) has the variance sum((spread of a term x its amount)^2). A term is a difference between the
// step and the measured steps: another stack, another vendor, a mixture of experts. Its amount is 1 or 0, or a share.
// Spreads are fitted to steps that were predicted without their family; each has a prior that counts as much as a
// family of one step. If no measured run shows how fast the stack's host launches kernels, the step may also take as
// long as a slow host needs.

/// A term of the doubt.
struct DoubtTerm {
  const char* key;
  double prior;       ///< spread before any measurement
  const char* words;  ///< name of the doubt in tables
  double (*amount)(const StepProfile&, const Experience&);
  std::string (*subject)(const StepProfile&);  ///< steps with equal subjects share the error of this term
};
const std::vector<DoubtTerm>& doubt_terms();

/// The doubt of one step time.
struct StepDoubt {
  double spread = 0;     ///< spread of ln(measured / predicted), see `DoubtModel`; 0: there is no doubt model
  double slow_host = 1;  ///< factor by which a slow host may lengthen the step
  int tensor = 1;        ///< number of tensor ranks: plans with equally many have more alike errors
  /// Spreads of the terms by term and subject ("gpu b200"). Steps share the errors of terms that both have.
  std::map<std::string, double> terms = {};
  /// The step at both ends of the ranges of announced hardware, as factors of the step. They widen its interval.
  double fast = 1, slow = 1;
  bool exists() const { return spread > 0; }
  /// Sets both factors by the step times at these ends. `times`: no value: no figure is a range.
  void take_announced(double step_time, const std::optional<std::array<double, 2>>& times);
  /// Returns the step times at these ends. No value: they are those of the step.
  std::optional<std::array<double, 2>> announced(double step_time) const;
  /// Returns all figures by name, as the journal of a search stores them.
  std::map<std::string, double> figures() const;
  static StepDoubt from_figures(const std::map<std::string, double>&);
};
/// Names of the term that steps never share, and the first word of the term of the model itself.
constexpr std::string_view kEstimateTerm = "estimate", kModelTerm = "any ";

/// The interval of a step time as factors of the predicted one.
struct StepRange {
  double low = 1, high = 1;
  double half_width() const { return (high - low) / 2; }
};

/// The effect of a term on the interval of one step. Half widths are those of 80 % intervals, as shares of the step.
struct DoubtPart {
  std::string words;
  double width_alone = 0;    ///< half width with this doubt alone
  double width_without = 0;  ///< half width with all doubts but this one
};

/// Spreads of the terms, and the quantiles of |ln(measured / predicted)| in units of the spread.
class DoubtModel {
 public:
  /// Fits the spreads to steps that were predicted without their family. Each family counts as the square root of its
  /// number of steps, of which at most `kMostOfFamily` are used, over the fourth root of the number of families of its
  /// source: one source is neither one fact nor as many as its families. `family`: a family that the fit leaves out;
  /// "": none. Deterministic.
  static DoubtModel fit(const std::vector<LeftOutStep>&, const std::string& family = "");
  /// Reads scenarios/measured/tables/step_doubt.csv, once.
  static const DoubtModel& shipped();
  std::string csv() const;

  StepDoubt doubt(const StepProfile&, const Experience&) const;
  /// Returns the interval that holds a measured step with this probability (0 to 1, exclusive).
  StepRange range(const StepDoubt&, double probability) const;
  /// Returns the probability that a measured step takes at most this many times the predicted one. If the host is
  /// unknown, it is taken to be slow, and announced hardware to be at the slow end of its ranges.
  double probability_within(const StepDoubt&, double factor) const;
  /// Returns the mean of |measured / predicted - 1| over all its probable values. If the host is unknown, half of them
  /// have a slow one.
  double expected_error(const StepDoubt&) const;
  double spread_of(std::string_view term) const;
  /// Returns this model for steps of a stack that is anchored by steps like them: the spread that the anchor left is
  /// that of the model itself.
  DoubtModel with_anchor(const SoftwareStack::Anchor&) const;
  /// Returns the terms that widen the interval of this step, the largest first.
  std::vector<DoubtPart> parts(const StepProfile&, const Experience&) const;

 private:
  /// Returns a quantile of |ln(measured / predicted)| in units of the spread.
  double quantile(double probability) const;
  std::vector<double> spreads_;  ///< indexed by term
  std::vector<double> quantiles_;
};

/// The fit and the judgement use at most so many steps of a family, because 700 steps on one machine are one fact.
constexpr std::size_t kMostOfFamily = 60;
/// Returns the steps of each family, at most kMostOfFamily, spread evenly over it.
std::map<std::string, std::vector<LeftOutStep>> thinned_families(const std::vector<LeftOutStep>&);
/// Returns the factor by which a slow host may lengthen the step; 1: a measured run shows the stack's host, or a slow
/// host would not lengthen the step.
double slow_host_factor(const StepProfile&, const Experience&);

/// The probability of the intervals that answers print.
constexpr double kLikely = 0.8;
/// Returns the experience of all shipped tables.
const Experience& whole_experience();

/// A model of the doubt, and the profile and experience to which it applies.
struct DoubtBasis {
  DoubtModel model = DoubtModel::shipped();
  StepProfile profile;

  /// Leaves out of the profile all that measured steps of the anchor share with it. `anchor` may be empty.
  DoubtBasis(StepProfile, const SoftwareStack::Anchor&);
  StepDoubt doubt() const;
  StepRange range() const;  ///< 80 % interval
  std::vector<DoubtPart> parts() const;

 private:
  std::optional<Experience> anchored_;  ///< the whole experience with the steps of the anchor; no value: there is none
  const Experience& experience() const;
};

/// Returns the reason why a step has no interval; "": it has one.
std::string no_doubt_reason(const Scenario&);
/// Returns ln of the upper end of the 80 % interval that few drawn steps leave of their mean; 0: nothing is drawn.
double drawn_deviation(const Result&);
/// Returns the doubt of a scenario's step by the shipped model. `no_doubt_reason` says why a step has none.
StepDoubt step_doubt(const Scenario&, const Result&);
/// Returns the 80 % interval of a predicted step time, s. No value: the doubt does not exist.
std::optional<std::array<double, 2>> likely_step_times(double step_time, const StepDoubt&);

}  // namespace trainyard
