#include "strategies/values/replica_numerics.hpp"
#include "strategies/values/gossip_mixing.hpp"

#include <deque>

#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;

Eigen::VectorXd all_parameters(const Mlp& mlp) {
  Eigen::Index count = 0;
  for (int layer = 0; layer < mlp.layers(); ++layer) count += mlp.parameters(layer).size();
  Eigen::VectorXd all(count);
  Eigen::Index at = 0;
  for (int layer = 0; layer < mlp.layers(); ++layer) {
    all.segment(at, mlp.parameters(layer).size()) = mlp.parameters(layer);
    at += mlp.parameters(layer).size();
  }
  return all;
}

void set_parameters(Mlp& mlp, const Eigen::VectorXd& all) {
  Eigen::Index at = 0;
  for (int layer = 0; layer < mlp.layers(); ++layer) {
    mlp.parameters(layer) = all.segment(at, mlp.parameters(layer).size());
    at += mlp.parameters(layer).size();
  }
}

/// v ← m v + g, w ← w − η v.
void update_with_momentum(Mlp& mlp, std::vector<Eigen::VectorXd>& velocity,
                          const std::vector<Eigen::VectorXd>& gradients, double momentum, double learning_rate) {
  for (int layer = 0; layer < mlp.layers(); ++layer) {
    Eigen::VectorXd& v = velocity[static_cast<std::size_t>(layer)];
    v = momentum * v + gradients[static_cast<std::size_t>(layer)];
    mlp.update(layer, v, learning_rate);
  }
}

}  // namespace

ReplicaNumerics::ReplicaNumerics(const NumericTask& task, const TrainingPlan& plan, const ReplicaUpdates& updates,
                                 double momentum)
    : task_(task),
      plan_(plan),
      updates_(updates),
      momentum_(momentum),
      replicas_(static_cast<std::size_t>(plan.ranks()), Replica(task)) {}

void ReplicaNumerics::attach(Values& values) {
  values_ = &values;
  CallDispatcher calls(values);
  calls.on(TrainingCall::forward,
           [this](Actor a, const CallArguments& call) { forward(a, call.index, call.micro_batch); });
  calls.on(TrainingCall::backward, [this](Actor a, const CallArguments& call) {
    of(a).backward(task_, call.index, samples(a, call.micro_batch), batch());
  });
  calls.on(TrainingCall::keep_gradients, [](Actor, const CallArguments&) {});  // `update` looks into the buckets
  calls.on(TrainingCall::fill_bucket, [this](Actor a, const CallArguments& call) {
    buffer_of(*values_, a, Buffer::gradients, call.bucket()) =
        gathered(*plan_.network, buckets()[call.bucket() % buckets().size()], of(a).gradients);
  });
  calls.on(TrainingCall::update, [this](Actor a, const CallArguments& call) { update(a, call.bucket()); });
  calls.on(TrainingCall::fill_parameters, [this](Actor a, const CallArguments& call) {
    buffer_of(*values_, a, Buffer::parameters, call.bucket()) =
        gathered(*plan_.network, buckets()[call.bucket()], of(a).mlp);
  });
  calls.on(TrainingCall::take_parameters, [this](Actor a, const CallArguments& call) {
    const Eigen::VectorXd& sum = buffer_of(*values_, a, Buffer::parameters, call.bucket());
    scatter(*plan_.network, buckets()[call.bucket()], sum / plan_.ranks(), of(a).mlp);
  });
  calls.on(TrainingCall::give_replica, [this](Actor a, const CallArguments&) {
    buffer_of(*values_, a, Buffer::replica) = all_parameters(of(a).mlp);
  });
  calls.on(TrainingCall::mix_replicas, [this](Actor a, const CallArguments&) { mix(a); });
}

Samples ReplicaNumerics::samples(Actor rank, int micro_batch) const {
  return samples_of(task_, plan_.ranks(), plan_.micro_batches, replicas_[static_cast<std::size_t>(rank)].steps - 1,
                    rank, micro_batch);
}

/// What gradients are averages over.
double ReplicaNumerics::batch() const {
  return updates_.alone() ? task_.global_batch / plan_.ranks() : task_.global_batch;
}

void ReplicaNumerics::forward(Actor actor, int layer, int micro_batch) {
  Replica& r = of(actor);
  if (layer == 0 && micro_batch == 0) {
    ++r.steps;
    r.clear_gradients();
  }
  r.forward(task_, layer, samples(actor, micro_batch));
}

void ReplicaNumerics::update(Actor actor, std::size_t set) {
  Replica& r = of(actor);
  std::vector<Eigen::VectorXd> gradients = r.gradients;
  for (std::size_t b = 0; b < buckets().size() && !updates_.alone() && plan_.ranks() > 1; ++b)
    scatter(*plan_.network, buckets()[b], buffer_of(*values_, actor, Buffer::gradients, set * buckets().size() + b),
            gradients);
  update_with_momentum(r.mlp, r.velocity, gradients, momentum_, task_.learning_rate);
}

