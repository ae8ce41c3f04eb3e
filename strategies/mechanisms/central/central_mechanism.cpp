#include "strategies/mechanisms/central/central_mechanism.hpp"

#include <fmt/format.h>

#include "strategies/mechanisms/central/central_values.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

class CentralRun : public MechanismRun {
 public:
  CentralRun(CentralPlan plan, MakeProgram program, Names& names)
      : plan_(std::move(plan)), program_(program), tables_(plan_.step, names), words_(names) {}

  Programs programs() override {
    Programs all;
    for (const Actor actor : plan_.actors()) all.push_back(program_(actor, plan_, tables_, words_));
    return all;
  }
  std::vector<std::string> streams() const override { return central_streams(plan_); }
  const PassTables& tables() const override { return tables_; }
  const TrainingPlan& plan() const override { return plan_.step; }
  void add_values(TrainingValues& values) override { add_central_values(values, plan_); }

 private:
  CentralPlan plan_;
  MakeProgram program_;
  PassTables tables_;
  CentralWords words_;
};

}  // namespace

void require_no_all_reduce(Fields& fields, const MechanismSetting& setting, const std::string& name) {
  if (setting.splits_model)
    fields.refuse("mechanism", fmt::format("{} has the whole model on every GPU: no tensor, pipeline, context or "
                                           "expert parallelism, no ZeRO and no recomputation; these need all-reduce",
                                           name));
  if (fields.has("all_reduce"))
    fields.refuse("all_reduce", fmt::format("there is no all-reduce with mechanism {}; leave it out", name));
}

double operations_through_center(const TrainingPlan& plan) {
  return (6.0 * static_cast<double>(plan.stages.front().buckets.size()) + 8) * plan.ranks() * plan.micro_batches;
}

Actor cpu_of_node(const ClusterMachine& machine, int node) {
  for (const DeviceId id : machine.graph().devices_of_kind(DeviceKind::cpu, node)) return machine.actor(id);
  fail(machine.spec().place,
       fmt::format("plan.data_parallel.mechanism: node {} has no CPU that could hold the parameters", node));
}

StaticMemory worker_memory(const TrainingPlan& plan, const TrainingStates& states, double optimizer) {
  SoftwareStack stack = states.software;
  stack.gradient_bucket_copy = false;
  const double parameters = plan.network->parameters();
  return static_memory(HeldElements{parameters, parameters, optimizer}, states.precision, states.optimizer, stack);
}

void CentralMechanism::settle(Fields& fields, const MechanismSetting& setting) {
  require_no_all_reduce(fields, setting, name_);
  if (const int node = setting.cluster.node_of_gpu(setting.mesh.ranks() - 1); node > 0)
    fields.refuse("mechanism", fmt::format("{} is one process that drives the GPUs of one node, but {} ranks are on {} "
                                           "nodes; all-reduce and parameter-server work on several",
                                           name_, setting.mesh.ranks(), node + 1));
}

void CentralMechanism::lay_out(TrainingPlan& plan, const TrainingStates& states) const {
  without_all_reduce(plan);
  plan.stages.front().memory = worker_memory(plan, states, 0);
}

double CentralMechanism::operations(const TrainingPlan& plan) const { return operations_through_center(plan); }

std::unique_ptr<MechanismRun> CentralMechanism::run(const MechanismSite& site) const {
  CentralPlan plan = central_plan(site.plan);
  place_center(plan, site);
  return std::make_unique<CentralRun>(std::move(plan), program(), site.names);
}

}  // namespace trainyard
