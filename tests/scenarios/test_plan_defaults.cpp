// Defaults of a plan, and the short forms of its keys under an override.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace scenarios_test_plan_defaults {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

Scenario scenario(const std::string& plan, const Overrides& overrides = {}, const std::string& model = "gpt3-1.3b",
                  const std::string& software = "megatron-core", int nodes = 2, const std::string& more = "") {
  return read_scenario_text(fmt::format("cluster: {{nodes: {}, node: dgx-h100, fabric: rail-optimized}}\nmodel: "
                                        "{}\nsoftware: {}\nplan: {{micro_batch_size: 1, precision: bf16, {}}}\n{}",
                                        nodes, model, software, plan, more),
                            "defaults.yaml", overrides);
}

Scenario mixtral(const std::string& plan, const std::string& software = "megatron-core") {
  return scenario("seq_length: 2048, " + plan, {}, "{base: mixtral-8x7b, num_hidden_layers: 4}", software);
}

}  // namespace

TEST_CASE("Megatron's gradient buckets grow with the replicas that sum them", "[plan-defaults]") {
  const auto bucket = [](const std::string& software, int nodes, const std::string& data = "") {
    return scenario("data_parallel: {zero_stage: 1" + data + "}", {}, "gpt3-1.3b", software, nodes).plan.buckets;
  };
  for (const auto& [software, element] :
       {std::pair{"nemo", 2.0}, {"megatron-core", 4.0}, {"megatron-2022", 4.0}, {"megatron-deepspeed", 2.0}}) {
    CAPTURE(software);
    for (const auto& [nodes, elements] : {std::pair{1, 40e6}, {5, 40e6}, {6, 48e6}, {192, 1536e6}}) {
      CAPTURE(nodes);
      CHECK(bucket(software, nodes).rest == Bytes{elements * element});
      CHECK(bucket(software, nodes).first == bucket(software, nodes).rest);
    }
  }
  CHECK(bucket("nemo", 192, ", bucket: 25 MiB").rest == Bytes{25 * 1048576.0});
  CHECK(bucket("nemo", 192, ", bucket: 25 MiB").first == Bytes{25 * 1048576.0});
  CHECK(bucket("pytorch-ddp", 192).rest == Bytes{25 * 1048576.0});
  // The data and context ranks of a mesh are its replicas, its tensor and pipeline ranks are not.
  const Scenario split = scenario("tensor_parallel: 2, pipeline_parallel: 2, context_parallel: 2, seq_length: 2048", {},
                                  "gpt3-1.3b", "nemo", 32);
  CHECK(split.plan.replicas() == 64);
  CHECK(split.plan.buckets.rest == Bytes{64e6 * 2});
  const std::string rule = "{base: nemo, bucket: {elements: 1000, elements_a_replica: 10}";
  CHECK(bucket(rule + "}", 32).rest == Bytes{2560 * 2.0});
  CHECK_THROWS_WITH(bucket(rule + ", first_bucket: 1 MiB}", 1), Contains("expected no first_bucket"));
  CHECK_THROWS_WITH(bucket("{base: pytorch-ddp, bucket: {elements: 1000, elements_a_replica: 10}}", 1),
                    Contains("expected gradient_precision"));
}