void ReplicaNumerics::mix(Actor actor) {
  Replica& r = of(actor);
  const Gossip& gossip = *updates_.gossip;
  const std::int64_t round = r.steps - 1;
  std::vector<Eigen::VectorXd> theirs;
  for (std::size_t i = 0; i < gossip.neighbours(actor, round).size(); ++i)
    theirs.push_back(buffer_of(*values_, actor, Buffer::replica, i + 1));
  set_parameters(r.mlp, mixed(gossip, actor, round, all_parameters(r.mlp), theirs));
}

namespace {

/// Gradients of a rank's share of a batch, micro-batch by micro-batch.
std::vector<Eigen::VectorXd> gradients_of(const NumericTask& task, const Mlp& mlp, int ranks, int micro_batches,
                                          std::int64_t step, int rank, double batch) {
  std::vector<Eigen::VectorXd> sums = zeros_by_layer(mlp.shape());
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    const auto [first, count] = samples_of(task, ranks, micro_batches, step, rank, micro_batch);
    std::vector<Eigen::MatrixXd> outputs{task.inputs.middleCols(first, count)};
    for (int layer = 0; layer < mlp.layers(); ++layer) outputs.push_back(mlp.forward(layer, outputs.back()));
    Eigen::MatrixXd back = mlp.loss_gradient(outputs.back(), task.targets.middleCols(first, count), batch);
    for (int layer = mlp.layers() - 1; layer >= 0; --layer) {
      const auto l = static_cast<std::size_t>(layer);
      back = mlp.backward(layer, outputs[l], outputs[l + 1], back, sums[l]);
    }
  }
  return sums;
}

void add(std::vector<Eigen::VectorXd>& sums, const std::vector<Eigen::VectorXd>& more) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
}

std::vector<Mlp> replay_delayed(const NumericTask& task, const ReplicaUpdates& updates, int ranks, int micro_batches,
                                int steps, double momentum) {
  Mlp mlp(task.shape, task.seed);
  std::vector<Eigen::VectorXd> velocity = zeros_by_layer(mlp.shape());
  std::deque<std::vector<Eigen::VectorXd>> on_their_way;
  const auto apply = [&] {
    update_with_momentum(mlp, velocity, on_their_way.front(), momentum, task.learning_rate);
    on_their_way.pop_front();
  };
  for (int step = 0; step < steps; ++step) {
    if (step > updates.delay) apply();
    auto& sums = on_their_way.emplace_back(gradients_of(task, mlp, ranks, micro_batches, step, 0, task.global_batch));
    for (int rank = 1; rank < ranks; ++rank)
      add(sums, gradients_of(task, mlp, ranks, micro_batches, step, rank, task.global_batch));
  }
  while (!on_their_way.empty()) apply();
  return std::vector<Mlp>(static_cast<std::size_t>(ranks), mlp);
}

/// One meeting of replicas that have updated alone.
void meet(std::vector<Mlp>& replicas, const ReplicaUpdates& updates, int step) {
  std::vector<Eigen::VectorXd> before;
  for (const Mlp& mlp : replicas) before.push_back(all_parameters(mlp));
  if (updates.local_steps > 0 && (step + 1) % updates.local_steps == 0) {
    Eigen::VectorXd sum = before.front();
    for (std::size_t rank = 1; rank < before.size(); ++rank) sum += before[rank];
    for (Mlp& mlp : replicas) set_parameters(mlp, sum / static_cast<double>(replicas.size()));
  }
  for (int rank = 0; updates.gossip && rank < static_cast<int>(replicas.size()); ++rank) {
    std::vector<Eigen::VectorXd> theirs;
    for (const int neighbour : updates.gossip->neighbours(rank, step))
      theirs.push_back(before[static_cast<std::size_t>(neighbour)]);
    const auto r = static_cast<std::size_t>(rank);
    set_parameters(replicas[r], mixed(*updates.gossip, rank, step, before[r], theirs));
  }
}

}  // namespace

std::vector<Mlp> replay_replicas(const NumericTask& task, const ReplicaUpdates& updates, int ranks, int micro_batches,
                                 int steps, double momentum) {
  if (!updates.alone()) return replay_delayed(task, updates, ranks, micro_batches, steps, momentum);
  std::vector<Mlp> replicas(static_cast<std::size_t>(ranks), Mlp(task.shape, task.seed));
  std::vector<std::vector<Eigen::VectorXd>> velocity(replicas.size(), zeros_by_layer(task.shape));
  const double batch = task.global_batch / ranks;
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const auto gradients = gradients_of(task, replicas[r], ranks, micro_batches, step, rank, batch);
      update_with_momentum(replicas[r], velocity[r], gradients, momentum, task.learning_rate);
    }
    meet(replicas, updates, step);
  }
  return replicas;
}

}  // namespace trainyard
