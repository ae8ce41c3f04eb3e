#include "scenarios/src/planning/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/planning/offload.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/post_training/engine_costs.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/collectives/dispatcher_model.hpp"
#include "strategies/collectives/library_model.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/gradient_shape.hpp"
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/forward_only.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Returns a network in which only the first blocks of each virtual stage are recomputed, as many as the plan says. The
/// other blocks keep their activations, except for the parts that `Sharding::remade` names. `all`: the network with all
/// blocks recomputed. `stages`: layers of each virtual stage. Throws UserError if a stage has fewer blocks.
std::shared_ptr<const Network> recomputed_in_part(const Network& all, const Scenario& s, Sharding sharding,
                                                  const std::vector<std::vector<int>>& stages) {
  sharding.recompute = Recompute::none;
  auto network =
      std::make_shared<Network>(network_of(s.model, s.micro_batch_size, s.precision, sharding, s.plan.ends_apart()));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    int rest = s.plan.recomputed_blocks;
    for (const int number : stages[stage]) {
      const Layer& recomputed = all.layers[static_cast<std::size_t>(number)];
      if (rest == 0 || !recomputed.recomputes_all) continue;
      network->layers[static_cast<std::size_t>(number)] = recomputed;
      --rest;
    }
    if (rest > 0)
      fail(s.plan.recomputed_place, fmt::format("plan.recompute.full: {} blocks a stage, but virtual stage {} has {}",
                                                s.plan.recomputed_blocks, stage, s.plan.recomputed_blocks - rest));
  }
  return network;
}

constexpr std::size_t kMostBuckets = kScratch;  // BufferRef::buffer is the number of a bucket

/// Refuses too many buckets of a stage, and names a size with which all gradients of the network would do.
[[noreturn]] void refuse_buckets(const Scenario& s, const TrainingPlan& plan, double count) {
  constexpr double kMebibyte = 1 << 20;
  const double bytes = plan.network->parameters() * plan.gradient_element.value;
  fail(s.plan.bucket_place,
       fmt::format("plan.data_parallel.bucket: {:.0f} gradient buckets of {}; at most {}; expected {:.0f} MiB or more",
                   std::ceil(count), show(s.plan.buckets.rest), kMostBuckets,
                   std::ceil(bytes / kMebibyte / (0.99 * kMostBuckets))));
}

/// Makes a plan with the mesh, the micro-batches and the pipeline.
TrainingPlan mesh_of(const Scenario& s, std::shared_ptr<const Network> share) {
  const PlanChoice& choice = s.plan;
  TrainingPlan plan;
  static_cast<StepOptions&>(plan) = choice;
  plan.network = std::move(share);
  plan.micro_batches = s.micro_batches();
  plan.pipeline = {choice.mesh.pipeline, plan.micro_batches, choice.chunks, choice.sharding.pairs_passes};
  if (choice.mesh.pipeline > 1 || choice.chunks > 1)
    plan.schedule = &find_pipeline_schedule(choice.schedule, plan.pipeline, choice.schedule_place);
  if (plan.schedule && plan.schedule->is_solved()) plan.pipeline.figures = mean_stage(s, *plan.network);
  plan.tied = choice.ends_apart() && ties_head(s.model) && !s.model.options.adapters.has_rank();
  // Replicas of a whole model are simulated kernel by kernel; a model that is split has too many kernels for that.
  plan.fuses_kernels = choice.splits_model();
  return plan;
}

/// Returns true if ranks update a part of the parameters each, and get the others from each other.
bool gathers_updated(const TrainingPlan& plan) {
  return plan.zero == ZeroStage::optimizer || plan.zero == ZeroStage::gradients;
}

/// Returns true if each rank updates whole tensors, rather than equal shares of all tensors.
bool owns_tensors(const TrainingPlan& plan, const Scenario& s) {
  return gathers_updated(plan) && s.software.parallel.broadcast_parameters;
}

