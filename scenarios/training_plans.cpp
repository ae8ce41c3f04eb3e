#include "scenarios/training_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/library_model.hpp"
#include "scenarios/offload.hpp"
#include "scenarios/read_collective.hpp"
#include "strategies/collective_flows.hpp"

namespace trainyard {
namespace {

ZeroShares zero_shares(const TrainingPlan& plan, bool experts) {
  const auto shares = static_cast<double>(zero_group(plan, 0, experts).size());
  const auto from = [&](ZeroStage stage) { return plan.zero >= stage ? shares : 1; };
  return {from(ZeroStage::parameters), from(ZeroStage::gradients), from(ZeroStage::optimizer)};
}

/// The bucket with a weight that lies on another stage too waits for that one's gradient.
void mark_tied(const TrainingPlan& plan, int stage, std::vector<GradientBucket>& buckets) {
  if (!plan.tied) return;
  const int last = static_cast<int>(plan.network->layers.size()) - 1;
  for (GradientBucket& bucket : buckets)
    for (const GradientBucket::Part& part : bucket.parts) {
      const std::string& name = plan.network->layers[static_cast<std::size_t>(part.layer)]
                                    .parameters[static_cast<std::size_t>(part.tensor)]
                                    .name;
      if ((stage == 0 && part.layer == 0 && part.tensor == 0) || (part.layer == last && name == "output.weight"))
        bucket.late = true;
    }
}

std::vector<GradientBucket> buckets_of(const TrainingPlan& plan, const std::vector<std::vector<int>>& chunks,
                                       const BucketChoice& choice) {
  std::vector<int> layers;
  for (const std::vector<int>& chunk : chunks) layers.insert(layers.end(), chunk.begin(), chunk.end());
  std::sort(layers.begin(), layers.end());
  if (plan.zero == ZeroStage::parameters) return layer_buckets(*plan.network, layers);
  return gradient_buckets(*plan.network, layers, plan.gradient_element, choice.first, choice.rest,
                          choice.whole_tensors);
}

void divide(TrainingPlan& plan, const Scenario& s, const BucketChoice& buckets) {
  const std::vector<std::vector<int>> parts = divide_layers(*plan.network, s.parallel);
  for (int stage = 0; stage < plan.mesh.pipeline; ++stage) {
    StagePlan& of = plan.stages.emplace_back();
    of.chunks.resize(static_cast<std::size_t>(s.parallel.chunks));
  }
  for (int v = 0; v < static_cast<int>(parts.size()); ++v) {
    const PipelinePlace at = plan.schedule ? plan.schedule->place_of(v, plan.pipeline) : PipelinePlace{};
    plan.stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.chunk)] =
        parts[static_cast<std::size_t>(v)];
  }
  for (int stage = 0; stage < plan.mesh.pipeline; ++stage) {
    StagePlan& of = plan.stages[static_cast<std::size_t>(stage)];
    of.tasks = plan.schedule ? plan.schedule->tasks(stage, plan.pipeline) : one_stage_tasks(plan.micro_batches);
    of.buckets = buckets_of(plan, of.chunks, buckets);
    mark_tied(plan, stage, of.buckets);
    std::vector<const Layer*> layers;
    for (const std::vector<int>& chunk : of.chunks)
      for (const int layer : chunk) layers.push_back(&plan.network->layers[static_cast<std::size_t>(layer)]);
    const HeldElements held = held_elements(layers, zero_shares(plan, false), zero_shares(plan, true));
    std::vector<double> own;
    for (const GradientBucket& bucket : of.buckets)
      own.push_back(bucket.elements / (bucket.experts ? zero_shares(plan, true) : zero_shares(plan, false)).optimizer);
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
  divide(plan, s, buckets);
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
