#include "scenarios/src/reading/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/hardware/attention_kernel.hpp"
#include "models/networks/layers/fp8_products.hpp"
#include "models/reading/nearest.hpp"
#include "models/reading/short_form.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/reading/learn_choice.hpp"
#include "scenarios/src/reading/measured_family.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "scenarios/src/reading/read_stages.hpp"
#include "scenarios/src/reading/used_sources.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisions; ++i) names.emplace_back(name_of(static_cast<Precision>(i)));
  return names;
}

/// What is kept and updated; fp8: that of products alone, of which `multiplies_in_fp8` tells.
Precision precision_of(Fields& plan, const ClusterSpec& cluster, bool& multiplies_in_fp8) {
  const std::vector<std::string> names = precision_names();
  const Precision precision = parse_precision(plan.choice(
      {"precision", "of weights and activations in matrix products; with master weights in fp32"}, names, "bf16"));
  multiplies_in_fp8 = precision == Precision::fp8;
  try {
    if (!multiplies_in_fp8) require_training_precision(precision);
  } catch (const UserError& e) {
    plan.refuse("precision", e.what());
  }
  for (const NodeType* type : cluster.types()) {
    const Gpu& gpu = type->gpu;
    if (gpu.peak[static_cast<std::size_t>(precision)].value > 0) continue;
    std::vector<std::string> has;
    for (int i = 0; i < kPrecisions; ++i)
      if (gpu.peak[i].value > 0) has.push_back(names[i]);
    plan.refuse("precision",
                fmt::format("{} has no {}; it has {}", gpu.name, name_of(precision), fmt::join(has, ", ")));
  }
  return multiplies_in_fp8 ? Precision::bf16 : precision;
}

/// Takes the stack's figures for products in fp8, and their scaling from the plan or else from the stack. Products with
/// a scale a row are slower than with one a tensor. `known`: the cluster has been told before.
void set_fp8(Scenario& s, Fields& plan, bool known) {
  if (!s.fp8 && plan.has("fp8_scaling")) plan.refuse("fp8_scaling", "only with precision fp8");
  if (s.fp8) s.software.parallel.user_buffers = s.software.parallel.user_buffers_fp8;
  std::vector<std::string> words = fp8_scalings();
  words.emplace_back("tensor");
  Fp8Scaling& scaling = s.software.fp8_scaling;
  const std::string word =
      plan.choice({"fp8_scaling",
                   "scales of fp8: a tensor's by the maxima of earlier steps (delayed) or its own (current), a row's, "
                   "a block's; tensor: current where the stack's is, else delayed; default: the stack's"},
                  words, words[static_cast<std::size_t>(scaling)]);
  if (word != "tensor")
    scaling = parse_fp8_scaling(word);
  else if (scaling != Fp8Scaling::current)
    scaling = Fp8Scaling::delayed;
  if (!s.fp8 || known || scaling != Fp8Scaling::row) return;
  const auto set = [&](NodeType& type) { type.gpu.gemm.fp8 /= s.software.slowdowns.rowwise_fp8; };
  set(s.cluster.node);
  for (NodeGroup& group : s.cluster.others) set(group.type);
}

/// Samples of the step over ranks and micro-batches. An indivisible batch is refused with the nearest that fits.
void split_batch(Scenario& s, Fields& plan) {
  constexpr std::int64_t most_micro = 1 << 24, most_global = std::int64_t{1} << 32;
  const auto bounded = [&plan](const char* key, std::int64_t value, std::int64_t most, const char* unit = "samples") {
    if (value > most) plan.refuse(key, fmt::format("{} {}; at most {}", value, unit, most));
    return value;
  };
  s.micro_batch_size = bounded(
      "micro_batch_size", plan.integer({"micro_batch_size", "samples of a forward pass on a rank"}, 1), most_micro);
  const int data = s.plan.mesh.data;
  const std::int64_t unit = s.micro_batch_size * data;
  s.global_batch_size =
      bounded("global_batch_size", plan.integer({"global_batch_size", "samples of a step, over all ranks"}, 1, unit),
              most_global);
  if (s.global_batch_size % unit != 0)
    plan.refuse(
        "global_batch_size",
        fmt::format("{} is not a multiple of {} (micro_batch_size {} x {} ranks); nearest: {}", s.global_batch_size,
                    unit, s.micro_batch_size, data, nearest_multiples(unit, s.global_batch_size)));
  if (s.global_batch_size / unit > 1 << 16) plan.refuse("global_batch_size", "over 65536 micro-batches a rank");
  if (!plan.has("steps")) return;
  constexpr std::int64_t most_steps = 1 << 20;
  s.plan.steps = static_cast<int>(bounded(
      "steps",
      plan.integer(
          {"steps",
           "steps to simulate, of those that are alike at most 1,000 (default: until the mean is known within 1 %)"},
          1),
      most_steps, "steps"));
  s.plan.steps_place = plan.place_of("steps");
}

