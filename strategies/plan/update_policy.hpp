#pragma once
#include <memory>
#include <string>
#include <vector>

#include "strategies/plan/training_plan.hpp"

namespace trainyard {

class RankUpdates;
class TrainingValues;
struct StepParts;

/// How replicas of a model keep together: when their gradients are summed, and when each updates its parameters. By
/// default gradients are summed in every step, and all replicas update alike. What each rank does at the points of a step
/// is a RankUpdates.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  /// Do replicas sum the gradients of that step while the backward pass makes them? Else each has its own.
  virtual bool sums_gradients(int /*step*/) const { return true; }
  /// Does a bucket take part in that? Else somebody else has its parameters.
  virtual bool sums(const GradientBucket&) const { return true; }
  /// Steps whose gradients are held at the same time, each in a set of buckets of its own.
  virtual int gradient_sets() const { return 1; }
  /// What replicas exchange in place of gradients, as a group of the breakdown; "": gradients.
  virtual std::string exchange() const { return ""; }
  /// Whom a rank exchanges messages with besides the members of its groups: slots from RankPeers::first_of_updates on.
  virtual std::vector<int> peers(int /*rank*/) const { return {}; }
  /// Equal for ranks that do the same, but for the peers behind their slots. Where ranks have peers of their own, by
  /// default each is unlike the others.
  virtual std::uint64_t text(int rank) const { return peers(rank).empty() ? 0 : static_cast<std::uint64_t>(rank) + 1; }
  /// Names of further streams of a rank, at most `free`; the first of them is TrainingStreams::updates(). The collective
  /// of gradients uses `channels` pairs of streams.
  virtual std::vector<std::string> streams(int /*channels*/, int /*free*/) const { return {}; }
  virtual std::unique_ptr<RankUpdates> of_rank(const StepParts&) const;  // defined beside RankUpdates
  /// Says what the calls of its programs mean, where that is not what they mean to ranks that all-reduce.
  virtual void add_values(TrainingValues&) const {}
};

/// The plan's, or the default.
inline const UpdatePolicy& update_policy_of(const TrainingPlan& plan) {
  static const UpdatePolicy all_reduce;
  return plan.updates ? *plan.updates : all_reduce;
}

}  // namespace trainyard