/// Returns true if ranks gather updated parameters in the network's precision, and cast them to fp8 after that. A block
/// along rows has another scale than one along columns, and neither copy gives the other (Megatron-Core:
/// DistributedDataParallelConfig, reuse_grad_buf_for_mxfp8_param_ag). Hopper transposes one copy. Ranks that shard the
/// parameters gather one copy in each pass.
bool casts_gathered_parameters(const TrainingPlan& plan, const Scenario& s) {
  return s.fp8 && gathers_updated(plan) && s.software.fp8_scaling == Fp8Scaling::block &&
         s.model.options.fp8_any_layout;
}

/// Returns the bytes moved to cast the gathered parameters of these layers.
Bytes parameter_cast(const std::vector<const Layer*>& layers, const Scenario& s) {
  double elements = 0;
  for (const Layer* layer : layers)
    for (const ParameterTensor& tensor : layer->parameters)
      if (!tensor.frozen) elements += tensor.elements;
  const Fp8Products products{true, s.software.fp8_scaling, true};
  return products.cast_traffic(elements, element_size(s.precision) * elements, true);
}

/// Adds the work of the framework and the sizes of elements.
void add_software(TrainingPlan& plan, const Scenario& s) {
  const SoftwareStack& stack = s.software;
  plan.gradient_element = gradient_size(s.precision, stack);
  const bool gathers_narrow = s.multiplied_in() == Precision::fp8 && !casts_gathered_parameters(plan, s);
  plan.parameter_element = element_size(gathers_narrow ? Precision::fp8 : s.precision);
  plan.accumulation = gradient_accumulation_work(1, s.precision, stack);
  plan.bucket_copy = stack.gradient_bucket_copy && plan.ranks() > 1;  // one device has no buckets
  plan.all_reduces_gradients =
      stack.parallel.all_reduce_gradients && plan.zero == ZeroStage::optimizer && !s.plan.compression;
  plan.host_buckets = stack.host_buckets;
  plan.copy_kernel = kBucketCopy;
  plan.wait_kernel = stack.cycle_time.value > 0 ? kCycleWait : std::uint16_t{0};
  plan.overhead_kernel = stack.step_overhead.value > 0 ? kStepOverhead : std::uint16_t{0};
  plan.collective_launch = stack.collective_launch;
  if (s.fp8 && stack.fp8_scaling == Fp8Scaling::delayed && !s.plan.inference)
    plan.amax_reduction = stack.fp8_maxima_of_stage ? AmaxReduction::ranks_of_stage : AmaxReduction::tensor_ranks;
  if (stack.host.micro_batch.value > 0) plan.micro_batch_kernel = kMicroBatchHost;
  if (stack.host.waits_for_routing && !stack.host.cuda_graphs) plan.kernel_after_routing = kHostWaits;
  if (stack.host.waits_for_messages) plan.kernel_after_message = kHostWaits;
}

/// Throws UserError for offload of activations with a schedule that splits the backward pass: it needs activations on
/// the GPU between both parts.
void refuse_split_backward(const Scenario& s, const TrainingPlan& plan) {
  if (!plan.offload.activations.is_used()) return;
  for (const StagePlan& stage : plan.stages)
    for (const PipelineTask& task : stage.tasks)
      if (task.pass == PipelineTask::Pass::backward_input)
        fail(s.plan.offload.activations_place,
             fmt::format("plan.activation_offload: not modelled with {}, which computes the weights' gradients later; "
                         "nearest is plan.pipeline.schedule: 1f1b",
                         plan.schedule->name));
}

