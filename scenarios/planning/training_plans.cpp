#include "scenarios/planning/training_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/planning/library_model.hpp"
#include "scenarios/planning/offload.hpp"
#include "scenarios/reading/read_collective.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

/// What each stage holds, and its optimizer's work.
void add_memory(TrainingPlan& plan, const Scenario& s) {
  const auto shares = [&plan](bool experts) {
    return zero_shares(plan.zero, static_cast<double>(zero_group(plan, 0, experts).size()));
  };
  for (StagePlan& of : plan.stages) {
    std::vector<const Layer*> layers;
    for (const std::vector<int>& chunk : of.chunks)
      for (const int layer : chunk) layers.push_back(&plan.network->layers[static_cast<std::size_t>(layer)]);
    const HeldElements held = held_elements(layers, shares(false), shares(true));
    std::vector<double> own;
    for (const GradientBucket& bucket : of.buckets) own.push_back(bucket.elements / shares(bucket.experts).optimizer);
    hold_on_host(plan, of, held, own);
    of.optimizer = optimizer_work(held.optimizer, s.precision, s.optimizer, s.software);
    SoftwareStack stack = s.software;
    stack.gradient_bucket_copy = s.plan.bucket_copy && !s.plan.host_buckets;
    of.memory = static_memory(held_on_gpu(plan, held), s.precision, s.optimizer, stack);
    const bool last = layers.back() == &plan.network->layers.back(),
               sends = layers.front() != &plan.network->layers.front();
    const Bytes sent = sends ? (layers.front() - 1)->output : Bytes{};
    add_library_buffers(of.memory, *plan.network, layers, last, sent, stack);
  }
}

std::vector<int> nodes_of_ranks(const ClusterSpec& cluster, int ranks) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(cluster.node_of_gpu(rank));
  return nodes;
}

/// How the groups of a plan communicate; where they are modelled, as the cluster's library does.
void choose_lanes(TrainingPlan& plan, const Scenario& s, const ClusterSpec& cluster) {
  LaneChoice gradients, others;
  gradients.settings = s.plan.collective;
  const auto defaults = [](LaneChoice& choice) {
    for (const Operation o : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                              Operation::all_to_all, Operation::send_recv})
      choice.algorithms[static_cast<std::size_t>(o)] = default_algorithm(o);
  };
  defaults(gradients);
  defaults(others);
  if (s.plan.all_reduce)
    gradients.algorithms[static_cast<std::size_t>(Operation::all_reduce)] = s.plan.all_reduce->name;
  others.settings.fidelity = s.parallel.fidelity;
  if (gradients.settings.fidelity == Fidelity::modelled || others.settings.fidelity == Fidelity::modelled)
    gradients.settings.model = others.settings.model = library_model(cluster).model;
  make_lanes(plan, nodes_of_ranks(cluster, plan.ranks()), gradients, others, s.parallel.place);
}

}  // namespace

TrainingPlan plan_of_mesh(const Scenario& s, const BucketChoice& buckets) {
  const ParallelChoice& choice = s.parallel;
  TrainingPlan plan;
  plan.network = &s.share;
  plan.mesh = choice.mesh;
  plan.sharding = choice.sharding;
  plan.micro_batches = s.plan.micro_batches;
  plan.steps = s.plan.steps;
  plan.pipeline = {choice.mesh.pipeline, s.plan.micro_batches, choice.chunks};
  if (choice.mesh.pipeline > 1 || choice.chunks > 1)
    plan.schedule = &find_pipeline_schedule(choice.schedule, plan.pipeline, choice.schedule_place);
  plan.zero = choice.zero;
  plan.zero_group = choice.zero_group;
  plan.prefetch = choice.prefetch;
  plan.reshard = choice.reshard;
  plan.tied = s.tied;
  plan.overlap_gradients = s.plan.overlap;
  plan.overlap_parameters = choice.overlap_parameters;
  plan.overlap_pipeline = choice.overlap_pipeline;
  plan.scatter_gather = choice.scatter_gather;
  plan.gradient_element = s.plan.gradient_element;
  plan.parameter_element = element_size(s.precision);
  plan.accumulation = s.plan.accumulation;
  plan.bucket_copy = s.plan.bucket_copy;
  plan.host_buckets = s.plan.host_buckets;
  plan.copy_kernel = s.plan.copy_kernel;
  plan.overhead_kernel = s.plan.overhead_kernel;
  plan.wait_kernel = s.plan.wait_kernel;
  plan.offload = offload_plan(s);
  divide(plan, divide_layers(*plan.network, s.parallel), buckets);
  add_memory(plan, s);
  return plan;
}

TrainingPlan prepared_plan(const Scenario& s, const ClusterSpec& cluster, const SoftwareStack& stack) {
  TrainingPlan plan;
  if (s.parallel.any()) {
    plan = s.mesh_plan;
    plan.network = &s.share;
    choose_lanes(plan, s, cluster);
  } else {
    DataParallelPlan data = s.plan;
    if (data.collective.model) {
      data.collective.model = library_model(cluster).model;
      std::vector<Actor> members(static_cast<std::size_t>(data.ranks));
      std::iota(members.begin(), members.end(), 0);
      data.collective.flow = std::make_shared<GroupFlow>(modelled_flow(data.collective, members));
    }
    plan = training_plan(s.network, data);
  }
  plan.collective_launch = stack.collective_launch;
  return plan;
}

TrainingPlan prepared_plan(const Scenario& s) { return prepared_plan(s, s.cluster, s.software); }

}  // namespace trainyard
