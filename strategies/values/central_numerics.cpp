#include "strategies/values/central_numerics.hpp"

#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {
using Buffer = TrainingBuffer::Kind;
}

CentralNumerics::CentralNumerics(const NumericTask& task, const CentralPlan& plan) : task_(task), plan_(plan) {
  for (const Actor actor : plan.actors()) {
    MlpReplica& holder = holders_.emplace(actor, task).first->second;
    if (actor != plan.center) holder.spoil_parameters(1e9);
  }
}

void CentralNumerics::attach(Values& values) {
  values_ = &values;
  CallDispatcher calls(values);
  calls.on(TrainingCall::forward, [this](Actor a, const CallArguments& call) {
    of(a).forward(task_, call.index, samples(a, call.micro_batch));
  });
  calls.on(TrainingCall::backward,
           [this](Actor a, const CallArguments& call) { backward(a, call.index, call.micro_batch); });
  calls.on(CentralCall::fill_output, [this](Actor a, const CallArguments&) { fill_output(a); });
  calls.on(CentralCall::loss, [this](Actor a, const CallArguments& call) { loss(a, call.micro_batch); });
  calls.on(TrainingCall::fill_bucket, [this](Actor a, const CallArguments& call) { fill_bucket(a, call.bucket()); });
  calls.on(TrainingCall::keep_gradients,
           [this](Actor a, const CallArguments& call) { keep_gradients(a, call.bucket()); });
  calls.on(TrainingCall::update, [this](Actor a, const CallArguments&) { update(a); });
  calls.on(TrainingCall::fill_parameters, [this](Actor a, const CallArguments& call) {
    buffer_of(*values_, a, Buffer::parameters, call.bucket()) =
        gathered(network(), buckets()[call.bucket()], of(a).mlp);
  });
  calls.on(TrainingCall::take_parameters, [this](Actor a, const CallArguments& call) {
    scatter(network(), buckets()[call.bucket()], buffer_of(*values_, a, Buffer::parameters, call.bucket()), of(a).mlp);
  });
}

Samples CentralNumerics::samples(Actor actor, int micro_batch) const {
  return samples_of(task_, plan_.replicas, plan_.step.micro_batches, updates_, actor, micro_batch);
}

void CentralNumerics::fill_output(Actor actor) {
  const Eigen::MatrixXd& out = of(actor).activations.back();
  Eigen::VectorXd& buffer = buffer_of(*values_, actor, Buffer::outputs);
  buffer.resize(out.size() * (actor == plan_.center ? plan_.replicas : 1));
  buffer.head(out.size()) = Eigen::Map<const Eigen::VectorXd>(out.data(), out.size());
}

void CentralNumerics::loss(Actor actor, int micro_batch) {
  const MlpReplica& h = of(actor);
  const Eigen::MatrixXd& own = h.activations.back();
  const Eigen::VectorXd& outputs = buffer_of(*values_, actor, Buffer::outputs);
  Eigen::VectorXd gradients(outputs.size());
  for (int replica = 0; replica < plan_.replicas; ++replica) {
    const auto [first, count] = samples(replica, micro_batch);
    const Eigen::Map<const Eigen::MatrixXd> out(outputs.data() + replica * own.size(), own.rows(), own.cols());
    const Eigen::MatrixXd gradient =
        h.mlp.loss_gradient(out, task_.targets.middleCols(first, count), task_.global_batch);
    gradients.segment(replica * own.size(), own.size()) =
        Eigen::Map<const Eigen::VectorXd>(gradient.data(), gradient.size());
  }
  buffer_of(*values_, actor, Buffer::output_gradients) = gradients;
}

void CentralNumerics::backward(Actor actor, int layer, int micro_batch) {
  MlpReplica& h = of(actor);
  const bool loss_elsewhere = plan_.mechanism == Mechanism::master && plan_.loss_on_master;
  if (!loss_elsewhere) return h.backward(task_, layer, samples(actor, micro_batch), task_.global_batch);
  if (layer + 1 == task_.shape.layers()) {
    const Eigen::MatrixXd& out = h.activations.back();
    h.gradient = Eigen::Map<const Eigen::MatrixXd>(buffer_of(*values_, actor, Buffer::output_gradients).data(),
                                                   out.rows(), out.cols());
  }
  h.backward(layer);
}

/// A replica's gradients are gone once they are in the bucket; a master's are what the others' are added to.
void CentralNumerics::fill_bucket(Actor actor, std::size_t bucket) {
  Eigen::VectorXd& buffer = buffer_of(*values_, actor, Buffer::gradients, bucket);
  buffer = gathered(network(), buckets()[bucket], of(actor).gradients);
  if (actor != plan_.center)
    scatter(network(), buckets()[bucket], Eigen::VectorXd::Zero(buffer.size()), of(actor).gradients);
}

void CentralNumerics::keep_gradients(Actor actor, std::size_t bucket) {
  scatter(network(), buckets()[bucket], buffer_of(*values_, actor, Buffer::gradients, bucket), of(actor).gradients);
}

void CentralNumerics::update(Actor actor) {
  for (std::size_t bucket = 0; bucket < buckets().size(); ++bucket) keep_gradients(actor, bucket);
  of(actor).update(task_.learning_rate);
  ++updates_;
}

}  // namespace trainyard
