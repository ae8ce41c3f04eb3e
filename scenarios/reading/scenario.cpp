#include "scenarios/reading/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/reading/nearest.hpp"
#include "scenarios/planning/library_model.hpp"
#include "scenarios/planning/server_plans.hpp"
#include "scenarios/planning/step_counts.hpp"
#include "scenarios/planning/training_plans.hpp"
#include "scenarios/reading/framework_modes.hpp"
#include "scenarios/reading/read_cluster.hpp"
#include "scenarios/reading/read_collective.hpp"
#include "scenarios/reading/read_network.hpp"
#include "scenarios/reading/read_updates.hpp"
#include "scenarios/reading/used_sources.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

Node map_node(const Place& place) {
  Node node;
  node.kind = Node::Kind::map;
  node.place = node.key_place = place;
  return node;
}

Precision precision_of(Fields& plan, const ClusterSpec& cluster) {
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisions; ++i) names.emplace_back(name_of(static_cast<Precision>(i)));
  const Precision precision = parse_precision(plan.choice("precision", names, "bf16"));
  try {
    require_training_precision(precision);
  } catch (const UserError& e) {
    fail(plan.place_of("precision"), fmt::format("plan.precision: {}", e.what()));
  }
  for (const NodeType* type : cluster.types()) {
    const Gpu& gpu = type->gpu;
    if (gpu.peak[static_cast<std::size_t>(precision)].value > 0) continue;
    std::vector<std::string> has;
    for (int i = 0; i < kPrecisions; ++i)
      if (gpu.peak[static_cast<std::size_t>(i)].value > 0) has.push_back(names[static_cast<std::size_t>(i)]);
    fail(plan.place_of("precision"),
         fmt::format("plan.precision: {} has no {}; it has {}", gpu.name, name_of(precision), fmt::join(has, ", ")));
  }
  return precision;
}

/// Samples of the step over ranks and micro-batches. An indivisible batch is refused with the nearest that fits.
void split_batch(Scenario& s, Fields& plan) {
  constexpr std::int64_t most_micro = 1 << 24, most_global = std::int64_t{1} << 32;
  const auto bounded = [&plan](const char* key, std::int64_t value, std::int64_t most, const char* unit = "samples") {
    if (value > most) fail(plan.place_of(key), fmt::format("plan.{}: {} {}; at most {}", key, value, unit, most));
    return value;
  };
  s.micro_batch_size = bounded("micro_batch_size", plan.integer("micro_batch_size", 1), most_micro);
  const int data = s.parallel.mesh.data;
  const std::int64_t unit = s.micro_batch_size * data;
  s.global_batch_size = bounded("global_batch_size", plan.integer("global_batch_size", 1, unit), most_global);
  if (s.global_batch_size % unit != 0)
    fail(
        plan.place_of("global_batch_size"),
        fmt::format("plan.global_batch_size: {} is not a multiple of {} (micro_batch_size {} x {} ranks); nearest: {}",
                    s.global_batch_size, unit, s.micro_batch_size, data, nearest_multiples(unit, s.global_batch_size)));
  if (s.global_batch_size / unit > 1 << 16)
    fail(plan.place_of("global_batch_size"), "plan.global_batch_size: over 65536 micro-batches a rank");
  s.plan.micro_batches = static_cast<int>(s.global_batch_size / unit);
  constexpr std::int64_t most_steps = 1 << 20;
  s.plan.steps = static_cast<int>(bounded("steps", plan.integer("steps", 1, 1), most_steps, "steps"));
}

struct DataParallelChoice {
  Bytes first_bucket, bucket;
  bool whole_tensors;
  CollectiveChoice all_reduce;
};

