#pragma once
#include <memory>
#include <string>

#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

/// One process drives the GPUs of one node, and one actor has the parameters.
class CentralMechanism : public Mechanism {
 public:
  explicit CentralMechanism(std::string name) : name_(std::move(name)) {}

  void settle(Fields& data_parallel, const MechanismSetting&) override;
  bool all_reduces() const override { return false; }
  bool ranks_alike() const override { return false; }
  std::string refuses_compression() const override {
    return "gradients pass through a center, which is sent them whole";
  }

  void lay_out(TrainingPlan&, const TrainingStates&) const override;
  double operations(const TrainingPlan&) const override;
  std::unique_ptr<MechanismRun> run(const MechanismSite&) const override;
  std::string summary(const std::string&) const override { return name_; }

 protected:
  using MakeProgram = std::unique_ptr<Program> (*)(Actor, const CentralPlan&, const PassTables&, const CentralWords&);
  virtual MakeProgram program() const = 0;
  /// Says who the center is, and what it holds.
  virtual void place_center(CentralPlan&, const MechanismSite&) const = 0;

 private:
  std::string name_;
};

// What mechanisms share in which somebody else than the ranks holds parameters:

/// Refuses a model that is split, and a plan that says how gradients are all-reduced.
void require_no_all_reduce(Fields& data_parallel, const MechanismSetting&, const std::string& name);
/// Each replica's messages have two ends, and a sum.
double operations_through_center(const TrainingPlan&);
/// What a worker holds that keeps the optimizer's states of so many elements.
StaticMemory worker_memory(const TrainingPlan&, const TrainingStates&, double optimizer);
/// Of the first socket. Throws UserError at the cluster's place where the node has none.
Actor cpu_of_node(const ClusterMachine&, int node);
/// Parameters of the whole network.
double parameters_of(const TrainingPlan&);

}  // namespace trainyard