/// All of a network but its layers.
Network without_layers(const Network& network) {
  Network rest;
  rest.name = network.name;
  rest.source = network.source;
  rest.precision = network.precision;
  rest.tokens_per_sample = network.tokens_per_sample;
  rest.weights_reused = network.weights_reused;
  rest.tables = network.tables;
  return rest;
}

/// Chips of the generations since Blackwell multiply operands in fp8 that lie along any dimension, as AMD's do; Ada's and
/// Hopper's only those that lie along what is summed over (cuBLAS: fp8 products are "TN").
bool multiplies_any_layout(const ClusterSpec& cluster) {
  const std::vector<const NodeType*> types = cluster.types();
  return std::all_of(types.begin(), types.end(), [](const NodeType* type) {
    return type->gpu.architecture != "hopper" && type->gpu.architecture != "ada";
  });
}

/// The whole network; it may be shared out as the plan says (see `plan`).
void read_model(Scenario& s, const Node& model, const Catalog& catalog, Fields& plan, const Scenario* of) {
  s.model = read_model(model, catalog, plan, s.software, of ? &of->model.entry : nullptr);
  if (s.fp8 && !s.model.entry.transformer())
    plan.refuse("precision", "products in fp8 are of transformers; expected fp32, tf32, fp16 or bf16");
  s.model.options.fp8 = s.fp8;
  s.model.options.fp8_any_layout = s.fp8 && multiplies_any_layout(s.cluster);
  if (s.fp8 && s.software.fp8_attention && !s.model.options.flash_attention)
    fail(model.place,
         "software.fp8_attention: of the fused kernel of attention alone, and this plan writes its scores; expected "
         "plan.flash_attention: true, or software.fp8_attention: false");
  s.network = of ? without_layers(of->network) : network_of(s.model, s.micro_batch_size, s.precision);
  if (of) s.network.samples = s.micro_batch_size;
  if (s.plan.sharding.splits_linear_layers() && !s.model.entry.mlp())
    fail(s.model.split_keys.at("linear_split").second,
         "plan.linear_split: it is of the linear layers of an mlp; other networks are split in one way");
  check_stages(s);
  if (s.plan.ends_apart() && ties_head(s.model) && s.plan.zero == ZeroStage::parameters)
    fail(
        s.plan.zero_place,
        fmt::format("plan.data_parallel.zero_stage: 3 with a pipeline, but embedding and head of {} are one weight, on "
                    "the first and the last stage: set model.tie_word_embeddings: false, or zero_stage 1",
                    s.network.name));
}

/// How far above the peak a kernel's counted FLOPs may be done: by what the chip's entry has, and by as much as any library
/// saves of 3 x 3 convolutions, for a measured time may be of a faster one than the entry's.
double most_of_peak(const Gpu& gpu, Kernel kind) {
  const double known = std::max(1.0, gpu.efficiency[static_cast<std::size_t>(kind)].flops);
  return kind == Kernel::convolution_3x3 ? std::max(known, kMostCountedFlops) : known;
}

/// The time that so many samples take so many devices at best: every kernel at the peak, or above it where its library
/// computes fewer multiplications than are counted.
Seconds least_time(const Scenario& s, double samples, int devices) {
  double seconds = 0;
  const auto add = [&](const Work& work) {
    double rate = 0;
    for (const NodeType* type : s.cluster.types())
      for (const Precision p : {s.precision, s.multiplied_in()})
        rate = std::max(
            rate, type->gpu.peak[static_cast<std::size_t>(p)].value * most_of_peak(type->gpu, kind_of(work.kernel)));
    seconds += work.flops.value / rate;
  };
  for (const Layer& layer : s.network.layers) {
    for (const KernelCall& call : layer.forward) add(call.work);
    for (std::size_t k = 0; k < layer.backward.size() && !s.plan.inference; ++k) add(layer.backward[k].work);
  }
  return Seconds{seconds * samples / static_cast<double>(std::max<std::int64_t>(1, s.network.samples)) / devices};
}

