// `trainyard help`, and its reference of the JSON.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "models/fitted/measured_family.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/read_jobs.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tests/user_errors.hpp"

namespace tools_test_help {

namespace fs = std::filesystem;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

TEST_CASE("help explains verbs and the JSON, and names the nearest topic", "[cli][help]") {
  const TopoFolder shell;
  const TopoAnswer usage = shell.trainyard("help");
  CHECK(usage.exit == 0);
  CHECK(usage.out.find("usage: trainyard VERB") != std::string::npos);
  for (const char* group :
       {"\nPredict a training step:\n  compare ", "\nChoose a machine and a plan:\n  fleet ",
        "\nMeasure: simulated times beside measured ones:\n  anchor ",
        "\nLearn: loss against simulated time:\n  learn ", "\nTeach how distributed training works:\n  course ",
        "\nWrite scenarios and look things up:\n  help "})
    CHECK(usage.out.find(group) != std::string::npos);
  CHECK(shell.trainyard("--help").out == usage.out);
  CHECK(shell.trainyard("help run").out == shell.trainyard("run --help").out);

  const TopoAnswer json = shell.trainyard("help json");
  CHECK(json.exit == 0);
  for (const char* words : {"step_time_s", "memory_bytes", "trainyard bench --json", "trainyard sweep --json",
                            "trainyard validate --json", "busbw_GBps", "(with parameter servers)"}) {
    CAPTURE(words);
    CHECK(json.out.find(words) != std::string::npos);
  }
  const TopoAnswer bench = shell.trainyard("help json bench");
  CHECK(bench.exit == 0);
  CHECK(bench.out.find("algbw_GBps") != std::string::npos);
  CHECK(bench.out.find("step_time_s") == std::string::npos);

  const TopoAnswer unknown = shell.trainyard("help jsn");
  CHECK(unknown.exit == 2);
  CHECK(unknown.err == "trainyard help: unknown topic \"jsn\"; did you mean \"json\"?\n");
  CHECK(shell.trainyard("help json benc").exit == 2);
}

TEST_CASE("help json describes each key by a phrase that is understood without the line above", "[help]") {
  using namespace trainyard;
  for (const std::string& command : json_references().names())
    for (const FieldRow& row : json_references().find(command, {}).rows()) {
      CAPTURE(command, row.path, row.words);
      CHECK(row.words.find(' ') != std::string::npos);
      for (const char* beginning : {"its ", "it ", "they ", "the same", "at ", "of ", "what it "})
        CHECK_FALSE(row.words.starts_with(beginning));
    }
  CHECK(test::widest_line(TopoFolder().trainyard("help json").out) <= 120);
}

TEST_CASE("list, show and help scenario know every folder of the catalog", "[cli][help]") {
  const TopoFolder shell;
  const std::string reference = shell.trainyard("help scenario").out, help = shell.trainyard("list --help").out;
  for (const auto& folder : fs::directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / "models" / "catalog")) {
    if (!folder.is_directory()) continue;  // a file such as operators.yaml has no entries to name
    const std::string kind = folder.path().filename().string();
    INFO(kind);
    const TopoAnswer list = shell.trainyard("list " + kind);
    CHECK(list.exit == 0);
    CHECK(list.out.starts_with(kind + " ("));
    CHECK(reference.find("\n" + kind + " ") != std::string::npos);
    CHECK(help.find(kind) != std::string::npos);
    // `list` has a line for every entry.
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().stem().string();
      CAPTURE(name);
      CHECK(list.out.find("\n  " + name + " ") != std::string::npos);
    }
    const std::string one = fs::directory_iterator(folder)->path().stem().string();
    const std::string singular = kind.substr(0, kind.size() - (kind == "switches" ? 2 : 1));
    CHECK(shell.trainyard("show " + singular + " " + one).exit == 0);
  }
}

namespace {

/// Removes the key at the end of a path. Returns false if the key is absent or if a name stands for its map.
bool remove_key(trainyard::Node& map, const std::string& path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos)
    return std::erase_if(map.fields, [&](const auto& field) { return field.first == path; }) > 0;
  trainyard::Node* below = map.find(path.substr(0, dot));
  return below && below->kind == trainyard::Node::Kind::map && remove_key(*below, path.substr(dot + 1));
}

}  // namespace

