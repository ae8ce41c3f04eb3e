#include "scenarios/src/reading/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/energy/price_names.hpp"
#include "models/fitted/measured_family.hpp"
#include "models/hardware/attention_kernel.hpp"
#include "models/reading/document.hpp"
#include "models/reading/nearest.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/reading/learn_choice.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "scenarios/src/reading/read_precision.hpp"
#include "scenarios/src/reading/read_stages.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

/// Reads the batch sizes and the number of steps. Throws UserError with the nearest multiple if the global batch does
/// not divide into micro-batches.
void split_batch(Scenario& s, Fields& plan, PostTrainingChoice* post_training) {
  s.micro_batch_size =
      plan.integer_within({"micro_batch_size", "Number of samples in one forward pass of a rank, for example 4."}, 1,
                          std::int64_t{1} << 24);
  const int data = s.plan.mesh.data;
  std::int64_t unit = s.micro_batch_size * data;
  s.global_batch_size = plan.integer({"global_batch_size",
                                      "Number of samples in one step, over all ranks, for example 256. Default: one "
                                      "micro-batch for each data rank, or with post_training all samples of a step."},
                                     1, post_training ? post_training->samples() : unit);
  if (constexpr std::int64_t most = std::int64_t{1} << 32; s.global_batch_size > most)
    plan.refuse("global_batch_size", fmt::format("{} samples; at most {}", s.global_batch_size, most));
  if (post_training && !s.plan.inference)
    take_training_samples(*post_training, s.global_batch_size, plan.place_of("global_batch_size"));
  if (post_training && post_training->has_dynamic_batches()) {
    const SamplePacks& packs = *post_training->packs;
    const SamplePacks::Batches batches = packs.divided(s.global_batch_size, data, packs.most_tokens);
    s.micro_batch_size = batches.micro;
    s.global_batch_size = batches.global;
    unit = s.micro_batch_size * data;
  } else if (post_training && post_training->packs) {
    const SamplePacks& packs = *post_training->packs;
    const std::int64_t of_rank = packs.of_rank(s.global_batch_size, data);
    if (!s.plan.inference && s.micro_batch_size > of_rank * packs.sequences)
      plan.refuse("micro_batch_size",
                  fmt::format("{} packs, but a rank has {} in an optimizer step; expected at most {}",
                              s.micro_batch_size / packs.sequences, counted_noun(of_rank, "pack"), of_rank));
    s.global_batch_size = packs.count(s.global_batch_size, unit);
  }
  if (s.global_batch_size % unit != 0)
    plan.refuse(
        "global_batch_size",
        fmt::format("{} is not a multiple of {} (micro_batch_size {} x {}); nearest: {}", s.global_batch_size, unit,
                    s.micro_batch_size, counted_noun(data, "rank"), nearest_multiples(unit, s.global_batch_size)));
  if (s.global_batch_size / unit > 1 << 16) plan.refuse("global_batch_size", "over 65536 micro-batches a rank");
  if (!plan.has("steps")) return;
  s.plan.steps = plan.integer_within(
      {"steps",
       "Number of steps to simulate, for example 10 (at most 1,000 are simulated if all steps are alike; whole periods "
       "of "
       "periodic stragglers). Default: a few if steps are alike, else until the mean step time is known within 1 %."},
      1, 1 << 20);
  s.plan.steps_place = plan.place_of("steps");
}

/// Returns a copy of the network without its layers.
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

/// Returns true if all chips multiply fp8 operands of any memory layout, as NVIDIA's since Blackwell and AMD's do. Ada
/// and Hopper need operands that are contiguous along the summed dimension (cuBLAS: fp8 products are "TN").
bool multiplies_any_layout(const ClusterSpec& cluster) {
  const std::vector<const NodeType*> types = cluster.types();
  return std::ranges::all_of(types, [](const NodeType* type) {
    return type->gpu.architecture != "hopper" && type->gpu.architecture != "ada";
  });
}

