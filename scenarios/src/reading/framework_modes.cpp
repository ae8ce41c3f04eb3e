#include "scenarios/src/reading/framework_modes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/reading/asked_fields.hpp"
#include "models/reading/shipped_files.hpp"
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
  if (software->is_left_empty) return;  // its reader refuses it
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

FrameworkMode read_mode(const std::string& name, const Node& entry) {
  Fields f(entry, "strategy " + name);
  FrameworkMode m;
  m.name = name;
  m.description = f.text("description");
  m.mechanism = f.text("mechanism", kAllReduce);
  m.consistency = f.text("consistency", "");
  m.zero_stage = f.integer<int>("zero_stage", 0, 0);
  m.least_zero_stage = f.integer<int>("least_zero_stage", 0, 0);
  m.most_zero_stage = f.integer<int>("most_zero_stage", 0, 0);
  m.zero_group = f.text("zero_group", "");
  m.splits_model = f.boolean("splits_model", false);
  m.schedules = f.texts("schedules");
  m.one_node = f.boolean("one_node", false);
  m.for_nodes = f.text("for_nodes", "");
  m.chooses_communication = f.boolean("chooses_communication", false);
  m.on_tpus = f.boolean("on_tpus", false);
  m.stack = f.text("stack", "");
  m.stacks = f.texts("stacks");
  f.finish();
  return m;
}

/// Finds a mode by name. Throws UserError at `where` that names the nearest one.
const FrameworkMode& find_framework_mode(const std::string& name, const Place& where) {
  return row_named(framework_modes(), name, where, "plan.strategy: unknown strategy");
}

}  // namespace

const std::vector<FrameworkMode>& framework_modes() {
  static const std::vector<FrameworkMode> modes = [] {
    const AskedFields apart;  // keys of this file are no keys of a scenario, which another collector may ask for
    std::vector<FrameworkMode> all;
    const Node document = read_document(shipped_file("models/catalog/strategies.yaml"));
    for (const auto& [name, entry] : document.fields) all.push_back(read_mode(name, entry));
    return all;
  }();
  return modes;
}

void drop_null_parts(Node& scenario) {
  const auto drop = [](Node& map, std::string_view key) {
    std::erase_if(map.fields, [key](const auto& field) {
      return field.first == key && field.second.kind == Node::Kind::null && !field.second.is_left_empty;
    });
  };
  drop(scenario, "software");
  if (Node* cluster = scenario.find("cluster")) drop(*cluster, "fabric");
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

std::vector<std::string> schedules_of_mode(const std::string& mode) {
  if (!mode.empty()) return find_framework_mode(mode, Place::named("plan.strategy")).schedules;
  std::vector<std::string> names = pipeline_schedules().names();
  std::erase_if(names, [](const std::string& name) {
    const PipelineSchedule& schedule = pipeline_schedules().find(name, {});
    return schedule.copies > 1 || schedule.is_solved();
  });
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

namespace {

/// Returns what stands for a mode of GPUs on TPUs.
std::string on_tpus(const FrameworkMode& mode) {
  if (mode.mechanism == kAllReduce && mode.most_zero_stage == 0 && !mode.splits_model) return "tf-tpu does the same";
  if (mode.zero_stage == 0) return "leave it out, and state the keys of plan that it stands for";
  return fmt::format("leave it out, and set plan.data_parallel.zero_stage: {}", mode.zero_stage);
}

}  // namespace

void require_mode_fits(const FrameworkMode& mode, const ClusterSpec& cluster, int ranks, const Place& where) {
  const bool tpus = cluster.node.gpu.kind == ChipKind::tpu;
  if (mode.on_tpus != tpus)
    fail(where, mode.on_tpus ? fmt::format("plan.strategy: {} is for TPUs, joined by a torus of their own links; on "
                                           "GPUs tf-multi-worker-mirrored does the same",
                                           mode.name)
                             : fmt::format("plan.strategy: {} drives GPUs; on TPUs {}", mode.name, on_tpus(mode)));
  const int nodes = cluster.node_of_gpu(ranks - 1) + 1;
  if (mode.one_node && nodes > 1)
    fail(where, fmt::format("plan.strategy: {} works on the devices of one node, but {} ranks are on {}; use {}",
                            mode.name, ranks, nodes, mode.for_nodes));
}

}  // namespace trainyard
