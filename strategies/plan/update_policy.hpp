#pragma once
#include <memory>
#include <string>
#include <vector>

#include "strategies/plan/training_plan.hpp"

namespace trainyard {

class RankUpdates;
class TrainingValues;
struct StepParts;

/// The way in which replicas of a model keep together: when their gradients are summed, and when each updates its
/// parameters. By default gradients are summed in every step and all replicas update alike. RankUpdates defines the
/// operations of each rank.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  /// True if replicas sum the gradients of that step during the backward pass; otherwise each keeps its own.
  virtual bool sums_gradients(int /*step*/) const { return true; }
  /// True if the bucket takes part in that sum; otherwise another actor has its parameters.
  virtual bool sums(const GradientBucket&) const { return true; }
  /// True if groups of ranks that share states (ZeRO in groups) sum their gradients with the other groups in every step.
  virtual bool sums_over_copies() const { return true; }
  /// Number of steps whose gradients are held at the same time, each in its own set of buckets.
  virtual int gradient_sets() const { return 1; }
  /// Name of the group in the breakdown if replicas exchange something else than gradients; "": gradients.
  virtual std::string exchange() const { return ""; }
  /// Actors that a rank exchanges messages with, besides the members of its groups. They have slots from
  /// RankPeers::first_of_updates on.
  virtual std::vector<int> peers(int /*rank*/) const { return {}; }
  /// A fingerprint: equal for ranks that do the same, apart from the peers behind their slots. By default, each rank
  /// with peers of its own differs from all others.
  virtual std::uint64_t text(int rank) const { return peers(rank).empty() ? 0 : static_cast<std::uint64_t>(rank) + 1; }
  /// Returns the names of further streams of a rank, at most `free`; the first is TrainingStreams::updates(). The
  /// collective of gradients uses `channels` pairs of streams.
  virtual std::vector<std::string> streams(int /*channels*/, int /*free*/) const { return {}; }
  virtual std::unique_ptr<RankUpdates> of_rank(const StepParts&) const;  // defined beside RankUpdates
  /// Registers the calls of its programs that differ from those of ranks that all-reduce.
  virtual void add_values(TrainingValues&) const {}
};

/// Returns the policy of the plan, or the default.
inline const UpdatePolicy& update_policy_of(const TrainingPlan& plan) {
  static const UpdatePolicy all_reduce;
  return plan.updates ? *plan.updates : all_reduce;
}

}  // namespace trainyard
