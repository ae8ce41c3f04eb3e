#include "scenarios/planning/size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

// The critical path keeps about 90 bytes an operation: 9 GB.
constexpr double kMostOperations = 100e6;
// Routes keep 25 bytes a device for each rank that sends: 8 GB.
constexpr double kMostRanksTimesDevices = 320e6;
// Beyond, the clock (in doubles) no longer tells microseconds apart.
constexpr Seconds kLongest{1e7};

/// Operations of one rank in one all-reduce, of a bucket of mean size.
double collective_operations(const DataParallelPlan& plan, int rank) {
  const GroupPlace place{rank, plan.ranks, &plan.collective};
  const std::vector<int> peers = peers_of(*plan.all_reduce, place);
  double elements = 0;
  for (const GradientBucket& bucket : plan.buckets) elements += bucket.elements;
  const Bytes size = plan.gradient_element * (elements / std::max<double>(1, static_cast<double>(plan.buckets.size())));
  Emitter out;
  const CollectiveCall call;
  Ops ops = collective_ops(*plan.all_reduce, Local(out, place, peers, call, size), size);
  double count = 0;
  for (const Op* op = nullptr; ops.next(op) == Pull::op;) ++count;
  return count;
}

/// Kernels of all micro-batches; from the second on, gradients are added to those before.
double kernels_of(const Scenario& s) {
  double kernels = 0, accumulations = 0;
  for (const Layer& layer : s.network.layers) {
    kernels += static_cast<double>(layer.forward.size() + layer.backward.size());
    for (const BackwardKernel& kernel : layer.backward) accumulations += kernel.gradients_ready.empty() ? 0 : 1;
  }
  return s.plan.micro_batches * kernels + (s.plan.micro_batches - 1) * accumulations;
}

/// A bound from above for slow parts: every kernel, and every gradient over the slowest wire to one master.
Seconds longest_step(const Scenario& s, const NodeType& node) {
  Seconds kernels;
  for (const Layer& layer : s.network.layers) {
    for (const KernelCall& call : layer.forward) kernels += kernel_time(node.gpu, call.work);
    for (const BackwardKernel& call : layer.backward) kernels += kernel_time(node.gpu, call.work);
  }
  Seconds time = (kernels * s.plan.micro_batches + kernel_time(node.gpu, s.plan.optimizer)) / node.gpu_speed;
  if (s.measured.given()) time = s.measured.at(s.micro_batch_size) * s.plan.micro_batches;
  if (s.plan.ranks == 1 && !s.parallel.offload.used()) return time;
  BytesPerSecond slowest{HUGE_VAL};
  const auto slower = [&slowest](BytesPerSecond rate) {
    if (rate.value > 0) slowest = std::min(slowest, rate);
  };
  slower(node.pcie_rate);
  slower(node.gpu.nvlink);
  slower(node.cpu.copy_rate / std::max(1, node.network.copies));
  slower(node.cpu.memory_bandwidth);
  for (const GraphWire& wire : node.wires) slower(wire.rate);
  if (s.cluster.nodes > 1) slower(node.hca_rate);
  if (s.cluster.fabric) slower(s.cluster.fabric->slowest_stated_link());
  if (s.parallel.offload.drives()) {
    slower(node.nvme.read);
    slower(node.nvme.write);
  }
  // Of what is offloaded, states go to and fro, and copies with each micro-batch.
  const OffloadPlan& offload = s.mesh_plan.offload;
  const Bytes moved = s.parallel.offload.used()
                          ? offload.update + offload.states * 2 +
                                (s.plan.gradient_element * 4 + s.mesh_plan.parameter_element * 2) * s.plan.micro_batches
                          : Bytes{};
  return time + s.network.parameters() * (s.plan.gradient_element * 2 + moved) * s.plan.ranks / slowest;
}

/// Of a mesh. fused: kernels between two exchanges are one operation.
double operations_of_mesh(const Scenario& s, bool fused) {
  double operations = 0;
  for (const StagePlan& stage : s.mesh_plan.stages)
    for (const PipelineTask& task : stage.tasks)
      for (const int number : stage.chunks[static_cast<std::size_t>(task.chunk)]) {
        const Layer& layer = s.share.layers[static_cast<std::size_t>(number)];
        const bool forward = task.pass == PipelineTask::Pass::forward;
        operations +=
            2 + 2 * static_cast<double>((forward ? layer.forward_exchanges : layer.backward_exchanges).size());
        if (!fused) operations += static_cast<double>(forward ? layer.forward.size() : layer.backward.size());
      }
  return operations * s.plan.ranks / s.parallel.mesh.pipeline;
}

double operations_of_step(const Scenario& s, bool fused) {
  if (s.parallel.any()) return operations_of_mesh(s, fused);
  const double ranks = s.plan.ranks;
  const double computing = ranks * kernels_of(s);
  if (s.parallel.mechanism != Mechanism::all_reduce)  // each replica's messages have two ends, and a sum
    return computing + (6.0 * static_cast<double>(s.plan.buckets.size()) + 8) * ranks * s.plan.micro_batches;
  if (s.plan.ranks == 1) return computing;
  if (s.plan.updates.gossip)  // a message to and one from each neighbour, and the sum
    return computing + ranks * (2.0 * s.plan.updates.gossip->most_neighbours() + 6);
  const double first = collective_operations(s.plan, 0), last = collective_operations(s.plan, s.plan.ranks - 1);
  return computing + static_cast<double>(s.plan.buckets.size()) * (first + (ranks - 1) * last + 2 * ranks);
}

}  // namespace

double estimated_operations(const Scenario& s, bool fused) {
  return (s.plan.steps + s.warm_steps) * operations_of_step(s, fused);
}

void require_simulable(const Scenario& s) {
  if (s.said_step.time.value > 0)
    throw UserError("plan.step_time: the step is said, and not simulated; leave it out to see inside");
  double devices = 0;
  for (const NodeType* type : s.cluster.types())
    devices = std::max(devices, s.cluster.nodes * (2.0 * std::max(type->gpus, type->hcas) + type->hcas + 2));
  if (devices * s.plan.ranks > kMostRanksTimesDevices)
    fail(s.cluster.place,
         fmt::format("{} ranks on {} GPUs are too many to simulate one by one", s.plan.ranks, s.cluster.gpus()));
  const double operations = estimated_operations(s, true);
  const std::string what = s.plan.steps == 1 ? "a step" : fmt::format("{} steps", s.plan.steps);
  if (operations > kMostOperations)
    fail(s.cluster.place,
         fmt::format("{} of about {:.3g} operations; at most {:.3g} are simulated (fewer ranks, steps or "
                     "micro-batches, or larger buckets)",
                     what, operations, kMostOperations));
  Seconds longest;
  for (const NodeType* type : s.cluster.types()) longest = std::max(longest, longest_step(s, *type) * s.plan.steps);
  if (!(longest <= kLongest))
    fail(s.cluster.place,
         fmt::format("{} of up to {:.3g} s; at most {:.3g} s are simulated", what, longest.value, kLongest.value));
}

}  // namespace trainyard
