// Clusters of several node types, files beside the scenario, and the results of steps on them.
#include <catch2/catch.hpp>

#include <filesystem>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace scenarios_test_cluster_files {

using namespace trainyard;
namespace fs = std::filesystem;

namespace {

const std::string kStep = R"(
model: {base: gpt2, n_layer: 2}
plan: {global_batch_size: 32, micro_batch_size: 1, seq_length: 64, precision: fp16}
)";

Scenario scenario_on(const std::string& cluster, const Overrides& overrides = {}) {
  return read_scenario_text("cluster:\n" + cluster + kStep, "step.yaml", overrides);
}

const std::string kTwoTypes = R"(  nodes:
    - {count: 2, node: t4-server}
    - {count: 1, node: t4-server, gpu: {count: 2, memory_capacity: 4 GiB}, gpu_speed: 0.5}
    - {count: 1, node: t4-server, gpu: v100-pcie-16gb}
  fabric: nonblocking
)";

}  // namespace

TEST_CASE("files of GPUs and networks beside the scenario are read like files of nodes", "[cluster][files]") {
  const test::TemporaryFolder folder;
  folder.write("my-gpu.yaml", "base: t4\nmemory_capacity: 40 GiB\n");
  folder.write("my-node.yaml", "base: t4-server\ngpu: {type: my-gpu.yaml}\n");
  folder.write("my-net.yaml", "base: gpt2\nn_layer: 3\n");
  const auto read = [&folder](const std::string& node, const std::string& model) {
    return read_scenario(folder.write("s.yaml", "cluster: {" + node + "}\nmodel: " + model +
                                                    "\nplan: {global_batch_size: 4, micro_batch_size: 1, precision: "
                                                    "fp16, seq_length: 16}\n"));
  };
  const auto error = [&](const std::string& node, const std::string& model) {
    return test::user_error([&] { read(node, model); }).substr(folder.path().string().size() + 1);
  };
  CHECK(read("node: t4-server, gpu: ./my-gpu.yaml", "gpt2").cluster.node.gpu.memory_capacity ==
        Bytes{40.0 * (1 << 30)});
  CHECK(read("node: my-node.yaml", "gpt2").cluster.node.gpu.memory_capacity == Bytes{40.0 * (1 << 30)});
  CHECK(read("node: t4-server", "./my-net.yaml").network.name == "my-net");
  CHECK(read("node: t4-server", "{base: my-net.yaml, n_embd: 384}").model.entry.transformer()->num_hidden_layers == 3);
  CHECK(error("node: my-node", "gpt2") ==
        "s.yaml:1:17: unknown node \"my-node\"; did you mean \"my-node.yaml\", the file beside?");
  CHECK(error("node: t4-server, gpu: my-gpu", "gpt2") ==
        "s.yaml:1:33: unknown gpu \"my-gpu\"; did you mean \"my-gpu.yaml\", the file beside?");
  CHECK(error("node: t4-server", "my-net") ==
        "s.yaml:2:8: unknown network \"my-net\"; did you mean \"my-net.yaml\", the file beside?");
}

TEST_CASE("all keys that a node lacks are named at once", "[cluster][files]") {
  const auto error = [](const std::string& node) {
    return test::user_error([&node] { scenario_on("  node: " + node + "\n"); });
  };
  CHECK(
      error("{description: mine}") ==
      "step.yaml:2:9: node custom-node: missing keys \"gpu.count\", \"gpu.type\", \"interconnect\", \"pcie.latency\"");
  CHECK(error("{gpu: {type: t4}, interconnect: nvlink-mesh, hca: {count: 1}}") ==
        "step.yaml:2:9: node custom-node: missing keys \"gpu.count\", \"pcie.latency\", \"nvlink.latency\", "
        "\"nvlink.link_rate\", \"nvlink.mesh\", \"hca.rate\", \"hca.latency\"");
  CHECK(error("{gpu: {count: 1, type: {peak: {fp16: 1 TFLOP/s}}}, interconnect: pcie, pcie: {latency: 1 us}}") ==
        "step.yaml:2:32: gpu custom-gpu: missing keys \"memory_bandwidth\", \"memory_capacity\"");
}

