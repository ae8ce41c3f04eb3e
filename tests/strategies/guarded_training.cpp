#include "tests/strategies/guarded_training.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/ops.hpp"

namespace trainyard {
namespace {

constexpr Tag kWeights = 1, kJoin = 2, kSave = 3, kAsk = 4, kState = 5, kGradients = 1000;
using Buffer = TrainingBuffer::Kind;
constexpr TrainingBuffer kStateBuffer{Buffer::parameters, 0}, kGradientBuffer{Buffer::gradients, 0};

/// Returns the leader's buffer for the gradient of a worker.
TrainingBuffer gradient_of_worker(int worker) { return {Buffer::arrivals, static_cast<std::size_t>(worker)}; }

/// Calls in addition to those of training_calls.hpp.
enum class GuardedCall : std::uint16_t {
  none,
  compute = 64,  ///< a worker computes all passes of the present step
  update,        ///< the leader updates its weights
  begin_life,    ///< the leader takes the state from the store; index: how often it has failed
};

/// A saved state is the state of RankParameters, then two numbers: the step, and how often the leader has failed.
Eigen::Index step_at(const Eigen::VectorXd& state) { return state.size() - 2; }
int step_of(const Eigen::VectorXd& state) { return static_cast<int>(state[step_at(state)]); }
int life_of(const Eigen::VectorXd& state) { return static_cast<int>(state[step_at(state) + 1]); }
Tag gradient_tag(int step, int life) {
  constexpr Tag kLives = 1000;
  return kGradients + static_cast<Tag>(step) * kLives + static_cast<Tag>(life);
}

/// Returns the operation of a message that has only a tag.
Op guarded_signal(Kind kind, int stream, int slot, Tag tag) {
  Op op;
  op.kind = kind;
  op.stream = static_cast<Stream>(stream);
  op.message.slot = static_cast<std::uint16_t>(slot);
  op.message.tag = tag;
  op.message.mode = Mode::eager;
  return op;
}

Op guarded_message(Kind kind, int stream, int slot, Tag tag, Bytes bytes, Mode mode, TrainingBuffer buffer) {
  Op op = guarded_signal(kind, stream, slot, tag);
  op.message.bytes = bytes;
  op.message.mode = mode;
  op.effect.action = Action::copy;
  (kind == Kind::send ? op.effect.read : op.effect.write) = {number_of(buffer), 0, 1};
  return op;
}

Op guarded_work(Kind kind, int stream, const Work& work, GuardedCall call, int index = 0) {
  Op op;
  op.kind = kind;
  op.stream = static_cast<Stream>(stream);
  op.work = work;
  if (call != GuardedCall::none) op.effect = effect_of(call, {index});
  return op;
}

class GuardedWorker : public CoroutineProgram {
 public:
  GuardedWorker(const GuardedTraining& training, int rank, bool rejoins)
      : CoroutineProgram({training.plan().leader()}, 1, true), training_(training), rank_(rank), rejoins_(rejoins) {}
  bool daemon() const override { return true; }  // the training ends with its leader

 protected:
  Ops run() override {
    const GuardedPlan& plan = training_.plan();
    if (rejoins_) {
      const Op join = guarded_signal(Kind::send, 0, 0, kJoin);
      co_yield join;
      co_await next_event;
    }
    for (;;) {
      const Op take = guarded_message(Kind::recv, 0, 0, kWeights, Bytes{0}, Mode::eager, kStateBuffer);
      co_yield take;
      co_await next_event;
      const Eigen::VectorXd& state = training_.state(rank_);
      const Tag tag = gradient_tag(step_of(state), life_of(state));
      const Op compute = guarded_work(Kind::compute, 0, plan.gradient, GuardedCall::compute);
      co_yield compute;
      co_await next_event;
      const Op give = guarded_message(Kind::send, 0, 0, tag, plan.weights, Mode::eager, kGradientBuffer);
      co_yield give;
      co_await next_event;
    }
  }

 private:
  const GuardedTraining& training_;
  int rank_;
  bool rejoins_;
};

class GuardedLeader : public CoroutineProgram {
 public:
  GuardedLeader(const GuardedTraining& training, int life)
      : CoroutineProgram(peers(training.plan()), 2 * training.plan().workers + 4, true),
        training_(training),
        plan_(training.plan()),
        life_(life),
        alive_(static_cast<std::size_t>(plan_.workers), true),
        timer_(2 * plan_.workers),
        joins_(timer_ + 1),
        main_stream_(timer_ + 2),
        saves_(timer_ + 3) {}

