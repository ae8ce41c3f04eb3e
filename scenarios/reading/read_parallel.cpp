#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/nearest.hpp"
#include "scenarios/planning/library_model.hpp"
#include "scenarios/reading/parallel.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

int size_of(Fields& fields, const char* key, std::int64_t fallback = 1) {
  const std::int64_t size = fields.integer(key, 1, fallback);
  if (size > kMostRanks)
    fail(fields.place_of(key), fmt::format("{}.{}: {} ranks; at most {}", fields.what(), key, size, kMostRanks));
  return static_cast<int>(size);
}

/// A number, or a map with `size` and more.
Node sized(const Node* node, const Place& place) {
  Node map;
  map.kind = Node::Kind::map;
  map.place = map.key_place = place;
  if (!node) return map;
  if (node->kind == Node::Kind::map) return *node;
  map.place = node->place;
  map.fields.emplace_back("size", *node);
  return map;
}

/// true, false, user-buffers (with the part that the stack states), or a map that states the part itself.
void read_tensor_overlap(Sharding& sharding, Fields& plan, const SoftwareStack& stack) {
  static const std::string what = "plan.tensor_parallel_overlap";
  if (!plan.has("tensor_parallel_overlap")) {
    sharding.overlap = stack.parallel.overlap_tensor;
    sharding.user_buffers = sharding.sequence ? stack.parallel.user_buffers : 0;
    return;
  }
  const Node& node = *plan.child("tensor_parallel_overlap");
  const bool named = node.kind == Node::Kind::scalar && same_name(node.scalar, "user-buffers");
  if (!named && node.kind != Node::Kind::map) {
    if (node.kind != Node::Kind::scalar || (node.scalar != "true" && node.scalar != "false"))
      fail(node.place, fmt::format("{}: expected true, false or user-buffers, got {}", what,
                                   node.kind == Node::Kind::scalar ? fmt::format("\"{}\"", node.scalar) : "a list"));
    sharding.overlap = plan.boolean("tensor_parallel_overlap", false);
    return;
  }
  if (!sharding.sequence)
    fail(node.place, what +
                         ": user buffers are for sequence parallelism's all-gathers and reduce-scatters; set "
                         "plan.sequence_parallel");
  if (named && stack.parallel.user_buffers == 0)
    fail(node.place, fmt::format("{}: user buffers: stack {} states no part that they hide; state it, as in "
                                 "{{user_buffers: {{overlapped: 0.5}}}}",
                                 what, stack.name));
  sharding.user_buffers = stack.parallel.user_buffers;
  if (named) return;
  Fields fields(node, what);
  sharding.user_buffers = read_user_buffers(fields.required_child("user_buffers"), what + ".user_buffers");
  fields.finish();
}

void read_context(ParallelChoice& choice, Fields& plan) {
  const Node node = sized(plan.child("context_parallel"), choice.place);
  Fields fields(node, "plan.context_parallel");
  choice.mesh.context = choice.sharding.context = size_of(fields, "size");
  if (fields.choice("exchange", {"ring", "all-to-all"}, "ring") == "all-to-all")
    choice.sharding.context_exchange = ContextExchange::all_to_all;
  fields.finish();
}

void read_expert(ParallelChoice& choice, Fields& plan) {
  const Node node = sized(plan.child("expert_parallel"), choice.place);
  Fields fields(node, "plan.expert_parallel");
  choice.mesh.expert = choice.sharding.expert = size_of(fields, "size");
  choice.sharding.expert_imbalance = fields.number("imbalance", 1, 1e6, 1);
  if (fields.has("capacity")) choice.sharding.expert_capacity = fields.number("capacity", 1e-3, 1e6);
  fields.finish();
}

/// An item of plan.pipeline.layers.
std::int64_t layers_of_stage(const Node& item, std::size_t stage) {
  const auto refuse = [&](const std::string& got) {
    fail(item.place,
         fmt::format("plan.pipeline.layers: of stage {}: expected a whole number, 0 or more, got {}", stage, got));
  };
  if (item.kind != Node::Kind::scalar) refuse("no number");
  try {
    if (const std::int64_t layers = parse_integer(item.scalar); layers >= 0) return layers;
  } catch (const UserError&) {
  }
  refuse(fmt::format("\"{}\"", item.scalar));
  return 0;
}

