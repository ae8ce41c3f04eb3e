#include "strategies/values/guarded_training.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/ops.hpp"

namespace trainyard {
namespace {

constexpr Tag kWeights = 1, kJoin = 2, kSave = 3, kAsk = 4, kState = 5, kGradients = 1000;
constexpr std::uint16_t kState0 = 0, kGradient0 = 1;  // buffers; the leader keeps worker k's gradient in kGradient0 + k
constexpr std::uint16_t kComputeCall = 1, kUpdateCall = 2, kLifeCall = 3;

BufferRef whole(std::uint16_t buffer) { return {buffer, 0, 1}; }

/// The state is the weights, then the step and the leader's life.
Eigen::Index step_at(const Eigen::VectorXd& state) { return state.size() - 2; }
int step_of(const Eigen::VectorXd& state) { return static_cast<int>(state[step_at(state)]); }
int life_of(const Eigen::VectorXd& state) { return static_cast<int>(state[step_at(state) + 1]); }
Eigen::VectorXd weights_of(const Eigen::VectorXd& state) { return state.head(step_at(state)); }
Tag gradient_tag(int step, int life) {
  constexpr Tag kLives = 1000;
  return kGradients + static_cast<Tag>(step) * kLives + static_cast<Tag>(life);
}

Op guarded_message(Kind kind, int stream, int slot, Tag tag, Bytes bytes, Mode mode, std::uint16_t buffer) {
  Op op;
  op.kind = kind;
  op.stream = static_cast<Stream>(stream);
  op.message.slot = static_cast<std::uint16_t>(slot);
  op.message.tag = tag;
  op.message.bytes = bytes;
  op.message.mode = mode;
  op.effect.action = Action::copy;
  (kind == Kind::send ? op.effect.read : op.effect.write) = whole(buffer);
  return op;
}

/// A message that says no more than its tag.
Op guarded_signal(Kind kind, int stream, int slot, Tag tag) {
  Op op = guarded_message(kind, stream, slot, tag, Bytes{0}, Mode::eager, 0);
  op.effect = {};
  return op;
}

Op guarded_work(Kind kind, int stream, const Work& work, std::uint16_t call) {
  Op op;
  op.kind = kind;
  op.stream = static_cast<Stream>(stream);
  op.work = work;
  if (call > 0) op.effect = {Action::call, call, {}, {}};
  return op;
}

class GuardedWorker : public CoroutineProgram {
 public:
  GuardedWorker(const GuardedTraining& training, int rank, bool back)
      : CoroutineProgram({training.plan().leader()}, 1, true), training_(training), rank_(rank), back_(back) {}
  bool daemon() const override { return true; }  // the training ends with its leader

 protected:
  Ops run() override {
    const GuardedPlan& plan = training_.plan();
    if (back_) {
      const Op join = guarded_signal(Kind::send, 0, 0, kJoin);
      co_yield join;
      co_await next_event;
    }
    for (;;) {
      const Op take = guarded_message(Kind::recv, 0, 0, kWeights, Bytes{0}, Mode::eager, kState0);
      co_yield take;
      co_await next_event;
      const Eigen::VectorXd& state = training_.state(rank_);
      const Tag tag = gradient_tag(step_of(state), life_of(state));
      const Op compute = guarded_work(Kind::compute, 0, plan.gradient, kComputeCall);
      co_yield compute;
      co_await next_event;
      const Op give = guarded_message(Kind::send, 0, 0, tag, plan.weights, Mode::eager, kGradient0);
      co_yield give;
      co_await next_event;
    }
  }

 private:
  const GuardedTraining& training_;
  int rank_;
  bool back_;
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
        own_(timer_ + 2),
        saves_(timer_ + 3) {}

