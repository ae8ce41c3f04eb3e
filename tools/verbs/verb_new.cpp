#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <iostream>

#include "models/hardware/node.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "tools/reports/entry_yaml.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/cluster.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

/// The answers that make a new scenario, one for each question.
struct NewScenario {
  std::string model, node, nodes, batch, micro_batch, precision, strategy;
};

struct NewQuestion {
  std::string NewScenario::*field;
  const char* flag;
  std::initializer_list<const char*> path;  ///< keys that lead to its answer in the scenario
  const char* question;
  const char* usual;  ///< the default answer
  const char* kind;   ///< kind of catalog entry whose names are the legal answers; null: the answers are no such names
};
constexpr NewQuestion kNewQuestions[] = {
    {&NewScenario::model, "--model", {"model"}, "the network", "gpt2-xl", "network"},
    {&NewScenario::node, "--on", {"cluster", "node"}, "the type of node", "dgx-a100", "node"},
    {&NewScenario::nodes, "--nodes", {"cluster", "nodes"}, "number of nodes", "1", nullptr},
    {&NewScenario::batch,
     "--batch",
     {"plan", "global_batch_size"},
     "samples of a step, over all devices",
     "64",
     nullptr},
    {&NewScenario::micro_batch,
     "--micro-batch",
     {"plan", "micro_batch_size"},
     "samples that a device computes at once",
     "1",
     nullptr},
    {&NewScenario::precision,
     "--precision",
     {"plan", "precision"},
     "precision: fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4",
     "bf16",
     nullptr},
    {&NewScenario::strategy,
     "--strategy",
     {"plan", "strategy"},
     "strategy of the framework (trainyard list strategies)",
     "pytorch-ddp",
     nullptr},
};

std::string answer_on_terminal(const NewQuestion& question) {
  fmt::print(stderr, "{} [{}]: ", question.question, question.usual);
  std::string line;
  if (!std::getline(std::cin, line)) throw UserError("new: no answer");
  return line.empty() ? question.usual : line;
}

std::string text_of(const NewScenario& s) {
  const std::string fabric =
      s.nodes == "1" ? "" : "  fabric: nonblocking        # what joins the nodes: trainyard list fabrics\n";
  return fmt::format(
      "# {model} on {nodes} x {node}. `trainyard run FILE` simulates a step; `trainyard help scenario` lists every "
      "key.\n"
      "cluster:\n"
      "  nodes: {nodes}\n"
      "  node: {node}               # trainyard list nodes; {{base: {node}, gpu: {{memory_capacity: 40 GiB}}}} changes "
      "one\n"
      "{fabric}model: {model}               # trainyard list networks; {{config: FILE}} takes a Hugging Face config\n"
      "plan:\n"
      "  strategy: {strategy}       # trainyard list strategies\n"
      "  global_batch_size: {batch} # samples of a step, over all devices\n"
      "  micro_batch_size: {micro}  # samples of a forward pass on one device: more is faster and takes memory\n"
      "  precision: {precision}\n"
      "  # tensor_parallel: 8       # splits each layer over neighbours; pipeline_parallel: 4 the layers over stages\n"
      "  # recompute: selective     # saves memory: none, selective, full, operators\n"
      "  # data_parallel: {{zero_stage: 1}}  # shares out optimizer states; 2: gradients too; 3: parameters too\n"
      "# faults:                    # stragglers, failures, checkpoints\n"
      "#   failures: {{mtbf: {{node: 50000 h}}, seed: 1}}\n",
      fmt::arg("model", s.model), fmt::arg("node", s.node), fmt::arg("nodes", s.nodes), fmt::arg("fabric", fabric),
      fmt::arg("strategy", s.strategy), fmt::arg("batch", s.batch), fmt::arg("micro", s.micro_batch),
      fmt::arg("precision", s.precision));
}

void require_new(const std::string& file, bool force) {
  std::error_code ignored;
  if (file == "-") return;
  if (!force && std::filesystem::exists(file, ignored))
    throw UserError(fmt::format("new: {} exists already (--force overwrites it)", file));
  check_writable(file);
}

bool names_file(const std::string& value) { return value.find(".yaml") != std::string::npos; }

/// Throws UserError unless the hardware of an entry can be built.
void require_buildable(const std::string& kind, const Node& entry, const Catalog& catalog, const Place& place) {
  if (kind == "gpu") {
    read_gpu(entry);
    return;
  }
  const NodeType node = read_node(entry, catalog);
  node_builders().find(node.interconnect, place);
  try {
    if (has_lane_plan(node)) plan_lanes(node);
  } catch (const UserError& e) {
    fail(place, e.what());
  }
}

