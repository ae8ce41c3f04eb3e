#include "tests/seeds/simple_training.hpp"

#include <fmt/format.h>

#include "sim/executor/simulation.hpp"
#include "sim/observers/breakdown.hpp"
#include "tests/all_reduce_by.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

Work milliseconds(double ms) { return flops_work(Flops{ms * 1e9}, Precision::fp32); }  // 1e12 FLOP/s

Network simple_layers(int layers, double elements, const Work& backward, const Work& forward, Precision precision) {
  Network network;
  network.name = "layers";
  network.precision = precision;
  for (int i = 0; i < layers; ++i) {
    Layer& layer = network.layers.emplace_back();
    layer.name = fmt::format("layer {}", i);
    layer.parameters.push_back({"weight", elements});
    if (forward.flops.value > 0) layer.forward.push_back({"forward", forward});
    BackwardKernel& kernel = layer.backward.emplace_back();
    kernel.name = "backward";
    kernel.work = backward;
    kernel.gradients_ready = {0};
  }
  return network;
}

TrainingPlan simple_plan(const Network& network, int ranks, const std::string& all_reduce, bool overlap) {
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), ranks);
  plan.stages.front().buckets = gradient_buckets(network, plan.gradient_element, Bytes{1}, Bytes{1}, true);
  plan.overlap_gradients = overlap;
  test::all_reduce_by(plan, all_reduce);
  return plan;
}

void send_nothing(TrainingPlan& plan) {
  for (GradientBucket& bucket : plan.stages.front().buckets) bucket.elements = 0;
}

StepTimes data_parallel_time(const TrainingPlan& plan, BytesPerSecond link) {
  Names names;
  ClusterMachine machine(star_cluster(plan.ranks(), link), SoftwareStack{});
  const TrainingPrograms programs(plan, names);
  Breakdown breakdown(names);
  Simulation simulation(machine);
  simulation.add(programs.programs());
  simulation.observe(breakdown);
  const double end = simulation.run().end.value;
  return {end, breakdown.parts().exposed.at("all-reduce").value};
}

}  // namespace trainyard