TEST_CASE("help scenario begins with a scenario of the required keys, and no line has more than 80 columns", "[help]") {
  using namespace trainyard;
  const std::string help = TopoFolder().trainyard("help scenario").out, smallest = smallest_scenario();
  CHECK(help.find("\n" + smallest) < 100);
  CHECK(read_scenario_text(smallest, "smallest.yaml").ranks() == 8);
  std::set<std::string> marked;
  std::istringstream in(help);
  for (std::string line; std::getline(in, line);) {
    CAPTURE(line);
    CHECK(test::widest_line(line) <= 80);
    if (line.starts_with("* ")) marked.insert(line.substr(2, line.find("  ", 2) - 2));
    CHECK((!line.starts_with("* ") || line.ends_with("required")));
  }
  CHECK(marked == std::set<std::string>{"cluster.node", "model", "plan.micro_batch_size"});
  for (const std::string& path : marked) {
    Node document = parse_document(smallest, "smallest.yaml");
    REQUIRE(remove_key(document, path));
    const std::string error = test::user_error([&] { read_scenario(document, "smallest"); });
    CHECK(error.find("missing key \"" + path.substr(path.rfind('.') + 1) + "\"") != std::string::npos);
  }
  for (const ScenarioField& field : known_scenario_fields()) {
    const std::string parent = field.path.substr(0, field.path.rfind('.'));
    if (field.required && !field.words.empty() && (parent == field.path || parent == "cluster" || parent == "plan"))
      CHECK(marked.contains(field.path));
  }
}

TEST_CASE("the scenarios that help scenario reads have all keys of all shipped scenarios", "[help]") {
  using namespace trainyard;
  const auto texts = [](bool every_file) {
    std::vector<std::string> lines;
    for (const ScenarioField& f : known_scenario_fields(every_file))
      lines.push_back(fmt::format("{} {} {} {} {} {}", f.path, f.words, f.condition, f.type, f.required,
                                  fmt::join(f.choices, "|")));
    return lines;
  };
  CHECK(texts(false) == texts(true));
}

TEST_CASE("help scenario has every key of a stack of software", "[help]") {
  using namespace trainyard;
  std::set<std::string> described;
  for (const ScenarioField& field : known_scenario_fields())
    if (field.path.starts_with("software.")) described.insert(field.path.substr(9));
  // The stacks of the catalog set no other key.
  const Catalog catalog;
  for (const std::string& name : catalog.names("stack")) {
    const Node entry = catalog.resolve("stack", Node::scalar_node(name, Place::named("test")));
    for (const auto& [key, value] : entry.fields) {
      CAPTURE(name, key);
      if (key != "name" && key != "description" && key != "sources") CHECK(described.contains(key));
      if ((key == "host" || key == "parallel" || key == "slowdowns") && value.kind == Node::Kind::map)
        for (const auto& [below, figure] : value.fields) CHECK(described.contains(key + "." + below));
    }
  }
  const TopoAnswer host = TopoFolder().trainyard("help scenario software.host");
  CHECK(host.exit == 0);
  CHECK(host.out.find("software.host.cuda_graphs  true or false") != std::string::npos);
}

TEST_CASE("help scenario states one default for each key, and lists the keys of maps in maps", "[help]") {
  const std::string help = TopoFolder().trainyard("help scenario").out;
  const auto text_of = [&help](const std::string& path) {
    const std::size_t begin = help.find("\n  " + path);
    REQUIRE(begin != std::string::npos);
    std::string text;
    std::istringstream in(help.substr(begin + 1));
    for (std::string line; std::getline(in, line) && (text.empty() || line.starts_with("      "));)
      text += " " + line.substr(line.find_first_not_of(' '));
    return text;
  };
  CHECK(text_of("faults.links.to").ends_with("for example 2 s. Default: never."));
  CHECK(text_of("faults.restart.repair").ends_with("Default: it never can."));
  CHECK(text_of("plan.data_parallel.size").find("64") == std::string::npos);
  CHECK(text_of("plan.lora.rank").find("1048576") == std::string::npos);
  CHECK(text_of("cluster.nodes").ends_with("Default: 1."));
  CHECK(text_of("site.pue").ends_with("of the site average, 1.58."));
  CHECK(help.find("prices.gpu_hour.a100") == std::string::npos);  // the map describes the prices in it
  for (const char* path :
       {"learn.data.label ", "learn.data.labels", "plan.tensor_parallel_overlap.user_buffers.overlapped",
        "plan.tensor_parallel_overlap\n", "cluster.preflight.hosts.N.name", "cluster.preflight.hosts.N.gpus",
        "cluster.preflight.hosts.N.open_ports", "cluster.preflight.hosts.N.reaches",
        "cluster.preflight.hosts.N.versions", "faults.stragglers\n"}) {
    CAPTURE(path);
    CHECK(help.find(std::string("\n  ") + path) != std::string::npos);
  }
}

