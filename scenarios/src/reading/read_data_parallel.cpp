#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <numeric>

#include "models/reading/document.hpp"
#include "models/reading/nearest.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "strategies/collectives/library_model.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

constexpr int kReplicasOfNode = -1;  // `zero_group: node`, until the mesh is known

void read_zero(PlanChoice& choice, Fields& fields, const SoftwareStack& stack) {
  const std::int64_t stage =
      fields.integer({"zero_stage",
                      "What replicas shard among themselves (ZeRO): 0 nothing, 1 optimizer states, 2 also gradients, 3 "
                      "also parameters; for example 1. Default: the stack's, or that of plan.strategy."},
                     0, stack.parallel.zero_stage);
  if (stage > 3) fields.refuse("zero_stage", fmt::format("{} is no stage; expected 0, 1, 2 or 3", stage));
  choice.zero = static_cast<ZeroStage>(stage);
  choice.zero_place = fields.has("zero_stage") ? fields.place_of("zero_stage") : choice.place;
  const Node* group =
      fields.child_unless_null({"zero_group",
                                "Number of replicas that shard among themselves, for example 8, or node: those of a "
                                "node. Each such group has a full copy (hybrid sharding). Default: all replicas."});
  if (group) choice.zero_group = group->scalar == "node" ? kReplicasOfNode : read_rank_count(fields, "zero_group");
  choice.prefetch = fields.integer_within<int>(
      {"prefetch", "Number of layers whose parameters are gathered ahead, for example 2, at zero_stage 3."}, 0, 1 << 10,
      1);
  choice.reshard = fields.boolean({"reshard",
                                   "Whether gathered parameters are freed after the forward pass and gathered again "
                                   "for the backward pass, at zero_stage 3."},
                                  true);
  choice.overlap_parameters = fields.boolean(
      {"overlap_parameters",
       "Whether parameters are gathered while the next step begins, at zero_stage 1 and 2. Default: the stack's."},
      stack.parallel.overlap_parameters);
  choice.overlap_copies =
      fields.boolean({"overlap_copies",
                      "Whether the groups of zero_group sum their gradients during the backward pass. false: it waits "
                      "for each sum. Default: the stack's."},
                     stack.parallel.overlap_copies);
  choice.sync_last =
      fields.choice(
          {"gradient_sync",
           "When gradients are exchanged at zero_stage 3: after each micro-batch, or only after the last one."},
          {"each", "last"}, "each") == "last";
  fields.require_condition("zero_group", stage > 0, "at zero_stage 1 to 3");
  fields.require_condition("overlap_copies", choice.zero_group != 0, "with zero_group");
  for (const char* key : {"prefetch", "reshard", "gradient_sync"})
    fields.require_condition(key, stage == 3, "at zero_stage 3");
  fields.require_condition("overlap_parameters", stage == 1 || stage == 2, "at zero_stage 1 and 2");
  for (const char* key : {"overlap", "bucket", "first_bucket", "bucket_boundaries"})
    if (stage == 3 && fields.has(key))
      fields.refuse(key, fmt::format("not at zero_stage 3, which sends each layer's gradients when its backward pass "
                                     "ends; leave it out, for example by --set plan.data_parallel.{}=null",
                                     key));
  if (stage == 2 && choice.mesh.pipeline > 1)
    fields.refuse("zero_stage",
                  "2 is not possible with a pipeline, which needs whole gradients until the last micro-batch; expected "
                  "1, or 3, which exchanges gradients after each micro-batch (with gradient_sync: last, once a step; "
                  "with reshard: false it also gathers parameters once a step)");
}

/// Chooses how many ranks split each expert if the plan does not say: as many as split other layers (Megatron-Core's
/// default of expert_tensor_parallel_size), or the largest divisor for which the stage has enough ranks; 1 if the
/// dispatcher takes only whole experts. Without sequence parallelism nothing is chosen: tensor ranks have the same
/// tokens.
void split_experts_by_default(PlanChoice& choice) {
  Mesh& mesh = choice.mesh;
  if (mesh.expert_tensor > 0 || mesh.expert == 1 || mesh.tensor == 1 || !choice.sharding.sequence) return;
  const std::int64_t stage = std::int64_t{1} * mesh.tensor * mesh.context * mesh.data;
  int split = choice.sharding.one_row_a_rank ? 1 : mesh.tensor;
  while (split > 1 && (mesh.tensor % split != 0 || stage % (std::int64_t{1} * mesh.expert * split) != 0)) --split;
  mesh.expert_tensor = choice.sharding.expert_tensor = split;
}