/// Throws UserError unless the scenario can be read back. It names the flag of a wrong answer. A file among the answers
/// is looked for beside the new file, whose place it keeps.
void require_readable(const std::string& text, const std::string& file) {
  Node document = parse_document(text, file);
  for (const NewQuestion& question : kNewQuestions) {
    Node* answer = &document;
    for (const char* key : question.path) answer = answer ? answer->find(key) : nullptr;
    if (answer && answer->kind == Node::Kind::scalar && !names_file(answer->scalar))
      answer->place = Place::named(question.flag);
  }
  read_scenario(document, std::filesystem::path(file).stem().string());
}

/// Runs `new node` or `new gpu`.
int new_entry(const std::string& kind, const std::vector<std::string>& words) {
  const bool is_node = kind == "node";
  Arguments arguments(
      "new " + kind,
      fmt::format("Writes a file for a {} of your own, with all possible keys: those of the entry that it begins with, "
                  "and the others as comments. Nothing is written that could not be read back.",
                  kind),
      is_node ? "new node my-server.yaml --gpu l40s --gpus 4" : "new gpu my-gpu.yaml --from l40s");
  std::string file = "-", from, gpu, gpus;
  std::vector<std::string> sets;
  bool force = false;
  arguments.positional("FILE", file, "where to write it; - is stdout (the default)", false);
  const char* usual = is_node ? "rtx-6000-ada-4x" : "h100-sxm5-80gb";
  arguments.option(
      "--from", from, "NAME",
      fmt::format("{} of the catalog to begin with (default {}; see trainyard list {}s)", kind, usual, kind));
  if (is_node) {
    arguments.option("--gpu", gpu, "NAME", "its GPUs: a name of the catalog, or a file in the same folder");
    arguments.option("--gpus", gpus, "N", "number of its GPUs");
  }
  arguments.repeated_flag("--set", sets, "PATH=VALUE", "set another key of the file; may be repeated");
  arguments.flag("--force", force, "overwrite an existing file");
  if (!arguments.parse(words)) return kGood;
  require_new(file, force);
  const Catalog catalog;
  Node reference = Node::scalar_node(from.empty() ? usual : from, Place::named("--from"));
  if (!gpu.empty()) set_field(reference, "gpu.type", Node::scalar_node(gpu, Place::named("--gpu")));
  if (!gpus.empty()) set_field(reference, "gpu.count", Node::scalar_node(gpus, Place::named("--gpus")));
  for (const std::string& set : sets) {
    const auto [path, value] = parse_override_option(set);
    set_field(reference, path, value);
  }
  // A file of a GPU lies beside the new file, so that only the new file leads to it.
  if (!names_file(gpu) && std::ranges::none_of(sets, names_file))
    require_buildable(kind, catalog.resolve(kind, reference), catalog, reference.place);
  const std::string text = entry_yaml(kind, reference, catalog);
  const Node document = parse_document(text, file == "-" ? "stdout" : file);
  require_buildable(kind, catalog.resolve(kind, document), catalog, document.place);
  write_atomically(file, text);
  return kGood;
}

int new_verb(const std::vector<std::string>& words) {
  if (!words.empty() && (words.front() == "node" || words.front() == "gpu"))
    return new_entry(words.front(), {words.begin() + 1, words.end()});
  Arguments arguments(
      "new",
      "Writes a first scenario, with comments. On a terminal it asks for what no flag gives; elsewhere it takes the "
      "defaults. Nothing is written that could not be read back. `new node` and `new gpu` write hardware of your own.",
      "new my.yaml --model llama-3-8b --on dgx-h100 --nodes 4 --batch 128 --strategy pytorch-fsdp");
  std::string file = "-";
  bool force = false;
  NewScenario answers;
  arguments.positional("FILE", file, "where to write it; - is stdout (the default)", false);
  for (const NewQuestion& question : kNewQuestions)
    arguments.option(question.flag, answers.*question.field, "VALUE",
                     fmt::format("{} (default {})", question.question, question.usual));
  arguments.flag("--force", force, "overwrite an existing file");
  if (!arguments.parse(words)) return kGood;
  require_new(file, force);
  const bool on_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  for (const NewQuestion& question : kNewQuestions) {
    std::string& value = answers.*question.field;
    const Place place = Place::named(question.flag);
    if (value.empty()) value = on_terminal ? answer_on_terminal(question) : question.usual;
    if (question.kind && !value.ends_with(".yaml")) Catalog().entry(question.kind, value, place);
  }
  const std::string text = text_of(answers);
  require_readable(text, file == "-" ? "new.yaml" : file);
  write_atomically(file, text);
  return kGood;
}

const RegisterVerb registered_new{"new", VerbGroup::prepare,
                                  "write a scenario with comments, or a node or GPU (new node, new gpu)", new_verb};

}  // namespace
}  // namespace trainyard