TEST_CASE("if taken_out cuts ranks off, the error names its place in the scenario", "[cluster][taken_out]") {
  const auto error = [](const std::string& name) {
    return test::user_error([&name] {
      simulate(scenario_on("  nodes: 2\n  node: t4-server\n  fabric: nonblocking\n  taken_out: [" + name + "]\n"));
    });
  };
  CHECK_THAT(error("node0/gpu1"), Catch::StartsWith("step.yaml:5:15: cluster.taken_out: without node0/gpu1, rank ") &&
                                      Catch::Contains("cannot reach"));
  CHECK_THAT(error("node1/hca0"), Catch::StartsWith("step.yaml:5:15: cluster.taken_out: without node1/hca0, rank ") &&
                                      Catch::Contains("cannot reach"));
}

TEST_CASE("the error of a cut names two ranks that no path joins, by messages and by modelled collectives",
          "[taken_out]") {
  for (const char* collectives : {"modelled", "messages"}) {
    CAPTURE(collectives);
    const std::string error = test::user_error([collectives] {
      simulate(scenario_on("  nodes: 2\n  node: dgx-a100\n  fabric: leaf-spine\n  taken_out: [leaf0]\n",
                           {{"plan.collectives", collectives}, {"software", "pytorch-ddp"}}));
    });
    CHECK_THAT(error, Catch::StartsWith("step.yaml:5:15: cluster.taken_out: without leaf0, rank "));
    CHECK((error.find("(node0/") != std::string::npos && error.find("(node1/") != std::string::npos));
  }
}

TEST_CASE("a recomputation that a network does not offer is refused at the plan's key", "[cluster][errors]") {
  const auto error = [](const std::string& recompute) {
    return test::user_error([&recompute] {
      plan(read_scenario_text(
          "cluster: {node: pcie-1}\nmodel: resnet50\nplan: {global_batch_size: 1, micro_batch_size: 1, " + recompute +
              ", precision: fp16}\n",
          "s.yaml"));
    });
  };
  CHECK_THAT(error("recompute: selective"), Catch::StartsWith("s.yaml:3:62: plan.recompute: "));
  CHECK(error("recompute: full") == "");
}

TEST_CASE("with nodes of several types, each rank has the node, device and type that the list of nodes gives it",
          "[cluster][types]") {
  const Scenario s = scenario_on(kTwoTypes, {{"plan.global_batch_size", "28"}});
  const ClusterSpec& spec = s.cluster;
  CHECK(spec.nodes == 4);
  CHECK(spec.gpus() == 14);
  CHECK(s.ranks() == 14);
  CHECK(describe(spec).starts_with("2 × t4-server + 1 × t4-server + 1 × t4-server, "));
  const ClusterMachine m(spec, s.software);
  const std::vector<MeshRank> ranks = mesh(s);
  REQUIRE(ranks.size() == 14);
  for (int rank = 0; rank < 14; ++rank) {
    CAPTURE(rank);
    const int node = rank < 8 ? rank / 4 : rank < 10 ? 2 : 3;
    const int gpu = rank < 8 ? rank % 4 : rank < 10 ? rank - 8 : rank - 10;
    const std::string device = "node" + std::to_string(node) + "/gpu" + std::to_string(gpu);
    CHECK(spec.node_of_gpu(rank) == node);
    CHECK(ranks[static_cast<std::size_t>(rank)].node == node);
    CHECK(ranks[static_cast<std::size_t>(rank)].device == device);
    CHECK(m.actor_name(rank) == "rank " + std::to_string(rank) + " (" + device + ")");
    CHECK(&spec.type_of_gpu(rank) == &spec.type_of(node));
  }
  CHECK(m.actor_name(14) == "node0/cpu0");
  CHECK_THROWS_AS(spec.node_of_gpu(14), InternalError);
  const MachineView view = machine_view(s);
  CHECK(std::ranges::find(view.devices, std::pair<std::string, int>{"GPU", 14}) != view.devices.end());
}