TEST_CASE("by default experts are split as Megatron-Core splits them", "[plan-defaults]") {
  const auto check = [](const std::string& plan, const std::string& experts, int split, bool sequence) {
    CAPTURE(plan, experts);
    const Scenario by_default = mixtral(plan + ", expert_parallel: {" + experts + "}");
    CHECK(by_default.plan.mesh.expert_tensor == split);
    CHECK(by_default.plan.sharding.expert_tensor == split);
    CHECK(by_default.plan.sharding.sequence == sequence);
    if (split == 0) return;
    const Scenario stated =
        mixtral(plan + fmt::format(", sequence_parallel: true, expert_parallel: {{{}, tensor: {}}}", experts, split));
    CHECK(stated.plan.mesh.in_words() == by_default.plan.mesh.in_words());
    const Network a = *::trainyard::plan(stated).training.network, b = *::trainyard::plan(by_default).training.network;
    REQUIRE(a.layers.size() == b.layers.size());
    for (std::size_t i = 0; i < a.layers.size(); ++i) {
      REQUIRE(a.layers[i].forward_exchanges.size() == b.layers[i].forward_exchanges.size());
      for (std::size_t e = 0; e < a.layers[i].forward_exchanges.size(); ++e)
        CHECK(a.layers[i].forward_exchanges[e].bytes == b.layers[i].forward_exchanges[e].bytes);
    }
  };
  check("tensor_parallel: 4", "size: 4", 4, true);
  check("tensor_parallel: 4", "size: 8", 2, true);  // 16 ranks are enough for two parts
  check("tensor_parallel: 2", "size: 8", 2, true);
  check("tensor_parallel: 4", "size: 4, dispatcher: deepep", 1, true);
  check("tensor_parallel: 4", "size: 1", 0, false);  // no rank sends tokens to another
  check("tensor_parallel: 1", "size: 8", 0, false);
  check("tensor_parallel: 2, sequence_parallel: false", "size: 8", 0, false);
  // A plan of DeepSeek-V3 on 128 nodes: 64 ranks of a stage hold the experts.
  const auto deepseek = [](const std::string& experts) {
    return scenario("tensor_parallel: 2, pipeline_parallel: 16, seq_length: 4096, expert_parallel: " + experts, {},
                    "deepseek-v3", "megatron-core", 128);
  };
  CHECK(deepseek("{size: 64}").plan.mesh.expert_tensor == 1);
  CHECK(deepseek("64").plan.mesh.in_words() == deepseek("{size: 64, tensor: 1}").plan.mesh.in_words());
  CHECK(deepseek("{size: 32}").plan.mesh.expert_tensor == 2);
}

TEST_CASE("messages carry activations, gradients or weights under every pipeline schedule", "[plan-defaults]") {
  const auto traffic = [](const char* schedule) {
    return simulate(read_scenario(shipped_file("scenarios/llama3-70b-tp8-pp4.yaml"),
                                  {{"plan.strategy", "null"}, {"plan.pipeline.schedule", schedule}}))
        .bytes_by_content;
  };
  const double activations = traffic("1f1b").at("activations");
  for (const char* schedule : {"gpipe", "zb-auto", "zb-h1", "zb-2p", "zb-v", "dualpipe-v"}) {
    CAPTURE(schedule);
    const auto by_content = traffic(schedule);
    for (const auto& [content, bytes] : by_content) {
      CAPTURE(content);
      CHECK((content == "activations" || content == "gradients" || content == "weights"));
    }
    CHECK(by_content.at("activations") == Approx(activations).epsilon(0.1));
  }
}

TEST_CASE("zb-auto is solved for the stages of a plan, and more activations make its step shorter", "[plan-defaults]") {
  struct Step {
    double time, memory;
  };
  const auto step = [](const std::string& pipeline) {
    const Result r =
        simulate(scenario("global_batch_size: 32, seq_length: 2048, pipeline_parallel: 8, pipeline: {layers: "
                          "balanced, schedule: " +
                          pipeline + "}"));
    return Step{r.step_time.value, r.memory.peak.value};
  };
  const Step h1 = step("zb-h1"), same = step("zb-auto"), more = step("zb-auto, activation_limit: 1.5"),
             twice = step("zb-auto, activation_limit: 2"), zb_2p = step("zb-2p");
  CHECK(same.time == Approx(h1.time).epsilon(1e-9));
  CHECK(same.memory <= h1.memory);
  CHECK(more.time < 0.99 * same.time);
  CHECK(more.memory < zb_2p.memory);
  CHECK(twice.time < more.time);
  CHECK(twice.time < 1.001 * zb_2p.time);
  CHECK_THROWS_WITH(step("zb-auto, activation_limit: 0.5"),
                    Contains("plan.pipeline.activation_limit: 0.5 is out of range; expected a number from 1 to 16"));
  CHECK_THROWS_WITH(
      step("zb-h1, activation_limit: 2"),
      Contains("plan.pipeline.activation_limit: zb-h1 has a fixed order; expected plan.pipeline.schedule: "
               "zb-auto"));
}

TEST_CASE("expert overlap on a pipeline without virtual stages is refused, as Megatron refuses it", "[plan-defaults]") {
  const auto read = [](const std::string& pipeline, const std::string& overlap = "true") {
    return mixtral("global_batch_size: 64, expert_parallel: {size: 4, overlap: " + overlap + "}" + pipeline).plan;
  };
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "naive"}) {
    CAPTURE(schedule);
    const std::string pipeline = fmt::format(", pipeline_parallel: 2, pipeline: {{schedule: {}}}", schedule);
    CHECK_THROWS_WITH(read(pipeline), Contains("defaults.yaml:4") && Contains("plan.expert_parallel.overlap") &&
                                          Contains(std::string("a stage of ") + schedule) &&
                                          Contains("interleaved-1f1b"));
    CHECK_FALSE(read(pipeline, "false").sharding.pairs_passes);
  }
  CHECK_THROWS_WITH(read(", pipeline_parallel: 2"), Contains("a stage of 1f1b"));
  CHECK(read(", pipeline_parallel: 2, pipeline: {chunks: 2}").sharding.pairs_passes);
  CHECK(read(", pipeline_parallel: 2, pipeline: {schedule: dualpipe-v}").sharding.pairs_passes);
  CHECK(read("").sharding.pairs_passes);
}

