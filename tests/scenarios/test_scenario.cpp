#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/replaced_text.hpp"
#include "tests/small_scenario.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_scenario {

using namespace trainyard;

namespace {

const std::string kSmall = test::kSmallScenario;

Scenario small(const Overrides& overrides = {}) { return read_scenario_text(kSmall, "small.yaml", overrides); }

std::string error_of(const Overrides& overrides) {
  return test::user_error([&] {
    const Scenario s = small(overrides);
    const Plan step_plan = plan(s);
    require_simulable(s, step_plan);
    require_size(s, step_plan, 1, "");
  });
}

/// Calls `check` for each key of a map and of the maps in it, but not for the figures of an entry that changes another.
/// The map then lacks the key, or has null after it.
void visit_keys(Node& map, const std::string& path, const std::function<void(const std::string&, bool)>& check) {
  for (std::size_t i = 0; i < map.fields.size(); ++i) {
    const auto place = map.fields.begin() + static_cast<std::ptrdiff_t>(i);
    const std::pair<std::string, Node> field = *place;
    const std::string key_path = path + field.first;
    map.fields.erase(place);
    check(key_path, false);
    Node null;
    null.place = field.second.place;
    map.fields.insert(map.fields.begin() + static_cast<std::ptrdiff_t>(i), {field.first, null});
    check(key_path, true);
    Node& value = map.fields[i].second = field.second;
    if (value.kind == Node::Kind::map && !value.find("base")) visit_keys(value, key_path + ".", check);
  }
}

}  // namespace

TEST_CASE("a key with a written null is as if it were absent", "[scenario]") {
  std::vector<Node> documents;
  for (const std::string& text : example_scenarios())
    if (text.find("model_type: operators") == std::string::npos) documents.push_back(parse_document(text, "x.yaml"));
  for (const char* name : {"input-resnet50-dgx", "mixtral-ep8", "failures-llama3-16k", "zero-offload-v100",
                           "post-training-llama3-8b-8xh100", "generation-llama3-70b-2xh100", "lora-llama2-70b"})
    documents.push_back(read_document(shipped_file(fmt::format("scenarios/{}.yaml", name))));
  for (const auto& [model, plan] : std::map<std::string, std::string>{
           {"mlp-mnist", "tensor_parallel: 2, linear_split: columns"},
           {"gpt2",
            "global_batch_size: 8, mesh_order: [data, tensor, context, pipeline], pipeline_parallel: 2, "
            "pipeline: {schedule: gpipe}, data_parallel: {compression: {name: top-k, density: 0.01}}"},
           {"mixtral-8x7b", "expert_parallel: {size: 8, dispatcher: deepep}, bf16_blocks: {first: 1}, precision: fp8"}})
    documents.push_back(parse_document(
        fmt::format("cluster: {{node: dgx-h100}}\nmodel: {}\nplan: {{micro_batch_size: 1, {}}}\n", model, plan),
        "x.yaml"));
  std::set<std::string> tested;
  for (Node& document : documents) {
    bool may_lack = false;
    visit_keys(document, "", [&](const std::string& path, bool is_null) {
      const std::string error = test::user_error([&] { read_scenario(document, "x"); });
      if (!is_null) {
        may_lack = error.empty();
        return;
      }
      CAPTURE(path, error);
      CHECK(error.empty() == may_lack);
      if (may_lack) tested.insert(path);
    });
  }
  for (const char* path : {"cluster.fabric", "software", "input.storage", "plan.expert_parallel.dispatcher",
                           "plan.lora", "plan.mesh_order", "plan.linear_split", "post_training.stack",
                           "post_training.generation.engine", "generation.engine", "plan.data_parallel.compression"}) {
    CAPTURE(path);
    CHECK(tested.count(path) == 1);
  }
  CHECK(tested.size() > 100);
}