void read_pipeline(ParallelChoice& choice, Fields& plan, const SoftwareStack& stack) {
  choice.mesh.pipeline = size_of(plan, "pipeline_parallel");
  choice.stages_place = plan.has("pipeline_parallel") ? plan.place_of("pipeline_parallel") : choice.place;
  static const Node none;
  const Node* node = plan.child("pipeline");
  Fields fields(node ? *node : none, "plan.pipeline");
  choice.schedule_place = node && fields.has("schedule") ? fields.place_of("schedule") : choice.place;
  const std::string named = fields.text("schedule", "");
  choice.chunks = size_of(fields, "chunks",
                          named.empty() ? 1 : pipeline_schedules().find(named, choice.schedule_place).least_chunks);
  choice.schedule = !named.empty() ? named : choice.chunks > 1 ? "interleaved-1f1b" : "1f1b";
  choice.ends_count_as_layers = fields.boolean("ends_count_as_layers", false);
  choice.overlap_pipeline = fields.boolean("overlap", stack.parallel.overlap_pipeline);
  choice.scatter_gather = fields.boolean("scatter_gather", stack.parallel.scatter_gather && !choice.sharding.sequence);
  if (const Node* layers = fields.child("layers")) {
    choice.layers_place = layers->place;
    if (layers->kind != Node::Kind::list)
      fail(layers->place, "plan.pipeline.layers: a list of layers a stage expected");
    for (const Node& item : layers->items) {
      choice.layers.push_back(layers_of_stage(item, choice.layers.size()));
    }
  }
  const int parts = choice.mesh.pipeline * choice.chunks;
  if (!choice.layers.empty() && static_cast<int>(choice.layers.size()) != parts)
    fail(fields.place_of("layers"), fmt::format("plan.pipeline.layers: {} numbers for {} stages x {} chunks",
                                                choice.layers.size(), choice.mesh.pipeline, choice.chunks));
  if (choice.mesh.pipeline == 1 && node)
    fail(node->place, "plan.pipeline: there is one stage only; set plan.pipeline_parallel, or leave it out");
  fields.finish();
}

/// The axes of a mesh as its order names them, each once.
void read_order(ParallelChoice& choice, Fields& plan) {
  const Node* node = plan.child("mesh_order");
  if (!node) return;
  const auto refuse = [](const Place& where, const std::string& why) {
    fail(where, fmt::format("plan.mesh_order: {}; tensor, context, data and pipeline are expected, each once, from "
                            "neighbours to far apart, as in [tensor, context, data, pipeline]",
                            why));
  };
  if (node->kind != Node::Kind::list) refuse(node->place, "not a list");
  std::vector<Axis> order;
  for (const Node& item : node->items) {
    Axis axis{};
    try {
      axis = parse_axis(item.scalar);
    } catch (const UserError& e) {
      fail(item.place, fmt::format("plan.mesh_order: {}", e.what()));
    }
    if (axis == Axis::expert) refuse(item.place, "expert is no axis of its own: experts are spread over data ranks");
    if (std::find(order.begin(), order.end(), axis) != order.end())
      refuse(item.place, fmt::format("{} twice", name_of(axis)));
    order.push_back(axis);
  }
  for (const Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline})
    if (std::find(order.begin(), order.end(), axis) == order.end())
      refuse(node->place, fmt::format("{} is missing", name_of(axis)));
  choice.mesh.order = order;
}

void read_zero(ParallelChoice& choice, Fields& fields, const SoftwareStack& stack) {
  const std::int64_t stage = fields.integer("zero_stage", 0, stack.parallel.zero_stage);
  if (stage > 3)
    fail(fields.place_of("zero_stage"), fmt::format("plan.data_parallel.zero_stage: {}; 0, 1, 2 or 3", stage));
  choice.zero = static_cast<ZeroStage>(stage);
  choice.zero_place = fields.has("zero_stage") ? fields.place_of("zero_stage") : choice.place;
  choice.zero_group = fields.has("zero_group") ? size_of(fields, "zero_group") : 0;
  choice.prefetch = static_cast<int>(std::min<std::int64_t>(fields.integer("prefetch", 0, 1), 1 << 10));
  choice.reshard = fields.boolean("reshard", true);
  choice.overlap_parameters = fields.boolean("overlap_parameters", stack.parallel.overlap_parameters);
  const auto only = [&](const char* key, bool fits, const char* where) {
    if (fields.has(key) && !fits)
      fail(fields.place_of(key), fmt::format("plan.data_parallel.{}: at zero_stage {} only", key, where));
  };
  only("zero_group", stage > 0, "1 to 3");
  only("prefetch", stage == 3, "3");
  only("reshard", stage == 3, "3");
  only("overlap_parameters", stage == 1 || stage == 2, "1 and 2");
  for (const char* key : {"overlap", "bucket", "first_bucket", "bucket_boundaries"})
    if (stage == 3 && fields.has(key))
      fail(fields.place_of(key),
           fmt::format("plan.data_parallel.{}: not at zero_stage 3, where each layer's gradients leave "
                       "as its backward pass ends",
                       key));
  if (stage == 2 && choice.mesh.pipeline > 1)
    fail(fields.place_of("zero_stage"),
         "plan.data_parallel.zero_stage: 2 with a pipeline; its gradients are needed whole until the last micro-batch: "
         "1, or 3, which shares out a layer's gradients after each micro-batch (with reshard: false its parameters are "
         "gathered once a step)");
}