 protected:
  Ops run() override {
    if (life_ > 0) co_yield load();
    const Op listen = guarded_signal(Kind::recv, joins_, kAnyPeer, kJoin);
    co_yield listen;
    while (training_.step() < plan_.steps) {
      co_yield gather();
      const Op update = guarded_work(Kind::compute, main_stream_, plan_.update, GuardedCall::update);
      co_yield update;
      for (Event e = co_await next_event; e.stream != main_stream_; e = co_await next_event)
        if (note_join(e)) co_yield listen;
      if (training_.step() % plan_.save_every != 0) continue;
      const Op save =
          guarded_message(Kind::send, saves_, plan_.workers, kSave, plan_.weights, Mode::rendezvous, kStateBuffer);
      co_yield save;
      for (Event e = co_await next_event; e.stream != saves_; e = co_await next_event)
        if (note_join(e)) co_yield listen;
    }
    training_.executor().cancel(plan_.leader(), static_cast<Stream>(joins_));
  }

 private:
  const GuardedTraining& training_;
  const GuardedPlan& plan_;
  int life_;
  std::vector<bool> alive_;
  std::vector<int> rejoining_;
  int timer_, joins_, main_stream_, saves_;

  static std::vector<Actor> peers(const GuardedPlan& plan) {
    std::vector<Actor> all(static_cast<std::size_t>(plan.workers) + 1);
    std::iota(all.begin(), all.end(), 0);
    all.back() = plan.store();
    return all;
  }

  /// Receives the state from the store, and starts a new life of the leader.
  Ops load() {
    const Op ask = guarded_signal(Kind::send, main_stream_, plan_.workers, kAsk);
    co_yield ask;
    const Op take =
        guarded_message(Kind::recv, main_stream_, plan_.workers, kState, Bytes{0}, Mode::rendezvous, kStateBuffer);
    co_yield take;
    const Op begin = guarded_work(Kind::mark, main_stream_, {}, GuardedCall::begin_life, life_);
    co_yield begin;
    for (int ended = 0; ended < 3; ++ended) co_await next_event;
  }

  /// Notes a worker that rejoins. Returns true if the event was a join: the leader must listen for the next one.
  bool note_join(const Event& e) {
    if (e.stream != joins_ || e.outcome != Outcome::done) return false;
    rejoining_.push_back(e.peer);
    return true;
  }

  Ops give_and_take(int worker) {
    const Op give = guarded_message(Kind::send, worker, worker, kWeights, plan_.weights, Mode::eager, kStateBuffer);
    co_yield give;
    const Op take = guarded_message(Kind::recv, plan_.workers + worker, worker, gradient_tag(training_.step(), life_),
                                    Bytes{0}, Mode::eager, gradient_of_worker(worker));
    co_yield take;
  }

  /// Collects the gradients of one step from all workers, or from those that answer in time.
  Ops gather() {
    const Op listen = guarded_signal(Kind::recv, joins_, kAnyPeer, kJoin);
    const Op timer = guarded_work(Kind::delay, timer_, plan_.timeout, GuardedCall::none);
    std::vector<int> contributors, missing_workers;
    for (const int worker : std::exchange(rejoining_, {})) alive_[worker] = true;
    for (int worker = 0; worker < plan_.workers; ++worker)
      if (alive_[worker]) missing_workers.push_back(worker);
    for (const int worker : missing_workers) co_yield give_and_take(worker);
    co_yield timer;
    bool timer_runs = true;
    while (!missing_workers.empty()) {
      const Event e = co_await next_event;
      if (note_join(e)) {
        co_yield listen;
      } else if (e.stream >= plan_.workers && e.stream < timer_) {
        const int worker = e.stream - plan_.workers;
        if (e.outcome == Outcome::done) contributors.push_back(worker);
        if (e.outcome == Outcome::done) std::erase(missing_workers, worker);
      } else if (e.stream == timer_) {
        timer_runs = false;
        for (const int worker : missing_workers)
          training_.executor().cancel(plan_.leader(), static_cast<Stream>(plan_.workers + worker));
        for (const int worker : missing_workers) alive_[worker] = false;
        if (plan_.elastic && !contributors.empty()) missing_workers.clear();
      }
      // The timer has ended, and the training still waits: workers that return get the weights of this step.
      if (timer_runs || missing_workers.empty()) continue;
      for (const int worker : std::exchange(rejoining_, {})) {
        alive_[worker] = true;
        co_yield give_and_take(worker);
      }
    }
    if (timer_runs) training_.executor().cancel(plan_.leader(), static_cast<Stream>(timer_));
    std::sort(contributors.begin(), contributors.end());
    training_.set_contributors(std::move(contributors));
  }
};

/// The store: it keeps the last state that arrived completely, and sends it on request.
class GuardedStore : public CoroutineProgram {
 public:
  explicit GuardedStore(const GuardedPlan& plan) : CoroutineProgram({plan.leader()}, 3, true), bytes_(plan.weights) {}
  bool daemon() const override { return true; }

