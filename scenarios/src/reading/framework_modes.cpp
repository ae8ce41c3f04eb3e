#include "scenarios/src/reading/framework_modes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {
namespace {

/// Returns the map `plan.data_parallel`. Adds it if it is missing; a plain number becomes its `size`.
Node& data_parallel_of(Node& plan, const Place& place) {
  Node* data_parallel = plan.find("data_parallel");
  if (!data_parallel) {
    data_parallel = &plan.fields.emplace_back("data_parallel", Node{}).second;
    data_parallel->place = data_parallel->key_place = place;
  }
  if (data_parallel->kind == Node::Kind::scalar) {
    const Node size = *data_parallel;
    data_parallel->scalar.clear();
    data_parallel->fields.emplace_back("size", size);
  }
  if (data_parallel->kind != Node::Kind::list) data_parallel->kind = Node::Kind::map;
  return *data_parallel;
}

void apply_data_parallel(const FrameworkMode& mode, Node& map, const Place& place) {
  const Node* mechanism = map.find("mechanism");
  if (mechanism)  // a misspelled name is an error of its own
    Fields(map, "plan.data_parallel").choice("mechanism", mechanisms().names());
  if (mechanism && mechanism->scalar != mode.mechanism)
    fail(mechanism->place, fmt::format("plan.data_parallel.mechanism: {}, but plan.strategy is {}, which does {}",
                                       mechanism->scalar, mode.name, mode.mechanism));
  if (!mechanism) map.fields.emplace_back("mechanism", Node::scalar_node(mode.mechanism, place));
  if (!mode.consistency.empty() && !map.find("consistency"))
    map.fields.emplace_back("consistency", Node::scalar_node(mode.consistency, place));
  if (!mode.zero_group.empty() && !map.find("zero_group"))
    map.fields.emplace_back("zero_group", Node::scalar_node(mode.zero_group, place));
  const Node* zero = map.find("zero_stage");
  if (!zero) {
    map.fields.emplace_back("zero_stage", Node::scalar_node(fmt::format("{}", mode.zero_stage), place));
    return;
  }
  for (int stage = 0; stage <= 3; ++stage)
    if (zero->scalar == fmt::format("{}", stage) && (stage < mode.least_zero_stage || stage > mode.most_zero_stage))
      fail(zero->place,
           mode.most_zero_stage == 0
               ? fmt::format("plan.data_parallel.zero_stage: {}, but plan.strategy is {}, which shards nothing; "
                             "pytorch-fsdp, deepspeed and megatron do",
                             stage, mode.name)
               : fmt::format("plan.data_parallel.zero_stage: {}, but plan.strategy is {}, which does {} to {}", stage,
                             mode.name, mode.least_zero_stage, mode.most_zero_stage));
}

/// Adds `key: value` to the map, or throws UserError if the map has another value.
void choose(Node& map, const std::string& path, const std::string& key, const std::string& value, const Place& place) {
  const Node* present = map.find(key);
  if (!present)
    map.fields.emplace_back(key, Node::scalar_node(value, place));
  else if (present->kind == Node::Kind::scalar && present->scalar != value)
    fail(present->place, fmt::format("{}.{}: {}, but plan.communication is ring, which is TensorFlow's ring over gRPC",
                                     path, key, present->scalar));
}

/// Sets gRPC as the transport of the adapters of a cluster, or of a group of its nodes.
void take_grpc(Node& nodes, const std::string& path, const Place& place) {
  Node* hca = nodes.find("hca");
  if (!hca) {
    hca = &nodes.fields.emplace_back("hca", Node::empty_map(place)).second;
    hca->key_place = place;
  }
  if (hca->kind == Node::Kind::map) choose(*hca, path + ".hca", "transport", "grpc", place);
}

/// Applies `plan.communication: ring`, TensorFlow's CommunicationImplementation.RING: a ring over TensorFlow's own
/// calls (tensorflow.org, api_docs/python/tf/distribute/experimental/CommunicationImplementation: "TensorFlow's ring
/// algorithms for all-reduce and all-gather", over gRPC). On one node no adapter takes part.
void apply_communication(const FrameworkMode& mode, Node& scenario, Node& plan) {
  const Node* communication = plan.find("communication");
  if (!communication || communication->scalar != "ring" || !mode.chooses_communication) return;
  const Place place = communication->place;
  choose(data_parallel_of(plan, place), "plan.data_parallel", "all_reduce", "ring", place);
  Node* cluster = scenario.find("cluster");
  Node* nodes = cluster && cluster->kind == Node::Kind::map ? cluster->find("nodes") : nullptr;
  if (!nodes || (nodes->kind == Node::Kind::scalar && nodes->scalar == "1")) return;
  if (nodes->kind != Node::Kind::list) return take_grpc(*cluster, "cluster", place);
  for (std::size_t i = 0; i < nodes->items.size(); ++i)
    if (nodes->items[i].kind == Node::Kind::map) take_grpc(nodes->items[i], fmt::format("cluster.nodes.{}", i), place);
}

void require_whole_model(const FrameworkMode& mode, const Node& plan) {
  for (const char* key : {"tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"}) {
    const Node* node = plan.find(key);
    if (node && node->scalar != "1")
      fail(node->place, fmt::format("plan.{}: plan.strategy is {}, which has the whole model on every device; "
                                    "pytorch-fsdp, deepspeed and megatron split it",
                                    key, mode.name));
  }
}

/// Gives a stack of which only single keys were set (`--set software.KEY=…`) its base: the stack that has them.
void complete_software(Node& scenario, const std::string& stack) {
  Node* software = scenario.find("software");
  if (!software || software->kind != Node::Kind::map || software->find("base")) return;
  const std::string place = software->place.text();
  if (place.starts_with("--set software."))
    software->fields.insert(software->fields.begin(), {"base", Node::scalar_node(stack, software->place)});
}

void apply_software(const FrameworkMode& mode, Node& scenario, const Place& place) {
  complete_software(scenario, mode.stack.empty() ? "plain" : mode.stack);
  const Node* software = scenario.find("software");
  if (!software) {
    if (!mode.stack.empty()) scenario.fields.emplace_back("software", Node::scalar_node(mode.stack, place));
    return;
  }
  const Node* name = software->kind == Node::Kind::map ? software->find("base") : software;
  if (!name) return;  // the scenario describes the stack itself
  std::vector<std::string> fitting = mode.stacks;
  if (!mode.stack.empty()) fitting.insert(fitting.begin(), mode.stack);
  fitting.emplace_back("plain");
  // The name is a file, or unknown: then the catalog refuses it later.
  if (std::none_of(framework_modes().begin(), framework_modes().end(),
                   [&](const FrameworkMode& other) { return same_name(other.stack, name->scalar); }))
    return;
  if (std::ranges::none_of(fitting, [&](const auto& f) { return same_name(f, name->scalar); }))
    fail(name->place, fmt::format("software: {}, but plan.strategy is {}, which runs on {}", name->scalar, mode.name,
                                  fmt::join(fitting, ", ")));
}

}  // namespace