/// Names the degrees of parallelism with which the ranks divide the GPUs: "they divide with tensor 2 or 4, or with
/// pipeline 2 or 7". `room`: tensor ranks must divide it too; 0: any number may.
std::string nearest_degrees(const Mesh& mesh, std::int64_t gpus, std::int64_t room) {
  const std::int64_t others = std::int64_t{1} * mesh.tensor * mesh.context * mesh.pipeline;
  std::vector<std::string> words;
  for (const auto& [axis, degree] :
       {std::pair{"tensor", mesh.tensor}, {"context", mesh.context}, {"pipeline", mesh.pipeline}})
    if (degree > 1 && gpus % (others / degree) == 0) {
      const std::int64_t places = gpus / (others / degree);
      const bool is_tensor = axis == std::string_view("tensor");
      words.push_back(
          fmt::format("with {} {}", axis, nearest_divisors(is_tensor ? std::gcd(places, room) : places, degree)));
    }
  if (words.empty()) return fmt::format("{} divide them", nearest_ranks(gpus, others));
  return fmt::format("they divide {}", fmt::join(words, ", or "));
}

/// Names the nearest legal sizes of the expert axis, or numbers of ranks that split each expert.
std::string nearest_expert_ranks(const Mesh& mesh, std::int64_t stage, const RanksRoom& room) {
  std::vector<std::string> words;
  const auto divides = [](std::int64_t number, std::int64_t part) { return number % part == 0; };
  if (mesh.expert_tensor > 1 && divides(stage, mesh.expert) && divides(room.experts, mesh.expert))
    words.push_back("tensor " +
                    nearest_divisors(std::gcd(stage / mesh.expert, room.expert_columns), mesh.expert_tensor));
  if (divides(stage, mesh.expert_tensor) && divides(room.expert_columns, mesh.expert_tensor))
    words.push_back("size " + nearest_divisors(std::gcd(stage / mesh.expert_tensor, room.experts), mesh.expert));
  return words.empty() ? "size 1 without tensor" : fmt::format("{}", fmt::join(words, ", or "));
}

/// Throws UserError unless the ranks of a stage can be divided among experts, and among the ranks that split each.
void require_places_for_experts(const PlanChoice& choice, const FindRanksRoom& find_room) {
  const Mesh& mesh = choice.mesh;
  const std::int64_t others = std::int64_t{1} * mesh.data * mesh.context, stage = others * mesh.tensor,
                     folded = std::int64_t{1} * mesh.expert * mesh.expert_tensor;
  if (folded > 0 && stage % folded != 0)
    fail(choice.place,
         fmt::format("plan.expert_parallel: {} x tensor {} = {} ranks do not divide tensor {} x context {} x data {} = "
                     "{}: the experts of a stage are spread over its ranks; nearest: {}",
                     mesh.expert, mesh.expert_tensor, folded, mesh.tensor, mesh.context, mesh.data, stage,
                     nearest_expert_ranks(mesh, stage, find_room())));
  if (folded > 0 || others % mesh.expert == 0) return;
  const RanksRoom room = find_room();
  fail(choice.place,
       fmt::format("plan.expert_parallel: {} does not divide data {} x context {}: experts are spread over ranks that "
                   "hold other samples or tokens; nearest: {}",
                   mesh.expert, mesh.data, mesh.context,
                   room.has_tables ? fmt::format("{}", others)
                                   : nearest_divisors(std::gcd(others, room.experts), mesh.expert)));
}

