#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A plan that was measured, once or several times, beside what the simulator gives.
struct MeasuredPlan {
  std::string id;                      ///< of the first of its runs
  std::string plan;                    ///< in words
  std::size_t runs = 1;                ///< of the same plan
  double predicted = 0, measured = 0;  ///< s a token, the mean of its runs
  bool fits = true;                    ///< as predicted
};

/// Measured plans to choose from: of one model, machine, software, precision and length of sequences.
struct PlanChoiceGroup {
  std::vector<MeasuredPlan> plans;  ///< the fastest measured one first
  double rank = 1;                  ///< Spearman's correlation of predicted and measured time a token
  std::size_t chosen = 0;           ///< the plan that the simulator would take: the fastest predicted one that fits
  double regret() const { return plans[chosen].measured / plans.front().measured - 1; }
};

/// Which plans of a family are compared.
enum class PlanScope : std::uint8_t {
  one_batch,  ///< plans of one batch, as `trainyard plan` chooses
  any_batch   ///< plans of different batches too, by their time a token
};
const char* name_of(PlanScope);

/// How well plans are chosen where they were measured.
struct PlanAccuracy {
  std::string family;
  PlanScope scope = PlanScope::one_batch;
  std::vector<PlanChoiceGroup> groups;  ///< of two plans at least
  std::size_t plans = 0;
  double rank = 1;         ///< mean of the groups', each by its plans less one
  double mean_regret = 0;  ///< measured time of the chosen plan over that of the best one, less 1
  double worst_regret = 0;
  std::size_t near_best = 0;  ///< groups whose chosen plan is within kPlanRegretGoal of the best
  /// By how much the measurements disagree with each other: repetitions of a plan, and micro-batch sizes that are
  /// slower than both a smaller and a larger one. (Kernels get no less efficient with larger micro-batches, bubbles no
  /// shorter: time falls, then rises.)
  double scatter = 0;
  MeasuredLimits limits;

  bool agrees() const;         ///< the measurements, with themselves: within kPlanRegretGoal
  bool reaches_goals() const;  ///< kPlanRankGoal, and every regret within kPlanRegretGoal
  bool within_limits() const;
};

/// What a chooser of plans is asked for: this rank correlation, and plans that take so little longer than the best.
constexpr double kPlanRankGoal = 0.9, kPlanRegretGoal = 0.03;

/// Of all families that have several plans to choose from; of any batch where that adds plans to compare.
/// `words`: say the plans in words too. Predictions are those of predict_families for these families.
std::vector<PlanAccuracy> plan_accuracy(const std::vector<MeasuredFamily>&, const std::vector<FamilyPrediction>&,
                                        bool words);
const JsonFields<PlanAccuracy>& plan_accuracy_fields();

}  // namespace trainyard