TEST_CASE("readers refuse a scenario without a required key of help scenario, and miss no other", "[help]") {
  using namespace trainyard;
  std::vector<std::pair<std::string, Node>> scenarios;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file("scenarios"))) {
    if (entry.path().extension() != ".yaml" || entry.path().parent_path().filename() == "tables") continue;
    Node document = read_document(entry.path());
    if (!is_measured_family(document) && document.find("cluster"))
      scenarios.emplace_back(entry.path().stem().string(), std::move(document));
  }
  int tested_fields = 0;
  for (const ScenarioField& field : known_scenario_fields()) {
    // Readers look up maps and names of the catalog as a whole.
    if (field.words.empty() || field.type.empty() || field.type == "a name") continue;
    CAPTURE(field.path);
    CHECK((!field.required || field.fallback.empty()));
    int tested_scenarios = 0;
    const std::string key = field.path.substr(field.path.rfind('.') + 1);
    for (const auto& [name, scenario] : scenarios) {
      Node document = scenario;
      if (tested_scenarios >= 2 || !remove_key(document, field.path)) continue;
      ++tested_scenarios;
      const std::string error = test::user_error([&] { read_scenario(document, name); });
      CAPTURE(name, error);
      const bool missed = error.find("missing key \"" + key + "\"") != std::string::npos;
      if (field.required)
        CHECK_FALSE(error.empty());
      else if (field.condition.empty())
        CHECK_FALSE(missed);
    }
    tested_fields += tested_scenarios > 0 ? 1 : 0;
  }
  CHECK(tested_fields > 75);
}

TEST_CASE("readers miss a conditionally required key only under the condition of help scenario", "[help]") {
  using namespace trainyard;
  const std::string model = "\nmodel: gpt2\nplan: {micro_batch_size: 1, global_batch_size: 16, data_parallel: {size: 8";
  const std::string one = "cluster: {node: dgx-a100}" + model;
  const std::string loop = one +
                           "}, seq_length: 1024}\npost_training: {prompts: 16, prompt_tokens: 8, generation: {}, " +
                           "answer_tokens: {most: 64";
  const std::string engines =
      "cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 1, mode: inference}\n"
      "generation: {requests: 16, prompt_tokens: 8, answer_tokens: {most: 64";
  const auto error_of = [](const std::string& text) {
    return test::user_error([&] { read_scenario_text(text, "x.yaml"); });
  };
  // For each key: a scenario in which the condition holds, and scenarios in which it does not.
  const std::map<std::string, std::pair<std::string, std::vector<std::string>>> cases{
      {"cluster.fabric",
       {"cluster: {nodes: 2, node: dgx-a100}" + model + "}, idle_devices: allowed}\n",
        {one + "}}\n", "cluster: {nodes: 2, node: tpu-v4-host}" + model + "}}\n"}}},
      {"cluster.nodes.N.links",
       {"cluster: {fabric: nonblocking, nodes: [{count: 1, node: dgx-a100}, {count: 1, node: dgx-a100, fabric: "
        "nonblocking}]}" +
            model + "}, idle_devices: allowed}\n",
        {"cluster: {fabric: nonblocking, nodes: [{count: 1, node: dgx-a100}, {count: 1, node: dgx-a100}]}" + model +
         "}, idle_devices: allowed}\n"}}},
      {"plan.data_parallel.delay",
       {one + ", mechanism: delayed-updates}}\n", {one + "}}\n", one + ", mechanism: all-reduce}}\n"}}},
      {"plan.data_parallel.inner_steps",
       {one + ", mechanism: diloco}}\n", {one + "}}\n", one + ", mechanism: local-sgd, local_steps: 4}}\n"}}},
      {"plan.data_parallel.local_steps",
       {one + ", mechanism: local-sgd}}\n", {one + "}}\n", one + ", mechanism: gossip, gossip: ring}}\n"}}},
      {"generation.answer_tokens.mean",
       {engines + "}}\n", {engines + ", values: [30, 50]}}\n", engines + ", mean: 9}}\n"}}},
      {"post_training.answer_tokens.mean", {loop + "}}\n", {loop + ", values: [30, 50]}}\n", loop + ", mean: 9}}\n"}}}};
  const std::string help = TopoFolder().trainyard("help scenario").out;
  std::size_t conditional = 0;
  for (const ScenarioField& field : known_scenario_fields()) {
    const std::string& path = field.path;
    if (field.condition.empty()) continue;
    CAPTURE(path);
    REQUIRE(cases.contains(path));
    ++conditional;
    const auto& [with_condition, without_condition] = cases.at(path);
    CHECK(error_of(with_condition).find("missing key \"" + path.substr(path.rfind('.') + 1) + "\"") !=
          std::string::npos);
    for (const std::string& other : without_condition) CHECK(error_of(other).empty());
    CHECK(help.find("required " + field.condition) != std::string::npos);
  }
  CHECK(conditional == cases.size());
}