/// Counts the data ranks: as many as the plan says, or as many as there are GPUs for.
void count_ranks(PlanChoice& choice, Fields& fields, const ClusterSpec& cluster, const FindRanksRoom& find_room) {
  Mesh& mesh = choice.mesh;
  const std::int64_t others = std::int64_t{1} * mesh.tensor * mesh.context * mesh.pipeline, gpus = cluster.gpus();
  const bool has_size = fields.has("size");
  if (!mesh.widths.empty()) {
    if (has_size && fields.integer("size", 1) != 1)
      fail(fields.place_of("size"),
           "plan.data_parallel.size: each entry of plan.pipeline.stages has its own data ranks; leave this key out");
    if (mesh.ranks() > gpus)
      fail(choice.stages_place, fmt::format("plan.pipeline.stages: {}, but the cluster has {}",
                                            counted_noun(mesh.ranks(), "rank"), counted_noun(gpus, "GPU")));
    return;
  }
  if (!has_size && gpus % others != 0)
    fail(choice.place, fmt::format("plan: tensor {} x context {} x pipeline {} = {} ranks do not divide the {} of the "
                                   "cluster; {}; or set plan.data_parallel.size, and plan.idle_devices: allowed",
                                   mesh.tensor, mesh.context, mesh.pipeline, others, counted_noun(gpus, "GPU"),
                                   nearest_degrees(mesh, gpus, find_room().tensor)));
  const std::int64_t data = fields.integer(
      {"size", "Number of replicas, for example 8. Default: all devices, divided by the ranks of the other axes."}, 1,
      choice.mechanism->workers().value_or(std::max<std::int64_t>(1, gpus / others)));
  if (data > gpus || others > gpus / data) {
    const std::string nodes =
        cluster.others.empty() ? fmt::format(" ({} x {})", counted_noun(cluster.nodes, "node"), cluster.node.gpus) : "";
    if (others == 1)
      fields.refuse("size", fmt::format("{}, but the cluster has {}{}", counted_noun(data, "rank"),
                                        counted_noun(gpus, "GPU"), nodes));
    fail(has_size ? fields.place_of("size") : choice.place,
         fmt::format("plan: tensor {} x context {} x data {} x pipeline {} = {:.10g} ranks, but the cluster has {}{}",
                     mesh.tensor, mesh.context, data, mesh.pipeline,
                     static_cast<double>(others) * static_cast<double>(data), counted_noun(gpus, "GPU"), nodes));
  }
  mesh.data = static_cast<int>(data);
  split_experts_by_default(choice);
  require_places_for_experts(choice, find_room);
}

/// Throws UserError for devices without work, unless the plan allows them.
void refuse_idle_devices(const PlanChoice& choice, Fields& plan, Fields& fields, const ClusterSpec& cluster) {
  if (plan.choice(
          {"idle_devices", "Whether the plan may leave devices of the cluster without work: refused or allowed."},
          {"refused", "allowed"}, "refused") == "allowed")
    return;
  const int idle = idle_devices(choice, cluster);
  if (idle == 0) return;
  const Mesh& mesh = choice.mesh;
  const int ranks = mesh.ranks(), others = ranks / mesh.data;
  const bool has_size = fields.has("size");
  const std::string full =
      has_size && (ranks + idle) % others == 0 ? fmt::format("size {}, ", (ranks + idle) / others) : "";
  fail(has_size ? fields.place_of("size") : choice.place,
       fmt::format("plan.data_parallel: {} leave{} {} of the cluster's {} devices idle; expected {}fewer nodes, or "
                   "plan.idle_devices: allowed",
                   counted_noun(ranks, "rank"), ranks == 1 ? "s" : "", idle, cluster.gpus(), full));
}