TEST_CASE("a kernel takes the time that its GPU's type and speed give", "[cluster][types]") {
  const Scenario s = scenario_on(kTwoTypes, {{"plan.global_batch_size", "28"}});
  const ClusterMachine m(s.cluster, SoftwareStack{});
  Work work;
  work.flops = Flops{1e12};
  work.precision = static_cast<std::uint8_t>(Precision::fp16);
  const double t4 = m.price(work, 0).duration.value;
  CHECK(m.price(work, 7).duration.value == t4);
  CHECK(m.price(work, 8).duration.value == Approx(2 * t4).epsilon(1e-12));
  CHECK(m.price(work, 10).duration.value < t4);
  work.kernel = kStepOverhead;
  CHECK(m.price(work, 8).duration == m.price(work, 0).duration);  // the host's work does not depend on the GPU
}

TEST_CASE("a slow node makes the others wait at the all-reduce", "[cluster][types]") {
  const auto time = [](const std::string& speed) {
    return simulate(scenario_on("  nodes: [{count: 1, node: t4-server}, {count: 1, node: t4-server, gpu_speed: " +
                                speed + "}]\n  fabric: nonblocking\n"))
        .step_time.value;
  };
  const double equal_time =
      simulate(scenario_on("  nodes: 2\n  node: t4-server\n  fabric: nonblocking\n")).step_time.value;
  CHECK(time("1") == Approx(equal_time).epsilon(1e-12));
  CHECK(time("0.5") > 1.2 * equal_time);
  const double all_slow_time =
      simulate(scenario_on("  nodes: 2\n  node: t4-server\n  gpu_speed: 0.5\n  fabric: nonblocking\n")).step_time.value;
  CHECK(time("0.5") <= all_slow_time * (1 + 1e-9));
}

TEST_CASE("memory is that of the fullest GPU, and MFU is relative to the peak of all GPUs", "[cluster][types]") {
  const Result r = simulate(scenario_on(kTwoTypes, {{"plan.global_batch_size", "28"}}));
  CHECK(r.memory.rank == 8);
  CHECK(r.memory.capacity.value == 4.0 * (1 << 30));
  CHECK(r.ranks == 14);
  const Scenario s = scenario_on(kTwoTypes, {{"plan.global_batch_size", "28"}});
  double peak = 0;
  for (int rank = 0; rank < 14; ++rank)
    peak += s.cluster.type_of_gpu(rank).gpu.peak[static_cast<std::size_t>(Precision::fp16)].value;
  CHECK(r.mfu == Approx(r.tflops_per_gpu * 1e12 * 14 / peak).epsilon(1e-12));
  CHECK(peak > 10 * s.cluster.node.gpu.peak[static_cast<std::size_t>(Precision::fp16)].value);
}

TEST_CASE("a node and a fabric are read from files beside the scenario", "[cluster][files]") {
  const test::TemporaryFolder folder;
  folder.write("parts/box.yaml", "base: small.yaml\nhca: {rate: 25 Gbit/s}\n");
  folder.write("parts/small.yaml", "base: t4-server\ngpu: {count: 2}\n");
  folder.write("rails.yaml", "base: rail-optimized\nlevels: [{down: 2}]\n");
  const fs::path scenario = folder.write(
      "step.yaml", "cluster: {nodes: 2, node: parts/box.yaml, fabric: rails.yaml, gpu_speed: 0.9}" + kStep);
  const ClusterSpec spec = read_scenario(scenario).cluster;
  CHECK(spec.node.name == "box");
  CHECK(spec.node.gpus == 2);
  CHECK(spec.node.hca_rate == BytesPerSecond{25e9 / 8});
  CHECK(spec.node.gpu_speed == 0.9);
  CHECK(spec.fabric->summary() == "2 at 1:1, rails");
  CHECK(spec.fabric->levels().front().down == 2);
  CHECK(read_scenario(scenario, {{"cluster.node", "t4-server"}}).cluster.node.gpus == 4);
}

