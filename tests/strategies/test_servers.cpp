// Parameter servers: what is learned, against one device and against a replay; what it takes, against closed forms.
#include <cmath>

#include "strategies/step/pass_table.hpp"
#include "tests/places.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/server_replay.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/placed_machine.hpp"
#include "topologies/machines/star_cluster.hpp"
#include "topologies/machines/straggler_machine.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

struct Setting {
  int workers = 3, servers = 1, steps = 4, micro_batches = 1;
  Consistency consistency = Consistency::synchronous;
  int staleness = 0, backups = 0;
  bool overlap = true;
  double bucket = 40;  ///< bytes
  double jitter = 0;   ///< sigma of every worker's time
  std::uint64_t seed = 1;
  std::vector<double> lambdas = {};
  bool colocated = false;  ///< servers on the workers' devices
  Actor dies = -1;         ///< a worker that does
  double dies_s = 0;
  KeySharding sharding = KeySharding::balanced;
};

ServerPlan plan_of(const Setting& s, const Network& network) {
  TrainingPlan workers = replica_plan(std::make_shared<const Network>(network), s.workers, s.micro_batches);
  without_all_reduce(workers);
  workers.steps = s.steps;
  workers.overlap_gradients = s.overlap;
  workers.values = true;
  StagePlan& stage = workers.stages.front();
  stage.buckets = gradient_buckets(network, workers.gradient_element, Bytes{s.bucket}, Bytes{s.bucket}, false);
  stage.optimizer = optimizer_work(network.parameters(), Precision::fp32, find_optimizer("sgd", {}));
  ServerPlan plan = server_plan(std::move(workers), s.servers, s.sharding, nowhere());
  plan.consistency = s.consistency;
  plan.staleness = s.staleness;
  plan.backup_workers = s.backups;
  plan.worker_weights = s.lambdas;
  return plan;
}

/// Whole steps of each worker that servers have applied.
std::vector<int> steps_applied(const std::vector<ServerEvent>& events, const ServerPlan& plan) {
  std::vector<int> pushes(static_cast<std::size_t>(plan.workers()));
  for (const ServerEvent& event : events)
    if (event.what == ServerEvent::What::applied) ++pushes[static_cast<std::size_t>(event.worker)];
  for (int& of : pushes) of /= static_cast<int>(plan.keys());
  return pushes;
}

