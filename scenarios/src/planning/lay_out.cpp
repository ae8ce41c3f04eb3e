#include "scenarios/src/planning/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/planning/layer_times.hpp"
#include "scenarios/src/planning/offload.hpp"
#include "scenarios/src/planning/step_counts.hpp"
#include "strategies/collectives/dispatcher_model.hpp"
#include "strategies/collectives/library_model.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/gradient_shape.hpp"
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/forward_only.hpp"

namespace trainyard {
namespace {

/// A network of which all blocks are recomputed, with those alone left so that begin a virtual stage, as many as the plan
/// says; `stages`: the layers of each virtual stage. The others keep their activations, but for the parts that
/// `Sharding::remade` names. Throws UserError where a stage has fewer.
std::shared_ptr<const Network> recomputed_in_part(const Network& all, const Scenario& s,
                                                  const std::vector<std::vector<int>>& stages) {
  Sharding kept = s.plan.sharding;
  kept.recompute = Recompute::none;
  auto network =
      std::make_shared<Network>(network_of(s.model, s.micro_batch_size, s.precision, kept, s.plan.ends_apart()));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    int left = s.plan.recomputed_blocks;
    for (const int number : stages[stage]) {
      const Layer& again = all.layers[static_cast<std::size_t>(number)];
      if (left == 0 || !again.recomputes_all) continue;
      network->layers[static_cast<std::size_t>(number)] = again;
      --left;
    }
    if (left > 0)
      fail(s.plan.recomputed_place, fmt::format("plan.recompute.full: {} blocks a stage, but virtual stage {} has {}",
                                                s.plan.recomputed_blocks, stage, s.plan.recomputed_blocks - left));
  }
  return network;
}

constexpr std::size_t kMostBuckets = kScratch;  // BufferRef::buffer numbers them

[[noreturn]] void refuse_buckets(const Scenario& s, double count) {
  fail(s.plan.bucket_place,
       fmt::format("plan.data_parallel.bucket: {:.6g} gradient buckets; at most {}", count, kMostBuckets));
}

/// The mesh, and what a step is.
TrainingPlan mesh_of(const Scenario& s, std::shared_ptr<const Network> share) {
  const PlanChoice& choice = s.plan;
  TrainingPlan plan;
  static_cast<StepOptions&>(plan) = choice;
  plan.network = std::move(share);
  plan.micro_batches = s.micro_batches();
  plan.pipeline = {choice.mesh.pipeline, plan.micro_batches, choice.chunks, choice.pairs_passes};
  if (choice.mesh.pipeline > 1 || choice.chunks > 1)
    plan.schedule = &find_pipeline_schedule(choice.schedule, plan.pipeline, choice.schedule_place);
  plan.tied = choice.ends_apart() && ties_head(s.model) && !s.model.options.adapters.any();
  plan.fuses_kernels = detail_of(choice).fuses_kernels;
  return plan;
}

/// What the framework does besides kernels and messages.
void add_software(TrainingPlan& plan, const Scenario& s) {
  const SoftwareStack& stack = s.software;
  plan.gradient_element = gradient_size(s.precision, stack);
  plan.parameter_element = element_size(s.fp8 ? Precision::fp8 : s.precision);
  plan.accumulation = gradient_accumulation_work(1, s.precision, stack);
  plan.bucket_copy = stack.gradient_bucket_copy && plan.ranks() > 1;  // one device has no buckets
  plan.host_buckets = stack.host_buckets;
  plan.copy_kernel = kBucketCopy;
  plan.wait_kernel = stack.cycle_time.value > 0 ? kCycleWait : std::uint16_t{0};
  plan.overhead_kernel = stack.step_overhead.value > 0 ? kStepOverhead : std::uint16_t{0};
  plan.collective_launch = stack.collective_launch;
  if (s.fp8 && stack.fp8_scaling == Fp8Scaling::delayed && !s.plan.inference)
    plan.agree_on_maxima = stack.fp8_maxima_of_stage ? AgreeOnMaxima::ranks_of_stage : AgreeOnMaxima::tensor_ranks;
  if (stack.host.micro_batch.value > 0) plan.micro_batch_kernel = kMicroBatchHost;
  if (stack.host.waits_for_messages) plan.kernel_after_message = kHostWaits;
}

/// A schedule that puts the weights' gradients off keeps activations on the GPU between its two backward passes.
void refuse_split_backward(const Scenario& s, const TrainingPlan& plan) {
  if (!plan.offload.activations.used()) return;
  for (const StagePlan& stage : plan.stages)
    for (const PipelineTask& task : stage.tasks)
      if (task.pass == PipelineTask::Pass::backward_input)
        fail(s.plan.offload.activations_place,
             fmt::format("plan.activation_offload: not modelled with {}, which computes the weights' gradients later; "
                         "nearest is plan.pipeline.schedule: 1f1b",
                         plan.schedule->name));
}

/// Layers, tasks and buckets of each stage.
void divide(TrainingPlan& plan, const Scenario& s) {
  const BucketChoice& buckets = s.plan.buckets;
  // Cut tensors can make as many buckets as there are bytes: counted before they are made.
  const bool cuts = !buckets.whole_tensors && plan.zero != ZeroStage::parameters;
  const double count = cuts ? plan.network->parameters() * plan.gradient_element.value / buckets.rest.value : 0;
  if (count > static_cast<double>(kMostBuckets) * plan.mesh.pipeline) refuse_buckets(s, count);
  const std::vector<std::vector<int>> stages = divide_layers(plan, s);
  if (s.plan.recomputed_blocks > 0) plan.network = recomputed_in_part(*plan.network, s, stages);
  plan.offload.activations = activation_offload(s, *plan.network, stages);
  divide(plan, stages, buckets);
  refuse_split_backward(s, plan);
  if (!s.plan.pairs_place.file || !s.plan.pairs_passes || plan.micro_batches == 1) return;
  const std::vector<PipelineTask>& tasks = plan.stages.back().tasks;
  if (std::none_of(tasks.begin(), tasks.end(), [](const PipelineTask& task) { return task.beside_next; }))
    fail(s.plan.pairs_place,
         fmt::format("plan.expert_parallel.overlap: {} of {} micro-batches has no forward and backward pass side by "
                     "side; expected more micro-batches, or overlap: false",
                     plan.schedule->name, plan.micro_batches));
}

/// ZeRO stage 2: copies of whole buckets, though of all gradients a share is kept.
Bytes copied_buckets(const TrainingPlan& plan, const StagePlan& stage) {
  double largest = 0, all = 0;
  for (const GradientBucket& bucket : stage.buckets) {
    all += bucket.elements;
    largest = std::max(largest, bucket.elements);
  }
  return plan.gradient_element *
         std::min(all, largest * static_cast<double>(BucketCopies::at_once(plan.overlap_gradients)));
}

/// What each stage holds, and its optimizer's work.
void add_memory(TrainingPlan& plan, const Scenario& s) {
  const ZeroShares dense = zero_shares(plan.zero, static_cast<double>(zero_group(plan, 0, false).size())),
                   experts = zero_shares(plan.zero, static_cast<double>(zero_group(plan, 0, true).size()));
  SoftwareStack stack = s.software;
  stack.gradient_bucket_copy = plan.bucket_copy && !plan.host_buckets && !s.plan.inference;
  const bool buckets_pass = stack.gradient_bucket_copy && plan.zero == ZeroStage::gradients && !plan.offload.used();
  stack.gradient_bucket_copy = stack.gradient_bucket_copy && !buckets_pass;
  for (StagePlan& of : plan.stages) {
    std::vector<const Layer*> layers;
    for (const std::vector<int>& chunk : of.chunks)
      for (const int layer : chunk) layers.push_back(&plan.network->layers[layer]);
    HeldElements held = held_elements(layers, dense, experts);
    if (s.plan.inference) held = {held.parameters, 0, 0};
    std::vector<double> own;
    for (const GradientBucket& bucket : of.buckets)
      own.push_back(bucket.elements / (bucket.experts ? experts : dense).optimizer);
    hold_on_host(plan, of, held, own);
    hold_activations_on_host(plan, of);
    of.optimizer = optimizer_work(held.optimizer, s.precision, s.optimizer, s.software);
    of.memory = static_memory(held_on_gpu(plan, held), s.precision, s.optimizer, stack);
    if (buckets_pass) {
      const Bytes copies = copied_buckets(plan, of);
      of.memory.parts.push_back({"gradient buckets", MemoryClass::buffers, copies});
      of.memory.buffers += copies;
    }
    if (!detail_of(s.plan).books_library_buffers) continue;
    const bool last = layers.back() == &plan.network->layers.back(),
               sends = layers.front() != &plan.network->layers.front();
    const Bytes sent = sends ? (layers.front() - 1)->output : Bytes{};
    add_library_buffers(of.memory, *plan.network, layers, last, sent, stack);
  }
}

/// The all-reduce that the scenario names, or the fastest for buckets of the mean size.
void choose_all_reduce(Plan& plan, const Scenario& s) {
  plan.all_reduce = s.plan.all_reduce;
  if (plan.all_reduce.algorithm) return;
  plan.all_reduce.algorithm = &default_collective(Operation::all_reduce);
  if (s.plan.replicas() == 1) return;
  const StagePlan& stage = plan.training.stages.front();
  double elements = 0;
  for (const GradientBucket& bucket : stage.buckets) elements += bucket.elements;
  const Bytes mean =
      elements / static_cast<double>(std::max<std::size_t>(1, stage.buckets.size())) * plan.training.gradient_element;
  plan.tuned =
      tune(Operation::all_reduce, mean, s.cluster, s.plan.replicas(), plan.all_reduce.settings, s.software, false);
  plan.all_reduce.algorithm = plan.tuned->best().algorithm;
  plan.all_reduce.settings.channels = plan.tuned->best().channels;
}

/// How the groups of a plan communicate; where they are modelled, as the cluster's library does.
void choose_lanes(Plan& plan, const Scenario& s) {
  TrainingPlan& training = plan.training;
  LaneChoice gradients, others;
  gradients.settings = plan.all_reduce.settings;
  gradients[Operation::all_reduce] = plan.all_reduce.algorithm;
  if (s.plan.compression) {
    for (const Operation o : {Operation::all_gather, Operation::all_to_all}) gradients[o] = &default_collective(o);
    if (s.plan.compression->by_messages())
      gradients[Operation::all_reduce] = &collectives(Operation::all_reduce).find("sparse-ring", {});
  }
  if (training.zero != ZeroStage::none)
    gradients[Operation::reduce_scatter] = &default_collective(Operation::reduce_scatter);
  for (const Operation o : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                            Operation::all_to_all, Operation::send_recv})
    others[o] = &default_collective(o);
  others.settings.fidelity = s.plan.fidelity;
  const bool modelled =
      gradients.settings.fidelity == Fidelity::modelled || others.settings.fidelity == Fidelity::modelled;
  if (modelled && training.ranks() > 1)
    gradients.settings.model = others.settings.model =
        s.plan.library ? s.plan.library : library_model(s.cluster, s.software.nccl_choice).model;
  others.settings.slowdown = s.software.slowdowns.exchanges;
  if (const ExpertDispatcher& dispatcher = s.plan.dispatcher; !dispatcher.name.empty()) {
    if (others.settings.fidelity != Fidelity::modelled)
      fail(s.plan.dispatcher_place,
           fmt::format("plan.expert_parallel.dispatcher: {} is known by its rates alone; expected plan.collectives: "
                       "modelled",
                       dispatcher.name));
    others.dispatcher = dispatcher_model(dispatcher, training.network->routing, s.cluster, others.settings.model,
                                         s.plan.dispatcher_place);
  }
  std::vector<int> nodes;
  for (int rank = 0; rank < training.ranks(); ++rank) nodes.push_back(s.cluster.node_of_gpu(rank));
  make_lanes(training, nodes, gradients, others, s.plan.all_reduce.place.file ? s.plan.all_reduce.place : s.plan.place);
}