const std::vector<FrameworkMode>& framework_modes() {
  // PyTorch 2.9, torch/distributed/pipelining/schedules.py: ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B,
  // ScheduleDualPipeV, ScheduleZBVZeroBubble. Its zero-bubble schedules give a rank several stages, which zb-h1 and zb-2p
  // do not.
  static const std::vector<std::string> schedules_of_pytorch{"gpipe", "1f1b", "interleaved-1f1b", "dualpipe-v", "zb-v"};
  static const std::vector<FrameworkMode> modes{
      {.name = "pytorch-dp",
       .description = "DataParallel: one process, parameters and gradients through the first GPU",
       .mechanism = "master",
       .one_node = true,
       .for_nodes = "pytorch-ddp",
       .stack = "pytorch-ddp"},
      {.name = "pytorch-ddp",
       .description = "DistributedDataParallel: one process per GPU, buckets all-reduced during the backward pass",
       .stack = "pytorch-ddp"},
      // ZeRO stage 2 is reshard_after_forward=False.
      {.name = "pytorch-fsdp",
       .description = "fully_shard (FSDP2): parameters, gradients and optimizer shared out (ZeRO 3)",
       .zero_stage = 3,
       .least_zero_stage = 2,
       .most_zero_stage = 3,
       .splits_model = true,  // with DTensor, as torchtitan does
       .schedules = schedules_of_pytorch,
       .stack = "pytorch-fsdp"},
      {.name = "tf-mirrored",
       .description = "MirroredStrategy: one replica per GPU of one node, gradients all-reduced",
       .one_node = true,
       .for_nodes = "tf-multi-worker-mirrored"},
      {.name = "tf-multi-worker-mirrored",
       .description =
           "MultiWorkerMirroredStrategy: the same over several nodes, by NCCL or by TensorFlow's ring over gRPC",
       .chooses_communication = true},
      {.name = "tf-central-storage",
       .description = "CentralStorageStrategy: variables on the CPU, which adds gradients and updates",
       .mechanism = "central-storage",
       .one_node = true,
       .for_nodes = "tf-parameter-server"},
      // "By default, workers read and update these variables independently without synchronizing with each other"
      // (tensorflow.org, api_docs/python/tf/distribute/experimental/ParameterServerStrategy).
      {.name = "tf-parameter-server",
       .description =
           "ParameterServerStrategy: workers of all nodes, one server with the variables; asynchronous by default",
       .mechanism = "parameter-server",
       .consistency = "asynchronous"},
      {.name = "tf-tpu",
       .description = "TPUStrategy: MirroredStrategy's schedule over the links of a TPU pod",
       .on_tpus = true},
      {.name = "horovod",
       .description = "Horovod: ring all-reduce of fused tensors during the backward pass",
       .stack = "horovod-tcp",
       .stacks = {"pytorch-ddp"}},  // with NCCL: it too has hooks on gradients, and buckets
      {.name = "deepspeed",
       .description = "DeepSpeed: ZeRO by zero_stage 0 to 3 (default 0), with Megatron",
       .most_zero_stage = 3,
       .splits_model = true,
       .schedules = {"1f1b"},  // deepspeed/runtime/pipe/schedule.py: TrainSchedule
       .stack = "deepspeed",
       .stacks = {"megatron-2022", "megatron-core"}},
      // Schedules: megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_without_interleaving and
      // with_interleaving. ZeRO stage 1 is --use-distributed-optimizer.
      {.name = "megatron",
       .description = "Megatron-LM: tensor, pipeline, context and expert parallel, ZeRO 0 or 1",
       .most_zero_stage = 1,
       .splits_model = true,
       .schedules = {"1f1b", "interleaved-1f1b"},
       .stack = "megatron-core",
       .stacks = {"megatron-2022", "nemo"}},
      {.name = "pytorch-lightning",
       .description = "PyTorch Lightning's Trainer with strategy=\"ddp\": DistributedDataParallel",
       .stack = "pytorch-ddp"},
      {.name = "fairscale",
       .description = "FairScale: FullyShardedDataParallel (ZeRO 3), or ShardedDataParallel and OSS (ZeRO 2 and 1)",
       .zero_stage = 3,
       .least_zero_stage = 1,
       .most_zero_stage = 3,
       .stack = "pytorch-fsdp"},
      // PyTorch 2.9, torch/distributed/fsdp/_fully_shard/_fully_shard.py: parameters are sharded over the second
      // dimension of a mesh of two, which are the ranks of a node, and replicated over the first.
      {.name = "pytorch-hsdp",
       .description = "fully_shard on a mesh of two (HSDP): shared out in each node, with a copy for every node",
       .zero_stage = 3,
       .least_zero_stage = 2,
       .most_zero_stage = 3,
       .zero_group = "node",
       .splits_model = true,
       .schedules = schedules_of_pytorch,
       .stack = "pytorch-fsdp"}};
  return modes;
}