/// Reads the model and makes the whole network (see `plan` for one rank's part). If `base` is given, takes the
/// network's description from it and makes no layers.
void read_model(Scenario& s, const Node& model, const Catalog& catalog, Fields& plan, const Scenario* base) {
  s.model = read_model(model, catalog, plan, s.software, base ? &base->model.entry : nullptr);
  if (s.fp8 && !s.model.entry.transformer())
    plan.refuse("precision", "only transformers have products in fp8; expected fp32, tf32, fp16 or bf16");
  s.model.options.fp8 = s.fp8;
  find_places(s.model, s.plan.mesh, s.cluster.gpus());
  if (!s.fp8 && s.model.wide_blocks_first + s.model.wide_blocks_last > 0)
    fail(s.model.wide_blocks_place, "plan.bf16_blocks: only with precision fp8 or fewer bits");
  s.model.options.fp8_any_layout = s.fp8 && multiplies_any_layout(s.cluster);
  if (s.fp8 && s.software.fp8_attention && !s.model.options.flash_attention)
    fail(model.place,
         "software.fp8_attention: only the fused attention kernel computes in fp8, and this plan writes the scores; "
         "expected plan.flash_attention: true, or software.fp8_attention: false");
  s.network = base ? without_layers(base->network) : network_of(s.model, s.micro_batch_size, s.precision);
  if (base) s.network.samples = s.micro_batch_size;
  if (s.plan.sharding.splits_linear_layers() && !s.model.entry.mlp())
    fail(s.model.split_keys.at("linear_split").second,
         "plan.linear_split: only the linear layers of an mlp have a choice; other networks are split in one way");
  check_stages(s);
  if (const TransformerConfig* config = s.model.entry.transformer();
      config && config->shared_blocks.count > 0 && s.plan.mesh.pipeline > 1)
    fail(model.place,
         fmt::format("plan.pipeline_parallel: {} stages, but layers of {} share blocks of weights; expected 1: copies "
                     "of a block on several stages, and the sum of their gradients, are not modelled",
                     s.plan.mesh.pipeline, s.network.name));
  if (s.plan.ends_apart() && ties_head(s.model) && s.plan.zero == ZeroStage::parameters)
    fail(s.plan.zero_place,
         fmt::format("plan.data_parallel.zero_stage: 3 with a pipeline, but embedding and head of {} are one weight, "
                     "on the first and the last stage: set model.tie_word_embeddings: false, or zero_stage 1",
                     s.network.name));
}

void take_measured(Scenario& s, const Node& node, const Catalog& catalog) {
  if (s.plan.splits_model())
    fail(node.place,
         "plan.measured_step: these are times of one device with the whole model; this plan splits the model");
  s.measured = read_measured_steps(node);
  require_steps_of(s.measured, s.model, s.precision, catalog);
  if (!s.cluster.others.empty())
    fail(node.place,
         "plan.measured_step: these are times of one type of device, but the cluster has several types of nodes");
  if (s.cluster.node.gpu_speed != 1)
    fail(node.place, "plan.measured_step: these are times of an unchanged device; leave cluster.gpu_speed out");
  Fields fields(node, "plan.measured_step");
  require_precision(s, fields);
  require_possible(s, s.measured.step_time(s.micro_batch_size), static_cast<double>(s.micro_batch_size), 1, node.place,
                   "plan.measured_step");
}

void take_input(Scenario& s, const Node& node, const Catalog& catalog) {
  if (!s.plan.mechanism->ranks_alike())
    fail(node.place,
         fmt::format("input: with mechanism all-reduce only; samples of {} are not simulated", s.plan.mechanism_name));
  s.input = read_input(node, catalog, s.cluster, s.plan.mesh);
}