/// Adds layers, tasks and buckets of each stage.
void divide(TrainingPlan& plan, const Scenario& s) {
  const BucketChoice& buckets = s.plan.buckets;
  // If tensors are cut, there may be as many buckets as bytes, so their number is checked before they are made.
  const bool cuts = !buckets.whole_tensors && plan.zero != ZeroStage::parameters;
  const double count = cuts ? plan.network->parameters() * plan.gradient_element.value / buckets.rest.value : 0;
  if (count > static_cast<double>(kMostBuckets) * plan.mesh.pipeline) refuse_buckets(s, plan, count);
  const std::vector<std::vector<int>> stages = divide_layers(plan, s);
  if (s.plan.recomputed_blocks > 0) plan.network = recomputed_in_part(*plan.network, s, plan.sharding, stages);
  plan.offload.activations = activation_offload(s, *plan.network, stages);
  divide(plan, stages, buckets);
  // Without such blocks, embedding and head count as fp8, with which the measured steps were fitted.
  if (s.model.wide_blocks_first + s.model.wide_blocks_last > 0)
    for (StagePlan& stage : plan.stages) widen_gathers(stage.buckets, *plan.network, plan.parameter_element);
  refuse_split_backward(s, plan);
  // One stage has no schedule, and pairs the passes of any two micro-batches.
  if (!s.plan.pairs_place.file || !s.plan.sharding.pairs_passes || !plan.schedule || plan.micro_batches == 1) return;
  const std::vector<PipelineTask>& tasks = plan.stages.back().tasks;
  if (std::ranges::none_of(tasks, [](const PipelineTask& task) { return task.beside_next; }))
    fail(s.plan.pairs_place, fmt::format("plan.expert_parallel.overlap: {} of {} micro-batches has no forward and "
                                         "backward pass side by side; expected more micro-batches, or overlap: false",
                                         plan.schedule->name, plan.micro_batches));
}

/// Returns the size of the copies of whole buckets at ZeRO stage 2, which keeps only a shard of the gradients.
Bytes copied_buckets(const TrainingPlan& plan, const StagePlan& stage) {
  double largest = 0, all = 0;
  for (const GradientBucket& bucket : stage.buckets) {
    all += bucket.elements;
    largest = std::max(largest, bucket.elements);
  }
  return plan.gradient_element *
         std::min(all, largest * static_cast<double>(BucketCopies::at_once(plan.overlap_gradients)));
}

/// True if the gradients of a step take memory in its backward passes. Other mechanisms than an all-reduce keep or send
/// gradients between steps, and offload takes memory for buckets.
bool frees_gradients(const TrainingPlan& plan, const Scenario& s) {
  return s.software.frees_gradients && plan.flushes && !s.plan.inference && !plan.offload.is_used() &&
         s.plan.mechanism_name == kAllReduce;
}

