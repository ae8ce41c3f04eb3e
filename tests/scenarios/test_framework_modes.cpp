// Strategies named after frameworks, and mechanisms other than an all-reduce.
#include <catch2/catch.hpp>
#include <sstream>
#include <utility>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_framework_modes {

using namespace trainyard;
using namespace trainyard::test;

namespace {

Scenario read_mode(const std::string& plan, const std::string& software = "", int nodes = 1,
                   const std::string& node = "{base: pcie-4, hca: {count: 1, rate: 100 Gbit/s, latency: 1 us}}") {
  return read_scenario_text("cluster: {nodes: " + std::to_string(nodes) + ", node: " + node +
                                ", fabric: nonblocking}\n"
                                "model: {base: gpt2, n_layer: 2}\n" +
                                (software.empty() ? "" : "software: " + software + "\n") +
                                "plan: {precision: fp16, seq_length: 128, micro_batch_size: 2, " + plan + "}\n",
                            "mode.yaml");
}

std::string refusal(const std::string& plan, const std::string& software = "", int nodes = 1) {
  return user_error([&] { read_mode(plan, software, nodes); });
}

}  // namespace

TEST_CASE("HSDP shards inside a node, as groups of its replicas do", "[modes]") {
  const Scenario hybrid = read_mode("strategy: pytorch-hsdp", "", 2);
  CHECK(hybrid.plan.zero == ZeroStage::parameters);
  CHECK(hybrid.plan.zero_group == hybrid.cluster.node.gpus);
  CHECK(simulate(hybrid).step_time ==
        simulate(read_mode("data_parallel: {zero_stage: 3, zero_group: 4}", "pytorch-fsdp", 2)).step_time);
  CHECK(read_mode("strategy: pytorch-hsdp").plan.zero_group == 0);  // one node: all replicas
  CHECK(read_mode("data_parallel: {zero_stage: 3, zero_group: node}, tensor_parallel: 2", "", 2).plan.zero_group == 2);
  CHECK_THAT(refusal("data_parallel: {zero_stage: 3, zero_group: node}, tensor_parallel: 4", "", 2),
             Catch::Contains("has no two replicas of 4 tensor"));
}

TEST_CASE("owners of whole tensors broadcast them one after another", "[modes]") {
  const auto stack = [](const std::string& value) {
    return "{base: internevo, parallel: {broadcast_parameters: " + value + "}}";
  };
  const auto exposed = [&](const Scenario& s, const std::string& group) {
    const std::map<std::string, double> all = simulate(s).breakdown.exposed_communication;
    const auto found = all.find(group);
    return found == all.end() ? 0.0 : found->second;
  };
  const auto read = [&](const std::string& value) {
    return read_mode("data_parallel: {zero_stage: 1}", stack(value), 2, "dgx-a100");
  };
  const Scenario broadcasts = read("true"), gathers = read("false");
  const Plan laid_out = plan(broadcasts);
  const LaneGroup& group = laid_out.training.lane(Lane::parameters).groups.front();
  // Sixteen ranks own a sixteenth of the tensors each.
  const double ranks = 16, bytes = 2 * laid_out.training.network->parameters() / ranks;
  const ModelledCost cost = group.settings.model->cost(Operation::broadcast, Bytes{bytes}, group.settings.spread(16));
  const double each = (cost.latency + cost.wire / cost.rate + broadcasts.software.collective_launch).value;
  CHECK(exposed(broadcasts, "broadcast of parameters") == Approx(ranks * each).epsilon(1e-3));
  CHECK(exposed(broadcasts, "all-gather of parameters") == 0);
  CHECK(exposed(gathers, "broadcast of parameters") == 0);
  CHECK(exposed(gathers, "all-gather of parameters") < ranks * each);
  // The largest tensor, the embedding, is whole on one rank.
  std::vector<const Layer*> layers;
  double largest = 0;
  for (const Layer& layer : laid_out.training.network->layers) {
    layers.push_back(&layer);
    for (const ParameterTensor& tensor : layer.parameters) largest = std::max(largest, tensor.elements);
  }
  CHECK(shares_of_owners(layers, false, 1) == Approx(1));
  CHECK(shares_of_owners(layers, false, 1024) == Approx(laid_out.training.network->parameters() / largest));
  CHECK(simulate(broadcasts).memory.optimizer > simulate(gathers).memory.optimizer);
}

