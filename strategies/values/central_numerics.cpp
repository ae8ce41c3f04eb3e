#include "strategies/values/central_numerics.hpp"

namespace trainyard {

CentralNumerics::CentralNumerics(const NumericTask& task, const CentralPlan& plan) : task_(task), plan_(plan) {
  for (const Actor actor : plan.actors()) {
    MlpReplica& holder = holders_.emplace(actor, task).first->second;
    if (actor != plan.center) holder.spoil_parameters(1e9);
  }
}

void CentralNumerics::attach(Values& values) {
  values_ = &values;
  const auto on = [&values](auto call, auto function) {
    values.on_call(static_cast<std::uint16_t>(call),
                   [function](Actor actor, const Op& op) { function(actor, op.effect.read); });
  };
  const auto parameters = [this](Actor a, std::uint16_t bucket) -> Eigen::VectorXd& {
    return values_->buffer(a, static_cast<std::uint16_t>(kParameters + bucket));
  };
  on(TrainingCall::forward,
     [this](Actor a, const BufferRef& ref) { of(a).forward(task_, ref.buffer, samples(a, ref.chunk)); });
  on(TrainingCall::backward, [this](Actor a, const BufferRef& ref) { backward(a, ref.buffer, ref.chunk); });
  on(CentralCall::fill_output, [this](Actor a, const BufferRef&) { fill_output(a); });
  on(CentralCall::loss, [this](Actor a, const BufferRef& ref) { loss(a, ref.chunk); });
  on(TrainingCall::fill_bucket, [this](Actor a, const BufferRef& ref) { fill_bucket(a, ref.buffer); });
  on(TrainingCall::keep_gradients, [this](Actor a, const BufferRef& ref) { keep_gradients(a, ref.buffer); });
  on(TrainingCall::update, [this](Actor a, const BufferRef&) { update(a); });
  on(TrainingCall::fill_parameters, [this, parameters](Actor a, const BufferRef& ref) {
    parameters(a, ref.buffer) = gathered(network(), buckets()[ref.buffer], of(a).mlp);
  });
  on(TrainingCall::take_parameters, [this, parameters](Actor a, const BufferRef& ref) {
    scatter(network(), buckets()[ref.buffer], parameters(a, ref.buffer), of(a).mlp);
  });
}

Samples CentralNumerics::samples(Actor actor, int micro_batch) const {
  return samples_of(task_, plan_.replicas, plan_.step.micro_batches, updates_, actor, micro_batch);
}

void CentralNumerics::fill_output(Actor actor) {
  const Eigen::MatrixXd& out = of(actor).activations.back();
  Eigen::VectorXd& buffer = values_->buffer(actor, kOutputs);
  buffer.resize(out.size() * (actor == plan_.center ? plan_.replicas : 1));
  buffer.head(out.size()) = Eigen::Map<const Eigen::VectorXd>(out.data(), out.size());
}

void CentralNumerics::loss(Actor actor, int micro_batch) {
  const MlpReplica& h = of(actor);
  const Eigen::MatrixXd& own = h.activations.back();
  const Eigen::VectorXd& outputs = values_->buffer(actor, kOutputs);
  Eigen::VectorXd gradients(outputs.size());
  for (int replica = 0; replica < plan_.replicas; ++replica) {
    const auto [first, count] = samples(replica, micro_batch);
    const Eigen::Map<const Eigen::MatrixXd> out(outputs.data() + replica * own.size(), own.rows(), own.cols());
    const Eigen::MatrixXd gradient =
        h.mlp.loss_gradient(out, task_.targets.middleCols(first, count), task_.global_batch);
    gradients.segment(replica * own.size(), own.size()) =
        Eigen::Map<const Eigen::VectorXd>(gradient.data(), gradient.size());
  }
  values_->buffer(actor, kOutputGradients) = gradients;
}

void CentralNumerics::backward(Actor actor, int layer, int micro_batch) {
  MlpReplica& h = of(actor);
  const bool loss_elsewhere = plan_.has_master() && plan_.loss_on_master;
  if (!loss_elsewhere) return h.backward(task_, layer, samples(actor, micro_batch), task_.global_batch);
  if (layer + 1 == task_.shape.layers()) {
    const Eigen::MatrixXd& out = h.activations.back();
    h.gradient =
        Eigen::Map<const Eigen::MatrixXd>(values_->buffer(actor, kOutputGradients).data(), out.rows(), out.cols());
  }
  h.backward(layer);
}

/// A replica's gradients are gone once they are in the bucket; a master's are what the others' are added to.
void CentralNumerics::fill_bucket(Actor actor, std::uint16_t bucket) {
  Eigen::VectorXd& buffer = values_->buffer(actor, bucket);
  buffer = gathered(network(), buckets()[bucket], of(actor).gradients);
  if (actor != plan_.center)
    scatter(network(), buckets()[bucket], Eigen::VectorXd::Zero(buffer.size()), of(actor).gradients);
}

void CentralNumerics::keep_gradients(Actor actor, std::uint16_t bucket) {
  scatter(network(), buckets()[bucket], values_->buffer(actor, bucket), of(actor).gradients);
}

void CentralNumerics::update(Actor actor) {
  for (std::size_t bucket = 0; bucket < buckets().size(); ++bucket)
    keep_gradients(actor, static_cast<std::uint16_t>(bucket));
  of(actor).update(task_.learning_rate);
  ++updates_;
}

}  // namespace trainyard