namespace {

/// A plan with a key in short form, an override below that key, and the same plan in long form.
struct ShortForm {
  std::string path, short_plan, override_path, value, long_plan, more = "";
};

const std::vector<ShortForm> kShortForms{
    {"plan.context_parallel", "context_parallel: 4", "plan.context_parallel.exchange", "all-to-all",
     "context_parallel: {size: 4, exchange: all-to-all}"},
    {"plan.context_parallel", "context_parallel: 4", "plan.context_parallel.size", "2", "context_parallel: {size: 2}"},
    {"plan.context_parallel", "context_parallel: 4", "plan.context_parallel.ulysses", "2",
     "context_parallel: {size: 4, ulysses: 2}"},
    {"plan.expert_parallel", "expert_parallel: 1", "plan.expert_parallel.imbalance", "1",
     "expert_parallel: {size: 1, imbalance: 1}"},
    {"plan.data_parallel", "data_parallel: 8", "plan.data_parallel.zero_stage", "1",
     "data_parallel: {size: 8, zero_stage: 1}"},
    {"plan.data_parallel", "strategy: megatron, data_parallel: 8", "plan.data_parallel.overlap", "false",
     "strategy: megatron, data_parallel: {size: 8, overlap: false}"},
    {"plan.data_parallel.all_reduce", "data_parallel: {all_reduce: ring}", "plan.data_parallel.all_reduce.channels",
     "2", "data_parallel: {all_reduce: {algorithm: ring, channels: 2}}"},
    {"plan.data_parallel.compression", "collectives: messages, data_parallel: {compression: top-k}",
     "plan.data_parallel.compression.density", "0.01",
     "collectives: messages, data_parallel: {compression: {name: top-k, density: 0.01}}"},
    {"plan.data_parallel.offload", "data_parallel: {zero_stage: 3, offload: cpu}",
     "plan.data_parallel.offload.parameters", "cpu",
     "data_parallel: {zero_stage: 3, offload: {optimizer: cpu, parameters: cpu}}"},
    {"plan.data_parallel.gossip", "data_parallel: {mechanism: gossip, gossip: pairs}", "plan.data_parallel.gossip.seed",
     "3", "data_parallel: {mechanism: gossip, gossip: {topology: pairs, seed: 3}}"},
    {"plan.data_parallel.servers", "data_parallel: {mechanism: parameter-server, servers: 2}",
     "plan.data_parallel.servers.keys", "layers",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2, keys: layers}}"},
    {"plan.data_parallel.servers", "data_parallel: {mechanism: parameter-server, servers: 16W2PS}",
     "plan.data_parallel.servers.keys", "layers",
     "data_parallel: {mechanism: parameter-server, servers: {label: 16W2PS, keys: layers}}"},
    {"plan.data_parallel.servers.replicas",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2, replicas: 2}}",
     "plan.data_parallel.servers.replicas.forward", "parallel",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2, replicas: {count: 2, forward: parallel}}}"},
    {"plan.data_parallel.servers.split",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2, split: mxnet}}",
     "plan.data_parallel.servers.split.partition_bytes", "1 MB",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2, split: {partition_bytes: 1 MB}}}"},
    {"plan.data_parallel.local_aggregation",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2}, local_aggregation: gpu}",
     "plan.data_parallel.local_aggregation.reduce", "chain",
     "data_parallel: {mechanism: parameter-server, servers: {count: 2}, local_aggregation: {on: gpu, reduce: chain}}"},
    {"plan.recompute", "recompute: full", "plan.recompute.full", "2", "recompute: {full: 2}"},
    {"plan.recompute", "recompute: selective", "plan.recompute.full", "2", "recompute: {full: 2}"},
    {"plan.tensor_parallel_overlap", "tensor_parallel: 2, sequence_parallel: true, tensor_parallel_overlap: true",
     "plan.tensor_parallel_overlap.user_buffers.overlapped", "0.4",
     "tensor_parallel: 2, sequence_parallel: true, tensor_parallel_overlap: {user_buffers: {overlapped: 0.4}}"},
    {"plan.step_time", "step_time: 6.2 s", "plan.step_time.source", "me", "step_time: {value: 6.2 s, source: me}"},
    {"faults.failures.mtbf.gpu", "training: {steps: 100}", "faults.failures.mtbf.gpu.count", "4",
     "training: {steps: 100}", "faults: {failures: {mtbf: {gpu: MTBF}, runs: 1}}"}};