/// Warm-ups are over in the steps that are looked at.
void add_compression(TrainingPlan& plan, const Scenario& s) {
  const Compressor& compressor = *s.plan.compression;
  plan.compression = s.plan.compression;
  plan.first_step = compressor.warm_up_stages() * compressor.warm_up_steps();
  GradientShape whole = gradient_shape(plan, {});
  for (const StagePlan& stage : plan.stages)
    for (const GradientBucket& bucket : stage.buckets) {
      const GradientShape shape = gradient_shape(plan, bucket);
      whole.parts.insert(whole.parts.end(), shape.parts.begin(), shape.parts.end());
    }
  if (const std::string why = compressor.refuses(whole); !why.empty())
    fail(s.plan.compression_place, fmt::format("plan.data_parallel.compression: {}: {}", compressor.summary(), why));
  add_compression_memory(plan);
}

/// A step alone, of one micro-batch: every kernel, the update and the host's work.
Seconds modelled_step(const Scenario& s, const Work& optimizer) {
  Seconds sum = rank_time(s.cluster.node, s.software, optimizer) + s.software.step_overhead;
  for (const Layer& layer : s.network.layers) sum += layer_time(layer, s.cluster.node, s.software);
  return sum;
}

}  // namespace

std::shared_ptr<const Network> share_of_rank(const Scenario& s) {
  if (!s.plan.splits_model()) return std::make_shared<const Network>(s.network);
  const auto share = [&s](int data, const Sharding& sharding) {
    return network_of(s.model, s.micro_batch_size / data, s.precision, sharding, s.plan.ends_apart());
  };
  if (s.plan.mesh.widths.empty()) return std::make_shared<const Network>(share(1, s.plan.sharding));
  auto network = std::make_shared<Network>(share(1, {}));
  const std::vector<std::vector<int>> layers = divide_layers(*network, s.plan);
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const Network own = share(s.plan.mesh.widths[stage].data, s.plan.stage_shardings[stage]);
    for (const int layer : layers[stage])
      network->layers[static_cast<std::size_t>(layer)] = own.layers[static_cast<std::size_t>(layer)];
  }
  return network;
}