/// [difference to one device, difference to the replay, hazards, staleness, dropped pushes, end, finite, steps applied]
json train(const Setting& s) {
  return simulate_in_child([&s] {
    constexpr int kBatch = 840;  // divisible by all that is tried
    const TrainingTask task = small_task(kBatch / s.workers / s.micro_batches, 4 * kBatch * s.steps);  // backups go on
    const Network network = network_of(task);
    const ServerPlan plan = plan_of(s, network);
    ClusterMachine cluster(star_cluster(plan.actors(), BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
    std::vector<PlacedMachine::Placed> places;
    for (Actor actor = 0; actor < plan.actors(); ++actor)
      places.push_back({s.colocated ? actor % s.workers : actor, ""});
    PlacedMachine placed(cluster, places);
    Straggler jitter;
    jitter.kind = StragglerKind::lognormal;
    jitter.sigma = s.jitter;
    jitter.seed = s.seed;
    Straggler much;  // kernels of so few FLOPs are over at once
    much.factor = 1e5;
    StragglerMachine machine(placed, {jitter, much}, s.workers);
    Names names;
    const PassTables tables(plan.base.step, names);
    const CentralWords words(names);
    ServerBoard board(s.workers, s.workers - s.backups, s.steps, plan.keys());
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
    return json{largest_difference(train_plainly(task, kBatch, s.steps), learned),
                s.micro_batches == 1 ? largest_difference(replay_servers(task, plan, servers.events()), learned) : 0,
                values.hazards(),
                board.staleness(),
                board.dropped_pushes(),
                end,
                std::isfinite(learned.sum()),
                steps_applied(servers.events(), plan)};
  });
}

void check_equal(const Setting& s) {
  CAPTURE(s.workers, s.servers, s.micro_batches, s.overlap, s.bucket, s.colocated);
  const json r = train(s);
  CHECK(r[0].get<double>() <= 1e-12);
  CHECK(r[1].get<double>() == 0);
  CHECK(r[2].empty());
}

json check_replay(const Setting& s) {
  CAPTURE(s.workers, s.servers, static_cast<int>(s.consistency), s.staleness, s.backups, s.jitter, s.seed);
  const json r = train(s);
  CHECK(r[6].get<bool>());
  CHECK(r[1].get<double>() == 0);  // bit for bit
  CHECK(r[0].get<double>() > 1e-6);
  return r;
}

}  // namespace

TEST_CASE("parameter servers in step learn what a single device does", "[servers]") {
  for (const int workers : {1, 2, 3, 7})
    for (const int servers : {1, 2, 5}) check_equal({.workers = workers, .servers = servers});
  check_equal({.micro_batches = 4});
  check_equal({.overlap = false, .bucket = 4});
  check_equal({.servers = 3, .jitter = 0.5});
  check_equal({.workers = 4, .servers = 4, .colocated = true});
  check_equal({.servers = 1, .bucket = 1e6});
}

TEST_CASE("asynchronous servers apply each gradient at the weights that its worker had", "[servers]") {
  for (const std::uint64_t seed : {1U, 2U, 3U})
    for (const int servers : {1, 3}) {
      const json r = check_replay({.workers = 4,
                                   .servers = servers,
                                   .steps = 8,
                                   .consistency = Consistency::asynchronous,
                                   .jitter = 0.5,
                                   .seed = seed});
      CHECK(r[3].size() > 1);  // staleness differs
    }
}

TEST_CASE("asynchronous servers go on without a worker that dies", "[servers][failures]") {
  for (const int servers : {1, 3})
    for (const int workers : {2, 5}) {
      Setting s{
          .workers = workers, .servers = servers, .steps = 8, .consistency = Consistency::asynchronous, .jitter = 0.5};
      const double end = train(s)[5];
      s.dies = 1;
      for (const double share : {0.0, 0.2, 0.5, 0.8}) {
        CAPTURE(workers, servers, share);
        s.dies_s = share * end;
        const json r = check_replay(s);
        const auto steps = r[7].get<std::vector<int>>();
        for (std::size_t w = 0; w < steps.size(); ++w) CHECK((w == 1 ? steps[w] < 8 : steps[w] == 8));
        if (share > 0.4) CHECK(steps[1] > 0);
      }
    }
  // Whoever waits for it waits in vain.
  CHECK_THROWS_WITH(train({.workers = 3, .dies = 1, .dies_s = 1e-3}), Catch::Contains("which failed at"));
}

TEST_CASE("so do servers of bounded staleness, and none is staler", "[servers]") {
  for (const int staleness : {1, 3}) {
    const json r = check_replay({.workers = 4,
                                 .servers = 2,
                                 .steps = 8,
                                 .consistency = Consistency::stale,
                                 .staleness = staleness,
                                 .jitter = 0.7});
    // Between a pull and the push each other worker makes at most that many steps more than it would in step.
    for (const auto& [of, count] : r[3].get<std::map<int, int>>()) CHECK(of <= 3 * (2 * staleness + 1));
  }
}

TEST_CASE("no staleness at all is in step", "[servers]") {
  check_equal({.workers = 4, .servers = 2, .steps = 8, .consistency = Consistency::stale, .jitter = 0.7});
}

TEST_CASE("backup workers: the last gradients of a step are dropped", "[servers]") {
  const Setting slow{.workers = 5, .servers = 2, .steps = 8, .jitter = 0.7};
  Setting spared = slow;
  spared.backups = 2;
  const json with = check_replay(spared), without = train(slow);
  CHECK(with[4].get<int>() > 0);
  CHECK(with[5].get<double>() < without[5].get<double>());
  for (const std::uint64_t seed : {2U, 3U, 4U, 5U}) {
    spared.seed = seed;
    spared.servers = 1 + static_cast<int>(seed) % 4;
    check_replay(spared);
  }
}

TEST_CASE("workers' weights are mixed, each by its own share", "[servers]") {
  check_replay({.workers = 3,
                .servers = 2,
                .steps = 6,
                .consistency = Consistency::asynchronous,
                .jitter = 0.5,
                .lambdas = {0.5, 0.25, 0.8}});
}

TEST_CASE("keys may be cut into a part for every server, and are learned as if they were whole", "[servers]") {
  GradientBucket key;
  key.parts = {{3, 1, 7, 2}, {2, 0, 4, 0}};
  key.elements = 11;
  key.layer = 2;
  const std::vector<GradientBucket> parts = split_keys({key}, 3);
  REQUIRE(parts.size() == 3);
  const auto is = [](const GradientBucket::Part& part, int layer, int tensor, double elements, double first) {
    return part.layer == layer && part.tensor == tensor && part.elements == elements && part.first == first;
  };
  CHECK(parts[0].elements == 3);
  CHECK(is(parts[0].parts.at(0), 3, 1, 3, 2));
  CHECK(is(parts[1].parts.at(0), 3, 1, 4, 5));
  CHECK(parts[1].parts.size() == 1);
  CHECK(is(parts[2].parts.at(0), 2, 0, 4, 0));
  CHECK(parts[2].layer == 2);
  check_equal({.servers = 4, .sharding = KeySharding::split});
  check_replay({.workers = 3,
                .servers = 2,
                .steps = 4,
                .consistency = Consistency::asynchronous,
                .jitter = 0.5,
                .sharding = KeySharding::split});
}

TEST_CASE("keys are shared out in turn, or by their size", "[servers]") {
  std::vector<GradientBucket> keys(5);
  const double sizes[] = {10, 70, 20, 30, 30};
  for (std::size_t k = 0; k < keys.size(); ++k) keys[k].elements = sizes[k];
  CHECK(share_keys(keys, 2, KeySharding::round_robin) == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(share_keys(keys, 2, KeySharding::balanced) == std::vector<int>{0, 0, 1, 1, 1});
  const ServerLabel label = parse_server_label("12W3PS", nowhere());
  CHECK(label.workers == 12);
  CHECK(label.servers == 3);
  for (const char* wrong : {"8W", "W2PS", "8W2PSx", "0W1PS", "8w2ps", ""})
    CHECK_THROWS_AS(parse_server_label(wrong, nowhere()), UserError);
}

TEST_CASE("draws of stragglers do not depend on order and have the mean that they say", "[servers]") {
  Straggler s;
  const auto mean_of = [&s] {
    double sum = 0;
    for (std::uint32_t step = 0; step < 40000; ++step) sum += slowdown(s, 3, step);
    return sum / 40000;
  };
  s.kind = StragglerKind::lognormal;
  s.sigma = 0.4;
  CHECK(slowdown(s, 3, 17) == slowdown(s, 3, 17));
  CHECK(slowdown(s, 3, 17) != slowdown(s, 4, 17));
  CHECK(mean_of() == Approx(1).epsilon(0.01));
  s.kind = StragglerKind::exponential_tail;
  s.mean = 0.5;
  CHECK(mean_of() == Approx(1.5).epsilon(0.01));
  s.kind = StragglerKind::uniform;
  s.spread = 0.2;
  CHECK(mean_of() == Approx(1).epsilon(0.01));
  s.kind = StragglerKind::periodic;
  s.factor = 3;
  s.period = 4;
  s.busy = 1;
  CHECK(mean_of() == Approx(1.5));
  s.kind = StragglerKind::one_slow;
  s.slow = {false, true};
  CHECK(slowdown(s, 1, 0) == 3);
  CHECK(slowdown(s, 0, 0) == 1);
  CHECK(slowdown(s, 2, 0) == 1);
}
