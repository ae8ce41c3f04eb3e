// A further way for replicas to keep together is one class, registered by its name.
#include "sim/observers/traffic.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/step/data_parallel.hpp"
#include "strategies/step/rank_updates.hpp"
#include "strategies/step/training_program.hpp"
#include "tests/places.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/star_cluster.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Replicas sum their gradients in every second step; in the others each updates alone.
class EverySecondStep : public UpdatePolicy {
 public:
  bool sums_gradients(int step) const override { return step % 2 == 1; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankUpdates>(parts);
  }
};

std::shared_ptr<const UpdatePolicy> every_second_step(const ReplicaUpdates&) {
  return std::make_shared<EverySecondStep>();
}

TRAINYARD_UPDATE_POLICY("every-second-step", every_second_step);

/// [bytes over all links, seconds]
json traffic_of(const char* policy, int steps) {
  return simulate_in_child([&] {
    const int ranks = 4;
    const NumericTask task = small_task(120, steps);
    const Network network = mlp_network(task.shape, task.global_batch / ranks, Precision::fp32);
    DataParallelPlan data;
    data.ranks = ranks;
    data.steps = steps;
    data.all_reduce = &collectives(Operation::all_reduce).find("ring", nowhere());
    data.gradient_element = Bytes{4};
    data.buckets = gradient_buckets(network, data.gradient_element, Bytes{40}, Bytes{40}, true);
    data.optimizer.precision = static_cast<std::uint8_t>(Precision::fp32);
    TrainingPlan plan = training_plan(network, data);
    plan.updates = update_policies().find(policy, nowhere())({});
    ClusterMachine machine(star_cluster(ranks, BytesPerSecond{1e6}, {1000000}), SoftwareStack{});
    Names names;
    const PassTables tables(plan, names);
    const TrainingStreams streams(plan);
    Traffic traffic(machine.links());
    Simulation simulation(machine);
    for (int rank = 0; rank < ranks; ++rank) simulation.add(rank, training_program(rank, plan, tables, streams));
    simulation.observe(traffic);
    const Seconds end = simulation.run().end;
    return json{traffic.total().value, end.value};
  });
}

}  // namespace

TEST_CASE("gradients that are summed every second step take half the traffic", "[replicas]") {
  const json always = traffic_of("all-reduce", 6), every_second = traffic_of("every-second-step", 6);
  CHECK(every_second[0].get<double>() == Approx(always[0].get<double>() / 2));
  CHECK(every_second[1] < always[1]);
  CHECK(traffic_of("every-second-step", 1)[0] == 0);
}

TEST_CASE("buffers of a training are numbered without overlap, and checked", "[training]") {
  for (int kind = 0; kind < kBufferKinds; ++kind) {
    const auto k = static_cast<TrainingBuffer::Kind>(kind);
    for (const std::size_t index : {std::size_t{0}, count_of(k) - 1}) {
      const TrainingBuffer back = training_buffer(number_of({k, index}));
      CHECK(back.kind == k);
      CHECK(back.index == index);
    }
    CHECK_THROWS_AS(number_of({k, count_of(k)}), InternalError);
  }
  CHECK_THROWS_AS(training_buffer(kScratch), InternalError);
}

TEST_CASE("what a call is about survives its packing", "[training]") {
  const CallArguments packed = arguments_of(effect_of(TrainingCall::backward, {7, 65535, kEndOfPass, 1030}));
  CHECK(packed.index == 7);
  CHECK(packed.micro_batch == 65535);
  CHECK(packed.exchange == kEndOfPass);
  CHECK(packed.buffer == 1030);
  CHECK_THROWS_AS(effect_of(TrainingCall::forward, {70000}), InternalError);
  CHECK_THROWS_AS(effect_of(TrainingCall::forward, {0, -1}), InternalError);
}
