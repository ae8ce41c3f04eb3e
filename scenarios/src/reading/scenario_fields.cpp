#include "scenarios/src/reading/scenario_fields.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>

#include "models/fitted/measured_family.hpp"
#include "models/networks/transformers/operator_keys.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/shipped_files.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/reading/read_jobs.hpp"
#include "scenarios/src/reading/read_network.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {
namespace {

/// Returns true if `what` (as errors call a map) is a section of a scenario, or a map in one.
bool is_section(std::string_view what) {
  for (const std::string_view section : {"cluster", "plan", "faults", "fleet", "generation", "input", "jobs", "learn",
                                         "post_training", "prices", "trainings"})
    if (what == section || (what.starts_with(section) && what[section.size()] == '.')) return true;
  return false;
}

/// Returns the path by which overrides name a map of the hardware: cluster.pcie for "node dgx-a100: pcie", cluster.hca
/// for "hca connectx-6". "": no override names it.
std::string hardware_path(const std::string& what) {
  const std::size_t space = what.find(' ');
  if (space == std::string::npos) return "";
  const std::string kind = what.substr(0, space);
  const std::size_t part = what.find(": ");
  if (kind == "node") return part == std::string::npos ? "cluster" : "cluster." + what.substr(part + 2);
  if (kind == "site") return kind;
  const bool is_part = kind == "gpu" || kind == "hca" || kind == "cpu" || kind == "fabric";
  if (!is_part || part != std::string::npos) return "";
  return "cluster." + kind;
}

/// Returns the path of a key of a network that is written as operators; "": it has no description. Keys that all operators
/// have are listed once.
std::string operator_path(const AskedField& field) {
  constexpr std::string_view operators = "model.layers: ";
  if (field.words.empty()) return "";
  if (field.what == "model" || field.what == "model.layers" || field.what == "model.layers.operators")
    return field.what + "." + field.key;
  if (!field.what.starts_with(operators)) return "";
  for (const Key& common : {kOperatorName, kOperatorRows, kOperatorEveryRank, kOperatorWhen})
    if (field.key == common.name) return "model.layers.operators.linear." + field.key;
  return "model.layers.operators." + field.what.substr(operators.size()) + "." + field.key;
}

constexpr const char* kPreflightHost = "preflight host ";  // a host of cluster.preflight in errors

/// Returns scenarios with keys that no other shipped scenario has, `jobs` and `fleet`: each is the text of a document.
const Node& key_examples() {
  static const Node examples = read_document(shipped_file("scenarios/key-examples.yml"));
  return examples;
}

std::vector<std::filesystem::path> all_shipped_scenarios() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file("scenarios")))
    if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "tables")
      files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// Returns the shipped scenarios with keys that neither the examples nor the other ones of these files have.
std::vector<std::filesystem::path> shipped_examples() {
  std::vector<std::filesystem::path> files;
  for (const Node& file : key_examples().find("files")->items) files.push_back(shipped_file("scenarios") / file.scalar);
  return files;
}

/// Keys of a stack that no stack of the catalog has.
constexpr const char* kStackExample = "{name: example, bucket: 25 MiB, anchor: {spread: 0.05, devices: 8}}";

/// Adds the keys of stacks, which a scenario can change below `software`.
void add_software_fields(std::vector<ScenarioField>& fields) {
  const Catalog catalog;
  const AskedFields collector;
  for (const std::string& name : catalog.names("stack"))
    read_stack(catalog.resolve("stack", Node::scalar_node(name, Place::named("stack"))));
  read_stack(parse_document(kStackExample, "example.yaml"));
  std::map<std::string, AskedField> by_path;
  for (const AskedField& field : collector.fields()) {
    const std::size_t part = field.what.find(": ");
    const std::string above = part == std::string::npos ? "" : field.what.substr(part + 2) + ".";
    if (!field.what.starts_with("stack ")) continue;
    // Some keys have a type only in stacks that state them.
    const auto [entry, is_new] = by_path.try_emplace(above + field.key, field);
    if (!is_new && entry->second.type.empty()) entry->second = field;
  }
  for (const auto& [path, field] : by_path)
    if (!field.words.empty())
      fields.push_back({"software." + path, field.words, "", field.type, field.required, "", field.choices, "", false});
}

bool is_whole_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Returns a path with N in place of the numbers of a list's items, and NAME in place of the names of a map of prices. "": a
/// price by itself, which the map describes.
std::string general_path(std::string path) {
  if (const std::string table = "plan.measured_step.table."; path.starts_with(table)) return table + "N";
  for (const std::string list : {"cluster.nodes.", "cluster.preflight.hosts.", "faults.failures.", "prices.reserved."})
    if (path.starts_with(list))
      if (const std::size_t dot = path.find('.', list.size());
          dot != std::string::npos && is_whole_number(path.substr(list.size(), dot - list.size())))
        path = list + "N" + path.substr(dot);
  for (const std::string map : {"prices.purchase.owned.", "prices.purchase.delivery."})
    if (path.starts_with(map)) {
      const std::size_t dot = path.find('.', map.size());
      if (dot == std::string::npos) return "";
      const std::size_t last = path.rfind('.');
      return map + (last > dot ? "NAME.N" : "NAME") + path.substr(last);
    }
  return path;
}

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  for (const FrameworkMode& mode : framework_modes()) names.push_back(mode.name);
  return names;
}
std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Optimizer& optimizer : optimizers()) names.push_back(optimizer.name);
  return names;
}