TEST_CASE("a scenario takes keys that it leaves out from the catalog or from defaults", "[scenario]") {
  const Scenario s = small();
  CHECK(s.name == "small");
  CHECK(s.ranks() == 8);
  CHECK(s.micro_batches() == 2);
  CHECK(s.plan.all_reduce.algorithm->name == "ring");
  CHECK(s.software.name == "plain");
  CHECK_FALSE(s.software_given);
  CHECK(s.optimizer.name == "adam");
  CHECK(s.network.tokens_per_sample == 64);
  CHECK(s.network.layers.size() == 4);  // embedding, two blocks, head
  CHECK(small({{"software", "pytorch-ddp"}}).software_given);
  CHECK(small({{"plan.data_parallel", "4"}, {"plan.idle_devices", "allowed"}}).ranks() == 4);
}

TEST_CASE("overrides reach any depth, the last one wins", "[scenario]") {
  const Scenario s = small({{"cluster.hca.rate", "25 Gbit/s"},
                            {"cluster.hca.rate", "400 Gbit/s"},
                            {"cluster.gpu.memory_capacity", "1 GiB"}});
  CHECK(s.cluster.node.hca_rate == BytesPerSecond{50e9});
  CHECK(s.cluster.node.gpu.memory_capacity == Bytes{1073741824.0});
  CHECK(s.cluster.node.gpu.name == "t4");
  CHECK(small({{"cluster.gpu", "v100-sxm2-16gb"}}).cluster.node.gpu.name == "v100-sxm2-16gb");
  CHECK(parse_override_option("a.b=c=d") == std::pair<std::string, std::string>{"a.b", "c=d"});
  CHECK_THROWS_WITH(parse_override_option("a.b"), "--set a.b: expected path=value, such as plan.micro_batch_size=8");
  CHECK_THROWS_WITH(parse_override_option("=1"), "--set =1: expected path=value, such as plan.micro_batch_size=8");
}

TEST_CASE("impossible combinations are refused at their place in the file", "[scenario]") {
  CHECK(error_of({}) == "");
  const auto check_error = [](const std::string& text, const std::string& from, const std::string& to) {
    const std::string changed = test::with_replaced(kSmall, from, to);
    CHECK(test::user_error([&] { read_scenario_text(changed, "small.yaml"); }) == text);
  };
  check_error(
      "small.yaml:7:22: plan.global_batch_size: 12 is not a multiple of 8 (micro_batch_size 1 x 8 ranks); nearest: 8 "
      "or 16",
      "size: 16", "size: 12");
  check_error("small.yaml:10:14: plan.precision: t4 has no bf16; it has fp64, fp32, fp16, int8; nearest: fp16", "fp16",
              "bf16");
  check_error("small.yaml:2:10: cluster.nodes: 4294967298 nodes; at most 16384", "nodes: 2", "nodes: 4294967298");
  check_error(
      "small.yaml:2:3: cluster of 2 nodes: missing key \"fabric\" (what joins them; known: dragonfly, ethernet, "
      "fat-tree, leaf-spine, leaf-spine-ecmp, nonblocking, rail-only, rail-optimized, ring, torus-2d, torus-3d, "
      "tpu-7x-torus, "
      "tpu-v2-torus, tpu-v3-torus, tpu-v4-torus, tpu-v5e-torus, tpu-v5p-torus, tpu-v6e-torus)",
      "  fabric: nonblocking\n", "");
  check_error("small.yaml:8:21: plan.micro_batch_size: 9223372036854775807 is too many; the most is 16777216",
              "micro_batch_size: 1", "micro_batch_size: 9223372036854775807");
  check_error("small.yaml:9:15: plan.seq_length: 2048 tokens, but gpt2 has 1024 learned positions", "seq_length: 64",
              "seq_length: 2048");
  check_error("small.yaml:5:30: model: 10001 layers; at most 10000", "n_layer: 2", "n_layer: 10001");
  CHECK(error_of({{"plan.data_parallel.size", "9"}}) ==
        "--set plan.data_parallel.size: 9 ranks, but the cluster has 8 GPUs (2 nodes x 4)");
  CHECK(error_of({{"model", "{config: nowhere.json}"}}).find("model.config: nowhere.json: no such file") !=
        std::string::npos);
  CHECK(error_of({{"plan.data_parallel.bucket", "1 B"}, {"plan.data_parallel.bucket_boundaries", "bytes"}})
            .find("gradient buckets of 1.00 B; at most 60000; expected ") != std::string::npos);
  // An error of a network that is written as operators has one place: the --set that causes it.
  const std::string listed =
      "cluster: {node: dgx-h100}\nmodel: {model_type: operators, name: listed, tokens: 8, layers: [{layer: head, "
      "operators: [linear: {in: 8, out: 8, rows: tokens - 4, split: columns}, cross_entropy: {classes: 8}]}]}\n"
      "software: megatron-core\nplan: {global_batch_size: 8, micro_batch_size: 1}\n";
  const std::string error = test::user_error([&] {
    read_scenario_text(listed, "listed.yaml", {{"plan.seq_length", "4"}});
  });
  CHECK((error.starts_with("--set plan.seq_length: ") && error.find("listed.yaml") == std::string::npos));
}