 protected:
  Ops run() override {
    if (life_ > 0) co_yield load();
    const Op listen = guarded_signal(Kind::recv, joins_, kAnyPeer, kJoin);
    co_yield listen;
    while (training_.step() < plan_.steps) {
      co_yield gather();
      const Op update = guarded_work(Kind::compute, own_, plan_.update, kUpdateCall);
      co_yield update;
      for (Event e = co_await next_event; e.stream != own_; e = co_await next_event)
        if (note_join(e)) co_yield listen;
      if (training_.step() % plan_.save_every != 0) continue;
      const Op save =
          guarded_message(Kind::send, saves_, plan_.workers, kSave, plan_.weights, Mode::rendezvous, kState0);
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
  int timer_, joins_, own_, saves_;

  static std::vector<Actor> peers(const GuardedPlan& plan) {
    std::vector<Actor> all(static_cast<std::size_t>(plan.workers) + 1);
    std::iota(all.begin(), all.end(), 0);
    all.back() = plan.store();
    return all;
  }

  /// What the store has; the leader's life is a new one.
  Ops load() {
    const Op ask = guarded_signal(Kind::send, own_, plan_.workers, kAsk);
    co_yield ask;
    const Op take = guarded_message(Kind::recv, own_, plan_.workers, kState, Bytes{0}, Mode::rendezvous, kState0);
    co_yield take;
    Op live = guarded_work(Kind::mark, own_, {}, kLifeCall);
    live.effect.read.buffer = static_cast<std::uint16_t>(life_);
    co_yield live;
    for (int ended = 0; ended < 3; ++ended) co_await next_event;
  }

  /// True where it was the end of a join: another is listened for.
  bool note_join(const Event& e) {
    if (e.stream != joins_ || e.outcome != Outcome::done) return false;
    rejoining_.push_back(e.peer);
    return true;
  }

  Ops give_and_take(int worker) {
    const Op give = guarded_message(Kind::send, worker, worker, kWeights, plan_.weights, Mode::eager, kState0);
    co_yield give;
    const Op take = guarded_message(Kind::recv, plan_.workers + worker, worker, gradient_tag(training_.step(), life_),
                                    Bytes{0}, Mode::eager, static_cast<std::uint16_t>(kGradient0 + worker));
    co_yield take;
  }

  /// The gradients of one step: of all, or of those that answer in time.
  Ops gather() {
    const Op listen = guarded_signal(Kind::recv, joins_, kAnyPeer, kJoin);
    const Op timer = guarded_work(Kind::delay, timer_, plan_.timeout, 0);
    std::vector<int> come, waited_for;
    for (const int worker : std::exchange(rejoining_, {})) alive_[static_cast<std::size_t>(worker)] = true;
    for (int worker = 0; worker < plan_.workers; ++worker)
      if (alive_[static_cast<std::size_t>(worker)]) waited_for.push_back(worker);
    for (const int worker : waited_for) co_yield give_and_take(worker);
    co_yield timer;
    bool timed = true;
    while (!waited_for.empty()) {
      const Event e = co_await next_event;
      if (note_join(e)) {
        co_yield listen;
      } else if (e.stream >= plan_.workers && e.stream < timer_) {
        const int worker = e.stream - plan_.workers;
        if (e.outcome == Outcome::done) come.push_back(worker);
        if (e.outcome == Outcome::done) std::erase(waited_for, worker);
      } else if (e.stream == timer_) {
        timed = false;
        for (const int worker : waited_for)
          training_.executor().cancel(plan_.leader(), static_cast<Stream>(plan_.workers + worker));
        for (const int worker : waited_for) alive_[static_cast<std::size_t>(worker)] = false;
        if (plan_.elastic && !come.empty()) waited_for.clear();
      }
      // Without the others nothing can go on: whoever is back gets the weights of this very step.
      if (timed || waited_for.empty()) continue;
      for (const int worker : std::exchange(rejoining_, {})) {
        alive_[static_cast<std::size_t>(worker)] = true;
        co_yield give_and_take(worker);
      }
    }
    if (timed) training_.executor().cancel(plan_.leader(), static_cast<Stream>(timer_));
    std::sort(come.begin(), come.end());
    training_.set_contributors(std::move(come));
  }
};

/// Keeps the last state that came whole, and gives it to whoever asks.
class GuardedStore : public CoroutineProgram {
 public:
  explicit GuardedStore(const GuardedPlan& plan) : CoroutineProgram({plan.leader()}, 3, true), bytes_(plan.weights) {}
  bool daemon() const override { return true; }

 protected:
  Ops run() override {
    const Op take = guarded_message(Kind::recv, 0, 0, kSave, Bytes{0}, Mode::rendezvous, kState0);
    const Op asked = guarded_signal(Kind::recv, 1, 0, kAsk);
    const Op give = guarded_message(Kind::send, 2, 0, kState, bytes_, Mode::rendezvous, kState0);
    co_yield take;
    co_yield asked;
    for (;;) {
      const Event e = co_await next_event;
      if (e.stream == 0) co_yield take;
      if (e.stream != 1) continue;
      co_yield give;
      co_yield asked;
    }
  }

 private:
  Bytes bytes_;
};

}  // namespace

GuardedTraining::GuardedTraining(GuardedPlan plan, Values& values, Executor& executor)
    : plan_(std::move(plan)), values_(values), executor_(executor) {
  Eigen::VectorXd begin(plan_.start.size() + 2);
  begin << plan_.start, 0, 0;
  for (Actor actor = 0; actor <= plan_.store(); ++actor) values_.buffer(actor, kState0) = begin;
  for (Actor worker = 0; worker < plan_.workers; ++worker) {
    values_.buffer(worker, kGradient0) = Eigen::VectorXd::Zero(plan_.start.size());
    values_.buffer(plan_.leader(), static_cast<std::uint16_t>(kGradient0 + worker)) = Eigen::VectorXd::Zero(1);
  }
  values_.on_call(kComputeCall, [this](Actor actor, const Op&) {
    const Eigen::VectorXd& at = state(actor);
    values_.buffer(actor, kGradient0) = plan_.function(actor, step_of(at), weights_of(at));
  });
  values_.on_call(kUpdateCall, [this](Actor, const Op&) { update(); });
  values_.on_call(kLifeCall, [this](Actor actor, const Op& op) {
    Eigen::VectorXd& at = state(actor);
    at[step_at(at) + 1] = op.effect.read.buffer;
  });
}

std::unique_ptr<Program> GuardedTraining::worker(int rank, bool back) const {
  return std::make_unique<GuardedWorker>(*this, rank, back);
}
std::unique_ptr<Program> GuardedTraining::leader(int life) const {
  return std::make_unique<GuardedLeader>(*this, life);
}
std::unique_ptr<Program> GuardedTraining::store() const { return std::make_unique<GuardedStore>(plan_); }

Eigen::VectorXd GuardedTraining::weights() const { return weights_of(state(plan_.leader())); }
int GuardedTraining::step() const { return step_of(state(plan_.leader())); }

void GuardedTraining::update() {
  Eigen::VectorXd& at = state(plan_.leader());
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(plan_.start.size());
  for (const int worker : contributors_)
    sum += values_.buffer(plan_.leader(), static_cast<std::uint16_t>(kGradient0 + worker));
  at.head(step_at(at)) -= plan_.rate / static_cast<double>(contributors_.size()) * sum;
  updates_.push_back({step_of(at), contributors_});
  at[step_at(at)] += 1;
}

Eigen::VectorXd replay(const GuardedPlan& plan, const std::vector<GuardedUpdate>& updates) {
  std::map<int, const GuardedUpdate*> last;
  for (const GuardedUpdate& update : updates) last[update.step] = &update;
  Eigen::VectorXd weights = plan.start;
  for (const auto& [step, update] : last) {
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(weights.size());
    for (const int worker : update->workers) sum += plan.function(worker, step, weights);
    weights -= plan.rate / static_cast<double>(update->workers.size()) * sum;
  }
  return weights;
}

}  // namespace trainyard
