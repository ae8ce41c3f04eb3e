#include "strategies/mechanisms/central/central_mechanism.hpp"

#include <fmt/format.h>

#include "strategies/step/pass_table.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;

Eigen::VectorXd flat(const Eigen::MatrixXd& m) { return Eigen::Map<const Eigen::VectorXd>(m.data(), m.size()); }

/// A replica's gradients move to the buffer. A master keeps its own, to which the others are added.
void fill_bucket(TrainingValues& values, const CentralPlan& plan, Actor actor, const CallArguments& about) {
  if (actor == plan.center) return values.call(TrainingCall::fill_bucket, actor, about);
  values.buffer(actor, Buffer::gradients, about.bucket()) = values.replica(actor).gradients(about.bucket());
  values.replica(actor).clear_gradients(about.bucket());
}

void fill_output(TrainingValues& values, const CentralPlan& plan, Actor actor, int micro_batch) {
  const Eigen::VectorXd output = flat(values.rank(actor).output(micro_batch));
  Eigen::VectorXd& outputs = values.buffer(actor, Buffer::outputs);
  outputs.resize(output.size() * (actor == plan.center ? plan.replicas : 1));
  outputs.head(output.size()) = output;
}

/// Computes the gradients of the loss for the samples of every replica, from the outputs that it sent.
void compute_loss(TrainingValues& values, const CentralPlan& plan, Actor actor, int micro_batch) {
  const Eigen::MatrixXd& own_output = values.rank(actor).output(micro_batch);
  const Eigen::VectorXd& outputs = values.buffer(actor, Buffer::outputs);
  Eigen::VectorXd gradients(outputs.size());
  for (int replica = 0; replica < plan.replicas; ++replica) {
    const Eigen::Map<const Eigen::MatrixXd> out(outputs.data() + replica * own_output.size(), own_output.rows(),
                                                own_output.cols());
    gradients.segment(replica * own_output.size(), own_output.size()) =
        flat(values.rank(replica).loss_gradient(micro_batch, out));
  }
  values.buffer(actor, Buffer::output_gradients) = gradients;
}

/// Starts the backward pass with the output gradients from the master. A master's own come first in its buffer.
void backward(TrainingValues& values, Actor actor, const CallArguments& about) {
  if (about.index + 1 == static_cast<int>(values.plan().network->layers.size())) {
    const Eigen::MatrixXd& out = values.rank(actor).output(about.micro_batch);
    const Eigen::VectorXd& gradients = values.buffer(actor, Buffer::output_gradients);
    values.rank(actor).give_output_gradient(
        about.micro_batch, Eigen::Map<const Eigen::MatrixXd>(gradients.data(), out.rows(), out.cols()));
  }
  values.call(TrainingCall::backward, actor, about);
}

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
  CentralNames words_;
};

}  // namespace

void add_central_values(TrainingValues& values, const CentralPlan& plan) {
  if (plan.has_master())
    values.set_learner(plan.center);
  else
    values.add_learner(plan.center);
  for (const Actor actor : plan.actors())
    if (actor < plan.replicas && actor != plan.center) values.replica(actor).forget_parameters();
  values.register_call(TrainingCall::fill_bucket,
                       [&](Actor actor, const CallArguments& about) { fill_bucket(values, plan, actor, about); });
  if (!plan.has_master()) {  // the buffers of the center have the sums of all gradients
    values.register_call(TrainingCall::update, [&](Actor center, const CallArguments&) {
      Replica& model = values.replica(center);
      for (std::size_t b = 0; b < model.buckets(); ++b)
        model.set_gradients(b, values.buffer(center, Buffer::gradients, b));
      model.apply_gradients();
      values.note_update(plan.replicas, {.actor = center, .version = static_cast<std::uint64_t>(model.updates())});
    });
    return;
  }
  values.register_call(CentralCall::fill_output, [&](Actor actor, const CallArguments& about) {
    fill_output(values, plan, actor, about.micro_batch);
  });
  if (!plan.loss_on_master) return;
  values.register_call(CentralCall::loss, [&](Actor actor, const CallArguments& about) {
    compute_loss(values, plan, actor, about.micro_batch);
  });
  values.register_call(TrainingCall::backward,
                       [&](Actor actor, const CallArguments& about) { backward(values, actor, about); });
}

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

void CentralMechanism::read_setting(Fields& fields, const MechanismSetting& setting) {
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