TrainingPlan lay_out_stages(const Scenario& s, std::shared_ptr<const Network> share) {
  TrainingPlan training = mesh_of(s, std::move(share));
  add_software(training, s);
  training.offload = offload_plan(s, training);
  divide(training, s);
  add_memory(training, s);
  return training;
}

Plan plan(const Scenario& s) { return plan(s, share_of_rank(s)); }

Plan plan(const Scenario& s, std::shared_ptr<const Network> share) {
  Plan plan;
  TrainingPlan& training = plan.training;
  training = lay_out_stages(s, std::move(share));
  choose_all_reduce(plan, s);
  choose_lanes(plan, s);
  if (s.plan.inference) make_forward_only(training);
  if (s.plan.compression) add_compression(training, s);
  s.plan.mechanism->lay_out(training, {s.precision, s.optimizer, s.software});
  for (const StagePlan& stage : training.stages)
    if (stage.buckets.size() > kMostBuckets) refuse_buckets(s, static_cast<double>(stage.buckets.size()));
  // Each part of the step keeps its share: gradients get ready one after the other, as they do by the model.
  if (s.measured.given())
    plan.compute_scale = s.measured.at(s.micro_batch_size) / modelled_step(s, training.stages.front().optimizer);
  choose_steps(plan, s);
  return plan;
}

std::string all_reduce_name(const CollectiveChoice& choice) {
  return choice.settings.fidelity == Fidelity::modelled ? "NCCL" : choice.algorithm ? choice.algorithm->name : "auto";
}

}  // namespace trainyard
