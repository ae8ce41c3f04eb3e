#include "tests/seeds/simple_training.hpp"

#include <fmt/format.h>

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

DataParallelPlan simple_plan(const Network& network, int ranks, const std::string& all_reduce, bool overlap) {
  DataParallelPlan plan;
  plan.ranks = ranks;
  plan.all_reduce = &collectives(Operation::all_reduce).find(all_reduce, seed_place());
  plan.gradient_element = Bytes{4};
  plan.buckets = gradient_buckets(network, plan.gradient_element, Bytes{1}, Bytes{1}, true);
  plan.overlap = overlap;
  return plan;
}

void send_nothing(DataParallelPlan& plan) {
  for (GradientBucket& bucket : plan.buckets) bucket.elements = 0;
}

}  // namespace trainyard
