#pragma once
#include <memory>
#include <string>

#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

/// Defines the calls of a center and its replicas: the center sends its parameters and processes the outputs and
/// gradients that it receives. Replicas have no parameters until they receive them. `TrainingValues` must be made for
/// the plan's `step`. The plan must outlive it.
void add_central_values(TrainingValues&, const CentralPlan&);

/// Makes the program of an actor.
using MakeProgram = std::unique_ptr<Program> (*)(Actor, const CentralPlan&, const PassTables&, const CentralNames&);

/// A mechanism in which one process drives the GPUs of one node, and one actor, the center, holds the parameters.
class CentralMechanism : public Mechanism {
 public:
  explicit CentralMechanism(std::string name) : name_(std::move(name)) {}

  void read_setting(Fields& data_parallel, const MechanismSetting&) override;
  bool all_reduces() const override { return false; }
  bool ranks_alike() const override { return false; }
  std::string refuses_compression() const override {
    return "gradients are sent uncompressed to the center that sums them";
  }

  void lay_out(TrainingPlan&, const TrainingStates&) const override;
  double operations(const TrainingPlan&) const override;
  std::unique_ptr<MechanismRun> run(const MechanismSite&) const override;
  std::string summary(const std::string&) const override { return name_; }

 protected:
  virtual MakeProgram program() const = 0;
  /// Sets the center and its memory.
  virtual void place_center(CentralPlan&, const MechanismSite&) const = 0;

 private:
  std::string name_;
};

// The functions below are shared by all mechanisms in which an actor other than the ranks holds parameters.

/// Refuses a model that is split, and a plan that sets an all-reduce algorithm. Throws UserError.
void require_no_all_reduce(Fields& data_parallel, const MechanismSetting&, const std::string& name);
/// Number of operations in one step: each replica's messages have two ends, and each gradient is summed.
double operations_through_center(const TrainingPlan&);
/// Static memory of a worker that stores optimizer states for `optimizer` elements.
StaticMemory worker_memory(const TrainingPlan&, const TrainingStates&, double optimizer);
/// The CPU of the node's first socket. Throws UserError at the cluster's place if the node has no CPU.
Actor cpu_of_node(const ClusterMachine&, int node);

}  // namespace trainyard