TEST_CASE("gradients that all replicas all-reduce cost as much with ZeRO 1 as without", "[modes]") {
  const std::string software = "{base: internevo, parallel: {all_reduce_gradients: ";
  const auto all_reduce = [&](const std::string& plan, const std::string& value) {
    const Result r = simulate(read_mode(plan, software + value + "}}", 2));
    const auto found = r.breakdown.exposed_communication.find("all-reduce");
    return found == r.breakdown.exposed_communication.end() ? 0.0 : found->second;
  };
  const double without_zero = all_reduce("data_parallel: {zero_stage: 0}", "true");
  CHECK(without_zero > 0);
  CHECK(all_reduce("data_parallel: {zero_stage: 1}", "true") == Approx(without_zero).epsilon(1e-9));
  CHECK(all_reduce("data_parallel: {zero_stage: 1, zero_group: 4}", "true") == Approx(without_zero).epsilon(1e-9));
  CHECK(all_reduce("data_parallel: {zero_stage: 1}", "false") == 0);
}

TEST_CASE("rows of nanotron divide layers over stages as its build_model does", "[modes]") {
  // A block belongs to a stage until the products so far exceed the stage's share, the head's among them.
  const auto divided = [](int layers, double hidden, double inner, std::size_t stages) {
    const double layer = hidden * (4 * hidden + 3 * inner), all = layers * layer + 131072 * hidden;
    std::vector<std::int64_t> counts(stages);
    std::size_t stage = 0;
    for (int i = 0; i < layers; ++i) {
      ++counts[stage];
      if ((i + 1) * layer > all * (static_cast<double>(stage + 1) / static_cast<double>(stages))) ++stage;
    }
    return counts;
  };
  const auto row = [](const std::string& id) {
    return read_scenario(shipped_file("scenarios/measured/outside-the-fit/nanotron-h100.yaml").string() + "@" + id);
  };
  CHECK(row("nanotron-1.34b-8n").plan.layers == divided(16, 2048, 8192, 2));
  CHECK(row("nanotron-3.57b-1n").plan.layers == divided(28, 3072, 8192, 2));
  CHECK(row("nanotron-8.86b-1n").plan.layers == divided(32, 4096, 14336, 4));
  CHECK(row("nanotron-80b-16n").plan.layers == divided(80, 8192, 28672, 32));
  CHECK(row("nanotron-80b-4n").plan.layers == divided(80, 8192, 28672, 4));
  const Scenario sharded = row("nanotron-1.34b-8n");
  CHECK(sharded.plan.zero == ZeroStage::optimizer);
  CHECK(sharded.software.gradient_precision == Precision::fp32);
  CHECK(sharded.software.parallel.all_reduce_gradients);
}

TEST_CASE("a stack that is null is as if it were absent", "[modes]") {
  CHECK(read_mode("strategy: pytorch-fsdp", "~").software.name == "pytorch-fsdp");
  CHECK(read_mode("optimizer: adam", "~").software.name == "plain");
  for (const char* plan : {"strategy: pytorch-fsdp", "optimizer: adam"})
    CHECK(refusal(plan, "# none") ==
          "mode.yaml:3:1: the scenario: software: no value; leave the key out if its default is meant");
  const std::string schedule =
      "strategy: megatron, idle_devices: allowed, global_batch_size: 8, data_parallel: 1, pipeline_parallel: 2, "
      "pipeline: {schedule: zb-h1}";
  CHECK_THAT(refusal(schedule, "~"), Catch::Contains("--set software=megatron-core"));
}