const FrameworkMode& find_framework_mode(const std::string& name, const Place& where) {
  std::vector<std::string> names;
  for (const FrameworkMode& mode : framework_modes()) {
    if (same_name(mode.name, name)) return mode;
    names.push_back(mode.name);
  }
  fail(where, fmt::format("plan.strategy: unknown strategy \"{}\"{}", name, hint(name, names)));
}

void drop_null_software(Node& scenario) {
  std::erase_if(scenario.fields,
                [](const auto& field) { return field.first == "software" && field.second.kind == Node::Kind::null; });
}

const FrameworkMode* apply_framework_mode(Node& scenario) {
  Node* plan = scenario.find("plan");
  const Node* strategy = plan && plan->kind == Node::Kind::map ? plan->find("strategy") : nullptr;
  if (!strategy || strategy->kind == Node::Kind::null) {
    complete_software(scenario, "plain");
    return nullptr;
  }
  const Place place = strategy->place;
  if (strategy->kind != Node::Kind::scalar) fail(place, "plan.strategy: a name expected (trainyard list strategies)");
  const FrameworkMode& mode = find_framework_mode(strategy->scalar, place);
  if (!mode.splits_model) require_whole_model(mode, *plan);
  apply_data_parallel(mode, data_parallel_of(*plan, place), place);
  apply_communication(mode, scenario, *plan);
  apply_software(mode, scenario, place);
  return &mode;
}

std::vector<std::string> schedules_of_mode(const std::string& name) {
  if (!name.empty()) return find_framework_mode(name, Place::named("plan.strategy")).schedules;
  std::vector<std::string> names = pipeline_schedules().names();
  std::erase_if(names, [](const std::string& schedule) { return pipeline_schedules().find(schedule, {}).copies > 1; });
  return names;
}

void require_schedule(const FrameworkMode& mode, const PlanChoice& plan, bool names_software) {
  if (plan.mesh.pipeline == 1 || std::ranges::find(mode.schedules, plan.schedule) != mode.schedules.end()) return;
  // Without a strategy the stack is plain, unless the scenario names one.
  const std::string keeps_software =
      mode.stack.empty() || names_software ? "" : fmt::format(" --set software={}", mode.stack);
  fail(plan.schedule_place, fmt::format("plan.pipeline.schedule: {}, but plan.strategy is {}, which has {}; without "
                                        "plan.strategy every schedule can be used (--set plan.strategy=null{})",
                                        plan.schedule, mode.name, fmt::join(mode.schedules, ", "), keeps_software));
}

void require_mode_fits(const FrameworkMode& mode, const ClusterSpec& cluster, int ranks, const Place& where) {
  const bool tpus = cluster.node.gpu.kind == ChipKind::tpu;
  if (mode.on_tpus != tpus)
    fail(where, mode.on_tpus ? fmt::format("plan.strategy: {} is for TPUs, joined by a torus of their own links; on "
                                           "GPUs tf-multi-worker-mirrored does the same",
                                           mode.name)
                             : fmt::format("plan.strategy: {} drives GPUs; on TPUs tf-tpu does the same", mode.name));
  const int nodes = cluster.node_of_gpu(ranks - 1) + 1;
  if (mode.one_node && nodes > 1)
    fail(where, fmt::format("plan.strategy: {} works on the devices of one node, but {} ranks are on {}; use {}",
                            mode.name, ranks, nodes, mode.for_nodes));
}

}  // namespace trainyard
