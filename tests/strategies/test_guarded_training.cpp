// Training that survives failures: it ends with the weights of the surviving updates, and no update counts twice.
#include <algorithm>

#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/guarded_training.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"

namespace strategies_test_guarded_training {

using namespace trainyard;
using namespace trainyard::test;

namespace {

GuardedPlan plan_of(bool elastic) {
  GuardedPlan plan;
  plan.workers = 3;
  plan.steps = 10;
  plan.save_every = 4;
  plan.elastic = elastic;
  plan.gradient.flops = Flops{0.1};  // a TableMachine computes one FLOP in a second
  plan.timeout.flops = Flops{0.5};
  plan.weights = Bytes{1e6};
  return plan;
}

/// The update rule has momentum. A restarted leader must restore it, too.
TrainingTask task_of(const GuardedPlan& plan) {
  TrainingTask task = small_task(4, 4 * plan.workers * plan.steps);
  task.rule.momentum = 0.9;
  return task;
}

TrainingPlan replicas_of(const TrainingTask& task, int workers) {
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network_of(task)), workers);
  plan.stages.front().buckets = gradient_buckets(*plan.network, Bytes{4}, Bytes{1e9}, Bytes{1e9}, true);
  return plan;
}

/// Returns the weights after the updates in a plain loop. If a step was updated more than once, only its last update
/// survives.
Eigen::VectorXd replay(const TrainingTask& task, int workers, const std::vector<GuardedUpdate>& updates) {
  std::map<int, const GuardedUpdate*> last;
  for (const GuardedUpdate& update : updates) last[update.step] = &update;
  PlainNetwork network(task);
  Eigen::VectorXd weights = network.initial(), velocity = Eigen::VectorXd::Zero(weights.size());
  const int samples_each = task.micro_batch_size, batch = workers * samples_each;
  for (const auto& [step, update] : last) {
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(weights.size());
    for (const int worker : update->workers)
      sum += network.gradient(weights, step * batch + worker * samples_each, batch);
    sum *= workers / static_cast<double>(update->workers.size());
    velocity = task.rule.momentum * velocity + sum;
    weights -= task.rule.learning_rate * velocity;
  }
  return weights;
}

struct TrainingOutcome {
  double end = 0;
  std::vector<std::vector<int>> updates;  ///< [step, worker…] of each update
  bool equals_replay = false;
  int steps = 0;
};

struct Failure {
  double seconds;
  Actor actor;
  bool is_return;
};

TrainingOutcome train(bool elastic, const std::vector<Failure>& failures, const std::vector<LinkChange>& links = {},
                      TransportKind transport = TransportKind::flow) {
  const GuardedPlan plan = plan_of(elastic);
  TableMachine machine;
  for (Actor other = 0; other <= plan.store(); ++other)
    if (other != plan.leader()) {
      machine.connect(plan.leader(), other, {{machine.link(kRate)}}, {1000000});
      machine.connect(other, plan.leader(), {{machine.link(kRate)}}, {1000000});
    }
  Simulation simulation(machine, transport);
  Values values;
  simulation.observe(values);
  const TrainingTask task = task_of(plan);
  const TrainingPlan replicas = replicas_of(task, plan.workers);
  TrainingValues numbers(task, replicas, values);
  const GuardedTraining training(plan, numbers, simulation.executor());
  for (int rank = 0; rank < plan.workers; ++rank) simulation.add(rank, training.worker(rank));
  simulation.add(plan.leader(), training.leader());
  simulation.add(plan.store(), training.store());
  for (const Failure& f : failures)
    simulation.change(ActorChange{Seconds{f.seconds}, f.actor,
                                  !f.is_return               ? nullptr
                                  : f.actor == plan.leader() ? training.leader(1)
                                                             : training.worker(f.actor, true)});
  for (const LinkChange& change : links) simulation.change(change);
  const double end = simulation.run().end.value;
  std::vector<std::vector<int>> updates;
  for (const GuardedUpdate& u : training.updates()) {
    updates.push_back({u.step});
    updates.back().insert(updates.back().end(), u.workers.begin(), u.workers.end());
  }
  const Eigen::VectorXd learned = numbers.parameters(numbers.learner()).all_parameters();
  return {end, updates, replay(task, plan.workers, training.updates()) == learned, training.step()};
}