TEST_CASE("a step that would fill the memory or take too long is refused before it is simulated", "[scenario]") {
  CHECK(error_of({{"cluster.nodes", "1024"}, {"plan.global_batch_size", "4096"}, {"plan.collectives", "messages"}})
            .starts_with("small.yaml:2:3: a step of about 3."));
  CHECK(error_of({{"cluster.nodes", "16384"}, {"plan.global_batch_size", "65536"}}) == "");
  CHECK(error_of({{"cluster.gpu.memory_bandwidth", "1 B/s"}}).starts_with("small.yaml:2:3: a step of up to "));
  CHECK(error_of({{"cluster.hca.rate", "1 B/s"}}).starts_with("small.yaml:2:3: a step of up to "));
  const Scenario s = small();
  const double counted = static_cast<double>(simulate(s).operations);
  CHECK(estimated_operations(plan(s)) == Approx(counted).epsilon(0.05));
}

TEST_CASE("one device sends nothing", "[scenario]") {
  const Result r = simulate(small({{"cluster", "{node: {base: t4-server, gpu: {count: 1}}}"}}));
  CHECK(r.messages == 0);
  CHECK(r.bytes_total.value == 0);
  CHECK(r.step_time.value > 0);
  CHECK(r.fits);
  CHECK(r.breakdown.compute.value + r.breakdown.optimizer.value + r.breakdown.framework.value +
            r.breakdown.other.value ==
        Approx(r.step_time.value));
}

TEST_CASE("a model is read by its name, from a file, or from the scenario itself", "[scenario]") {
  const Scenario by_name = small({{"model", "gpt2"}}), by_config = small({{"model", "{config: gpt2.json}"}});
  CHECK(by_name.network.parameters() == 124439808);
  CHECK(by_config.network.parameters() == 124439808);
  CHECK(by_config.network.name == "gpt2");
  const Scenario mlp = read_scenario_text(
      "cluster: {node: t4-server}\nmodel: {mlp: {widths: [8, 16, 4]}}\nplan: {micro_batch_size: 1, precision: fp32}\n",
      "mlp.yaml");
  CHECK(mlp.network.parameters() == 8 * 16 + 16 + 16 * 4 + 4);
}