/// Returns the possible names of fields whose readers look names up elsewhere, not in a list of their own.
std::vector<std::string> names_of(const std::string& path) {
  static const std::map<std::string, const char*> catalog_kinds{{"cluster.node", "node"},
                                                                {"cluster.fabric", "fabric"},
                                                                {"model", "network"},
                                                                {"software", "stack"},
                                                                {"post_training.stack", "rl-stack"},
                                                                {"post_training.weights", "weight-transfer"},
                                                                {"post_training.generation.engine", "engine"},
                                                                {"generation.engine", "engine"}};
  if (const auto kind = catalog_kinds.find(path); kind != catalog_kinds.end()) return Catalog().names(kind->second);
  if (path == "plan.strategy") return mode_names();
  if (path == "plan.optimizer") return optimizer_names();
  if (path == "plan.pipeline.schedule") return pipeline_schedules().names();
  return {};
}

void append(Sources& to, const Sources& from) { to.insert(to.end(), from.begin(), from.end()); }

/// Returns true if the answer depends on a figure. One device uses no link, and one node no network.
bool is_used(const FigureSource& figure, const Scenario& s) {
  const std::size_t colon = figure.figure.find(": ");
  const std::string name = colon == std::string::npos ? figure.figure : figure.figure.substr(colon + 2);
  const auto begins = [&name](std::initializer_list<const char*> prefixes) {
    return std::ranges::any_of(prefixes, [&name](const char* p) { return name.starts_with(p); });
  };
  // Some figures are only stated: no time depends on them.
  const bool adapter = figure.figure.starts_with("hca ");
  if (adapter && (s.cluster.nodes == 1 || begins({"pcie"}))) return false;
  if (name == "clock" || begins({"sms", "l2", "reconfigure"})) return false;
  if (!s.cluster.joins_chips() && begins({"chip_links"})) return false;
  if (!s.plan.offload.copies() && begins({"host_memory"})) return false;
  if (!s.input.is_used() && !s.cluster.node.cpu.power.is_given() && begins({"cores"})) return false;
  if (s.plan.offload.copies() && begins({"pcie"})) return true;
  if (s.ranks() == 1 &&
      begins({"nvlink", "pcie", "socket", "interference", "collective_launch", "bucket", "first_bucket",
              "whole_tensors", "overlap", "gradient_bucket_copy", "host_buckets", "cycle_time"}))
    return false;
  if (begins({"slice_step"})) return s.cluster.slices() > 1;
  return s.cluster.nodes > 1 || !begins({"hca", "network_step"});
}

Sources used_sources(const Scenario& s) {
  Sources all, used;
  for (const NodeType* type : s.cluster.types()) append(all, type->sources);
  append(all, s.software.sources);
  if (s.cluster.nodes > 1 || s.cluster.joins_chips()) append(all, s.cluster.fabric_sources);
  for (const NodeGroup& group : s.cluster.others)
    if (group.island) append(all, group.island->fabric_sources);
  std::copy_if(all.begin(), all.end(), std::back_inserter(used), [&s](const FigureSource& f) { return is_used(f, s); });
  return used;
}

}  // namespace

const char* smallest_scenario() {
  return "cluster: {node: dgx-a100}\n"
         "model: gpt2\n"
         "plan: {micro_batch_size: 1}\n";
}

std::vector<ScenarioField> scenario_fields(const AskedFields& asked_fields, bool has_operators) {
  std::vector<ScenarioField> fields;
  std::map<std::string, std::size_t> seen;
  for (const AskedField& field : asked_fields.fields()) {
    std::string path;
    bool of_hardware = false;
    if (field.what == "the scenario")
      path = field.key;
    else if (is_section(field.what))
      path = field.what + "." + field.key;
    else if (field.what.starts_with(kPreflightHost))
      path = fmt::format("cluster.preflight.hosts.{}.{}", field.what.substr(std::strlen(kPreflightHost)), field.key);
    else if (const std::string hardware = hardware_path(field.what); !hardware.empty()) {
      path = hardware + "." + field.key;
      of_hardware = true;
    } else if (has_operators) {
      path = operator_path(field);
    }
    std::vector<std::string> choices = field.choices.empty() ? names_of(path) : field.choices;
    if (path.empty()) continue;
    std::string words = field.words;
    if (field.what == "model.layers.operators") {
      const OperatorKeys& keys = operator_keys(field.key, {});
      words += fmt::format(" Example: {}: {}.", keys.name, keys.example);
    }
    // Some fields are read twice: from the hardware and from the scenario.
    if (const auto [stored, fresh] = seen.emplace(path, fields.size()); !fresh) {
      ScenarioField& first = fields[stored->second];
      if (first.words.empty() || (first.of_hardware && !of_hardware && !field.words.empty())) {
        first.words = field.words;
        first.of_hardware = of_hardware;
      }
      if (first.condition.empty()) first.condition = field.condition;
      if (first.type.empty()) {
        first.type = field.type;
        first.fallback = field.fallback;
        if (first.value.empty()) first.value = field.value;
      }
      continue;
    }
    fields.push_back({path, std::move(words), field.condition,
                      field.type.empty() && !choices.empty() ? "a name" : field.type, field.required, field.fallback,
                      std::move(choices), field.value, of_hardware});
  }
  return fields;
}

