#include "tests/strategies/server_training.hpp"

#include <cmath>

#include "strategies/step/pass_table.hpp"
#include "tests/places.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/server_replay.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"
#include "topologies/machines/placed_machine.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard::test {
namespace {

ServerPlan plan_of(const ServerTraining& s, const Network& network) {
  TrainingPlan workers = replica_plan(std::make_shared<const Network>(network), s.workers, s.micro_batches);
  without_all_reduce(workers);
  workers.steps = s.steps;
  workers.overlap_gradients = s.overlap;
  workers.values = true;
  StagePlan& stage = workers.stages.front();
  stage.buckets = gradient_buckets(network, workers.gradient_element, Bytes{s.bucket}, Bytes{s.bucket}, false);
  stage.optimizer = optimizer_work(network.parameters(), Precision::fp32, find_optimizer("sgd", {}));
  ServerPlan plan = server_plan(std::move(workers), s.servers, s.sharding, nowhere(), s.split);
  plan.consistency = s.consistency;
  plan.staleness = s.staleness;
  plan.backup_workers = s.backups;
  plan.mixing_shares = s.lambdas;
  for (const ServerRule& rule : server_rules())
    if (rule.name == s.rule) plan.rule = rule;
  plan.replication = {s.copies, s.forward, {}};
  Actor next_worker = 0;
  for (const int workers_of_node : s.nodes) {
    LocalGroup& group = plan.local.groups.emplace_back();
    for (int i = 0; i < workers_of_node; ++i) group.workers.push_back(next_worker++);
  }
  plan.local.on_cpu = s.aggregator_on_cpu;
  plan.local.reduce = &collectives(Operation::reduce).find(s.reduce, nowhere());
  plan.local.broadcast = &collectives(Operation::broadcast).find(s.broadcast, nowhere());
  return plan;
}

/// Returns for each worker the number of complete steps that servers have applied.
std::vector<int> steps_applied(const std::vector<ServerEvent>& events, const ServerPlan& plan) {
  std::vector<int> pushes(static_cast<std::size_t>(plan.workers()));
  for (const ServerEvent& event : events)
    if (event.type == ServerEvent::Type::applied) ++pushes[static_cast<std::size_t>(event.worker)];
  for (int& count : pushes) count /= static_cast<int>(plan.keys());
  return pushes;
}

double largest_difference_of_copies(const ServerPlan& plan, TrainingValues& training) {
  double largest = 0;
  for (std::size_t key = 0; key < plan.keys(); ++key)
    for (int copy = 1; copy < plan.replication.copies; ++copy) {
      const auto weights_on = [&](int server) {
        return training.buffer(plan.workers() + server, TrainingBuffer::Kind::parameters, key);
      };
      const Eigen::VectorXd original = weights_on(plan.server_of[key]);
      const Eigen::VectorXd copied = weights_on(plan.holder(plan.server_of[key], copy));
      if (original.size() != copied.size()) return HUGE_VAL;
      largest = std::max(largest, largest_difference(original, copied));
    }
  return largest;
}

}  // namespace

ServerOutcome train_servers(const ServerTraining& s) {
  constexpr int kBatch = 840;  // divisible by all tested numbers of workers and micro-batches
  // There are samples for more steps than `s.steps`: with backup workers, some workers run ahead.
  const TrainingTask task = small_task(kBatch / s.workers / s.micro_batches, 4 * kBatch * s.steps);
  const Network network = network_of(task);
  const ServerPlan plan = plan_of(s, network);
  ClusterMachine cluster(star_cluster(plan.actors(), BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
  std::vector<PlacedMachine::PlacedActor> places;
  for (Actor actor = 0; actor < plan.actors(); ++actor) places.push_back({s.colocated ? actor % s.workers : actor, ""});
  PlacedMachine placed(cluster, places);
  Straggler jitter;
  jitter.kind = StragglerKind::lognormal;
  jitter.sigma = s.jitter;
  jitter.seed = s.seed;
  Straggler slow_compute;  // without it, kernels of so few FLOPs would take no time
  slow_compute.factor = 1e5;
  StragglerMachine machine(placed, {jitter, slow_compute}, s.workers);
  Names names;
  const PassTables tables(plan.base.step, names);
  const CentralNames words(names);
  ServerBoard board(plan.clients(), plan.clients() - s.backups, s.steps, plan.keys());
  Values values;
  TrainingValues training(task, plan.base.step, values);
  ServerValues servers(training, plan);
  Simulation simulation(machine);
  for (Actor actor = 0; actor < plan.actors(); ++actor)
    simulation.add(actor, server_program(actor, plan, tables, words, board));
  if (s.dies >= 0) simulation.change(ActorChange{Seconds{s.dies_s}, s.dies, nullptr});
  simulation.observe(values);
  const double end = simulation.run().end.value;
  const Eigen::VectorXd learned = training.parameters(training.learner()).all_parameters();
  const bool has_replay = s.micro_batches == 1 && s.nodes.empty() && !plan.workers_update();
  return {largest_difference(train_plainly(task, kBatch, s.steps), learned),
          has_replay ? largest_difference(replay_servers(task, plan, servers.events()), learned) : 0,
          !values.hazards().empty(),
          std::isfinite(learned.sum()),
          board.staleness(),
          board.dropped_pushes(),
          end,
          steps_applied(servers.events(), plan),
          largest_difference_of_copies(plan, training)};
}

void check_equal(const ServerTraining& s) {
  CAPTURE(s.workers, s.servers, s.micro_batches, s.overlap, s.bucket, s.colocated);
  CAPTURE(s.rule, s.nodes, s.aggregator_on_cpu, s.reduce, s.broadcast, s.copies, static_cast<int>(s.forward));
  const ServerOutcome out = train_servers(s);
  CHECK(out.to_one_device <= 1e-12);
  CHECK(out.to_replay == 0);
  CHECK_FALSE(out.has_hazards);
  CHECK(out.between_copies == 0);
}

ServerOutcome check_replay(const ServerTraining& s) {
  CAPTURE(s.workers, s.servers, static_cast<int>(s.consistency), s.staleness, s.backups, s.jitter, s.seed);
  const ServerOutcome out = train_servers(s);
  CHECK(out.is_finite);
  CHECK(out.to_replay == 0);  // bit for bit
  CHECK(out.to_one_device > 1e-6);
  CHECK(out.between_copies == 0);
  return out;
}

}  // namespace trainyard::test