TEST_CASE("a strategy named after a framework sets the keys that a plan leaves out", "[modes]") {
  CHECK(read_mode("strategy: pytorch-dp").plan.mechanism_name == "master");
  CHECK(read_mode("strategy: pytorch-dp").software.name == "pytorch-ddp");
  CHECK(read_mode("strategy: pytorch_fsdp").plan.zero == ZeroStage::parameters);
  CHECK(read_mode("strategy: pytorch-fsdp, data_parallel: {zero_stage: 2}").plan.zero == ZeroStage::gradients);
  CHECK(read_mode("strategy: pytorch-fsdp", "plain").software.name == "plain");
  CHECK(read_mode("strategy: pytorch-ddp, data_parallel: 2, idle_devices: allowed").ranks() == 2);
  CHECK(read_mode("strategy: megatron, tensor_parallel: 2").plan.mesh.tensor == 2);
  CHECK(read_mode("strategy: tf-parameter-server", "", 2).ranks() == 8);
  // An override with another strategy drops the keys that the first strategy set.
  CHECK(read_again(read_mode("strategy: pytorch-fsdp"), {{"plan.strategy", "tf-mirrored"}}).plan.zero ==
        ZeroStage::none);
}

TEST_CASE("TensorFlow's parameter servers are asynchronous unless a plan says otherwise", "[modes]") {
  const auto is_synchronous = [](const std::string& plan) {
    return read_mode(plan, "", 2).plan.mechanism->stops_together();
  };
  CHECK_FALSE(is_synchronous("strategy: tf-parameter-server"));
  CHECK_FALSE(is_synchronous("strategy: tf-parameter-server, data_parallel: {size: 4}, idle_devices: allowed"));
  CHECK(is_synchronous("strategy: tf-parameter-server, data_parallel: {consistency: synchronous}"));
  CHECK(is_synchronous("data_parallel: {mechanism: parameter-server}"));
  CHECK_THAT(refusal("strategy: tf-parameter-server, data_parallel: {backup_workers: 1}", "", 2),
             Catch::Contains("with consistency synchronous only"));
}

TEST_CASE("TensorFlow's ring sends over gRPC, and NCCL does not", "[modes]") {
  const std::string workers = "strategy: tf-multi-worker-mirrored, communication: ";
  const Scenario ring = read_mode(workers + "ring", "plain", 2);
  CHECK(ring.cluster.node.network.grpc);
  CHECK(ring.cluster.node.network.copies == 5);
  CHECK(ring.plan.all_reduce.algorithm->name == "ring");
  CHECK(ring.plan.all_reduce.settings.fidelity == Fidelity::messages);
  CHECK_FALSE(read_mode(workers + "nccl", "plain", 2).cluster.node.network.tcp);
  CHECK_FALSE(read_mode(workers + "ring", "plain", 1).cluster.node.network.grpc);
  CHECK_FALSE(read_again(ring, {{"plan.communication", "auto"}}).cluster.node.network.grpc);
  CHECK(simulate(ring).step_time.value > simulate(read_mode(workers + "auto", "plain", 2)).step_time.value);
  CHECK_THAT(refusal("strategy: pytorch-ddp, communication: ring", "", 2),
             Catch::Contains("with strategy tf-multi-worker-mirrored only"));
  CHECK_THAT(refusal(workers + "ring, data_parallel: {all_reduce: tree}", "plain", 2),
             Catch::Contains("all_reduce: tree, but plan.communication is ring"));
  CHECK_THROWS_WITH(
      read_again(ring,
                 {{"plan.communication", "nccl"}, {"cluster.hca.transport", "grpc"}, {"plan.collectives", "modelled"}}),
      Catch::Contains("does not go over gRPC"));
}

