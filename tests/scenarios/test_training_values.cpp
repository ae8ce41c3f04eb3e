// The timed programs of every registered mechanism can also train on numbers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scenarios/src/running/simulate.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"

namespace scenarios_test_training_values {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr int kRanks = 4, kSamples = 6, kSteps = 12;

struct NumericTraining {
  std::vector<double> losses;      ///< of all ranks together, indexed by step
  double replica_distance = 0;     ///< largest difference to the parameters of one device
  bool has_ordered_losses = true;  ///< on each rank the losses come one after the other, the last one before the end
  std::vector<std::string> hazards;
};

NumericTraining learn(const std::string& data_parallel) {
  Scenario s = read_scenario_text(fmt::format("cluster: {{nodes: 1, node: {{base: pcie-4, cpu: xeon-e5-2698-v4}}}}\n"
                                              "model: {{mlp: {{widths: [5, 7, 3, 2]}}}}\n"
                                              "plan: {{micro_batch_size: {}, precision: fp32, optimizer: sgd, steps: "
                                              "{}, collectives: messages, data_parallel: {{{}}}}}\n",
                                              kSamples, kSteps, data_parallel),
                                  "learn.yaml");
  Plan step_plan = trainyard::plan(s);
  step_plan.training.values = true;
  ClusterMachine cluster(s.cluster, s.software);
  const std::vector<PlacedMachine::PlacedActor> actors = s.plan.mechanism->actors(step_plan.training, cluster);
  PlacedMachine placed(cluster, actors);
  const TrainingStates states{s.precision, s.optimizer, s.software};
  Names names;
  const auto run = s.plan.mechanism->run({step_plan.training, cluster, states, names});
  TrainingTask task = small_task(kSamples, kRanks * kSamples);  // each step trains on all samples
  task.rule.learning_rate = 0.3;
  Values values;
  TrainingValues training(task, run->plan(), values);
  run->add_values(training);
  Machine& machine = actors.empty() ? static_cast<Machine&>(cluster) : placed;
  const Seconds end = run_programs(machine, run->programs(), {.observers = {&values}}).end;
  std::vector<double> losses(kSteps);
  bool has_ordered_losses = true;
  for (int rank = 0; rank < kRanks; ++rank)
    for (std::size_t step = 0; step < kSteps; ++step) {
      const std::vector<StepLoss>& all = training.losses(rank);
      losses[step] += all.at(step).loss;
      has_ordered_losses &=
          all[step].time.value > (step == 0 ? 0 : all[step - 1].time.value) && all[step].time.value < end.value;
    }
  const Eigen::VectorXd learned = training.parameters(training.learner()).all_parameters();
  return {losses, largest_difference(train_plainly(task, kRanks * kSamples, kSteps), learned), has_ordered_losses,
          values.hazards()};
}

}  // namespace

TEST_CASE("every mechanism learns on its own programs", "[values]") {
  const std::map<std::string, std::string> keys{
      {"delayed-updates", ", delay: 2"},
      {"local-sgd", ", local_steps: 3"},
      {"diloco", ", inner_steps: 3, outer_learning_rate: 1, outer_momentum: 0.1"},
      {"gossip", ", gossip: ring"},
      {"parameter-server", ", servers: {count: 2, on: gpu}"}};
  for (const std::string& name : mechanisms().names()) {
    CAPTURE(name);
    const NumericTraining l = learn("mechanism: " + name + (keys.contains(name) ? keys.at(name) : ""));
    CHECK(l.losses.back() < 0.9 * l.losses.front());
    CHECK(l.has_ordered_losses);
    CHECK(l.hazards.empty());
    const std::vector<std::string> synchronous{"all-reduce", "master", "central-storage", "parameter-server",
                                               "remote-embedding"};
    if (std::ranges::find(synchronous, name) != synchronous.end())
      CHECK(l.replica_distance <= 1e-12);
    else
      CHECK(l.replica_distance > 1e-6);
  }
}

TEST_CASE("every kind of parameter server learns on its own programs", "[values]") {
  for (const char* data_parallel :
       {"servers: {count: 2, on: gpu}, consistency: asynchronous", "servers: 1, consistency: stale, staleness: 2",
        "servers: {count: 2, on: gpu}, backup_workers: 1",
        "servers: 1, consistency: asynchronous, worker_weights: [0.5, 0.5, 0.5, 0.5]",
        "servers: 1, consistency: asynchronous, mixing_shares: [0.5, 0.5, 0.5, 0.5]"}) {
    CAPTURE(data_parallel);
    const NumericTraining l = learn(std::string("mechanism: parameter-server, ") + data_parallel);
    CHECK(l.losses.back() < 0.9 * l.losses.front());
    CHECK(l.has_ordered_losses);
    CHECK(l.hazards.empty());
  }
}

}  // namespace scenarios_test_training_values