/// Reads `step_time: 6.2 s` or `step_time: {value, source, precision, devices}`.
void read_prescribed_step(Scenario& s, Fields& plan) {
  const Node* node = plan.child_unless_null("step_time");
  if (!node) return;
  s.prescribed_step.source = "given in the scenario";
  if (node->kind == Node::Kind::map) {
    Node map = long_form(node, "value", node->place);
    std::erase_if(map.fields, [](const auto& field) { return field.first == "unverified"; });
    Fields fields(map, "plan.step_time");
    s.prescribed_step.time = fields.seconds({"value", "Time of one step, for example 6.2 s."});
    fields.read({"source", "Source of that time, for example our run of May."}, s.prescribed_step.source);
    require_precision(s, fields);
    if (const int devices = fields.integer<int>({"devices",
                                                 "Number of ranks that execute that step, for example 8. Default: the "
                                                 "plan's. A different number in the plan is an error."},
                                                1, s.ranks());
        devices != s.ranks())
      fields.refuse("devices", fmt::format("a time of {}, but the plan has {} ranks", devices, s.ranks()));
    fields.finish();
  } else {
    s.prescribed_step.time = plan.seconds({"step_time",
                                           "Time of one step, for example 6.2 s, which is taken as given instead of "
                                           "simulated. Default: the step is simulated."});
  }
  if (!s.prescribed_step.exists()) fail(node->place, "plan.step_time: more than 0 expected");
  require_possible(s, s.prescribed_step.time, static_cast<double>(s.global_batch_size), s.ranks(), node->place,
                   "plan.step_time");
}

/// Throws UserError for keys that only a training has, in a plan of forward passes only.
void require_inference(Scenario& s, Fields& root, Fields& plan) {
  const auto refuse = [](const Place& where, const std::string& what) {
    fail(where, fmt::format("{}: only for training, but plan.mode is inference; leave one of them out", what));
  };
  for (const char* key : {"optimizer", "training", "measured_step", "step_time", "recompute", "activation_offload"})
    if (plan.has(key)) refuse(plan.place_of(key), fmt::format("plan.{}", key));
  for (const char* key : {"learn", "faults", "input", "post_training"})
    if (root.has(key)) refuse(root.place_of(key), key);
  if (s.plan.mechanism_name != kAllReduce || s.plan.zero != ZeroStage::none || s.plan.offload.is_used())
    refuse(s.plan.place, "plan.data_parallel: a mechanism other than all-reduce, ZeRO and offload");
  s.optimizer = find_optimizer("sgd", s.plan.place);
}

void read_faults(Scenario& s, const Node& node, const Catalog& catalog) {
  Fields faults(node, "faults");
  if (s.post_training) {
    s.failures = read_loop_failures(faults, s, catalog);
    return faults.finish();
  }
  const Mechanism& mechanism = *s.plan.mechanism;
  s.failures = read_failures(faults, {s.cluster, s.ranks(), mechanism.servers(), mechanism.survives_server()}, catalog);
  s.slow = read_slow_parts(faults, s.ranks());
  faults.finish();
  if (s.prescribed_step.exists())
    for (const char* key : {"stragglers", "links"})
      if (faults.has(key)) faults.refuse(key, "plan.step_time says how long the step takes; leave one of them out");
  check_failures(s.failures, s.training);
}

/// Sets the rates of the chips under this software: with its attention kernel, within their power limit, and with the
/// sustained rates if its runs are long.
void set_rates_of(const SoftwareStack& software, ClusterSpec& cluster, const Catalog& catalog) {
  AttentionKernel attention;
  if (!software.attention_kernel.empty())
    attention =
        read_attention_kernel(catalog.entry("attention", software.attention_kernel, software.attention_kernel_place));
  const auto set = [&](NodeType& type) {
    attention.drive(type.gpu, type.sources);
    // Convolutions with a figure in the stack stream data as fast as elementwise kernels if memory bounds them.
    if (software.convolutions > 0)
      type.gpu.efficiency[static_cast<std::size_t>(Kernel::convolution)] = {
          software.convolutions, type.gpu.efficiency[static_cast<std::size_t>(Kernel::elementwise)].memory};
    type.gpu = within_power_limit(type.gpu);
    if (software.long_runs) type.gpu = sustained_gpu(type.gpu);
    software.slowdowns.slow_down(type.gpu);
  };
  set(cluster.node);
  for (NodeGroup& group : cluster.others) set(group.type);
}