std::size_t updates_without(const TrainingOutcome& o, int worker) {
  return static_cast<std::size_t>(std::count_if(o.updates.begin(), o.updates.end(), [worker](const auto& u) {
    return std::find(u.begin() + 1, u.end(), worker) == u.end();
  }));
}

constexpr TransportKind kTransports[] = {TransportKind::native, TransportKind::flow};
constexpr Actor kLeader = 3;
// A step sends weights in 1 ms and 1 µs, computes for 100 ms, and receives gradients in 1 ms and 1 µs. A save takes as
// long as a message.
constexpr double kStep = 0.1 + 2 * (1e-3 + 1e-6), kSaveTime = 1e-3 + 1e-6;

}  // namespace

TEST_CASE("without failures a guarded training takes the time of its steps and saves", "[guarded]") {
  for (const TransportKind transport : kTransports) {
    const TrainingOutcome o = train(true, {}, {}, transport);
    CHECK(o.end == near(10 * kStep + 2 * kSaveTime));
    CHECK(o.updates.size() == 10);
    CHECK(o.equals_replay);
  }
}

TEST_CASE("if a worker dies, the others go on without it from the first step that it misses", "[guarded]") {
  for (const TransportKind transport : kTransports) {
    const TrainingOutcome o = train(true, {{0.25, 1, false}}, {}, transport);
    CHECK(o.steps == 10);
    CHECK(o.updates.size() == 10);
    CHECK(updates_without(o, 1) == 8);  // steps 0 and 1 have it
    CHECK(o.equals_replay);
    CHECK(o.end == near(10 * kStep + 2 * kSaveTime + 0.5 - kStep));  // one timeout in place of a step
  }
}

TEST_CASE("a worker that comes back takes part from the next step on", "[guarded]") {
  const TrainingOutcome o = train(true, {{0.25, 1, false}, {1.0, 1, true}});
  CHECK(o.steps == 10);
  CHECK(o.equals_replay);
  CHECK(updates_without(o, 1) > 0);
  CHECK(updates_without(o, 1) < 8);
  CHECK(o.updates.back().size() == 4);
}

TEST_CASE("if a training is not elastic, all wait for a failed worker, and no step lacks it", "[guarded]") {
  for (const TransportKind transport : kTransports) {
    const TrainingOutcome o = train(false, {{0.25, 1, false}, {2.0, 1, true}}, {}, transport);
    CHECK(o.steps == 10);
    CHECK(updates_without(o, 1) == 0);
    CHECK(o.equals_replay);
    CHECK(o.updates.size() == 10);
    CHECK(o.end > 2);
  }
}

TEST_CASE("if the leader dies, training goes on from the last save, and no update counts twice", "[guarded]") {
  for (const TransportKind transport : kTransports)
    // The leader dies before a save, after it, later, and in the middle of it.
    for (const double death : {0.3, 0.55, 0.75, 4 * kStep + 0.5e-3}) {
      const TrainingOutcome o = train(true, {{death, kLeader, false}, {1.5, kLeader, true}}, {}, transport);
      CAPTURE(death);
      CHECK(o.steps == 10);
      CHECK(o.equals_replay);
      CHECK(updates_without(o, 0) + updates_without(o, 1) + updates_without(o, 2) == 0);
      const auto steps_done = static_cast<int>((death - (death > 0.5 ? kSaveTime : 0)) / kStep);
      const int lost_steps = death > 0.5 ? steps_done - 4 : steps_done;  // steps after the last complete save
      CHECK(o.updates.size() == 10 + static_cast<std::size_t>(lost_steps));
    }
}

TEST_CASE("while a link is down, the training waits for the worker behind it or goes on without it", "[guarded]") {
  const LinkId to_worker_0 = 0;
  const std::vector<LinkChange> outage{{Seconds{0.2}, to_worker_0, BytesPerSecond{0}},
                                       {Seconds{0.5}, to_worker_0, kRate}};
  const TrainingOutcome o = train(true, {}, outage);
  CHECK(o.updates.size() == 10);
  CHECK(updates_without(o, 0) == 0);
  CHECK(o.equals_replay);
  const TrainingOutcome without_link = train(true, {}, {{Seconds{0.2}, to_worker_0, BytesPerSecond{0}}});
  CHECK(without_link.steps == 10);
  CHECK(updates_without(without_link, 0) == 8);
  CHECK(without_link.equals_replay);
}

}  // namespace strategies_test_guarded_training
