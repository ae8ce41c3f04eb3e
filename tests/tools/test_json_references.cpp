// `trainyard help json` describes the JSON of every command that has --json, key by key.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/answer/json_fields.hpp"
#include "strategies/collectives/collective.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/verbs.hpp"

namespace tools_test_json_references {

using namespace trainyard;
using nlohmann::ordered_json;

namespace {

bool has_json(const std::function<void()>& run_verb) {
  return std::ranges::any_of(describe_verb(run_verb).arguments,
                             [](const ArgumentDescription& argument) { return argument.name == "--json"; });
}

/// Adds the path of each key below `value` to `paths`, except below keys in `maps`, whose keys are names.
void add_key_paths(const ordered_json& value, const std::string& path, const std::set<std::string>& maps,
                   std::set<std::string>& paths) {
  if (value.is_array())
    for (const ordered_json& item : value) add_key_paths(item, path + "[]", maps, paths);
  if (!value.is_object() || maps.contains(path)) return;
  for (const auto& [key, below] : value.items()) {
    const std::string inner = path.empty() ? key : path + "." + key;
    paths.insert(inner);
    add_key_paths(below, inner, maps, paths);
  }
}

/// Checks that the JSON of these runs has no key besides those of the reference, and that one of the runs has each.
void check_reference(const test::TopoFolder& shell, const std::string& command, const std::vector<std::string>& runs,
                     const std::set<std::string>& unseen = {}) {
  CAPTURE(command);
  std::set<std::string> described, maps, written;
  for (const FieldRow& row : json_references().find(command, {}).rows()) {
    CHECK(described.insert(row.path).second);
    if (row.type.starts_with("{")) maps.insert(row.path);
  }
  for (const std::string& run : runs) {
    const test::TopoAnswer answer = shell.trainyard(run + " --json a.json");
    CAPTURE(run, answer.err);
    REQUIRE(answer.exit == 0);
    add_key_paths(ordered_json::parse(shell.text("a.json")), "", maps, written);
  }
  written.insert(unseen.begin(), unseen.end());
  std::vector<std::string> unexplained, unwritten;
  std::ranges::set_difference(written, described, std::back_inserter(unexplained));
  std::ranges::set_difference(described, written, std::back_inserter(unwritten));
  for (const std::string& path : unexplained) UNSCOPED_INFO("not explained: " + path);
  for (const std::string& path : unwritten) UNSCOPED_INFO("not written: " + path);
  CHECK((unexplained.empty() && unwritten.empty()));
}

}  // namespace

TEST_CASE("every command with --json has a reference of its JSON", "[help][json]") {
  const std::vector<std::string> names = json_references().names();
  const auto is_described = [&names](const std::string& command) {
    return std::ranges::any_of(names, [&command](const std::string& name) {
      return name == command || name.starts_with(command + " ") || name.starts_with(command + ",");
    });
  };
  int commands = 0;
  for (const std::string& name : verbs().names()) {
    // `merge` writes what the verb writes whose shards it combines.
    if (name == "topo" || name == "teach" || name == "merge" || !has_json([&] { verbs().find(name, {}).run({}); }))
      continue;
    CAPTURE(name);
    ++commands;
    CHECK(is_described(name));
  }
  for (const std::string& name : topo_verbs().names()) {
    if (!has_json([&] { topo_verbs().find(name, {}).run({}); })) continue;
    CAPTURE(name);
    ++commands;
    CHECK(is_described("topo " + name));
  }
  CHECK(commands > 20);
}

TEST_CASE("help json has exactly the keys that teach writes", "[help][json][teach]") {
  const test::TopoFolder shell;
  shell.write("mlp.yaml",
              "cluster: {node: dgx-a100}\nmodel: {mlp: {widths: [8, 8, 8, 8]}}\n"
              "plan: {micro_batch_size: 4, idle_devices: allowed, tensor_parallel: 2, data_parallel: {size: 2}}\n");
  shell.write(
      "transformer.yaml",
      "cluster: {node: {base: dgx-a100, gpu: {count: 2}}}\nmodel: {base: gpt2, n_layer: 1, n_embd: 16, n_head: 4, "
      "vocab_size: 32}\nplan: {micro_batch_size: 1, global_batch_size: 1, tensor_parallel: 2, seq_length: 8}\n");
  std::set<std::string> topics;
  const auto check = [&](const std::string& command, const std::vector<std::string>& runs) {
    check_reference(shell, command, runs);
    for (const std::string& run : runs) topics.insert(run.substr(6, run.find(' ', 6) - 6));
  };
  std::vector<std::string> collectives;
  for (int i = 0; i < kOperations; ++i)
    collectives.push_back("teach " + std::string(name_of(static_cast<Operation>(i))));
  check("teach all-reduce", collectives);
  check("teach pipeline", {"teach pipeline", "teach pipeline --schedule zb-2p"});
  check("teach pipeline --schedule all", {"teach pipeline --schedule all --stages 3", "teach pipeline --schedule all"});
  check("teach zero", {"teach zero"});
  check("teach learning", {"teach learning"});
  check("teach matrix-product", {"teach matrix-product"});
  check("teach server",
        {"teach server", std::string("teach server --script '") + TRAINYARD_SOURCE_DIR "/scenarios/push-pull.txt'"});
  check("teach step", {"teach step mlp.yaml", "teach step transformer.yaml"});
  check("teach switch", {"teach switch"});
  check("teach threads", {"teach threads", "teach tasks"});
  for (const std::string& name : teach_topics().names())
    if (!teach_topics().find(name, {}).summary.empty()) CHECK(topics.contains(name));
}

TEST_CASE("help json has exactly the keys that list, show, topo and explain write", "[help][json]") {
  const test::TopoFolder shell;
  const std::string folder = TRAINYARD_SOURCE_DIR "/scenarios/", gpt2 = folder + "gpt2-xl-ddp-dgx-a100.yaml ",
                    pipeline = folder + "llama3-70b-tp8-pp4.yaml ", learned = folder + "learn-workers.yaml ";
  shell.write("hosts.yaml",
              "cluster: {node: dgx-a100, nodes: 2, fabric: leaf-spine, preflight: {ports: [29500], hosts: [\n"
              "  {name: a, gpus: 8, open_ports: [29500], reaches: [b], versions: {nccl: 2.20}},\n"
              "  {name: b, gpus: 8, open_ports: [29500], reaches: [a], versions: {nccl: 2.20}}]}}\n"
              "model: gpt2\nplan: {micro_batch_size: 1}\n");
  check_reference(shell, "list", {"list"});
  check_reference(shell, "show", {"show gpu a100-sxm4-80gb", "show network gpt2"});
  check_reference(shell, "show --schedule", {"show " + pipeline + "--schedule --all --rank 8"});
  check_reference(shell, "show --mesh", {"show " + gpt2 + "--mesh"});
  check_reference(shell, "show --machine", {"show " + gpt2 + "--machine"});
  check_reference(shell, "show --fold", {"show " + pipeline + "--fold"});
  check_reference(shell, "show --rank", {"show " + pipeline + "--rank 8"});
  check_reference(shell, "topo show", {"topo show dgx-h100 --nodes 4 --fabric leaf-spine"});
  check_reference(shell, "topo check",
                  {"topo check hosts.yaml", "topo check pcie-4",
                   "topo check dgx-h100 --nodes 64 --fabric '{type: folded-clos, levels: "
                   "[{down: 4, oversubscription: 4}], switch_latency: 100 ns}'",
                   "topo check dgx-a100 --nodes 16 --fabric '{type: torus, dims: [4, 4], switch_latency: 100 ns}'"},
                  {"unfinished"});
  check_reference(shell, "explain --layers", {"explain " + gpt2 + "--layers"});
  check_reference(shell, "explain --batch", {"explain " + learned + "--batch"}, {"points[].diverged_at_step"});
  CHECK_THAT(shell.trainyard("help json show").out, Catch::Contains("\ntrainyard show --json: ") &&
                                                        Catch::Contains("\ntrainyard show --fold --json: ") &&
                                                        !Catch::Contains("\ntrainyard topo"));
}

TEST_CASE("help json has exactly the keys that fit writes", "[help][json][fit]") {
  const test::TopoFolder shell;
  const std::string tables = TRAINYARD_SOURCE_DIR "/scenarios/measured/tables";
  check_reference(shell, "fit roofline", {"fit roofline --gpu a100-sxm4-80gb --data " + tables});
  check_reference(shell, "fit kernels",
                  {"fit kernels --gpu a100-sxm4-80gb " + tables + "/gemm.csv " + tables + "/attention.csv"});
  check_reference(shell, "fit nccl", {"fit nccl --gpu a100-sxm4-80gb " + tables + "/nccl.csv"});
  check_reference(shell, "fit nccl --launch", {"fit nccl --launch"});
}

}  // namespace tools_test_json_references