/// Adds the memory of each stage, and the work of its optimizer.
void add_memory(TrainingPlan& plan, const Scenario& s) {
  const std::size_t replicas = zero_group(plan, 0, false).size(), expert_replicas = zero_group(plan, 0, true).size();
  SoftwareStack stack = s.software;
  stack.gradient_bucket_copy = plan.bucket_copy && !plan.host_buckets && !s.plan.inference;
  std::optional<Network> undivided;  // on one tensor rank
  if (s.optimizer.matrix_split != MatrixSplit::blockwise && plan.mesh.tensor > 1) {
    Sharding sharding = plan.sharding;
    sharding.tensor = 1;
    sharding.sequence = false;
    undivided = network_of(s.model, s.micro_batch_size, s.precision, sharding, s.plan.ends_apart());
  }
  const bool buckets_pass = stack.gradient_bucket_copy && plan.zero == ZeroStage::gradients && !plan.offload.is_used();
  stack.gradient_bucket_copy = stack.gradient_bucket_copy && !buckets_pass;
  for (StagePlan& stage : plan.stages) {
    std::vector<const Layer*> layers;
    for (const std::vector<int>& chunk : stage.chunks)
      for (const int layer : chunk) layers.push_back(&plan.network->layers[layer]);
    std::ranges::sort(layers);  // in the order of the network: pointers into one array
    const auto shares_of = [&](bool routed, std::size_t ranks) {
      return zero_shares(plan.zero,
                         owns_tensors(plan, s) ? shares_of_owners(layers, routed, ranks) : static_cast<double>(ranks));
    };
    const ZeroShares dense = shares_of(false, replicas), experts = shares_of(true, expert_replicas);
    HeldElements held = held_elements(layers, dense, experts);
    if (s.plan.inference) held = {held.parameters, 0, 0};
    if (s.generation) {  // engines keep weights in a format of their own
      held.narrow = held.parameters;
      held.narrow_bytes = stored_parameter(*s.generation, s.model.entry) * held.parameters;
    }
    std::vector<double> shares;
    for (const GradientBucket& bucket : stage.buckets)
      shares.push_back(bucket.elements / (bucket.experts ? experts : dense).optimizer);
    hold_on_host(plan, stage, held, shares);
    hold_activations_on_host(plan, stage);
    stage.optimizer = optimizer_work(held.optimizer, s.precision, s.optimizer, s.software);
    std::vector<const Layer*> one_rank;
    if (undivided)
      for (const Layer* layer : layers) one_rank.push_back(&undivided->layers[layer - plan.network->layers.data()]);
    stage.update_exchanges =
        add_matrix_updates(stage.optimizer, held, layers, dense, experts, s.optimizer, s.precision, one_rank);
    if (casts_gathered_parameters(plan, s)) stage.optimizer.bytes += parameter_cast(layers, s);
    stage.memory = static_memory(held_on_gpu(plan, held), s.precision, s.optimizer, stack);
    if (frees_gradients(plan, s)) {
      stage.freed_gradients.resize(plan.network->layers.size());
      for (const std::vector<int>& chunk : stage.chunks)
        for (const int layer : chunk)
          stage.freed_gradients[layer] = gradient_size(s.precision, stack) *
                                         held_elements({&plan.network->layers[layer]}, dense, experts).gradients;
    }
    if (buckets_pass) {
      const Bytes copies = copied_buckets(plan, stage);
      stage.memory.parts.push_back({"gradient buckets", MemoryClass::buffers, copies});
      stage.memory.buffers += copies;
    }
    if (!s.plan.splits_model()) continue;  // only libraries that split a model have buffers
    const bool last = layers.back() == &plan.network->layers.back(),
               sends = layers.front() != &plan.network->layers.front();
    const Bytes sent = sends ? (layers.front() - 1)->output : Bytes{};
    add_library_buffers(stage.memory, *plan.network, layers, last, sent, stack);
  }
}

/// Adds the memory of earlier versions of the weights. Throws UserError for plans that a pipeline without a flush does
/// not have.
void add_weight_versions(TrainingPlan& plan, const Scenario& s) {
  if (plan.flushes) return;
  const auto refuse = [&s](const char* why) {
    const Node* place = &s.document;
    for (const char* key : {"plan", "pipeline", "flush"})
      if (place && place->kind == Node::Kind::map) place = place->find(key);
    fail(place ? place->place : s.plan.schedule_place,
         fmt::format("plan.pipeline.flush: false is not modelled with {}; expected true", why));
  };
  if (plan.zero != ZeroStage::none) refuse("ZeRO");
  if (plan.tied) refuse("a weight that the first and the last stage share");
  if (plan.offload.is_used() || plan.offload.copies()) refuse("offload");
  if (plan.pipeline.pairs_passes) refuse("forward and backward passes side by side");
  if (s.plan.inference) refuse("inference");
  if (s.plan.mechanism_name != kAllReduce) refuse("another mechanism than all-reduce");
  for (int number = 0; number < plan.pipeline.stages; ++number) {
    StagePlan& stage = plan.stages[static_cast<std::size_t>(number)];
    double elements = 0;
    for (const GradientBucket& bucket : stage.buckets) elements += bucket.elements;
    const Bytes earlier = plan.parameter_element * (elements * (weight_versions(plan, number) - 1));
    stage.memory.parts.push_back({"earlier versions of the weights", MemoryClass::parameters, earlier});
    stage.memory.parameters += earlier;
  }
}

/// Chooses the all-reduce: the scenario's, or the fastest for a bucket of mean size.
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