DataParallelChoice read_data_parallel(Scenario& s, Fields& plan, const Node& plan_node) {
  static const Node none;
  const Node* node = plan.child("data_parallel");
  Node sized;
  if (node && node->kind == Node::Kind::scalar) {  // `data_parallel: 16` is its size
    sized = map_node(node->place);
    sized.fields.emplace_back("size", *node);
    node = &sized;
  }
  Fields fields(node ? *node : none, "plan.data_parallel");
  DataParallelChoice choice;
  s.parallel = read_parallel(plan, plan_node.place, fields, s.cluster, s.software);
  s.plan.ranks = s.parallel.mesh.ranks();
  const int replicas = s.parallel.mesh.data * s.parallel.mesh.context;
  choice.all_reduce = read_collective(fields.child("all_reduce"), "plan.data_parallel.all_reduce",
                                      Operation::all_reduce, s.cluster, replicas, CollectiveUse::in_a_step);
  // Where the model is split, gradients go as everything else does, unless the plan says how.
  if (!fields.has("all_reduce") && s.parallel.any() && s.parallel.fidelity == Fidelity::modelled) {
    const LibraryModel library = library_model(s.cluster);
    choice.all_reduce.settings.fidelity = Fidelity::modelled;
    choice.all_reduce.settings.model = library.model;
    choice.all_reduce.scaled = library.scaled;
    choice.all_reduce.sources = library.sources;
  }
  s.plan.updates = read_updates(fields, s.parallel);
  s.plan.overlap = fields.boolean("overlap", s.software.overlap || s.parallel.offload.used());
  const bool given = fields.has("bucket");
  choice.bucket = fields.bytes("bucket", s.software.bucket);
  choice.first_bucket =
      fields.bytes("first_bucket", given ? std::min(choice.bucket, s.software.first_bucket) : s.software.first_bucket);
  choice.whole_tensors = fields.choice("bucket_boundaries", {"tensors", "bytes"},
                                       s.software.whole_tensors ? "tensors" : "bytes") == "tensors";
  fields.finish();
  for (const auto& [key, value] : plan_node.fields)
    if (!plan.knows(key) && fields.knows(key) && key != "size")
      fail(value.key_place, fmt::format("plan.{}: it belongs into plan.data_parallel", key));
  return choice;
}

/// The algorithm that the plan names, or the fastest for buckets of the mean size.
void choose_all_reduce(Scenario& s, const CollectiveChoice& choice) {
  s.plan.collective = choice.settings;
  std::string algorithm = choice.algorithm;
  if (algorithm == "auto" && s.plan.ranks == 1) algorithm = "ring";
  if (algorithm == "auto") {
    double elements = 0;
    for (const GradientBucket& bucket : s.plan.buckets) elements += bucket.elements;
    const Bytes mean =
        elements / static_cast<double>(std::max<std::size_t>(1, s.plan.buckets.size())) * s.plan.gradient_element;
    s.tuned = tune(Operation::all_reduce, mean, s.cluster, s.plan.ranks, choice.settings, s.software, false);
    algorithm = s.tuned->best().algorithm;
    s.plan.collective.channels = s.tuned->best().channels;
  }
  s.plan.all_reduce =
      &find_collective(Operation::all_reduce, algorithm, {0, s.plan.ranks, &s.plan.collective}, choice.place);
}

/// A step alone, of one micro-batch: every kernel, the update and the host's work.
Seconds modelled_step(const Scenario& s) {
  const auto time = [&s](const Work& work) { return rank_time(s.cluster.node, s.software, work); };
  Seconds sum = time(s.plan.optimizer) + s.software.step_overhead;
  for (const Layer& layer : s.network.layers) {
    for (const KernelCall& call : layer.forward) sum += time(call.work);
    for (const BackwardKernel& call : layer.backward) sum += time(call.work);
  }
  return sum;
}

/// Each part of the step keeps its share: gradients get ready one after the other, as they do by the model.
void take_measured(Scenario& s, const Node& node) {
  s.measured = read_measured_steps(node);
  if (!s.cluster.others.empty())
    fail(node.place, "plan.measured_step: of one device, but the cluster has several types of nodes");
  if (s.cluster.node.gpu_speed != 1)
    fail(node.place, "plan.measured_step: times of a device as it is; with gpu_speed they would say nothing");
  s.compute_scale = s.measured.at(s.micro_batch_size) / modelled_step(s);
}

/// The whole network, and where it is split one rank's part of it.
void read_networks(Scenario& s, const Node& model, const Catalog& catalog, Fields& plan) {
  NetworkSettings settings;
  settings.micro_batch_size = s.micro_batch_size;
  settings.precision = s.precision;
  settings.fusions = s.software;
  s.network = read_network(model, catalog, plan, settings);
  if (!s.parallel.any()) return;
  settings.sharding = s.parallel.sharding;
  settings.own_head = s.parallel.ends_apart();
  s.share = read_network(model, catalog, plan, settings, &s.tied);
  if (s.tied && s.parallel.zero == ZeroStage::parameters)
    fail(
        s.parallel.zero_place,
        fmt::format("plan.data_parallel.zero_stage: 3 with a pipeline, but embedding and head of {} are one weight, on "
                    "the first and the last stage: set model.tie_word_embeddings: false, or zero_stage 1",
                    s.network.name));
}

constexpr std::size_t kMostBuckets = kScratch;  // BufferRef::buffer numbers them