TEST_CASE("a plan that contradicts its framework's strategy is refused", "[modes]") {
  CHECK_THAT(refusal("strategy: pytorch-ddq"), Catch::Contains("did you mean \"pytorch-ddp\""));
  CHECK_THAT(refusal("strategy: tf-mirrored", "", 2), Catch::Contains("tf-multi-worker-mirrored"));
  CHECK_THAT(refusal("strategy: tf-tpu"), Catch::Contains("TPUs"));
  CHECK_THAT(refusal("strategy: pytorch-ddp, tensor_parallel: 2"), Catch::Contains("the whole model on every device"));
  CHECK_THAT(refusal("strategy: pytorch-ddp, data_parallel: {zero_stage: 3}"), Catch::Contains("shards nothing"));
  CHECK_THAT(refusal("strategy: megatron, data_parallel: {zero_stage: 3}"), Catch::Contains("does 0 to 1"));
  const std::string two_stages =
      "idle_devices: allowed, global_batch_size: 8, data_parallel: 1, pipeline_parallel: 2, pipeline: ";
  CHECK_THAT(refusal("strategy: megatron, " + two_stages + "{schedule: zb-h1}"),
             Catch::Contains("zb-h1, but plan.strategy is megatron, which has 1f1b, interleaved-1f1b") &&
                 Catch::Contains("(--set plan.strategy=null --set software=megatron-core)"));
  CHECK_THAT(refusal("strategy: megatron, " + two_stages + "{schedule: zb-h1}", "nemo"),
             Catch::EndsWith("(--set plan.strategy=null)"));
  CHECK(refusal(two_stages + "{schedule: zb-h1}", "megatron-core").empty());
  CHECK_THAT(refusal("strategy: deepspeed, " + two_stages + "{chunks: 2}"), Catch::Contains("which has 1f1b"));
  CHECK(refusal("strategy: megatron, " + two_stages + "{schedule: 1f1b}").empty());
  CHECK_THAT(refusal("strategy: tf-mirrored, data_parallel: {mechanism: master}"), Catch::Contains("does all-reduce"));
  CHECK_THAT(refusal("strategy: pytorch-ddp", "deepspeed"), Catch::Contains("which runs on pytorch-ddp, plain"));
}

TEST_CASE("single keys of the software change the stack that a scenario has", "[modes]") {
  const auto with_overhead = [](const std::string& plan, const std::string& software = "") {
    return read_again(read_mode(plan, software), {{"software.step_overhead", "1 s"}}).software;
  };
  for (const char* strategy : {"pytorch-dp", "pytorch-ddp", "pytorch-fsdp", "megatron", "deepspeed", "tf-mirrored"}) {
    CAPTURE(strategy);
    const std::string plan = std::string("strategy: ") + strategy;
    const SoftwareStack changed = with_overhead(plan), own = read_mode(plan).software;
    CHECK(changed.step_overhead == Seconds{1});
    CHECK(changed.bucket == own.bucket);
    CHECK(changed.network_step == own.network_step);
  }
  CHECK(with_overhead("optimizer: adam").bucket == read_mode("optimizer: adam").software.bucket);
  CHECK(with_overhead("optimizer: adam", "deepspeed").bucket ==
        read_mode("optimizer: adam", "deepspeed").software.bucket);
}

namespace {

/// The comments of a file as one text, without line breaks.
std::string comments_of(const std::string& text) {
  std::istringstream lines(text);
  std::string comments;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t sign = line.find("# ");
    comments += sign == std::string::npos ? "\n" : line.substr(sign + 1);
  }
  return comments;
}

/// The changes of each command that a comment writes between backquotes: the paths and values after `--set`.
std::vector<std::vector<std::pair<std::string, std::string>>> changes_of(const std::string& comments) {
  std::vector<std::vector<std::pair<std::string, std::string>>> all;
  for (std::size_t begin = 0; (begin = comments.find('`', begin)) != std::string::npos;) {
    const std::size_t end = comments.find('`', begin + 1);
    if (end == std::string::npos) break;
    std::string command = comments.substr(begin + 1, end - begin - 1);
    begin = end + 1;
    std::vector<std::pair<std::string, std::string>> changes;
    for (std::size_t at = 0; (at = command.find("--set ", at)) != std::string::npos;) {
      at += 6;
      std::string word;
      bool quoted = false;
      for (; at < command.size() && (quoted || command[at] != ' '); ++at) {
        if (command[at] == '"')
          quoted = !quoted;
        else
          word += command[at];
      }
      if (word.find("…") != std::string::npos) continue;  // a value that is not written out
      const std::size_t sign = word.find('=');
      REQUIRE(sign != std::string::npos);
      changes.emplace_back(word.substr(0, sign), word.substr(sign + 1));
    }
    if (!changes.empty()) all.push_back(changes);
  }
  return all;
}

}  // namespace