/// Returns the algorithm of the same name for a half of an all-reduce, which is what ZeRO exchanges. Throws UserError if
/// there is none.
const Collective* half_of_all_reduce(Operation half, const CollectiveChoice& choice, ZeroStage zero) {
  const std::string& name = choice.algorithm->name;
  const std::vector<std::string> names = collectives(half).names();
  if (std::ranges::find(names, name) == names.end())
    fail(choice.place,
         fmt::format("plan.data_parallel.all_reduce: {} has no {}, which zero_stage {} exchanges; expected {}", name,
                     name_of(half), static_cast<int>(zero), fmt::join(names, ", ")));
  return &collectives(half).find(name, choice.place);
}

/// Chooses how the groups of a plan communicate: by algorithms, or by the model of the cluster's library.
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
    gradients[Operation::reduce_scatter] = &usual_collective(Operation::reduce_scatter, s.cluster);
  if (training.zero != ZeroStage::none && plan.all_reduce.place.file &&
      plan.all_reduce.settings.fidelity != Fidelity::modelled)
    for (const Operation half : {Operation::reduce_scatter, Operation::all_gather})
      gradients[half] = half_of_all_reduce(half, plan.all_reduce, training.zero);
  for (const Operation o : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                            Operation::all_to_all, Operation::send_recv})
    others[o] = &usual_collective(o, s.cluster);
  place_on(others.settings, s.cluster, s.cluster.node.gpus);
  others.settings.fidelity = s.plan.fidelity;
  const bool modelled =
      gradients.settings.fidelity == Fidelity::modelled || others.settings.fidelity == Fidelity::modelled;
  if (modelled && training.ranks() > 1)
    gradients.settings.model = others.settings.model =
        s.plan.library ? s.plan.library : library_model(s.cluster, s.software.nccl_choice).model;
  training.broadcasts_parameters =
      owns_tensors(training, s) && others.settings.fidelity == Fidelity::modelled && !gradients[Operation::all_gather];
  if (training.broadcasts_parameters) others[Operation::broadcast] = &default_collective(Operation::broadcast);
  others.settings.slowdown = s.software.slowdowns.exchanges;
  if (const ExpertDispatcher& dispatcher = s.plan.dispatcher; !dispatcher.name.empty()) {
    if (others.settings.fidelity != Fidelity::modelled)
      fail(s.plan.dispatcher_place,
           fmt::format(
               "plan.expert_parallel.dispatcher: only the rates of {} are known; expected plan.collectives: modelled",
               dispatcher.name));
    others.dispatcher = dispatcher_model(dispatcher, training.network->routing, s.cluster, others.settings.model,
                                         s.plan.dispatcher_place);
  }
  std::vector<int> nodes;
  for (int rank = 0; rank < training.ranks(); ++rank) nodes.push_back(s.cluster.node_of_gpu(rank));
  make_lanes(training, nodes, gradients, others, s.plan.all_reduce.place.file ? s.plan.all_reduce.place : s.plan.place);
}

/// Adds the shares of expert ranks with smaller loads than the fullest one's.
void add_loads(TrainingPlan& plan, const Scenario& s) {
  const std::vector<double> rows = unequal_expert_loads(plan.sharding);
  if (rows.empty()) return;
  // Each different load once, the fullest first.
  std::vector<double> loads{*std::ranges::max_element(rows)};
  Sharding sharding = plan.sharding;
  for (sharding.expert_rank = 0; sharding.expert_rank < sharding.expert; ++sharding.expert_rank) {
    constexpr double kRounding = 1e-12;
    const double load = rows[static_cast<std::size_t>(sharding.expert_rank)];
    const auto number =
        std::ranges::find_if(loads, [load](double other) { return std::abs(load - other) <= kRounding * other; });
    plan.load_numbers.push_back(static_cast<int>(number - loads.begin()));
    if (number != loads.end()) continue;
    loads.push_back(load);
    auto share = std::make_shared<const Network>(
        network_of(s.model, s.micro_batch_size, s.precision, sharding, s.plan.ends_apart()));
    if (s.plan.recomputed_blocks > 0) share = recomputed_in_part(*share, s, sharding, divide_layers(plan, s));
    plan.load_networks.push_back(std::move(share));
  }
}