[[noreturn]] void too_many_buckets(const Node& plan, double count) {
  const Node* data_parallel = plan.find("data_parallel");
  const Node* bucket = data_parallel ? data_parallel->find("bucket") : nullptr;
  fail(bucket ? bucket->place : plan.place,
       fmt::format("plan.data_parallel.bucket: {:.6g} gradient buckets; at most {}", count, kMostBuckets));
}

void take_input(Scenario& s, const Node& node, const Catalog& catalog) {
  if (s.parallel.mechanism != Mechanism::all_reduce)
    fail(node.place, fmt::format("input: with mechanism all-reduce only; samples of {} are not simulated",
                                 name_of(s.parallel.mechanism)));
  s.input = read_input(node, catalog, s.cluster, s.parallel.mesh);
}

MeasuredRun read_measured_run(const Node& node) {
  Fields fields(node, "measured");
  MeasuredRun run;
  run.family = fields.text("family", "");
  run.source = fields.text("source");
  run.step_time = fields.seconds("step_time");
  if (!(run.step_time.value > 0)) fail(fields.place_of("step_time"), "measured.step_time: more than 0 expected");
  run.peak_memory = fields.bytes("peak_memory", Bytes{0});
  fields.finish();
  return run;
}

/// `step_time: 6.2 s`, or `{value, source}`: the step is taken for known.
void read_said_step(Scenario& s, Fields& plan) {
  const Node* said = plan.has("step_time") ? plan.child("step_time") : nullptr;
  if (!said) return;
  s.said_step.time = plan.seconds("step_time");
  if (s.said_step.time.value <= 0) fail(said->place, "plan.step_time: more than 0 expected");
  const Node* source = said->find("source");
  s.said_step.source = source ? source->scalar : "given in the scenario";
}

void read_faults(Scenario& s, const Node& node, const Catalog& catalog) {
  Fields faults(node, "faults");
  const bool has_servers = s.parallel.mechanism == Mechanism::parameter_server;
  s.failures = read_failures(faults, {s.cluster, s.plan.ranks, has_servers ? s.parallel.servers.count : 0}, catalog);
  s.slow = read_slow_parts(faults, s.plan.ranks);
  faults.finish();
  if (s.said_step.time.value > 0)
    for (const char* key : {"stragglers", "links"})
      if (faults.has(key))
        fail(faults.place_of(key),
             fmt::format("faults.{}: plan.step_time says how long the step takes; leave one of both "
                         "out",
                         key));
  check_failures(s.failures, s.training);
}

/// Buckets, what sums them up and applies them, and what is held for it all.
void plan_gradients(Scenario& s, const DataParallelChoice& choice, const Node& plan_node) {
  const double parameters = s.network.parameters();
  s.plan.gradient_element = gradient_size(s.precision, s.software);
  s.plan.accumulation = gradient_accumulation_work(1, s.precision, s.software);
  // Cut tensors can make as many buckets as there are bytes: counted before they are made.
  const double cuts = choice.whole_tensors ? 0 : parameters * s.plan.gradient_element.value / choice.bucket.value;
  if (cuts > kMostBuckets) too_many_buckets(plan_node, cuts);
  s.plan.buckets =
      gradient_buckets(s.network, s.plan.gradient_element, choice.first_bucket, choice.bucket, choice.whole_tensors);
  if (s.parallel.mechanism == Mechanism::parameter_server) s.plan.buckets = server_keys(s);
  if (s.plan.buckets.size() > kMostBuckets) too_many_buckets(plan_node, static_cast<double>(s.plan.buckets.size()));
  choose_all_reduce(s, choice.all_reduce);
  s.plan.optimizer = optimizer_work(parameters, s.precision, s.optimizer, s.software);
  SoftwareStack held = s.software;
  s.plan.bucket_copy = s.software.gradient_bucket_copy && s.plan.ranks > 1;  // one device has no buckets
  s.plan.host_buckets = s.software.host_buckets;
  held.gradient_bucket_copy = s.plan.bucket_copy && !s.plan.host_buckets;
  s.plan.memory = static_memory(parameters, s.precision, s.optimizer, held);
  if (s.plan.updates.delay > 0) {  // gradients of so many steps more are on their way
    const Bytes late = s.plan.updates.delay * s.plan.memory.gradients;
    s.plan.memory.parts.push_back({"gradients on their way", MemoryClass::gradients, late});
    s.plan.memory.gradients += late;
  }
  s.plan.copy_kernel = kBucketCopy;
  s.plan.wait_kernel = s.software.cycle_time.value > 0 ? kCycleWait : std::uint16_t{0};
  s.plan.collective_launch = s.software.collective_launch;
  s.plan.overhead_kernel = s.software.step_overhead.value > 0 ? kStepOverhead : std::uint16_t{0};
}