/// Data ranks: said, or all that the GPUs are enough for.
void count_ranks(ParallelChoice& choice, Fields& fields, const ClusterSpec& cluster) {
  Mesh& mesh = choice.mesh;
  const std::int64_t others = std::int64_t{1} * mesh.tensor * mesh.context * mesh.pipeline, gpus = cluster.gpus();
  const bool given = fields.has("size");
  if (!given && gpus % others != 0)
    fail(choice.place,
         fmt::format("plan: tensor {} x context {} x pipeline {} = {} ranks do not divide the {} GPUs of "
                     "the cluster; nearest: {} ranks; or say plan.data_parallel.size, and leave GPUs idle",
                     mesh.tensor, mesh.context, mesh.pipeline, others, gpus, nearest_divisors(gpus, others)));
  const std::int64_t workers = choice.servers.workers;
  const std::int64_t data = fields.integer("size", 1, workers > 0 ? workers : std::max<std::int64_t>(1, gpus / others));
  if (data > gpus || others > gpus / data) {
    const std::string nodes =
        cluster.others.empty() ? fmt::format(" ({} nodes x {})", cluster.nodes, cluster.node.gpus) : "";
    if (others == 1)
      fail(fields.place_of("size"),
           fmt::format("plan.data_parallel.size: {} ranks, but the cluster has {} GPUs{}", data, gpus, nodes));
    fail(given ? fields.place_of("size") : choice.place,
         fmt::format(
             "plan: tensor {} x context {} x data {} x pipeline {} = {:.10g} ranks, but the cluster has {} GPUs{}",
             mesh.tensor, mesh.context, data, mesh.pipeline, static_cast<double>(others) * static_cast<double>(data),
             gpus, nodes));
  }
  mesh.data = static_cast<int>(data);
  if (mesh.data * mesh.context % mesh.expert != 0)
    fail(choice.place,
         fmt::format("plan.expert_parallel: {} does not divide data {} x context {}: experts are spread over "
                     "ranks that hold other samples or tokens; nearest: {}",
                     mesh.expert, mesh.data, mesh.context,
                     nearest_divisors(std::int64_t{1} * mesh.data * mesh.context, mesh.expert)));
}

/// Where gradients meet, and what that asks for.
void read_mechanism(ParallelChoice& choice, Fields& fields, const ClusterSpec& cluster) {
  const Mechanism mechanism = choice.mechanism;
  if (fields.has("loss") && mechanism != Mechanism::master)
    fail(fields.place_of("loss"),
         fmt::format("plan.data_parallel.loss: of mechanism {} only", name_of(Mechanism::master)));
  choice.loss_on_master = fields.choice("loss", {"master", "replicas"}, "master") == "master";
  if (mechanism == Mechanism::all_reduce) return;
  const Place& place = fields.place_of("mechanism");
  if (choice.any())
    fail(place, fmt::format("plan.data_parallel.mechanism: {} has the whole model on every GPU: no tensor, pipeline, "
                            "context or expert parallelism, no ZeRO and no recomputation; these need all-reduce",
                            name_of(mechanism)));
  if (fields.has("all_reduce"))
    fail(fields.place_of("all_reduce"),
         fmt::format("plan.data_parallel.all_reduce: there is none with mechanism {}; leave it out",
                     name_of(mechanism)));
  if (mechanism != Mechanism::parameter_server && cluster.node_of_gpu(choice.mesh.ranks() - 1) > 0)
    fail(place, fmt::format("plan.data_parallel.mechanism: {} is one process that drives the GPUs of one node, but {} "
                            "ranks are on {} nodes; all-reduce and parameter-server work on several",
                            name_of(mechanism), choice.mesh.ranks(), cluster.node_of_gpu(choice.mesh.ranks() - 1) + 1));
}

/// A large step's collectives are modelled, where there is a model of the cluster's library.
Fidelity default_fidelity(const ClusterSpec& cluster) {
  try {
    library_model(cluster);
    return Fidelity::modelled;
  } catch (const UserError&) {
    return Fidelity::messages;
  }
}

}  // namespace

bool ParallelChoice::any() const {
  return mesh.tensor > 1 || mesh.context > 1 || mesh.pipeline > 1 || mesh.expert > 1 || zero != ZeroStage::none ||
         sharding.recompute != Recompute::none || offload.used();
}

bool ParallelChoice::ends_apart() const {
  const PipelineShape shape{mesh.pipeline, 1, chunks};
  if (mesh.pipeline == 1) return false;
  return pipeline_schedules().find(schedule, schedule_place).place_of(mesh.pipeline * chunks - 1, shape).stage != 0;
}