/// Adds compression. The simulated steps come after the warm-up of the compressor.
void add_compression(TrainingPlan& plan, const Scenario& s) {
  const Compressor& compressor = *s.plan.compression;
  plan.compression = s.plan.compression;
  plan.first_step = compressor.warm_up_stages() * compressor.warm_up_steps();
  GradientShape gradients = gradient_shape(plan, {});
  for (const StagePlan& stage : plan.stages)
    for (const GradientBucket& bucket : stage.buckets) {
      const GradientShape shape = gradient_shape(plan, bucket);
      gradients.parts.insert(gradients.parts.end(), shape.parts.begin(), shape.parts.end());
    }
  if (const std::string why = compressor.refuses(gradients); !why.empty())
    fail(s.plan.compression_place, fmt::format("plan.data_parallel.compression: {}: {}", compressor.summary(), why));
  add_compression_memory(plan);
}

/// Returns the modelled time of a step of one micro-batch on one device: all kernels, the update and the host work.
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
    const Network stage_network = share(s.plan.mesh.widths[stage].data, s.plan.stage_shardings[stage]);
    for (const int layer : layers[stage])
      network->layers[static_cast<std::size_t>(layer)] = stage_network.layers[static_cast<std::size_t>(layer)];
  }
  return network;
}

TrainingPlan lay_out_stages(const Scenario& s, std::shared_ptr<const Network> share) {
  TrainingPlan training = mesh_of(s, std::move(share));
  add_software(training, s);
  training.offload = offload_plan(s, training);
  divide(training, s);
  add_memory(training, s);
  add_weight_versions(training, s);
  return training;
}

Plan plan(const Scenario& s) { return plan(s, share_of_rank(s)); }

Plan plan(const Scenario& s, std::shared_ptr<const Network> share) {
  Plan plan;
  TrainingPlan& training = plan.training;
  training = lay_out_stages(s, std::move(share));
  choose_all_reduce(plan, s);
  choose_lanes(plan, s);
  add_loads(training, s);
  if (s.plan.inference) make_forward_only(training);
  if (s.plan.compression) add_compression(training, s);
  s.plan.mechanism->lay_out(training, {s.precision, s.optimizer, s.software});
  for (const StagePlan& stage : training.stages)
    if (stage.buckets.size() > kMostBuckets) refuse_buckets(s, training, static_cast<double>(stage.buckets.size()));
  // Every part of the step is scaled by the same factor, so gradients get ready in the order of the model.
  if (s.measured.is_given())
    plan.compute_scale = s.measured.step_time(s.micro_batch_size) / modelled_step(s, training.stages.front().optimizer);
  choose_steps(plan, s);
  return plan;
}

std::string all_reduce_name(const CollectiveChoice& choice) {
  return choice.settings.fidelity == Fidelity::modelled ? "NCCL" : choice.algorithm ? choice.algorithm->name : "auto";
}

GradientCollective gradient_collective(const Plan& plan) {
  GradientCollective chosen{"", plan.all_reduce.settings.channels};
  const LaneGroups& lane = plan.training.lane(Lane::gradients);
  if (plan.all_reduce.settings.fidelity != Fidelity::modelled || !lane.is_used() || plan.training.compression)
    return chosen;
  const LaneGroup& group = lane.groups.front();
  double elements = 0;
  for (const GradientBucket& bucket : plan.training.stages.front().buckets)
    elements = std::max(elements, bucket.elements);
  const int ranks = static_cast<int>(group.members.size());
  const ModelledCost cost = group.settings.model->cost(
      plan.training.gradient_operation(), elements * plan.training.gradient_element, group.settings.spread(ranks));
  chosen.method = cost.detail;
  chosen.channels = cost.rings ? modelled_rings(group.settings, ranks) : 0;
  return chosen;
}

}  // namespace trainyard
