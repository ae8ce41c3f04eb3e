#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

class RankUpdates;
struct StepParts;

/// How replicas of a model keep together: when their gradients are summed, and when each updates its parameters. A plan
/// names one (TrainingPlan::updates); what each rank does at the points of a step is a RankUpdates.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  /// Do replicas sum the gradients of that step while the backward pass makes them? Else each has its own.
  virtual bool sums_gradients(int /*step*/) const { return true; }
  /// Steps whose gradients are held at the same time, each in a set of buckets of its own.
  virtual int gradient_sets() const { return 1; }
  /// What replicas exchange in place of gradients, as a group of the breakdown; "": gradients.
  virtual std::string exchange() const { return ""; }
  /// Whom a rank exchanges messages with besides the members of its groups: slots from RankPeers::first_of_updates on.
  virtual std::vector<int> peers(int /*rank*/) const { return {}; }
  /// Names of further streams of a rank, at most `free`; the first of them is TrainingStreams::updates(). The collective
  /// of gradients uses `channels` pairs of streams.
  virtual std::vector<std::string> streams(int /*channels*/, int /*free*/) const { return {}; }
  virtual std::unique_ptr<RankUpdates> of_rank(const StepParts&) const = 0;
};

/// The plan's policy; where it names none, all-reduce.
const UpdatePolicy& update_policy_of(const TrainingPlan&);

/// Policies by name, made from what was asked of them.
using MakeUpdatePolicy = std::shared_ptr<const UpdatePolicy> (*)(const ReplicaUpdates&);
Registry<MakeUpdatePolicy>& update_policies();
std::shared_ptr<const UpdatePolicy> make_update_policy(const ReplicaUpdates&);

struct RegisterUpdatePolicy {
  RegisterUpdatePolicy(const char* name, MakeUpdatePolicy make) { update_policies().add(name, make); }
};
/// At the end of a policy's file: makes it known by its name.
#define TRAINYARD_UPDATE_POLICY(NAME, MAKE) \
  static const ::trainyard::RegisterUpdatePolicy register_##MAKE { NAME, MAKE }

}  // namespace trainyard