std::vector<std::string> example_scenarios() {
  std::vector<std::string> texts;
  for (const Node& example : key_examples().find("scenarios")->items) texts.push_back(example.scalar);
  for (const OperatorKeys& keys : operator_keys())
    texts.push_back("cluster: {node: dgx-a100}\nplan: {micro_batch_size: 1}\nmodel: " + operator_example(keys) + "\n");
  return texts;
}

std::string find_example(const ScenarioField& field) {
  constexpr std::string_view mark = "for example ", default_mark = "Default: ";
  const std::string& words = field.words;
  if (const std::size_t begin = words.find(mark); begin != std::string::npos) {
    const std::string rest = words.substr(begin + mark.size()) + " ";
    int depth = 0;  // open brackets
    for (std::size_t i = 0; i < rest.size(); ++i) {
      depth += rest[i] == '[' || rest[i] == '{' ? 1 : rest[i] == ']' || rest[i] == '}' ? -1 : 0;
      if (depth > 0) continue;
      for (const std::string_view end : {". ", ", ", "; ", ": ", " (", " or "})
        if (rest.compare(i, end.size(), end) == 0) return rest.substr(0, i);
    }
    return "";
  }
  for (const std::string& choice : field.choices) {
    const std::size_t fallback = words.find(default_mark);
    const bool is_default =
        choice == field.fallback ||
        (fallback != std::string::npos && words.compare(fallback + default_mark.size(), choice.size(), choice) == 0);
    if (!is_default) return choice;
  }
  return "";
}

std::vector<ScenarioField> known_scenario_fields(bool every_file) {
  const AskedFields asked_fields;
  for (const std::string& text : example_scenarios()) read_scenario_text(text, "example.yaml");
  read_shared_cluster(parse_document(key_examples().find("jobs")->scalar, "example.yaml"), "example");
  read_fleet(parse_document(key_examples().find("fleet")->scalar, "example.yaml"), "example");
  for (const std::filesystem::path& file : every_file ? all_shipped_scenarios() : shipped_examples()) {
    const Node document = read_document(file);
    if (is_measured_family(document) || !document.find("cluster")) continue;  // a family of measured runs, or a lesson
    read_scenario(document, file.stem().string());
  }
  std::map<std::string, ScenarioField> by_path;  // fields of a map follow it
  std::vector<ScenarioField> found = scenario_fields(asked_fields, true);
  add_software_fields(found);
  for (ScenarioField& field : found) {
    field.value.clear();
    if (field.of_hardware && !field.path.starts_with("site.")) field.words.clear();
    field.path = general_path(field.path);
    const bool is_general = field.path.starts_with("prices.") || field.path.starts_with("site.");
    if (!field.path.empty() && !(is_general && field.words.empty())) by_path.emplace(field.path, std::move(field));
  }
  std::vector<ScenarioField> fields;
  for (const auto& [path, field] : by_path) {
    const auto below = by_path.lower_bound(path + ".");
    const bool map = field.type.empty() && below != by_path.end() && below->first.starts_with(path + ".");
    if (!map || !field.words.empty()) fields.push_back(field);
  }
  return fields;
}

Sources sources_of(const Scenario& s) {
  Sources sources = used_sources(s);
  append(sources, s.input.sources);
  append(sources, s.site.sources);
  append(sources, s.plan.dispatcher.sources);
  if (s.post_training) append(sources, s.post_training->sources());
  if (s.generation) append(sources, s.generation->engine.sources);
  append(sources, s.plan.all_reduce.sources);
  if (!s.plan.all_reduce.scaled.empty()) sources.push_back({"collectives: NCCL", "", s.plan.all_reduce.scaled, true});
  if (s.measured.is_given())
    sources.push_back({fmt::format("plan: measured_step at batch {}", s.micro_batch_size),
                       show(s.measured.step_time(s.micro_batch_size)), s.measured.source, false});
  sources.push_back(
      {"model " + s.network.name, "", s.network.source.empty() ? "given in the scenario" : s.network.source, false});
  return sources;
}

}  // namespace trainyard