/// Reads the cluster, software, site and prices, or copies them from `base` if that is given.
void read_surroundings(Scenario& s, Fields& root, const Catalog& catalog, const Scenario* base,
                       PostTrainingChoice* post_training, PostTrainingChoice* generation) {
  const Node& cluster = root.required_child("cluster");
  const Node* software =
      root.child({"software",
                  "Software stack, which sets the costs of kernel launches, exchanges and buffers, for example "
                  "megatron-core (trainyard list stacks). {base: NAME, nccl_version: 2.18, nccl_pxn: false} sets the "
                  "version of NCCL, and NCCL_PXN_DISABLE=1. Default: plain, or the stack of plan.strategy."});
  const Node* site = root.child_unless_null(
      {"site",
       "Site of the cluster, whose PUE multiplies the power of the nodes: a name, for example hyperscale (trainyard "
       "list sites), or {pue: 1.2, kwh: 0.1}. Default: average, also for the PUE."});
  const Node* prices = root.child_unless_null(
      {"prices",
       "Prices of devices, nodes and energy, for example {gpu_hour: {h100-sxm5-80gb: 2.5}, kwh: 0.1, currency: EUR}. "
       "Other keys: node_hour, reserved, spot and purchase, {node: {NAME: 300000}, years: 5, interest: 0.05, owned: "
       "{NAME: 64}, delivery: {NAME: 120 d}}. Default: no costs are computed."});
  s.software_given = software != nullptr;
  if (base) {
    s.cluster = base->cluster;
    if (post_training) post_training->generators = base->post_training->generators;
    if (generation) generation->generators = base->generation->generators;
    s.software = base->software;
    s.library = base->library;
    s.site = base->site;
    s.prices = base->prices;
    return;
  }
  s.cluster = read_cluster(cluster, catalog);
  for (PostTrainingChoice* engines : {post_training, generation})
    if (engines) place_engines(*engines, s.cluster);
  s.site = read_site(catalog.resolve("site", site ? *site : Node::scalar_node("average", s.document.place)));
  if (prices) {
    const Node entry = catalog.resolve("price", *prices);
    s.prices = read_prices(entry, s.site.kwh);
    std::vector<std::string> own_names = names_in_section(&s.document);
    for (const NodeType* type : s.cluster.types()) own_names.insert(own_names.end(), {type->name, type->gpu.name});
    check_price_names(entry, catalog, own_names);
    for (const NodeType* type : s.cluster.types()) s.prices.gpu_hour(type->name, type->gpu.name, type->gpus);
  }
  const Node plain = Node::scalar_node("plain", s.document.place);
  s.software = read_stack(catalog.resolve("stack", software ? *software : plain));
  set_rates_of(s.software, s.cluster, catalog);
  if (s.cluster.joins_chips()) s.software.network_step = s.software.slice_step.value_or(s.software.network_step);
  s.library = library_of(s.cluster, s.software);
}

/// Spreads the embedding tables of the model, if it has any, over all ranks that hold other samples. `is_stated`: the
/// plan has a number of ranks for them; throws UserError with the place for another number.
void share_tables(Scenario& s, bool is_stated) {
  const TransformerConfig* config = s.model.entry.transformer();
  Mesh& mesh = s.plan.mesh;
  const int replicas = mesh.data * mesh.context;
  if (!config || !config->has_tables || mesh.expert == replicas) return;
  if (!is_stated) {
    mesh.expert = s.plan.sharding.expert = replicas;
    return;
  }
  fail(s.plan.place, fmt::format("plan.expert_parallel: the embedding tables of {} are spread over all ranks that hold "
                                 "other samples, data {} x context {}; copies of tables are not modelled; expected {}",
                                 s.network.name, mesh.data, mesh.context, replicas));
}