ParallelChoice read_parallel(Fields& plan, const Place& place, Fields& data_parallel, const ClusterSpec& cluster,
                             const SoftwareStack& stack) {
  ParallelChoice choice;
  choice.place = place;
  Sharding& sharding = choice.sharding;
  choice.mesh.tensor = sharding.tensor = size_of(plan, "tensor_parallel");
  sharding.sequence = plan.boolean("sequence_parallel", stack.parallel.sequence && sharding.tensor > 1);
  if (sharding.sequence && sharding.tensor == 1)
    fail(plan.place_of("sequence_parallel"),
         "plan.sequence_parallel: it is over the ranks of plan.tensor_parallel, which is 1");
  read_tensor_overlap(sharding, plan, stack);
  read_context(choice, plan);
  read_expert(choice, plan);
  read_pipeline(choice, plan, stack);
  const std::string recompute = plan.choice("recompute", {"none", "selective", "full"}, "none");
  sharding.recompute = recompute == "full"        ? Recompute::full
                       : recompute == "selective" ? Recompute::selective
                                                  : Recompute::none;
  read_order(choice, plan);
  read_zero(choice, data_parallel, stack);
  choice.mechanism = parse_mechanism(data_parallel.choice("mechanism", mechanism_names(), "all-reduce"));
  if (choice.mechanism == Mechanism::parameter_server)
    choice.servers = read_servers(data_parallel, cluster);
  else
    refuse_servers(data_parallel);
  count_ranks(choice, data_parallel, cluster);
  const int replicas = choice.mesh.data * choice.mesh.context;
  if (choice.zero_group > 0 && replicas % choice.zero_group != 0)
    fail(data_parallel.place_of("zero_group"),
         fmt::format("plan.data_parallel.zero_group: groups of {} do not divide {} replicas; nearest: {}",
                     choice.zero_group, replicas, nearest_divisors(replicas, choice.zero_group)));
  if (choice.zero_group == replicas) choice.zero_group = 0;
  read_offload(choice, data_parallel, cluster, stack);
  read_mechanism(choice, data_parallel, cluster);
  if (choice.mechanism == Mechanism::parameter_server)
    check_servers(choice.servers, data_parallel, choice.mesh.ranks(), cluster);
  choice.fidelity =
      parse_fidelity(plan.choice("collectives", {"messages", "flows", "modelled"}, name_of(default_fidelity(cluster))));
  return choice;
}

int layers_to_divide(const Network& network, const ParallelChoice& choice) {
  const int count = static_cast<int>(network.layers.size());
  const bool ends = count > 2 && network.layers.front().name == "embedding" && network.layers.back().name == "head";
  return ends && !choice.ends_count_as_layers ? count - 2 : count;
}

std::vector<std::vector<int>> divide_layers(const Network& network, const ParallelChoice& choice) {
  const int parts = choice.mesh.pipeline * choice.chunks, body = layers_to_divide(network, choice);
  const bool apart = body != static_cast<int>(network.layers.size());
  if (parts > body)
    fail(choice.place,
         fmt::format("plan.pipeline_parallel: {} stages x {} chunks, but {} has {} layers{}", choice.mesh.pipeline,
                     choice.chunks, network.name, body, apart ? " between embedding and head" : ""));
  std::vector<std::int64_t> each = choice.layers;
  if (each.empty()) {
    // What is left over goes to the middle first: the ends have the embedding and the head besides.
    each.assign(static_cast<std::size_t>(parts), body / parts);
    int left = body % parts;
    for (int i = 1; i + 1 < parts && left > 0; ++i, --left) ++each[static_cast<std::size_t>(i)];
    if (left > 0) ++each.front();
  }
  if (std::accumulate(each.begin(), each.end(), std::int64_t{0}) != body)
    fail(choice.layers_place, fmt::format("plan.pipeline.layers: {} in all, but {} has {}{}",
                                          std::accumulate(each.begin(), each.end(), std::int64_t{0}), network.name,
                                          body, apart ? " between embedding and head" : ""));
  std::vector<std::vector<int>> stages(static_cast<std::size_t>(parts));
  int next = 0;
  for (int part = 0; part < parts; ++part) {
    std::vector<int>& stage = stages[static_cast<std::size_t>(part)];
    const auto end = static_cast<int>(next + each[static_cast<std::size_t>(part)] + (apart && part == 0 ? 1 : 0) +
                                      (apart && part + 1 == parts ? 1 : 0));
    for (; next < end; ++next) stage.push_back(next);
    if (stage.empty()) fail(choice.layers_place, fmt::format("plan.pipeline.layers: stage {} has no layer", part));
  }
  return stages;
}

}  // namespace trainyard