 protected:
  Ops run() override {
    const Op take = guarded_message(Kind::recv, 0, 0, kSave, Bytes{0}, Mode::rendezvous, kStateBuffer);
    const Op request = guarded_signal(Kind::recv, 1, 0, kAsk);
    const Op give = guarded_message(Kind::send, 2, 0, kState, bytes_, Mode::rendezvous, kStateBuffer);
    co_yield take;
    co_yield request;
    for (;;) {
      const Event e = co_await next_event;
      if (e.stream == 0) co_yield take;
      if (e.stream != 1) continue;
      co_yield give;
      co_yield request;
    }
  }

 private:
  Bytes bytes_;
};

}  // namespace

GuardedTraining::GuardedTraining(const GuardedPlan& plan, TrainingValues& values, Executor& executor)
    : plan_(plan), values_(values), executor_(executor), leader_(values.add_learner(plan.leader())) {
  Eigen::VectorXd begin(leader_.state().size() + 2);
  begin << leader_.state(), 0, 0;
  for (Actor actor = 0; actor <= plan_.store(); ++actor) state(actor) = begin;
  for (Actor worker = 0; worker < plan_.workers; ++worker) values_.replica(worker).forget_parameters();
  values_.register_call(GuardedCall::compute, [this](Actor worker, const CallArguments&) { compute(worker); });
  values_.register_call(GuardedCall::update, [this](Actor, const CallArguments&) { update(); });
  values_.register_call(GuardedCall::begin_life, [this](Actor, const CallArguments& call) { begin_life(call.index); });
}

Eigen::VectorXd& GuardedTraining::state(Actor actor) const {
  return values_.buffer(actor, kStateBuffer.kind, kStateBuffer.index);
}

std::unique_ptr<Program> GuardedTraining::worker(int rank, bool rejoins) const {
  return std::make_unique<GuardedWorker>(*this, rank, rejoins);
}
std::unique_ptr<Program> GuardedTraining::leader(int life) const {
  return std::make_unique<GuardedLeader>(*this, life);
}
std::unique_ptr<Program> GuardedTraining::store() const { return std::make_unique<GuardedStore>(plan_); }

int GuardedTraining::step() const { return step_of(state(plan_.leader())); }

void GuardedTraining::compute(Actor worker) {
  const Eigen::VectorXd& saved = state(worker);
  values_.replica(worker).set_state(saved.head(step_at(saved)));
  values_.buffer(worker, kGradientBuffer.kind, kGradientBuffer.index) = values_.rank(worker).whole_step(step_of(saved));
}

void GuardedTraining::update() {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(leader_.all_parameters().size());
  for (const int worker : contributors_) {
    const TrainingBuffer gradient = gradient_of_worker(worker);
    sum += values_.buffer(plan_.leader(), gradient.kind, gradient.index);
  }
  leader_.set_all_gradients(sum * (plan_.workers / static_cast<double>(contributors_.size())));
  leader_.apply_gradients();
  Eigen::VectorXd& saved = state(plan_.leader());
  saved.head(step_at(saved)) = leader_.state();
  updates_.push_back({step_of(saved), contributors_});
  saved[step_at(saved)] += 1;
}

/// The leader takes the state from the store and starts a new life.
void GuardedTraining::begin_life(int life) {
  Eigen::VectorXd& saved = state(plan_.leader());
  leader_.set_state(saved.head(step_at(saved)));
  saved[step_at(saved) + 1] = life;
}

}  // namespace trainyard