/// `base`: a scenario that was read before and differs only in its plan. Null: none.
Scenario read(Node document, const std::string& name, const Scenario* base = nullptr) {
  drop_null_parts(document);
  if (const Node* jobs = document.find("jobs"))
    fail(jobs->key_place, "jobs: several trainings on one cluster; expected one training, or `trainyard share FILE`");
  if (const Node* trainings = document.find("trainings"))
    fail(trainings->key_place,
         "trainings: trainings that arrive over time; expected one training, or `trainyard fleet FILE`");
  const Catalog catalog;
  Scenario s;
  s.document = document;
  const std::shared_ptr<PostTrainingChoice> post_training =
      take_post_training(document, catalog, base ? base->post_training.get() : nullptr);
  s.post_training = post_training;
  const std::shared_ptr<PostTrainingChoice> generation = take_generation(document, catalog);
  s.generation = generation;
  const FrameworkMode* mode = apply_framework_mode(document);
  Fields root(document, "the scenario");
  s.name = root.text(
      {"name", "Name of the scenario in answers, for example GPT-2 on two nodes. Default: the name of its file."},
      name);
  root.require_all({"cluster", "model", "plan"});
  const Node& model = root.required_child({"model",
                                           "Network: a name, for example gpt2-xl, {config: FILE}, or changes to a "
                                           "named network, {base: NAME, KEY: VALUE} (trainyard list networks)."});
  const Node& plan_node = root.required_child("plan");
  const Node* input = root.child_unless_null("input");
  const Node* measured =
      root.child_unless_null({"measured",
                              "Measured values of this run, which the simulation is compared with, for example "
                              "{step_time: 1.2 s, source: our run of May}. Default: none."});
  const Node *faults = root.child_unless_null("faults"), *learn = root.child_unless_null("learn");
  root.child_unless_null(
      {"post_training",
       "Loop that generates answers and trains on them, for example {prompts: 64, samples_per_prompt: 16, "
       "prompt_tokens: 256, answer_tokens: {mean: 1200, most: 2048}, generation: {engine: vllm}}. Default: none."});
  root.child_unless_null(
      {"generation",
       "Engines that answer prompts, with plan.mode: inference, for example {engine: vllm, requests: 512, "
       "prompt_tokens: 256, answer_tokens: {mean: 1200, most: 2048}}. Default: none; forward passes are all."});
  s.transport =
      root.one_of({"transport",
                   "Model by which messages share links: flow (the solver of this program), native (SimGrid's solver: "
                   "slower, equal to 1e-9) or packets (ns-3, TCP packet by packet: TCP networks only, slow)."},
                  {kTransportNames.begin(), kTransportNames.end()}, TransportKind::flow);
  read_surroundings(s, root, catalog, base, post_training.get(), generation.get());
  root.finish();

  Fields plan(plan_node, "plan");
  s.strategy = plan.text({"strategy",
                          "A framework's name for its way to train on several devices, for example pytorch-ddp "
                          "(trainyard list strategies). Default: none."},
                         "");
  plan.choice(
      {"communication",
       "What carries the collectives of strategy tf-multi-worker-mirrored (TensorFlow's CommunicationImplementation): "
       "nccl, ring (its own ring over gRPC, which sets cluster.hca.transport to grpc), or auto, which is nccl."},
      {"auto", "nccl", "ring"}, "auto");
  plan.require_condition("communication", mode && mode->chooses_communication,
                         "with strategy tf-multi-worker-mirrored");
  read_precision(s, plan, base != nullptr);
  s.plan = errors_in_words_of(device_noun(s.cluster), [&] {
    return read_plan(plan_node, plan, s.cluster, s.software, s.library.get(),
                     [&] { return base ? ranks_room(base->model.entry) : ranks_room_of(model, catalog); });
  });
  s.plan.inference = plan.choice({"mode",
                                  "Passes that a step has: training (forward and backward), or inference (forward "
                                  "only; with the section generation, engines answer prompts beside it)."},
                                 {"training", "inference"}, "training") == "inference";
  if (mode) require_schedule(*mode, s.plan, s.document.find("software") != nullptr);
  if (input) take_input(s, *input, catalog);
  if (mode) require_mode_fits(*mode, s.cluster, s.ranks(), plan.place_of("strategy"));
  split_batch(s, plan, post_training.get());
  if (s.input.is_used() && s.input.supply.samples < static_cast<double>(s.global_batch_size))
    fail(input->find("dataset")->place,
         fmt::format("input.dataset.samples: {}, but a step takes {}", s.input.supply.samples, s.global_batch_size));
  if (post_training && !s.plan.inference) require_loop(root, plan);
  if (generation && !s.plan.inference)
    fail(root.place_of("generation"),
         "generation: only with plan.mode: inference; the engines of a loop are post_training.generation");
  if (s.plan.inference)
    require_inference(s, root, plan);
  else
    s.optimizer = read_optimizer(plan, s.software);
  if (s.optimizer.multiplies_matrices() && (s.plan.mechanism_name != kAllReduce || s.plan.offload.is_used()))
    plan.refuse("optimizer", fmt::format("{} multiplies matrices on the replicas, which all-reduce gradients: neither "
                                         "another mechanism nor offload is modelled; nearest: \"adamw\"",
                                         s.optimizer.name));
  read_model(s, model, catalog, plan, base);
  refuse_missing_parts(s);
  if (post_training && !s.plan.inference) require_positions(*post_training, s.model.entry, catalog);
  if (generation) require_positions(*generation, s.model.entry, catalog);
  take_expert_loads(s);
  share_tables(s, plan.has("expert_parallel"));
  if (plan.has("training"))
    s.training = read_training_length(*plan.child("training"), static_cast<double>(s.global_batch_size),
                                      static_cast<double>(s.network.tokens_per_sample), catalog);
  read_prescribed_step(s, plan);
  if (input && s.prescribed_step.exists())
    fail(input->place, "input: plan.step_time says how long the step takes; leave one of them out");
  if (faults) read_faults(s, *faults, catalog);
  if (plan.has("measured_step")) take_measured(s, *plan.child("measured_step"), catalog);
  plan.finish();
  if (measured)
    s.measured_run = read_measured_run(*measured, s.network, static_cast<double>(s.global_batch_size), s.ranks());
  if (learn) s.learn = read_learn(*learn, s);
  if (!base) s.sources = sources_of(s);
  return s;
}

}  // namespace