/// No device computes faster than its peak: such a time is of another precision, or of other devices.
void require_possible(const Scenario& s, Seconds time, double samples, int devices, const Place& place,
                      const std::string& what) {
  const Seconds least = least_time(s, samples, devices);
  if (time >= least || s.plan.sharding.expert_capacity > 0) return;
  fail(place,
       fmt::format("{}: {} for {} samples on {} device{} is {:.0f} % of the {} peak; expected {} or more, or the "
                   "precision and the number of devices that the time is of",
                   what, show(time), samples, devices, devices == 1 ? "" : "s", least / time * 100,
                   name_of(s.multiplied_in()), show(least)));
}

/// `precision`, where the map says of which one its times are.
void require_precision(const Scenario& s, Fields& of) {
  const Precision precision = parse_precision(
      of.choice({"precision", "precision of that step (default: the plan's); another one in the plan is refused"},
                precision_names(), name_of(s.multiplied_in())));
  if (precision != s.multiplied_in())
    of.refuse("precision",
              fmt::format("a time in {}, but plan.precision is {}", name_of(precision), name_of(s.multiplied_in())));
}

void take_measured(Scenario& s, const Node& node, const Catalog& catalog) {
  if (s.plan.splits_model())
    fail(node.place, "plan.measured_step: of one device that does all; this plan splits the model");
  s.measured = read_measured_steps(node);
  require_steps_of(s.measured, s.model, s.precision, catalog);
  if (!s.cluster.others.empty())
    fail(node.place, "plan.measured_step: of one device, but the cluster has several types of nodes");
  if (s.cluster.node.gpu_speed != 1)
    fail(node.place, "plan.measured_step: times of a device as it is; with gpu_speed they would say nothing");
  Fields fields(node, "plan.measured_step");
  require_precision(s, fields);
  require_possible(s, s.measured.at(s.micro_batch_size), static_cast<double>(s.micro_batch_size), 1, node.place,
                   "plan.measured_step");
}

void take_input(Scenario& s, const Node& node, const Catalog& catalog) {
  if (!s.plan.mechanism->ranks_alike())
    fail(node.place,
         fmt::format("input: with mechanism all-reduce only; samples of {} are not simulated", s.plan.mechanism_name));
  s.input = read_input(node, catalog, s.cluster, s.plan.mesh);
}

/// `step_time: 6.2 s`, or `{value, source, precision, devices}`: of what the time is.
void read_prescribed_step(Scenario& s, Fields& plan) {
  const Node* node = plan.stated("step_time");
  if (!node) return;
  s.prescribed_step.source = "given in the scenario";
  if (node->kind == Node::Kind::map) {
    Node map = long_form(node, "value", node->place);
    std::erase_if(map.fields, [](const auto& field) { return field.first == "unverified"; });
    Fields fields(map, "plan.step_time");
    s.prescribed_step.time = fields.seconds({"value", "that time"});
    s.prescribed_step.source = fields.text({"source", "where that time is from"}, s.prescribed_step.source);
    require_precision(s, fields);
    if (const int devices = fields.integer<int>(
            {"devices", "ranks whose step that is (default: those of the plan); another number in the plan is refused"},
            1, s.ranks());
        devices != s.ranks())
      fields.refuse("devices", fmt::format("a time of {}, but the plan has {} ranks", devices, s.ranks()));
    fields.finish();
  } else {
    s.prescribed_step.time = plan.seconds({"step_time", "of a step that is not simulated"});
  }
  if (!s.prescribed_step.given()) fail(node->place, "plan.step_time: more than 0 expected");
  require_possible(s, s.prescribed_step.time, static_cast<double>(s.global_batch_size), s.ranks(), node->place,
                   "plan.step_time");
}

/// Of forward passes alone, what only a training has.
void require_inference(Scenario& s, Fields& root, Fields& plan) {
  const auto refuse = [](const Place& where, const std::string& what) {
    fail(where, fmt::format("{}: of a training, but plan.mode is inference; leave one of both out", what));
  };
  for (const char* key : {"optimizer", "training", "measured_step", "step_time", "recompute", "activation_offload"})
    if (plan.has(key)) refuse(plan.place_of(key), fmt::format("plan.{}", key));
  for (const char* key : {"learn", "faults", "input"})
    if (root.has(key)) refuse(root.place_of(key), key);
  if (s.plan.mechanism_name != kAllReduce || s.plan.zero != ZeroStage::none || s.plan.offload.used())
    refuse(s.plan.place, "plan.data_parallel: a mechanism other than all-reduce, ZeRO and offload");
  s.optimizer = find_optimizer("sgd", s.plan.place);
}