void check_zero_group(PlanChoice& choice, Fields& data_parallel, const ClusterSpec& cluster) {
  const int replicas = choice.replicas();
  if (choice.zero_group == kReplicasOfNode) {
    const int of_node = cluster.node.gpus / (choice.mesh.tensor * choice.mesh.context);
    if (of_node < 2 && replicas > 1)
      data_parallel.refuse("zero_group", fmt::format("node, but a node of {} GPUs has no two replicas of {} tensor and "
                                                     "{} context ranks; expected a number of replicas",
                                                     cluster.node.gpus, choice.mesh.tensor, choice.mesh.context));
    choice.zero_group = std::min(of_node, replicas);
  }
  if (choice.zero_group > 0 && replicas % choice.zero_group != 0)
    data_parallel.refuse("zero_group",
                         fmt::format("groups of {} do not divide {} replicas; nearest: {}", choice.zero_group, replicas,
                                     nearest_divisors(replicas, choice.zero_group)));
  if (choice.zero_group == replicas) choice.zero_group = 0;
}

void read_all_reduce(PlanChoice& choice, Fields& fields, const ClusterSpec& cluster, const SoftwareStack& stack,
                     const LibraryModel* library) {
  choice.all_reduce = read_collective(
      fields.child({"all_reduce",
                    "Algorithm that sums gradients, for example ring (trainyard list collectives), or {algorithm: "
                    "ring, channels: 2}. Default: the one that the stack's library chooses; ring without a library."}),
      "plan.data_parallel.all_reduce", Operation::all_reduce, cluster, choice.replicas(), CollectiveUse::in_a_step, 0,
      library, stack.nccl_choice);
  if (fields.has("all_reduce")) return;
  choice.all_reduce.settings.fidelity = choice.fidelity;
  if (choice.fidelity == Fidelity::modelled && choice.mesh.ranks() > 1 && choice.mechanism->all_reduces())
    take_library_model(choice.all_reduce, library ? *library : library_model(cluster, stack.nccl_choice));
}

void read_buckets(PlanChoice& choice, Fields& fields, const SoftwareStack& stack) {
  BucketChoice& buckets = choice.buckets;
  const bool has_bucket = fields.has("bucket");
  choice.bucket_place = has_bucket ? fields.place_of("bucket") : choice.place;
  choice.overlap_gradients =
      fields.boolean({"overlap",
                      "Whether gradients are exchanged during the backward pass. false: after it; at zero_stage 2 the "
                      "backward pass waits for each exchange. Default: the stack's."},
                     stack.overlap || choice.offload.is_used());
  const Bytes rest = stack.default_bucket(choice.replicas()), first = stack.bucket_rule ? rest : stack.first_bucket;
  buckets.rest = fields.bytes({"bucket",
                               "Size of a bucket of gradients that are exchanged together, for example 25 MiB. "
                               "Default: the stack's; Megatron's buckets grow with the number of replicas."},
                              rest);
  buckets.first = fields.bytes(
      {"first_bucket",
       "Size of the first bucket, for example 1 MiB. Default: the stack's, and at most that of the other buckets."},
      has_bucket ? std::min(buckets.rest, first) : first);
  buckets.whole_tensors =
      fields.choice(
          {"bucket_boundaries",
           "Where buckets end: tensors (after a whole tensor) or bytes (at the exact size). Default: the stack's."},
          {"tensors", "bytes"}, stack.whole_tensors ? "tensors" : "bytes") == "tensors";
}

void read_compression(PlanChoice& choice, Fields& fields, const SoftwareStack& stack) {
  const Node* node =
      fields.child_unless_null({"compression",
                                "Compressor of gradients, for example {name: top-k, density: 0.01} (trainyard list "
                                "compressors). Default: none."});
  if (!node || (node->kind == Node::Kind::scalar && node->scalar == "none")) return;
  choice.compression = read_compressor(*node);
  choice.compression_place = node->place;
  const auto refuse = [node](const std::string& why) { fail(node->place, "plan.data_parallel.compression: " + why); };
  if (const std::string why = choice.mechanism->refuses_compression(); !why.empty())
    refuse(fmt::format("with mechanism {} {}", choice.mechanism_name, why));
  if (choice.mechanism->servers() > 0 && !choice.compression->pushes())
    refuse(fmt::format("{}: a server cannot sum what single workers send with it", choice.compression->summary()));
  if (choice.zero != ZeroStage::none)
    refuse("with zero_stage 0 only: stages 1 to 3 reduce and scatter gradients, which are summed whole");
  if (choice.replicas() == 1) refuse("there is one replica only, and no gradients are exchanged");
  if (stack.host_buckets || stack.cycle_time.value > 0)
    refuse(fmt::format("the coordinator of software {} exchanges whole gradients", stack.name));
  if (choice.compression->needs_whole_tensors() && !choice.buckets.whole_tensors)
    refuse("it compresses matrices, which bucket_boundaries: bytes cuts; set bucket_boundaries: tensors");
  if (choice.compression->by_messages() && choice.all_reduce.settings.fidelity == Fidelity::modelled)
    refuse("its exchange is no collective of a library that is modelled; set plan.collectives: messages");
}