TEST_CASE("a shipped scenario can be read with each change that its comments recommend", "[modes]") {
  int tried = 0;
  for (const auto& file : shipped_yaml_files("scenarios")) {
    CAPTURE(file.filename().string());
    for (const auto& changes : changes_of(comments_of(file_text(file)))) {
      // A list of values is that of a sweep: each of them is tried with the first values of the others.
      std::vector<Overrides> points{{}};
      for (const auto& [path, value] : changes) {
        if (value.find(" & ") != std::string::npos) {  // fields that change together
          const std::vector<SweepAxis> axes = parse_sweep_axes(path + "=" + value);
          const std::vector<Overrides> before = std::exchange(points, {});
          for (std::size_t i = 0; i < axes.front().values.size(); ++i) {
            points.push_back(before.front());
            for (const SweepAxis& axis : axes) points.back().emplace_back(axis.path, axis.values[i]);
          }
          continue;
        }
        std::vector<std::string> values{value};
        if (value.find_first_of("{[") == std::string::npos) {
          values.clear();
          std::istringstream words(value);
          for (std::string word; std::getline(words, word, ',');) values.push_back(word);
        }
        const std::vector<Overrides> before = points;
        for (Overrides& point : points) point.emplace_back(path, values.front());
        for (std::size_t i = 1; i < values.size(); ++i) {
          points.push_back(before.front());
          points.back().emplace_back(path, values[i]);
        }
      }
      for (const Overrides& point : points) {
        CAPTURE(point.front().first, point.front().second);
        CHECK(user_error([&] { read_scenario(file, point); }).empty());
        ++tried;
      }
    }
  }
  CHECK(tried > 40);
}

TEST_CASE("mechanisms other than an all-reduce refuse impossible settings", "[modes]") {
  CHECK_THAT(refusal("tensor_parallel: 2, data_parallel: {mechanism: master}"), Catch::Contains("need all-reduce"));
  CHECK_THAT(refusal("data_parallel: {mechanism: central-storage, zero_stage: 1}"), Catch::Contains("no ZeRO"));
  CHECK_THAT(refusal("data_parallel: {mechanism: central-storage}", "", 2), Catch::Contains("8 ranks are on 2 nodes"));
  CHECK_THAT(refusal("data_parallel: {mechanism: master, all_reduce: ring}"), Catch::Contains("leave it out"));
  CHECK_THAT(refusal("data_parallel: {mechanism: master, server: 0}"),
             Catch::Contains("with mechanism parameter-server"));
  CHECK_THAT(refusal("data_parallel: {mechanism: parameter-server, server: 2}", "", 2),
             Catch::Contains("nodes 0 to 1"));
  CHECK_THAT(refusal("data_parallel: {loss: replicas}"), Catch::Contains("with mechanism master only"));
}

TEST_CASE("a step by a master or a server gives time, memory and traffic", "[modes]") {
  const Scenario master_scenario = read_mode("data_parallel: {mechanism: master}");
  const Result master = simulate(master_scenario), all_reduce = simulate(read_mode("optimizer: adam"));
  CHECK(master.step_time.value > all_reduce.step_time.value);
  CHECK(master.memory.rank == 0);
  CHECK(master.memory.peak.value > all_reduce.memory.peak.value);  // rank 0 holds all outputs and their gradients
  const double parameters = master_scenario.network.parameters() * 2;
  CHECK(master.bytes_sent_per_rank_max.value > 3 * parameters);
  CHECK(master.all_reduce.algorithm.empty());
  CHECK(simulate(read_mode("data_parallel: {mechanism: master, loss: replicas}")).bytes_sent_per_rank_max.value <
        master.bytes_sent_per_rank_max.value);

  // Central storage in the node and a server on another node move the same bytes, and no GPU has optimizer state.
  const Result central_storage = simulate(read_mode("data_parallel: {mechanism: central-storage}"));
  const Result remote_server =
      simulate(read_mode("data_parallel: {mechanism: parameter-server, size: 4, server: 1}", "", 2));
  CHECK(central_storage.memory.optimizer.value == 0);
  CHECK(central_storage.bytes_total.value == Approx(8 * parameters));
  CHECK(remote_server.bytes_total.value == Approx(8 * parameters));
  CHECK(remote_server.step_time.value != central_storage.step_time.value);
  CHECK(central_storage.memory.rank < 4);
}

}  // namespace scenarios_test_framework_modes