namespace {

/// Scenarios with maps that no other scenario has, so that each example of help scenario has a place where it is legal.
std::vector<std::string> scenarios_for_examples() {
  const std::string small = "cluster: {node: dgx-a100}\nmodel: gpt2\nplan: {micro_batch_size: 1";
  const std::string two =
      "cluster: {node: dgx-a100, nodes: 2, fabric: leaf-spine}\nmodel: resnet50\n"
      "software: pytorch-ddp\nplan: {micro_batch_size: 32";
  const std::string servers = ", data_parallel: {mechanism: parameter-server";
  const std::string h100 = "cluster: {node: dgx-h100}\nplan: {micro_batch_size: 1",
                    mixtral = "}}\nmodel: mixtral-8x7b\n";
  const std::string mlp =
      "cluster: {node: dgx-a100}\nmodel: {mlp: {widths: [64, 64, 64, 64, 64, 64, 64]}}\n"
      "plan: {micro_batch_size: 4, idle_devices: allowed, ";
  return {
      "cluster: {node: dgx-h100}\nmodel: llama-3-8b\nplan: {micro_batch_size: 1, mode: inference}\n"
      "generation: {requests: 16, prompt_tokens: 8, answer_tokens: {mean: 100, most: 2048}}",
      "cluster: {node: dgx-a100, preflight: {hosts: [{name: node1}]}}\nmodel: gpt2\nplan: {micro_batch_size: 1}",
      two +
          ", training: {epochs: 90, samples: 1281167}}\nfaults: {checkpoint: {virtual_epochs: 5, write: 60 s, "
          "load: 60 s}, failures: {mtbf: {gpu: 50000 h}}}",
      two + servers +
          ", consistency: stale, staleness: 2, servers: {count: 2}}, training: {steps: 1000}}\n"
          "faults: {failures: {mtbf: {worker: 50000 h}}, "
          "checkpoint: {every: 100 steps, write: 60 s, load: 60 s}}",
      "cluster: {node: t4-server, nodes: 2, fabric: leaf-spine}\nmodel: resnet50\nplan: {micro_batch_size: 32, "
      "precision: fp16, idle_devices: allowed" +
          servers + ", size: 2, consistency: asynchronous}}",
      two + servers + "}}",
      two +
          "}\nfaults: {stragglers: {kind: constant, factors: [2]}, "
          "links: [{link: node0/hca0 - leaf0, factor: 0.5}]}",
      two + "}\ninput: {dataset: {samples: 1000000, sample_size: 110 kB}, decode: {workers: 16, time: 5 ms}}",
      two + "}\nlearn: {task: transformer, data: {seed: 1}}",
      two + "}\nlearn: {task: cnn, data: {seed: 1}}",
      two + "}\nlearn: {task: mlp, decay: milestones, milestones: [10]}",
      two + ", optimizer: lars}\nlearn: {task: mlp}",
      small + ", activation_offload: {blocks: 2}}",
      h100 + ", precision: fp8}\nmodel: gpt2\n",
      small + ", strategy: tf-multi-worker-mirrored}",
      two + ", collectives: messages, data_parallel: {compression: {name: top-k, density: 0.01}}}",
      two + ", data_parallel: {mechanism: remote-embedding}}",
      two + ", data_parallel: {mechanism: gossip, gossip: {topology: pairs}}}",
      small +
          ", idle_devices: allowed, data_parallel: {size: 3, mechanism: gossip, "
          "gossip: {edges: [[0, 1], [0, 2]]}}}",
      small + ", data_parallel: {mechanism: master}}",
      small + ", data_parallel: {zero_stage: 3, offload: {optimizer: cpu}}}",
      h100 + "}\nmodel: t5-11b\n",
      h100 + ", expert_parallel: {size: 8, load: {kind: zipf}" + mixtral,
      h100 + ", expert_parallel: {size: 8, load: {kind: lognormal}" + mixtral,
      h100 + ", expert_parallel: {size: 4, load: {values: [2, 1, 1, 1]}" + mixtral,
      h100 + ", context_parallel: {size: 4, exchange: ring}}\nmodel: llama-3-8b\n",
      h100 + ", context_parallel: {size: 4, ulysses: 4}}\nmodel: llama-3-8b\n",
      mlp + "pipeline: {stages: [{layers: 3, tensor: 1, data: 2}, {layers: 3, tensor: 2, data: 1}]}}",
      mlp + "tensor_parallel: 2}",
      two + ", precision: bf16, measured_step: {source: log, network: resnet50, table: {32: 10 ms}}}",
      small + ", step_time: {value: 1 s}}",
      small + ", tensor_parallel: 2, sequence_parallel: true}\nsoftware: torchtitan-async-tp",
      "cluster: {node: dgx-h100, nodes: 2, fabric: rail-optimized}\nmodel: llama-3-8b\nsoftware: megatron-core\n"
      "plan: {micro_batch_size: 1, global_batch_size: 1024, seq_length: 4096}\n"
      "post_training: {prompts: 64, samples_per_prompt: 16, prompt_tokens: 100, generation: {engine: vllm}, "
      "answer_tokens: {most: 2000, values: [300, 800]}}",
      small +
          "}\nsoftware: {base: megatron-core, host: {runs_ahead: true}, anchor: {spread: 0.05}, slowdowns: "
          "{exchanges: 1}, parallel: {zero_stage: 0, user_buffers: {overlapped: 0}}}",
      small + "}\nsoftware: {base: megatron-core, bucket: {elements: 1000000, elements_a_replica: 1000}}",
      small + "}\nsoftware: {base: plain, bucket: 25 MiB}",
  };
}

/// Appends to `paths` the paths to a key in the maps that a document has. A list contributes each of its items.
void add_places(const trainyard::Node& node, const std::string& path, const std::string& before,
                std::vector<std::string>& paths) {
  const std::size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (node.kind == trainyard::Node::Kind::list) {
    const std::string rest = key == "N" ? path.substr(dot + 1) : path;
    for (std::size_t i = 0; i < node.items.size(); ++i)
      add_places(node.items[i], rest, before + std::to_string(i) + ".", paths);
  } else if (node.kind == trainyard::Node::Kind::map) {
    if (dot == std::string::npos)
      paths.push_back(before + path);
    else if (key == "NAME")
      for (const auto& [name, below] : node.fields) add_places(below, path.substr(dot + 1), before + name + ".", paths);
    else if (const trainyard::Node* below = node.find(key))
      add_places(*below, path.substr(dot + 1), before + key + ".", paths);
  }
}

}  // namespace

