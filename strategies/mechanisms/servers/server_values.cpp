#include "strategies/mechanisms/servers/server_values.hpp"

namespace trainyard {

namespace {
using Buffer = TrainingBuffer::Kind;
using EventType = ServerEvent::Type;
}  // namespace

ServerValues::ServerValues(TrainingValues& values, const ServerPlan& plan)
    : values_(values),
      plan_(plan),
      model_(plan.workers_update() ? nullptr : &values.add_learner(plan.workers())),
      sums_(plan.keys()),
      states_(plan.keys()) {
  for (std::size_t key = 0; key < plan.keys(); ++key) {
    const Eigen::VectorXd initial = values.replica(0).parameters_of(key);
    stored(key) = Eigen::VectorXd::Zero(initial.size() + 1);
    if (!plan.workers_update()) stored(key).head(initial.size()) = initial;
  }
  for (std::size_t key = 0; key < plan.keys(); ++key) {  // buffers that are received in pieces need their full length
    const ServerPlan::Slices all = plan.slices_up_to(key);
    if (all.count == 0) continue;
    Eigen::Index size = 0;
    for (std::size_t k = all.first; k <= key; ++k) size += stored(k).size();
    for (Actor worker = 0; worker < plan.workers(); ++worker)
      values.buffer(worker, Buffer::parameters, joined_slices(plan, all)) = Eigen::VectorXd::Zero(size);
  }
  for (Actor worker = 0; worker < plan.workers() && !plan.workers_update(); ++worker)
    values.replica(worker).forget_parameters();
  values.register_call(TrainingCall::take_parameters,
                       [this](Actor a, const CallArguments& call) { take(a, call.bucket()); });
  values.register_call(TrainingCall::fill_bucket,
                       [this](Actor a, const CallArguments& call) { push(a, call.bucket()); });
  for (const ServerCall what : {ServerCall::join_gradients, ServerCall::join_answers, ServerCall::separate_answers})
    values.register_call(what,
                         [this, what](Actor a, const CallArguments& call) { move_slices(what, a, call.bucket()); });
  values.register_call(ServerCall::local_update,
                       [this](Actor a, const CallArguments& call) { update_own(a, call.bucket()); });
  for (const ServerCall what : {ServerCall::first, ServerCall::add, ServerCall::update, ServerCall::apply,
                                ServerCall::drop, ServerCall::copied})
    values.register_call(
        what, [this, what](Actor a, const CallArguments& call) { process(what, a, ServerPush::from_call(call)); });
}

/// The server's weights of a key, followed by the number of their updates.
Eigen::VectorXd& ServerValues::stored(std::size_t key) const {
  return values_.buffer(plan_.workers() + plan_.server_of[key], Buffer::parameters, key);
}

void ServerValues::take(Actor worker, std::size_t key) {
  const Eigen::VectorXd& answer = values_.buffer(worker, Buffer::parameters, key);
  const Eigen::Index size = answer.size() - 1;
  if (plan_.workers_update())
    values_.replica(worker).set_gradients(key, answer.head(size));
  else
    values_.replica(worker).take_parameters(key, answer.head(size));
  const auto version = static_cast<std::uint32_t>(answer[size]);
  pulled_[{worker, key}] = version;
  if (key == 0) values_.set_version(worker, version);
  events_.push_back({EventType::pulled, worker, key, version});
}

void ServerValues::push(Actor worker, std::size_t key) {
  Replica& own = values_.replica(worker);
  Eigen::VectorXd& pushed = values_.buffer(worker, Buffer::gradients, key);
  pushed = plan_.mixes() ? own.parameters_of(key) : own.gradients(key);
  if (plan_.rule.averages) pushed *= plan_.workers();  // the gradient of its own batch
  if (!plan_.mixes()) values_.push(worker, key, pushed);
  own.clear_gradients(key);
  if (values_.compressed()) pushed = values_.compressed()->payload(worker, key, pushed);
}

/// Copies between the buffers of a key's slices, from slice `first` on, and the buffer of the whole key.
void ServerValues::move_slices(ServerCall what, Actor actor, std::size_t first) {
  std::size_t last = first;
  while (plan_.slices_up_to(last).count == 0) ++last;
  const Buffer kind = what == ServerCall::join_gradients ? Buffer::gradients : Buffer::parameters;
  Eigen::VectorXd& all = values_.buffer(actor, kind, joined_slices(plan_, plan_.slices_up_to(last)));
  if (what != ServerCall::separate_answers) all.resize(0);
  Eigen::Index position = 0;
  for (std::size_t k = first; k <= last; ++k) {
    Eigen::VectorXd& slice = values_.buffer(actor, kind, k);
    if (what == ServerCall::separate_answers) {
      slice = all.segment(position, stored(k).size());
    } else {
      all.conservativeResize(position + slice.size());
      all.tail(slice.size()) = slice;
    }
    position += slice.size();
  }
}

void ServerValues::update_own(Actor worker, std::size_t key) {
  Replica& own = values_.replica(worker);
  Eigen::VectorXd weights = own.parameters_of(key);
  own_states_[{worker, key}].update(values_.rule(), weights, own.gradients(key));
  own.take_parameters(key, weights);
  if (!plan_.workers_update()) return;
  own.clear_gradients(key);
  note_update(worker, 1, {.actor = worker, .version = static_cast<std::uint64_t>(own_states_[{worker, key}].updates)});
}

void ServerValues::process(ServerCall call, Actor server, const ServerPush& push) {
  Eigen::VectorXd received = values_.values().buffer(server, push.arrival);
  const bool gradient = call == ServerCall::first || call == ServerCall::add || call == ServerCall::apply;
  if (gradient && values_.compressed()) received = values_.compressed()->pushed(push.worker, push.key, received);
  switch (call) {
    case ServerCall::first:
    case ServerCall::add:
      if (call == ServerCall::first)
        sums_[push.key] = received;
      else
        sums_[push.key] += received;
      return events_.push_back({EventType::added, push.worker, push.key, 0});
    case ServerCall::update: {
      const double workers = plan_.workers();
      events_.push_back({EventType::updated, 0, push.key, 0});
      return learn(call, push,
                   sums_[push.key] * (plan_.rule.averages ? 1 / workers : workers / (workers - plan_.backup_workers)));
    }
    case ServerCall::copied:
      values_.buffer(server, Buffer::parameters, push.key) = received;
      return;
    case ServerCall::apply:
      events_.push_back({EventType::applied, push.worker, push.key, 0});
      return learn(call, push, received);
    default:
      return events_.push_back({EventType::dropped, push.worker, push.key, 0});
  }
}

/// Counts the gradients of one key that were applied.
void ServerValues::note_update(Actor worker, double gradients, LearningEvent event) {
  event.worker = worker;
  values_.note_update(gradients / static_cast<double>(plan_.keys()), event);
}

/// Makes the next version of a key's weights.
void ServerValues::learn(ServerCall call, const ServerPush& push, const Eigen::VectorXd& gradient) {
  Eigen::VectorXd& all = stored(push.key);
  auto weights = all.head(all.size() - 1);
  const bool alone = call == ServerCall::apply;
  const std::uint32_t missed =
      alone ? static_cast<std::uint32_t>(all[all.size() - 1]) - pulled_[{push.worker, push.key}] : 0;
  const auto worker = static_cast<std::size_t>(push.worker);
  double lambda = 1;
  if (alone && plan_.mixes()) {
    lambda = plan_.mixing_shares[worker];
    weights += lambda * (gradient - weights);  // the worker has pushed weights
  } else if (plan_.workers_update()) {
    weights = gradient;
  } else {
    if (alone) lambda = values_.rule().late(missed) * (plan_.worker_weights.empty() ? 1 : plan_.worker_weights[worker]);
    states_[push.key].update(values_.rule(), weights, gradient * lambda);
  }
  all[all.size() - 1] += 1;
  if (!model_) return;
  model_->take_parameters(push.key, weights);
  note_update(alone ? push.worker : -1, alone ? 1 : plan_.workers() - plan_.backup_workers,
              {.actor = plan_.workers() + plan_.server_of[push.key],
               .version = static_cast<std::uint64_t>(all[all.size() - 1]),
               .staleness = missed,
               .lambda = lambda});
}

}  // namespace trainyard