TEST_CASE("a CNN is read by its name, or from the scenario itself", "[scenario]") {
  const std::string file = std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/resnet50-4xv100-pcie.yaml";
  const Scenario s = read_scenario(file, {});
  CHECK(s.ranks() == 4);
  CHECK(s.network.parameters() == 25'557'032);
  CHECK(s.network.samples == 32);
  // The last all-reduce cannot start before the first layer's gradients are there. The backward pass hides the others.
  const double overlapped = simulate(s).step_time.value;
  CHECK(overlapped < simulate(read_scenario(file, {{"plan.data_parallel.overlap", "false"}})).step_time.value);
  CHECK(read_scenario(file, {{"model", "inception_v3"}}).network.name == "inception-v3");
  const Network wide = read_scenario(file, {{"model.cnn.input", "[3, 448, 448]"}}).network;
  CHECK(wide.parameters() == 25'557'032);
  CHECK(wide.forward_flops().value > 3.9 * s.network.forward_flops().value);
  CHECK(read_scenario(file, {{"model", "mlp-mnist"}}).network.parameters() == 669'706);
  const Network custom_network =
      read_scenario(file, {{"model",
                            "{cnn: {input: [1, 8, 8], layers: [conv: {out: 2, kernel: 3}, flatten, linear: {out: "
                            "10}, softmax_cross_entropy]}}"}})
          .network;
  CHECK(custom_network.parameters() == 20 + 730);
  CHECK_THROWS_WITH(read_scenario(file, {{"plan.seq_length", "8"}}),
                    Catch::Contains("resnet50 has no sequence of tokens; leave it out"));
  for (const char* model : {"dlrm-dcnv2", "dlrm-criteo"}) {
    const std::string text = std::string("cluster: {node: dgx-h100}\nmodel: ") + model +
                             "\nplan: {micro_batch_size: 8, precision: tf32, seq_length: ";
    CHECK_THROWS_WITH(read_scenario_text(text + "77}\n", "x.yaml"),
                      Catch::Contains(std::string("plan.seq_length: 77 tokens, but ") + model +
                                      " has one row a sample and no sequence; leave it out"));
    CHECK_NOTHROW(read_scenario_text(text + "1}\n", "x.yaml"));
  }
  CHECK_THROWS_WITH(read_scenario(file, {{"model", "resnet51"}}), Catch::Contains("did you mean \"resnet50\"?"));
}

TEST_CASE("the schedule, mesh and machine of a scenario are shown without simulating", "[scenario][views]") {
  const Scenario s = small({{"plan.collectives", "messages"}});
  const Schedule all = schedule(plan(s), 3, 100000);
  CHECK(all.lines.size() == all.operations);
  CHECK(all.lines.back().what == "optimizer step");
  CHECK(all.lines[0].what == "set-up: parameters");
  CHECK(all.lines[0].memory == s.network.parameters() * 2);
  CHECK(all.lines[1].what == "set-up: gradients");
  CHECK(schedule(plan(s), 3, 5).lines.size() == 5);
  CHECK(schedule(plan(s), 3, 5).operations == all.operations);
  std::size_t sends = 0;
  for (const ScheduleLine& line : all.lines)
    if (line.kind == "send") {
      CHECK(line.peer == 4);
      ++sends;
    }
  CHECK(sends == plan(s).training.stages.front().buckets.size() * 14);

  const std::vector<MeshRank> ranks = mesh(s);
  REQUIRE(ranks.size() == 8);
  CHECK(ranks[5].device == "node1/gpu1");
  CHECK(ranks[5].coordinates.data == 5);

  const MachineView machine = machine_view(s);
  REQUIRE(machine.routes.size() == 3);
  CHECK(machine.routes[0].hops ==
        std::vector<std::string>{"node0/gpu0", "node0/pcie0", "node0/cpu0", "node0/pcie1", "node0/gpu1"});
  CHECK(machine.routes[0].latency == Picoseconds{1'000'000});
  CHECK(machine.routes[1].bottleneck_kind == "HCA");
  CHECK(machine.routes[1].rate == BytesPerSecond{6.25e9});
  int links = 0;
  for (const LinkClass& c : machine.links) links += c.count;
  CHECK(links == 2 * (2 * (4 + 4 + 1) + 2));
  CHECK(to_json(machine)["devices"]["GPU"] == 8);
  CHECK(to_json(ranks)["mesh"].size() == 8);
  CHECK(to_json(all)["schedule"].size() == all.operations);
}

TEST_CASE("several steps are simulated one after the other, and the answer is that of one step", "[scenario]") {
  const Result one_step = simulate(small()), three_steps = simulate(small({{"plan.steps", "3"}}));
  CHECK(10 * three_steps.operations > 29 * one_step.operations);
  CHECK(three_steps.bytes_total.value == Approx(one_step.bytes_total.value).epsilon(1e-12));
  // The ring's last messages end later on some ranks.
  CHECK(three_steps.step_time.value == Approx(one_step.step_time.value).epsilon(0.01));
  double sum = three_steps.breakdown.compute.value + three_steps.breakdown.optimizer.value +
               three_steps.breakdown.bubble.value + three_steps.breakdown.other.value +
               three_steps.breakdown.framework.value + three_steps.breakdown.input.value;
  for (const auto& [group, seconds] : three_steps.breakdown.exposed_communication) sum += seconds;
  CHECK(sum == Approx(three_steps.step_time.value).epsilon(1e-9));
}

}  // namespace scenarios_test_scenario