TEST_CASE("each key of help scenario that is no map has an example, which its reader accepts", "[help]") {
  using namespace trainyard;
  std::vector<Node> scenarios;
  for (const std::string& text : scenarios_for_examples()) {
    CHECK(test::user_error([&] { read_scenario_text(text, "x.yaml"); }) == "");
    scenarios.push_back(parse_document(text, "x.yaml"));
  }
  for (const std::string& text : example_scenarios()) scenarios.push_back(parse_document(text, "x.yaml"));
  scenarios.push_back(
      parse_document("cluster: {node: dgx-a100, nodes: 4, fabric: leaf-spine}\n"
                     "jobs: [{nodes: 1, placement: packed, start: 20 ms, model: gpt2, plan: {micro_batch_size: 1}}]\n",
                     "x.yaml"));
  scenarios.push_back(parse_document(
      "cluster: {node: dgx-a100, nodes: 4, fabric: leaf-spine}\nmodel: gpt2\nplan: {micro_batch_size: 1, "
      "data_parallel: {all_reduce: {algorithm: torus-2d}}}\n",
      "x.yaml"));
  scenarios.push_back(parse_document(
      "cluster: {node: dgx-a100}\nplan: {micro_batch_size: 1}\nmodel: {model_type: operators, tokens: 64, "
      "sizes: {hidden: 32}, layers: [{layer: embed, operators: [embedding: {entries: 100, width: 32}]}, "
      "{layer: head, operators: [linear: {in: 32, out: 100}, cross_entropy: {classes: 100}]}]}\n",
      "x.yaml"));
  scenarios.push_back(parse_document(
      "cluster: {node: dgx-a100}\nplan: {micro_batch_size: 1}\nmodel: {model_type: operators, tokens: 64, layers: "
      "[{layer: embed, width: 32, operators: [embedding: {name: token_embedding, entries: 100, width: 32}]}, {layer: "
      "head, "
      "operators: [embedding: {entries: 100, width: 32}, linear: {in: 32, out: 100}, cross_entropy: {classes: "
      "100}]}]}\n",
      "x.yaml"));
  for (const char* keys : {"nodes: {from: 1, to: 2}, every: 7 d", "nodes: 1, mean_interval: 7 d"})
    scenarios.push_back(parse_document(
        fmt::format("cluster: {{node: dgx-a100, nodes: 4, fabric: leaf-spine}}\nfleet: {{horizon: 100 d, spares: 1, "
                    "policy: preemptive, backfill: true, seed: 1, runs: 2}}\ntrainings: [{{{}, count: 2, arrival: 1 d, "
                    "deadline: 10 d, priority: 1, model: gpt2, plan: {{micro_batch_size: 1, global_batch_size: 16, "
                    "training: {{steps: 10}}}}}}]\n",
                    keys),
        "x.yaml"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file("scenarios"))) {
    if (entry.path().extension() != ".yaml" || entry.path().parent_path().filename() == "tables") continue;
    Node document = read_document(entry.path());
    if (!is_measured_family(document) && document.find("cluster")) scenarios.push_back(std::move(document));
  }
  const std::vector<ScenarioField> fields = known_scenario_fields();
  for (const ScenarioField& field : fields) {
    const bool is_map = std::ranges::any_of(
        fields, [&](const ScenarioField& other) { return other.path.starts_with(field.path + "."); });
    if (field.words.empty() || field.type == "true or false") continue;
    const std::string example = find_example(field);
    CAPTURE(field.path, field.words, example);
    CHECK((is_map || !example.empty()));
    // Files of the user's own, a table whose keys are numbers, and experts of an engine, which a dense model lacks.
    const std::set<std::string> untried{"plan.expert_parallel.load.file", "jobs.scenario", "trainings.scenario",
                                        "post_training.generation.expert_parallel"};
    if (example.empty() || untried.contains(field.path) || field.path.ends_with(".N")) continue;
    bool is_accepted = false;
    std::string error;  // the first
    for (std::size_t i = 0; i < scenarios.size() && !is_accepted; ++i) {
      std::vector<std::string> places;
      add_places(scenarios[i], field.path, "", places);
      for (const std::string& place : places) {
        Node document = scenarios[i];
        const std::string refused = test::user_error([&] {
          set_field(document, place, example);
          if (document.find("jobs"))
            read_shared_cluster(document, "x");
          else if (document.find("trainings"))
            read_fleet(document, "x");
          else
            read_scenario(document, "x");
        });
        if (error.empty()) error = refused;
        is_accepted |= refused.empty();
      }
    }
    CAPTURE(error);
    CHECK(is_accepted);
  }
}

}  // namespace tools_test_help