/// The members of a plan that the short forms set, as text.
std::string digest(const Scenario& s) {
  const PlanChoice& p = s.plan;
  std::string failing;
  for (const FailingParts& part : s.failures.parts)
    failing += fmt::format("{} {} of {}; ", part.name, part.mtbf.value, part.count);
  return fmt::format(
      "{}; exchange {}; imbalance {}; zero {}; overlap {}; channels {}; compression {}; offload {} {}; {} servers of "
      "{}, {}; recompute {} {}; user buffers {}; step {} {}; {}",
      p.mesh.in_words(), static_cast<int>(p.sharding.context_exchange), p.sharding.expert_imbalance,
      static_cast<int>(p.zero), p.overlap_gradients, p.all_reduce.settings.channels,
      p.compression ? p.compression->summary() : "none", static_cast<int>(p.offload.optimizer),
      static_cast<int>(p.offload.parameters), p.mechanism->servers(), p.mechanism->workers().value_or(0),
      p.mechanism_name, name_of(p.sharding.recompute), p.recomputed_blocks, p.sharding.user_buffers,
      s.prescribed_step.time.value, s.prescribed_step.source, failing);
}

/// Adds the paths of the scalars of a document.
void add_scalars(const Node& node, const std::string& path, std::set<std::string>& all) {
  if (node.kind == Node::Kind::scalar) all.insert(path);
  for (const auto& [key, field] : node.fields) add_scalars(field, path.empty() ? key : path + "." + key, all);
}

}  // namespace

TEST_CASE("an override below the short form of a key expands it", "[plan-defaults][overrides]") {
  for (const ShortForm& form : kShortForms) {
    CAPTURE(form.short_plan, form.override_path);
    const auto read = [&form](const std::string& plan, const std::string& mtbf, const Overrides& overrides) {
      std::string more = form.more;
      if (const std::size_t position = more.find("MTBF"); position != std::string::npos)
        more.replace(position, 4, mtbf);
      return digest(scenario("seq_length: 2048, idle_devices: allowed, " + plan, overrides, "gpt3-1.3b",
                             "megatron-core", 2, more));
    };
    const Overrides override_below{{form.override_path, form.value}};
    CHECK(read(form.short_plan, "50000 h", override_below) == read(form.long_plan, "{mtbf: 50000 h, count: 4}", {}));
    // The expanded key takes no `base`: only catalog entries take one.
    CHECK_THROWS(read(form.short_plan, "50000 h", {{form.path + ".base", "1"}, {form.path + ".bass", "1"}}));
  }
  CHECK_THROWS_WITH(scenario("seq_length: 2048, context_parallel: {base: 4}"), Contains("unknown key \"base\""));
}

TEST_CASE("every key that shipped scenarios give in a short form expands under an override",
          "[plan-defaults][overrides]") {
  std::set<std::string> scalars, covered_keys;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file("scenarios")))
    if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "tables")
      add_scalars(read_document(entry.path()), "", scalars);
  for (const ShortForm& form : kShortForms) covered_keys.insert(form.path);
  // These keys take names of catalog entries: an override below such a key changes the entry.
  for (const char* name : {"model", "software", "cluster.node", "cluster.fabric", "cluster.gpu", "cluster.hca",
                           "cluster.cpu", "input.storage", "faults.checkpoint.storage", "site", "prices"})
    covered_keys.insert(name);
  // A list takes the place of the number of nodes; an override below it names an item.
  covered_keys.insert("cluster.nodes");
  for (const ScenarioField& field : known_scenario_fields())
    for (std::size_t dot = field.path.find('.'); dot != std::string::npos; dot = field.path.find('.', dot + 1)) {
      const std::string map = field.path.substr(0, dot);
      CAPTURE(map, field.path);
      CHECK((!scalars.contains(map) || covered_keys.contains(map)));
    }
}

}  // namespace scenarios_test_plan_defaults