void read_faults(Scenario& s, const Node& node, const Catalog& catalog) {
  Fields faults(node, "faults");
  const Mechanism& mechanism = *s.plan.mechanism;
  s.failures = read_failures(faults, {s.cluster, s.ranks(), mechanism.servers(), mechanism.survives_server()}, catalog);
  s.slow = read_slow_parts(faults, s.ranks());
  faults.finish();
  if (s.prescribed_step.given())
    for (const char* key : {"stragglers", "links"})
      if (faults.has(key)) faults.refuse(key, "plan.step_time says how long the step takes; leave one of both out");
  check_failures(s.failures, s.training);
}

void set_slowdowns(const SoftwareStack::Slowdowns& slow, Gpu& gpu) {
  const auto of = [&gpu](Kernel kernel) -> Gpu::Efficiency& {
    return gpu.efficiency[static_cast<std::size_t>(kernel)];
  };
  of(Kernel::elementwise).memory /= slow.elementwise;
  of(Kernel::embedding).memory /= slow.elementwise;
  of(Kernel::optimizer).memory /= slow.optimizer;
  of(Kernel::gemm).flops /= slow.products;
  gpu.gemm.clock /= slow.products;
  if (slow.overlapped > 0) gpu.compute_while_communicating = 1 / slow.overlapped;
}

/// The chips as the software drives them: with its attention kernel, within their power limit, and for as long as its runs
/// last.
void set_rates_of(const SoftwareStack& software, ClusterSpec& cluster, const Catalog& catalog) {
  AttentionKernel attention;
  if (!software.attention_kernel.empty())
    attention =
        read_attention_kernel(catalog.entry("attention", software.attention_kernel, software.attention_kernel_place));
  const auto set = [&](NodeType& type) {
    attention.drive(type.gpu, type.sources);
    // Convolutions that the stack's library does well stream as any kernel where they are bound by memory.
    if (const auto share = software.convolutions.find(type.gpu.architecture); share != software.convolutions.end())
      type.gpu.efficiency[static_cast<std::size_t>(Kernel::convolution)] = {
          share->second, type.gpu.efficiency[static_cast<std::size_t>(Kernel::elementwise)].memory};
    type.gpu = within_power_limit(type.gpu);
    if (software.long_runs) type.gpu = sustained(type.gpu);
    set_slowdowns(software.slowdowns, type.gpu);
  };
  set(cluster.node);
  for (NodeGroup& group : cluster.others) set(group.type);
}

/// Cluster, software and what goes with them; as in `of`, where they were read before.
void read_surroundings(Scenario& s, Fields& root, const Catalog& catalog, const Scenario* of) {
  const Node& cluster = root.required_child("cluster");
  const Node* software =
      root.child({"software",
                  "software stack: what launching, exchanges and buffers cost (trainyard list stacks); {base: NAME, "
                  "nccl_version: 2.18, nccl_pxn: false}: which NCCL, and as with NCCL_PXN_DISABLE=1"});
  const Node* site = root.stated({"site", "what the place adds to the power of the nodes: a name, or {pue: 1.2}"});
  const Node* prices =
      root.stated({"prices", "what devices, nodes and energy cost: {gpu_hour: {NAME: 2.5}, node_hour, kwh, currency}"});
  s.software_given = software != nullptr;
  if (of) {
    s.cluster = of->cluster;
    s.software = of->software;
    s.library = of->library;
    s.site = of->site;
    s.prices = of->prices;
    return;
  }
  s.cluster = read_cluster(cluster, catalog);
  s.site = read_site(catalog.resolve("site", site ? *site : Node::of_text("average", s.document.place)));
  if (prices) {
    s.prices = read_prices(catalog.resolve("price", *prices));
    for (const NodeType* type : s.cluster.types()) s.prices.gpu_hour(type->name, type->gpu.name, type->gpus);
  }
  const Node plain = Node::of_text("plain", s.document.place);
  s.software = read_stack(catalog.resolve("stack", software ? *software : plain));
  set_rates_of(s.software, s.cluster, catalog);
  s.library = library_of(s.cluster, s.software);
}