Scenario read_scenario(const fs::path& path, const Overrides& overrides) {
  const std::string name = path.filename().string();
  const std::size_t row = name.rfind('@');
  return read_scenario(read_scenario_document(path),
                       row == std::string::npos ? path.stem().string() : name.substr(row + 1), overrides);
}

Scenario read_scenario(const Node& document, const std::string& name, const Overrides& overrides) {
  Node simulated = document;  // without the sections of lessons and tasks
  std::erase_if(simulated.fields, [](const auto& field) { return field.first == "lesson" || field.first == "task"; });
  if (overrides.empty()) return read(std::move(simulated), name);
  std::optional<Scenario> s;
  read_overridden(simulated, overrides, [&](const Node& changed) { s = read(changed, name); });
  return *std::move(s);
}

Scenario read_scenario_text(std::string_view text, const std::string& name, const Overrides& overrides) {
  return read_scenario(parse_document(text, name), fs::path(name).stem().string(), overrides);
}

Scenario read_with_plan(const Scenario& s, const Node& plan) {
  Node document = s.document;
  *document.find("plan") = plan;
  return read(std::move(document), s.name, &s);
}

Scenario read_again(const Scenario& s, const Overrides& overrides) {
  Node document = s.document;
  for (const auto& [path, value] : overrides) set_field(document, path, value);
  return read(std::move(document), s.name);
}

Scenario::Scenario(const Scenario&) = default;
Scenario::Scenario(Scenario&&) noexcept = default;
Scenario& Scenario::operator=(const Scenario&) = default;
Scenario& Scenario::operator=(Scenario&&) noexcept = default;
Scenario::~Scenario() = default;

}  // namespace trainyard