TEST_CASE("errors in files beside the scenario name those files", "[cluster][files]") {
  const test::TemporaryFolder folder;
  const auto error = [&folder](const std::string& cluster) {
    const fs::path scenario = folder.write("step.yaml", "cluster: " + cluster + kStep);
    std::string text = test::user_error([&] { read_scenario(scenario); });
    const std::string root = scenario.parent_path().string() + "/";
    for (std::size_t position = text.find(root); position != std::string::npos; position = text.find(root))
      text.erase(position, root.size());
    return text;
  };
  folder.write("bad.yaml", "base: t4-server\nhca:\n  rate: 0 GB/s\n");
  folder.write("key.yaml", "base: t4-server\nhcas: 2\n");
  folder.write("list.yaml", "[1, 2]\n");
  folder.write("self.yaml", "base: self.yaml\n");
  folder.write("fabric.yaml", "type: torus\nswitch_latency: 1 us\ndims: [x]\n");
  CHECK(error("{node: bad.yaml}") == "bad.yaml:3:9: node bad: hca.rate: \"0 GB/s\" must be greater than 0");
  CHECK(error("{node: key.yaml}") == "key.yaml:2:1: unknown key \"hcas\" in node key; did you mean \"hca\"?");
  CHECK(error("{node: list.yaml}") == "list.yaml:1:1: expected a map, the figures of a node");
  CHECK(error("{node: none.yaml}") == "step.yaml:1:17: none.yaml: no such file (a node of its own)");
  CHECK(error("{node: self.yaml}") == "self.yaml:1:7: bases of node form a cycle");
  CHECK(error("{nodes: 2, node: t4-server, fabric: fabric.yaml}") ==
        "fabric.yaml:3:8: fabric fabric.dims: expected one to 6 lengths, such as [4, 4, 4]");
}

TEST_CASE("the line of a cluster names the fabric as the scenario does", "[cluster]") {
  const auto line = [](const std::string& fabric) {
    return describe(scenario_on("  nodes: 2\n  node: t4-server\n  fabric: " + fabric + "\n").cluster);
  };
  CHECK_THAT(line("rail-optimized"), Catch::EndsWith("HCA, rail-optimized"));
  CHECK_THAT(line("leaf-spine-ecmp"), Catch::Contains("HCA, leaf-spine-ecmp (hashed, seed "));
  CHECK_THAT(line("nonblocking"), Catch::EndsWith("HCA, nonblocking"));
  CHECK_THAT(line("{type: folded-clos, switch_latency: 130 ns, levels: [{down: 4}]}"),
             Catch::EndsWith("HCA, folded-clos"));
}

TEST_CASE("a step over TCP is limited by the CPU's copies, and faster copies would save the most", "[cluster][tcp]") {
  const Scenario s = scenario_on(
      "  nodes: 2\n  node: t4-server\n  hca: {transport: tcp, copies: 2}\n  cpu: {copy_rate: 1 GB/s}\n"
      "  fabric: nonblocking\n");
  const Result r = simulate(s);
  CHECK(r.bottleneck == "CPU copies");
  CHECK(r.critical_path.at("CPU copies") > 0.4 * r.step_time.value);
  CHECK(r.bytes_by_link_kind.at("CPU copies") > 0);
  CHECK(describe(s.cluster).find("HCA (TCP)") != std::string::npos);
  double saved_by_copies = 0, most_saved = 0;
  for (const WhatIf& w : what_if(s)) {
    const double saves = 1 - w.step_time.value / r.step_time.value;
    if (w.resource_class == "CPU copies") saved_by_copies = saves;
    most_saved = std::max(most_saved, saves);
  }
  CHECK(saved_by_copies > 0.2);
  CHECK(saved_by_copies == most_saved);
  // The view of the machine names the same bottleneck for a single message.
  bool has_limited_route = false;
  for (const RouteView& route : machine_view(s).routes) {
    has_limited_route = has_limited_route || route.bottleneck_kind == "CPU copies";
    if (route.bottleneck_kind == "CPU copies") CHECK(route.rate == BytesPerSecond{0.5e9});
  }
  CHECK(has_limited_route);
}

}  // namespace scenarios_test_cluster_files