void read_devices(OffloadChoice& offload, Fields& data_parallel) {
  const std::vector<std::string> devices{"none", "cpu", "nvme"};
  const Node* node =
      data_parallel.child_unless_null({"offload",
                                       "Device that keeps optimizer states outside the GPU, for example cpu, or "
                                       "{optimizer: nvme, parameters: cpu}. Default: none."});
  if (!node) return;
  offload.place = node->place;
  if (node->kind == Node::Kind::scalar) {
    offload.optimizer = data_parallel.one_of<OffloadDevice>("offload", devices);
    return;
  }
  const Node map = long_form(node, "optimizer", node->place);
  Fields fields(map, "plan.data_parallel.offload");
  offload.optimizer = fields.one_of(
      {"optimizer",
       "Where optimizer states are kept: none (on the device), cpu (host memory) or nvme (drives of the node)."},
      devices, OffloadDevice::none);
  offload.parameters = fields.one_of(
      {"parameters",
       "Where parameters are kept between their uses, at zero_stage 3: none (on the device), cpu or nvme."},
      devices, OffloadDevice::none);
  fields.finish();
}

}  // namespace

int idle_devices(const PlanChoice& choice, const ClusterSpec& cluster) {
  const std::vector<int> servers = choice.mechanism->server_nodes();
  const int ranks = choice.mesh.ranks(), last = cluster.node_of_gpu(ranks - 1);
  int idle = cluster.gpus() - ranks;
  for (int node = last + 1; node < cluster.nodes; ++node)
    if (std::ranges::find(servers, node) != servers.end()) idle -= cluster.type_of(node).gpus;
  return idle;
}

std::shared_ptr<const LibraryModel> library_of(const ClusterSpec& cluster, const SoftwareStack& stack) {
  if (!stack.nccl) return nullptr;
  try {
    return std::make_shared<const LibraryModel>(library_model(cluster, stack.nccl_choice));
  } catch (const UserError&) {
    return nullptr;
  }
}

void read_data_parallel(PlanChoice& choice, Fields& plan, Fields& fields, const ClusterSpec& cluster,
                        const SoftwareStack& stack, const LibraryModel* library, const FindRanksRoom& find_room) {
  read_zero(choice, fields, stack);
  ChosenMechanism chosen = read_mechanism(fields, cluster);
  choice.mechanism_name = chosen.name;
  const std::shared_ptr<Mechanism> mechanism = std::move(chosen.mechanism);
  choice.mechanism = mechanism;
  count_ranks(choice, fields, cluster, find_room);
  check_zero_group(choice, fields, cluster);
  read_offload(choice, fields, cluster, stack);
  mechanism->read_setting(fields, {cluster, choice.mesh, choice.splits_model(), choice.zero, choice.zero_group});
  refuse_idle_devices(choice, plan, fields, cluster);
  const Fidelity without_model = cluster.joins_chips() ? Fidelity::flows : Fidelity::messages;
  choice.fidelity = parse_fidelity(
      plan.choice({"collectives",
                   "How collectives are simulated: messages (each message of the algorithm), flows, or modelled (a "
                   "fitted model of NCCL). Default: modelled if the stack's library has a model, else flows between "
                   "the chips of a pod and messages elsewhere."},
                  {"messages", "flows", "modelled"}, name_of(library ? Fidelity::modelled : without_model)));
  read_all_reduce(choice, fields, cluster, stack, library);
  choice.library = library ? library->model : choice.all_reduce.settings.model;
  read_buckets(choice, fields, stack);
  read_compression(choice, fields, stack);
}