/// `of`: a scenario that differs in its plan alone.
Scenario read(Node document, const std::string& name, const Overrides& overrides, const Scenario* of = nullptr) {
  // What a lesson or a task says of its scenario is for its reader.
  std::erase_if(document.fields, [](const auto& field) { return field.first == "lesson" || field.first == "task"; });
  for (const auto& [path, value] : overrides) set_field(document, path, value);
  const Catalog catalog;
  Scenario s;
  s.name = name;
  s.document = document;
  const FrameworkMode* mode = apply_framework_mode(document);
  Fields root(document, "the scenario");
  s.name = root.text({"name", "how answers call the scenario (its file's name)"}, name);
  root.require_all({"cluster", "model", "plan"});
  const Node& model = root.required_child(
      {"model", "the network: a name, {config: FILE}, or a map laid on {base: NAME} (trainyard list networks)"});
  const Node& plan_node = root.required_child("plan");
  const Node* input = root.stated("input");
  const Node* measured = root.child({"measured", "what was measured of this run, to compare with"});
  const Node *faults = root.stated("faults"), *learn = root.stated("learn");
  s.transport = root.one_of(
      {"transport",
       "who shares links among messages: flow, by our solver; native, by SimGrid's (slower, equal to 1e-9); "
       "or packets: TCP packet by packet, by ns-3 (TCP networks only, slow)"},
      {kTransportNames.begin(), kTransportNames.end()}, TransportKind::flow);
  read_surroundings(s, root, catalog, of);
  root.finish();

  Fields plan(plan_node, "plan");
  s.strategy = plan.text(
      {"strategy", "a framework's word for how it trains on several devices (trainyard list strategies)"}, "");
  s.precision = precision_of(plan, s.cluster, s.fp8);
  set_fp8(s, plan, of != nullptr);
  s.plan = errors_in_words_of(device_noun(s.cluster),
                              [&] { return read_plan(plan_node, plan, s.cluster, s.software, s.library.get()); });
  s.plan.inference = plan.choice({"mode", "training, or inference: forward passes alone"}, {"training", "inference"},
                                 "training") == "inference";
  if (mode) require_schedule(*mode, s.plan);
  if (input) take_input(s, *input, catalog);
  if (mode) require_mode_fits(*mode, s.cluster, s.ranks(), plan.place_of("strategy"));
  split_batch(s, plan);
  if (s.input.used() && s.input.supply.samples < static_cast<double>(s.global_batch_size))
    fail(input->find("dataset")->place,
         fmt::format("input.dataset.samples: {}, but a step takes {}", s.input.supply.samples, s.global_batch_size));
  if (s.plan.inference)
    require_inference(s, root, plan);
  else
    s.optimizer = find_optimizer(plan.text({"optimizer", "what updates the weights; its states take memory"}, "adam"),
                                 plan.place_of("optimizer"));
  read_model(s, model, catalog, plan, of);
  if (plan.has("training"))
    s.training = read_training_length(*plan.child("training"), static_cast<double>(s.global_batch_size),
                                      static_cast<double>(s.network.tokens_per_sample), catalog);
  read_prescribed_step(s, plan);
  if (input && s.prescribed_step.given())
    fail(input->place, "input: plan.step_time says how long the step takes; leave one of both out");
  if (faults) read_faults(s, *faults, catalog);
  if (plan.has("measured_step")) take_measured(s, *plan.child("measured_step"), catalog);
  plan.finish();
  if (measured)
    s.measured_run = read_measured_run(*measured, s.network, static_cast<double>(s.global_batch_size), s.ranks());
  if (learn) s.learn = read_learn(*learn, s);
  if (!of) s.sources = sources_of(s);
  return s;
}

}  // namespace

Scenario read_scenario(const fs::path& path, const Overrides& overrides) {
  const std::string name = path.filename().string();
  const std::size_t row = name.rfind('@');
  return read(read_scenario_document(path), row == std::string::npos ? path.stem().string() : name.substr(row + 1),
              overrides);
}

Scenario read_scenario(const Node& document, const std::string& name, const Overrides& overrides) {
  return read(document, name, overrides);
}

Scenario read_scenario_text(std::string_view text, const std::string& name, const Overrides& overrides) {
  return read(parse_document(text, name), fs::path(name).stem().string(), overrides);
}

Scenario read_with_plan(const Scenario& s, const Node& plan) {
  Node document = s.document;
  *document.find("plan") = plan;
  return read(std::move(document), s.name, {}, &s);
}

Scenario read_again(const Scenario& s, const Overrides& overrides) {
  return read_scenario(s.document, s.name, overrides);
}

std::pair<std::string, std::string> parse_override_option(const std::string& option) {
  const std::size_t at = option.find('=');
  if (at == std::string::npos || at == 0)
    throw UserError(fmt::format("--set {}: expected path=value, such as plan.micro_batch_size=8", option));
  return {option.substr(0, at), option.substr(at + 1)};
}

Overrides parse_overrides(const std::vector<std::string>& options) {
  Overrides overrides;
  for (const std::string& option : options) overrides.push_back(parse_override_option(option));
  return overrides;
}

}  // namespace trainyard