Scenario read(Node document, const std::string& name, const Overrides& overrides) {
  for (const auto& [path, value] : overrides) set_field(document, path, value);
  const Catalog catalog;
  Scenario s;
  s.name = name;
  s.document = document;
  const FrameworkMode* mode = apply_framework_mode(document);
  Fields root(document, "the scenario");
  s.name = root.text("name", name);
  const Node& cluster = root.required_child("cluster");
  const Node& model = root.required_child("model");
  const Node& plan_node = root.required_child("plan");
  const Node* software = root.child("software");
  const Node* input = root.child("input");
  if (const Node* run = root.child("measured")) s.measured_run = read_measured_run(*run);
  const Node* faults = root.child("faults");
  root.finish();

  s.cluster = read_cluster(cluster, catalog);
  s.software_given = software != nullptr;
  Node plain;
  plain.kind = Node::Kind::scalar;
  plain.scalar = "plain";
  plain.place = document.place;
  s.software = read_stack(catalog.resolve("stack", software ? *software : plain));

  if (s.software.long_runs) {
    s.cluster.node.gpu = sustained(s.cluster.node.gpu);
    for (NodeGroup& group : s.cluster.others) group.type.gpu = sustained(group.type.gpu);
  }

  Fields plan(plan_node, "plan");
  s.strategy = plan.text("strategy", "");
  s.precision = precision_of(plan, s.cluster);
  const DataParallelChoice choice = read_data_parallel(s, plan, plan_node);
  if (input) take_input(s, *input, catalog);
  if (mode) require_mode_fits(*mode, s.cluster, s.plan.ranks, plan.place_of("strategy"));
  split_batch(s, plan);
  if (s.input.used() && s.input.supply.samples < static_cast<double>(s.global_batch_size))
    fail(input->find("dataset")->place,
         fmt::format("input.dataset.samples: {}, but a step takes {}", s.input.supply.samples, s.global_batch_size));
  s.optimizer = find_optimizer(plan.text("optimizer", "adam"), plan.place_of("optimizer"));
  read_networks(s, model, catalog, plan);
  if (plan.has("training"))
    s.training = read_training_length(*plan.child("training"), static_cast<double>(s.global_batch_size),
                                      static_cast<double>(s.network.tokens_per_sample));
  read_said_step(s, plan);
  if (input && s.said_step.time.value > 0)
    fail(input->place, "input: plan.step_time says how long the step takes; leave one of both out");
  if (faults) read_faults(s, *faults, catalog);
  const Node* steps = plan.has("steps") ? plan_node.find("steps") : nullptr;
  const Node* measured = plan.has("measured_step") ? plan.child("measured_step") : nullptr;
  plan.finish();

  plan_gradients(s, choice, plan_node);
  if (s.parallel.any()) {
    if (measured) fail(measured->place, "plan.measured_step: of one device that does all; this plan splits the model");
    s.mesh_plan = plan_of_mesh(s, {choice.first_bucket, choice.bucket, choice.whole_tensors});
    for (const StagePlan& stage : s.mesh_plan.stages)
      if (stage.buckets.size() > kMostBuckets) too_many_buckets(plan_node, static_cast<double>(stage.buckets.size()));
  }
  if (measured) take_measured(s, *measured);
  choose_steps(s, steps ? &steps->place : nullptr);
  s.sources = sources_of(s, choice.all_reduce);
  return s;
}

}  // namespace

std::string all_reduce_name(const Scenario& s) {
  return s.plan.collective.fidelity == Fidelity::modelled ? "NCCL" : s.plan.all_reduce->name;
}

Scenario read_scenario(const fs::path& path, const Overrides& overrides) {
  return read(read_document(path), path.stem().string(), overrides);
}

Scenario read_scenario_text(std::string_view text, const std::string& name, const Overrides& overrides) {
  return read(parse_document(text, name), fs::path(name).stem().string(), overrides);
}

Scenario read_again(const Scenario& s, const Overrides& overrides) { return read(s.document, s.name, overrides); }

std::pair<std::string, std::string> parse_override_option(const std::string& option) {
  const std::size_t at = option.find('=');
  if (at == std::string::npos || at == 0)
    throw UserError(fmt::format("--set {}: expected path=value, such as plan.micro_batch_size=8", option));
  return {option.substr(0, at), option.substr(at + 1)};
}

}  // namespace trainyard
