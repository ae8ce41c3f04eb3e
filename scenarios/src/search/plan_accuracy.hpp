#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A plan that was measured once or several times, and its prediction.
struct MeasuredPlan {
  std::string id;                      ///< id of its first run
  std::string plan;                    ///< description in words
  std::size_t runs = 1;                ///< number of measured runs of this plan
  double predicted = 0, measured = 0;  ///< s per token, mean of its runs
  bool fits = true;                    ///< the prediction fits into memory
};

/// Measured plans to choose from. They have the same model, machine, software, precision and sequence length.
struct PlanChoiceGroup {
  std::vector<MeasuredPlan> plans;  ///< sorted by measured time, the fastest first
  double rank = 1;                  ///< Spearman's correlation of predicted and measured time per token
  std::size_t chosen = 0;  ///< index of the plan that the simulator chooses: the fastest predicted one that fits
  double regret() const { return plans[chosen].measured / plans.front().measured - 1; }
};

/// The plans of a family that are compared with each other.
enum class PlanScope : std::uint8_t {
  one_batch,  ///< plans of equal batch, as in `trainyard plan`
  any_batch   ///< plans of different batches, by their time per token
};
const char* name_of(PlanScope);

/// The quality of the simulator's choice among measured plans.
struct PlanAccuracy {
  std::string family;
  PlanScope scope = PlanScope::one_batch;
  std::vector<PlanChoiceGroup> groups;  ///< groups of at least two plans
  std::size_t plans = 0;
  double rank = 1;         ///< mean correlation of the groups, weighted by number of plans − 1
  double mean_regret = 0;  ///< mean over the groups of: measured time of the chosen plan / that of the best one − 1
  double worst_regret = 0;
  std::size_t near_best = 0;  ///< number of groups whose chosen plan is within kPlanRegretGoal of the best
  /// Relative disagreement of the measurements themselves. It comes from repetitions of a plan, and from micro-batch
  /// sizes that are slower than both a smaller and a larger one. (With larger micro-batches, kernels never get less
  /// efficient and bubbles never shorter, so the true time falls, then rises.)
  double scatter = 0;
  MeasuredLimits limits;

  bool agrees() const;         ///< the measurements agree with each other within kPlanRegretGoal
  bool reaches_goals() const;  ///< the rank reaches kPlanRankGoal, and every regret is within kPlanRegretGoal
  bool within_limits() const;
};

/// Goals of the choice of plans: the least rank correlation, and the largest regret of a chosen plan.
constexpr double kPlanRankGoal = 0.9, kPlanRegretGoal = 0.03;

/// Computes the accuracy for all families that have several plans to choose from. The scope `any_batch` is added if it
/// compares more pairs of plans than `one_batch`. `words` true: the plans are also described in words. The predictions
/// are those of predict_families for these families.
std::vector<PlanAccuracy> plan_accuracy(const std::vector<MeasuredFamily>&, const std::vector<FamilyPrediction>&,
                                        bool words);
const JsonFields<std::vector<PlanAccuracy>>& plan_accuracy_fields();

}  // namespace trainyard