void read_activation_offload(PlanChoice& choice, Fields& plan) {
  OffloadChoice& offload = choice.offload;
  const Node map = long_form(plan.child({"activation_offload",
                                         "Blocks whose activations lie in host memory until their backward pass, for "
                                         "example all, or {blocks: 12, ahead: 1}. Default: none."}),
                             "blocks", choice.place);
  Fields fields(map, "plan.activation_offload");
  offload.activations_place = fields.place_of("blocks");
  const std::string blocks =
      fields.text({"blocks",
                   "Number of blocks at the beginning of each virtual stage whose activations lie in host memory "
                   "between their forward and backward pass: none, all, or a number, for example 12."},
                  "none");
  const auto [end, error] = std::from_chars(blocks.data(), blocks.data() + blocks.size(), offload.activation_blocks);
  const bool is_number = error == std::errc{} && end == blocks.data() + blocks.size() && offload.activation_blocks >= 0;
  if (blocks == "all" || blocks == "none")
    offload.activation_blocks = blocks == "all" ? OffloadChoice::kAllBlocks : 0;
  else if (!is_number)
    fail(offload.activations_place,
         fmt::format("plan.activation_offload.blocks: none, all or a number of blocks expected, got \"{}\"", blocks));
  offload.activations_ahead = fields.integer<int>({"ahead",
                                                   "Number of blocks whose activations are copied back ahead, during "
                                                   "the backward pass of later blocks, for example 2."},
                                                  0, 1);
  if (fields.has("ahead") && !fields.has("blocks"))
    fields.refuse("ahead", "plan.activation_offload.blocks is missing; all, or a number of blocks, expected");
  fields.finish();
}

void read_offload(PlanChoice& choice, Fields& data_parallel, const ClusterSpec& cluster, const SoftwareStack& stack) {
  OffloadChoice& offload = choice.offload;
  read_devices(offload, data_parallel);
  const auto refuse = [&offload](const char* rule) {
    fail(offload.place, fmt::format("plan.data_parallel.offload: {}", rule));
  };
  if (offload.parameters != OffloadDevice::none && !offload.is_used())
    refuse(
        "parameters without the optimizer: parameters are updated where they lie; expected optimizer: cpu or nvme too");
  if (!offload.is_used()) return;
  const int replicas = choice.mesh.data * choice.mesh.context * choice.mesh.copies;
  if (choice.zero == ZeroStage::none && replicas > 1)
    refuse("with several replicas each one's host updates a share: zero_stage 1, 2 or 3 expected");
  if (offload.optimizer == OffloadDevice::nvme && choice.zero != ZeroStage::parameters)
    refuse("optimizer: nvme is at zero_stage 3 only (cpu: at 1, 2 and 3)");
  if (offload.parameters != OffloadDevice::none && choice.zero != ZeroStage::parameters)
    refuse("parameters: at zero_stage 3 only, which gathers each layer's parameters before use");
  if (!choice.mechanism->ranks_alike()) refuse("with mechanism all-reduce only");
  if (stack.host_buckets || stack.cycle_time.value > 0)
    refuse("not with a stack whose coordinator exchanges gradients");
  if (choice.sync_last)
    data_parallel.refuse("gradient_sync",
                         "last with offload, which moves gradients off the GPU after each micro-batch; each expected");
  if (choice.zero == ZeroStage::gradients && !data_parallel.boolean("overlap", true))
    data_parallel.refuse("overlap",
                         "false with offload at zero_stage 2, where gradients leave the GPU bucket by bucket while the "
                         "backward pass goes on; true expected, or zero_stage 1");
  for (int rank = 0; rank < choice.mesh.ranks() && offload.drives(); ++rank)
    if (const NodeType& type = cluster.type_of_gpu(rank); type.nvme.count == 0)
      fail(offload.place, fmt::format("plan.data_parallel.offload: nvme, but node {} has no drive; give the cluster's "
                                      "node some, as in nvme: {{count: 8, type: samsung-pm1733}}",
                                      type.name));
}

}  // namespace trainyard
