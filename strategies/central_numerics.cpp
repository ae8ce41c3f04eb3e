#include "strategies/central_numerics.hpp"

namespace trainyard {

CentralNumerics::CentralNumerics(const NumericTask& task, const CentralPlan& plan) : task_(task), plan_(plan) {
  for (const Actor actor : plan.actors()) {
    Holder& holder = holders_.emplace(actor, Holder{Mlp(task.shape, task.seed), {}, {}, {}}).first->second;
    holder.activations.resize(static_cast<std::size_t>(task.shape.layers()) + 1);
    for (int layer = 0; layer < task.shape.layers(); ++layer) {
      holder.gradients.emplace_back(Eigen::VectorXd::Zero(task.shape.parameters(layer)));
      if (actor != plan.center) holder.mlp.parameters(layer).setConstant(1e9);  // nobody may use what it was not given
    }
  }
}

void CentralNumerics::attach(Values& values) {
  values_ = &values;
  const auto on = [&values](auto call, auto function) {
    values.on_call(static_cast<std::uint16_t>(call),
                   [function](Actor actor, const Op& op) { function(actor, op.effect.read); });
  };
  on(TrainingCall::forward, [this](Actor a, const BufferRef& ref) { forward(a, ref.buffer, ref.chunk); });
  on(TrainingCall::backward, [this](Actor a, const BufferRef& ref) { backward(a, ref.buffer, ref.chunk); });
  on(CentralCall::fill_output, [this](Actor a, const BufferRef&) { fill_output(a); });
  on(CentralCall::loss, [this](Actor a, const BufferRef& ref) { loss(a, ref.chunk); });
  on(TrainingCall::fill_bucket, [this](Actor a, const BufferRef& ref) { fill_bucket(a, ref.buffer); });
  on(TrainingCall::keep_gradients, [this](Actor a, const BufferRef& ref) {
    with_parts(a, ref.buffer, ref.buffer, [](Holder& h, int l, auto at, auto n, auto segment) {
      h.gradients[static_cast<std::size_t>(l)].segment(at, n) = segment;
    });
  });
  on(TrainingCall::update, [this](Actor a, const BufferRef&) { update(a); });
  on(TrainingCall::fill_parameters, [this](Actor a, const BufferRef& ref) {
    const auto buffer = static_cast<std::uint16_t>(kParameters + ref.buffer);
    values_->buffer(a, buffer).resize(
        static_cast<Eigen::Index>(plan_.step.stages.front().buckets[ref.buffer].elements));
    with_parts(a, ref.buffer, buffer,
               [](Holder& h, int l, auto at, auto n, auto segment) { segment = h.mlp.parameters(l).segment(at, n); });
  });
  on(TrainingCall::take_parameters, [this](Actor a, const BufferRef& ref) {
    with_parts(a, ref.buffer, static_cast<std::uint16_t>(kParameters + ref.buffer),
               [](Holder& h, int l, auto at, auto n, auto segment) { h.mlp.parameters(l).segment(at, n) = segment; });
  });
}

template <class Do>
void CentralNumerics::with_parts(Actor actor, std::uint16_t bucket, std::uint16_t buffer, Do act) {
  Eigen::VectorXd& values = values_->buffer(actor, buffer);
  Eigen::Index at = 0;
  for (const GradientBucket::Part& part : plan_.step.stages.front().buckets[bucket].parts) {
    double before = part.first;
    const Layer& layer = plan_.step.network->layers[static_cast<std::size_t>(part.layer)];
    for (int tensor = 0; tensor < part.tensor; ++tensor)
      before += layer.parameters[static_cast<std::size_t>(tensor)].elements;
    const auto length = static_cast<Eigen::Index>(part.elements);
    act(holders_.at(actor), part.layer, static_cast<Eigen::Index>(before), length, values.segment(at, length));
    at += length;
  }
}

std::pair<Eigen::Index, Eigen::Index> CentralNumerics::samples(Actor actor, int micro_batch) const {
  const int share = task_.global_batch / plan_.replicas, size = share / plan_.step.micro_batches;
  return {updates_ * task_.global_batch + actor * share + micro_batch * size, size};
}

void CentralNumerics::forward(Actor actor, int layer, int micro_batch) {
  Holder& h = holders_.at(actor);
  if (layer == 0) {
    const auto [first, count] = samples(actor, micro_batch);
    h.activations[0] = task_.inputs.middleCols(first, count);
  }
  const auto l = static_cast<std::size_t>(layer);
  h.activations[l + 1] = h.mlp.forward(layer, h.activations[l]);
}

void CentralNumerics::fill_output(Actor actor) {
  const Eigen::MatrixXd& out = holders_.at(actor).activations.back();
  Eigen::VectorXd& buffer = values_->buffer(actor, kOutputs);
  buffer.resize(out.size() * (actor == plan_.center ? plan_.replicas : 1));
  buffer.head(out.size()) = Eigen::Map<const Eigen::VectorXd>(out.data(), out.size());
}

void CentralNumerics::loss(Actor actor, int micro_batch) {
  const Holder& h = holders_.at(actor);
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
  Holder& h = holders_.at(actor);
  const auto l = static_cast<std::size_t>(layer);
  if (layer + 1 == task_.shape.layers()) {
    const Eigen::MatrixXd& out = h.activations[l + 1];
    const auto [first, count] = samples(actor, micro_batch);
    if (plan_.mechanism == Mechanism::master && plan_.loss_on_master)
      h.gradient =
          Eigen::Map<const Eigen::MatrixXd>(values_->buffer(actor, kOutputGradients).data(), out.rows(), out.cols());
    else
      h.gradient = h.mlp.loss_gradient(out, task_.targets.middleCols(first, count), task_.global_batch);
  }
  h.gradient = h.mlp.backward(layer, h.activations[l], h.activations[l + 1], h.gradient, h.gradients[l]);
}

/// A replica's gradients are gone once they are in the bucket; a master's are what the others' are added to.
void CentralNumerics::fill_bucket(Actor actor, std::uint16_t bucket) {
  values_->buffer(actor, bucket).resize(static_cast<Eigen::Index>(plan_.step.stages.front().buckets[bucket].elements));
  const bool passes_on = actor != plan_.center;
  with_parts(actor, bucket, bucket, [passes_on](Holder& h, int l, auto at, auto n, auto segment) {
    auto gradient = h.gradients[static_cast<std::size_t>(l)].segment(at, n);
    segment = gradient;
    if (passes_on) gradient.setZero();
  });
}

void CentralNumerics::update(Actor actor) {
  Holder& h = holders_.at(actor);
  const auto buckets = static_cast<std::uint16_t>(plan_.step.stages.front().buckets.size());
  for (std::uint16_t bucket = 0; bucket < buckets; ++bucket)
    with_parts(actor, bucket, bucket, [](Holder& holder, int l, auto at, auto n, auto segment) {
      holder.gradients[static_cast<std::size_t>(l)].segment(at, n) = segment;
    });
  for (int layer = 0; layer < task_.shape.layers(); ++layer) {
    Eigen::VectorXd& gradient = h.gradients[static_cast<std::size_t>(layer)];
    h.mlp.update(layer, gradient, task_.learning_rate);
    gradient.setZero();
  }
  ++updates_;
}

}  // namespace trainyard
