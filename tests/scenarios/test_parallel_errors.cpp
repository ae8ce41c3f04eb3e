// Errors of impossible splits name the place, the reason and the nearest possible split.
#include <catch2/catch.hpp>
#include <cctype>
#include <sstream>

#include "models/reading/nearest.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/searched_degrees.hpp"
#include "scenarios/src/search/plan_question.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_parallel_errors {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

/// The error of a plan on two nodes with 16 A100.
std::string error_of(const std::string& plan, const std::string& model = "gpt2") {
  return test::user_error([&] {
    trainyard::plan(read_scenario_text("cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: " + model +
                                           "\nplan:\n  micro_batch_size: 1\n  global_batch_size: 96\n" + plan,
                                       "x.yaml"));
  });
}

}  // namespace

TEST_CASE("the nearest divisors and multiples are the number itself, or those below and above it",
          "[parallel-errors]") {
  CHECK(nearest_divisors(16, 5) == "4 or 8");
  CHECK(nearest_divisors(16, 17) == "16");
  CHECK(nearest_divisors(7, 3) == "1 or 7");
  CHECK(nearest_divisors(12, 4) == "4");
  CHECK(nearest_divisors(2100, 32, 4) == "28 or 60");
  CHECK(nearest_divisors(12, 3, 4) == "4");
  CHECK(nearest_multiples(8, 12) == "8 or 16");
  CHECK(nearest_multiples(8, 3) == "8");
  CHECK(nearest_multiples(8, 16) == "16");
}

TEST_CASE("a number that does not divide is refused with the nearest that does", "[parallel-errors]") {
  CHECK(error_of("  tensor_parallel: 3\n") ==
        "x.yaml:4:3: plan: tensor 3 x context 1 x pipeline 1 = 3 ranks do not divide the 16 GPUs of the cluster; "
        "they divide with tensor 2 or 4; or set plan.data_parallel.size, and plan.idle_devices: allowed");
  CHECK_THAT(error_of("  tensor_parallel: 2\n  pipeline_parallel: 3\n"),
             Contains("6 ranks do not divide the 16 GPUs of the cluster; they divide with pipeline 2 or 4; or set"));
  CHECK_THAT(
      error_of("  context_parallel: {size: 4, exchange: all-to-all}\n", "{base: llama-3-8b, num_key_value_heads: 1}"),
      Contains("a part of the 1 key-value head that") && Contains("nearest: 1 rank") && !Contains("1 ranks"));
  CHECK_THAT(error_of("  precision: bf16\n", "{base: gpt2-xl, n_head: 7}"),
             Contains("hidden size 1600 is not a multiple of 7 attention heads; nearest: 5 or 8 heads"));
  // The nearest value keeps the rule that key-value heads divide the heads: 25 and 41 heads would break it.
  const std::string heads = ", num_attention_heads: 32, num_key_value_heads: 4}";
  CHECK_THAT(error_of("  precision: bf16\n", "{base: llama-3-8b, hidden_size: 2050" + heads),
             Contains("hidden size 2050 is not a multiple of 32 attention heads; nearest: hidden size 2048 or 2080"));
  CHECK_THAT(error_of("  precision: bf16\n", "{base: llama-3-8b, hidden_size: 2100" + heads),
             Contains("hidden size 2100 is not a multiple of 32 attention heads; nearest: 28 or 60 heads"));
  for (const char* size : {"2048", "2080"})
    CHECK(error_of("  precision: bf16\n", "{base: llama-3-8b, hidden_size: " + std::string(size) + heads).empty());
  CHECK(error_of("  tensor_parallel: 8\n") ==
        "x.yaml:6:20: plan.tensor_parallel: tensor parallelism over 8 ranks: they must divide the 12 attention heads "
        "of gpt2; nearest: 4");  // 6 does not divide the 16 GPUs
  CHECK(error_of("  data_parallel: {zero_stage: 1, zero_group: 6}\n") ==
        "x.yaml:6:46: plan.data_parallel.zero_group: groups of 6 do not divide 16 replicas; nearest: 4 or 8");
  CHECK(error_of("  expert_parallel: 3\n", "mixtral-8x7b") ==
        "x.yaml:4:3: plan.expert_parallel: 3 does not divide data 16 x context 1: experts are spread over ranks that "
        "hold other samples or tokens; nearest: 2 or 4");
  CHECK(error_of("  context_parallel: 2\n  seq_length: 101\n") ==
        "x.yaml:6:21: plan.context_parallel: context parallelism over 2 ranks: the sequence of 101 tokens is to be cut "
        "into 4 equal blocks (nearest: 100 or 104 tokens); nearest: 1 rank");
  CHECK(error_of("  context_parallel: {size: 4, ulysses: 3}\n") ==
        "x.yaml:6:40: plan.context_parallel.ulysses: 3 does not divide the 4 ranks of plan.context_parallel; nearest: "
        "2 or 4");
  CHECK(error_of("  context_parallel: {size: 4, ulysses: 2, exchange: ring}\n") ==
        "x.yaml:6:40: plan.context_parallel.ulysses: it says how many ranks exchange heads, as "
        "plan.context_parallel.exchange does; leave one of them out");
}

TEST_CASE("the nearest tensor degree divides the GPUs and the heads, and is accepted", "[parallel-errors]") {
  // 8 key-value heads.
  CHECK_THAT(error_of("  tensor_parallel: 16\n", "llama-3-8b"),
             Contains("16 ranks: they must divide the 8 key-value heads of llama-3-8b; nearest: 8"));
  CHECK_THAT(error_of("  tensor_parallel: 12\n", "llama-3-8b"), Contains("they divide with tensor 8; or set"));
  for (const char* model : {"gpt2", "gpt2-xl", "llama-3-8b", "qwen2.5-7b", "gemma-3-1b", "mixtral-8x7b"})
    for (const int degree : {3, 5, 6, 7, 8, 10, 12, 16}) {
      CAPTURE(model, degree);
      const std::string error = error_of("  tensor_parallel: " + std::to_string(degree) + "\n", model);
      for (const std::string mark : {"nearest: ", "they divide with tensor "})
        if (const std::size_t begin = error.find(mark); begin != std::string::npos) {
          const std::string degrees = error.substr(begin + mark.size());
          const std::string offered = degrees.substr(0, degrees.find_first_not_of("0123456789"));
          CAPTURE(error, offered);
          CHECK(error_of("  tensor_parallel: " + offered + "\n", model).find("tensor") == std::string::npos);
        }
    }
}

TEST_CASE("each nearest number of expert and context ranks is accepted", "[parallel-errors]") {
  struct Grid {
    const char *model, *software, *key;
    std::vector<int> degrees;
  };
  const auto error_with = [](const Grid& grid, const std::string& node, int nodes, int pipeline,
                             const std::vector<std::pair<std::string, std::string>>& keys) {
    std::string text = "cluster: {node: {base: " + node + "}, nodes: " + std::to_string(nodes) +
                       ", fabric: nonblocking}\nmodel: " + grid.model + "\nsoftware: " + grid.software +
                       "\nplan: {micro_batch_size: 1, seq_length: 4096, pipeline_parallel: " + std::to_string(pipeline);
    for (const auto& [key, value] : keys) text += ", " + key + ": " + value;
    return test::user_error([&] { trainyard::plan(read_scenario_text(text + "}\n", "x.yaml")); });
  };
  const std::vector<int> degrees{3, 5, 8, 16, 18, 36, 64, 72, 128, 144};
  int offers = 0;
  for (const Grid& grid :
       {Grid{"{base: deepseek-v3, num_hidden_layers: 8}", "megatron-core", "expert_parallel", degrees},
        Grid{"{base: mixtral-8x7b, num_hidden_layers: 8}", "megatron-core", "expert_parallel", degrees},
        Grid{"{base: llama-3-8b, num_hidden_layers: 8}", "megatron-core", "context_parallel", degrees},
        Grid{"{base: dlrm-dcnv2}", "plain", "expert_parallel", {3, 5, 8}}})
    for (const auto& [node, nodes] : {std::pair{"gb300-nvl72", 2}, {"dgx-h100", 4}, {"dgx-h100", 3}})
      for (const int pipeline : {1, 2}) {
        const bool is_table = std::string_view(grid.model).find("dlrm") != std::string_view::npos;
        if (is_table && pipeline > 1) continue;
        for (const int degree : grid.degrees) {
          CAPTURE(grid.model, node, nodes, pipeline, degree);
          std::vector<std::pair<std::string, std::string>> keys{{grid.key, std::to_string(degree)}};
          const auto read = [&](const std::string& value) {
            keys.front().second = value;
            std::string error = error_with(grid, node, nodes, pipeline, keys);
            const std::size_t length = error.find("plan.seq_length");  // tables have no sequence
            return length == std::string::npos ? error : std::string();
          };
          const std::string error = read(std::to_string(degree)), mark = "; nearest: ";
          const std::size_t begin = error.rfind(mark);
          if (begin == std::string::npos) continue;
          CAPTURE(error);
          std::istringstream words(error.substr(begin + mark.size()));
          for (std::string word; words >> word;)
            if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
              CAPTURE(word);
              CHECK(read(word).empty());
              ++offers;
            }
        }
      }
  CHECK(offers > 60);
}

TEST_CASE("the ranks that split each expert are offered with the experts of the plan", "[parallel-errors]") {
  for (const auto& [split, offered] : {std::pair{"3", "tensor 2 or 4"}, {"16", "tensor 2"}}) {
    const std::string size = std::string(split) == "3" ? "4" : "8";
    CHECK_THAT(error_of("  expert_parallel: {size: " + size + ", tensor: " + split + "}\n", "mixtral-8x7b"),
               Contains(std::string("nearest: ") + offered));
  }
  for (const char* legal : {"{size: 4, tensor: 2}", "{size: 4, tensor: 4}", "{size: 8, tensor: 2}"})
    CHECK(error_of(std::string("  expert_parallel: ") + legal + "\n", "mixtral-8x7b").empty());
}

TEST_CASE("a faulty order of the mesh is refused with its fault", "[parallel-errors]") {
  const std::string rule =
      "; tensor, context, data and pipeline are expected, each once, from neighbours to far apart, as in [tensor, "
      "context, data, pipeline]";
  CHECK(error_of("  mesh_order: tensor\n") == "x.yaml:6:15: plan.mesh_order: not a list" + rule);
  CHECK(error_of("  mesh_order: [tensor, data, pipeline]\n") ==
        "x.yaml:6:15: plan.mesh_order: context is missing" + rule);
  CHECK(error_of("  mesh_order: [tensor, data, tensor, pipeline]\n") ==
        "x.yaml:6:30: plan.mesh_order: tensor twice" + rule);
  CHECK(error_of("  mesh_order: [tensor, expert, data, pipeline]\n") ==
        "x.yaml:6:24: plan.mesh_order: expert is no axis of its own: experts are spread over data ranks" + rule);
  CHECK(error_of("  mesh_order: [tensor, ring, data, pipeline]\n") ==
        "x.yaml:6:24: plan.mesh_order: ring is no axis of its own: it is part of context" + rule);
  CHECK(error_of("  mesh_order: [tensr]\n").find("did you mean \"tensor\"?") != std::string::npos);
}

TEST_CASE("keys of a plan that would have no effect are refused", "[parallel-errors]") {
  CHECK(error_of("  tensor_parallel_overlap: true\n") ==
        "x.yaml:6:28: plan.tensor_parallel_overlap: plan.tensor_parallel is 1: no rank exchanges anything; expected "
        "false, or plan.tensor_parallel: 2 or more");
  CHECK(error_of("  tensor_parallel_overlap: false\n").empty());
  for (const char* key : {"imbalance: 5", "capacity: 0.5", "dispatcher: deepep", "overlap: true"})
    CHECK_THAT(error_of(std::string("  expert_parallel: {") + key + "}\n"),
               Contains("x.yaml:6:") && Contains("gpt2 has no experts; leave it out"));
  CHECK(error_of("  expert_parallel: {imbalance: 1, dispatcher: all-to-all, overlap: false}\n").empty());
  const auto idle = [](const std::string& model, const std::string& keys) {
    return test::user_error([&] {
      refuse_idle_keys(read_scenario_text("cluster: {nodes: 1, node: dgx-a100}\nmodel: " + model +
                                              "\nplan: {micro_batch_size: 1, global_batch_size: 96, " + keys + "}\n",
                                          "x.yaml"));
    });
  };
  CHECK_THAT(idle("mixtral-8x7b", "expert_parallel: {imbalance: 3}"),
             Contains("plan.expert_parallel.imbalance: it changes nothing, since plan.expert_parallel is 1"));
  CHECK_THAT(idle("gpt2", "context_parallel: {exchange: all-to-all}"),
             Contains("plan.context_parallel.exchange: it changes nothing, since plan.context_parallel is 1"));
  CHECK(idle("mixtral-8x7b", "expert_parallel: {size: 2, imbalance: 2}").empty());
  CHECK(idle("gpt2", "context_parallel: {size: 2, exchange: all-to-all}").empty());
  CHECK(idle("gpt2", "context_parallel: {exchange: ring}").empty());
  CHECK_THAT(idle("gpt2", "mesh_order: [data, tensor, context, pipeline]"),
             Contains("plan.mesh_order: it changes nothing, since the mesh has one axis of several ranks"));
  CHECK(idle("gpt2", "tensor_parallel: 2, mesh_order: [data, tensor, context, pipeline]").empty());
  CHECK(idle("gpt2", "mesh_order: [tensor, context, data, pipeline]").empty());
  for (const char* bucket : {"bucket: 1 MiB", "first_bucket: 1 MiB", "bucket_boundaries: bytes"})
    for (const char* tensor : {"1", "8"}) {
      const std::string keys = std::string("tensor_parallel: ") + tensor + ", idle_devices: allowed, data_parallel: {";
      CAPTURE(keys, bucket);
      CHECK_THAT(idle("gpt2", keys + "size: 1, " + bucket + "}"),
                 Contains(": it changes nothing, since one replica exchanges no gradients; leave it out"));
    }
  CHECK(idle("gpt2", "data_parallel: {bucket: 1 MiB}").empty());
  for (const char* mechanism :
       {"{mechanism: parameter-server, servers: {count: 2}}", "{mechanism: gossip, gossip: {topology: ring}}"}) {
    CAPTURE(mechanism);
    CHECK_THAT(idle("gpt2", std::string("collectives: messages, data_parallel: ") + mechanism),
               Contains("plan.collectives: it changes nothing, since with mechanism "));
    CHECK(idle("gpt2", std::string("data_parallel: ") + mechanism).empty());
  }
  CHECK(idle("gpt2", "collectives: messages").empty());
  CHECK(error_of("  tensor_parallel: 2\n  tensor_parallel_overlap: true\n").empty());
  const auto servers = [](const std::string& keys) {
    return error_of("  data_parallel: {mechanism: parameter-server, bucket: 1 MiB, servers: {count: 2" + keys + "}}\n");
  };
  CHECK(servers("") ==
        "x.yaml:6:56: plan.data_parallel.bucket: servers hold tensors; leave it out, or set "
        "plan.data_parallel.servers.keys: buckets");
  CHECK_THAT(servers(", keys: layers"), Contains("plan.data_parallel.bucket: servers hold layers; leave it out"));
  CHECK(servers(", keys: buckets").empty());
}

TEST_CASE("an error that --set causes names the --set, not a place in the file", "[parallel-errors]") {
  const char* const text =
      "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: gpt2\nplan:\n  micro_batch_size: 1\n  "
      "global_batch_size: 96\n";
  const auto error_with = [text](const Overrides& overrides, const char* plan = "") {
    return test::user_error([&] { read_scenario_text(std::string(text) + plan, "x.yaml", overrides); });
  };
  CHECK(error_with({{"plan.micro_batch_size", "2"}, {"plan.tensor_parallel", "3"}}) ==
        "--set plan.tensor_parallel: plan: tensor 3 x context 1 x pipeline 1 = 3 ranks do not divide the 16 GPUs of "
        "the cluster; they divide with tensor 2 or 4; or set plan.data_parallel.size, and plan.idle_devices: allowed");
  // The plan search reads the plan of the file in the same way.
  CHECK_THAT(read_plan_question(parse_document(text, "x.yaml"), "x", {{"plan.micro_batch_size", "7"}}).own_error,
             Catch::Matchers::StartsWith("--set plan.micro_batch_size: plan.global_batch_size: 96 is not a multiple"));
  // The file itself is wrong.
  CHECK_THAT(error_with({{"plan.micro_batch_size", "2"}}, "  tensor_parallel: 3\n"),
             Catch::Matchers::StartsWith("x.yaml:4:3: plan: tensor 3"));
}

TEST_CASE("a stage's number of layers that is no number is refused at its place", "[parallel-errors]") {
  const std::string pipeline = "  pipeline_parallel: 2\n  pipeline:\n    layers:\n      - 6\n      - ";
  CHECK(error_of(pipeline + "six\n") ==
        "x.yaml:10:9: plan.pipeline.layers: stage 1: expected a whole number, 0 or more, got \"six\"");
  CHECK(error_of(pipeline + "-6\n") ==
        "x.yaml:10:9: plan.pipeline.layers: stage 1: expected a whole number, 0 or more, got \"-6\"");
  CHECK(error_of(pipeline + "{size: 6}\n") ==
        "x.yaml:10:9: plan.pipeline.layers: stage 1: expected a whole number, 0 or more, got no number");
}

TEST_CASE("wrong keys of a plan with a strategy are refused at their place with the nearest key", "[parallel-errors]") {
  const std::string ddp = "  strategy: pytorch-ddp\n";
  CHECK(error_of(ddp + "  data_parallel: {mechanisn: master}\n") ==
        "x.yaml:7:19: unknown key \"mechanisn\" in plan.data_parallel; did you mean \"mechanism\"?");
  CHECK(error_of(ddp + "  data_parallel: {mechanism: mastr}\n") ==
        "x.yaml:7:30: plan.data_parallel.mechanism: unknown value \"mastr\"; did you mean \"master\"?");
  CHECK(error_of(ddp + "  data_parallel: {mechanism: {a: 1}}\n") ==
        "x.yaml:7:30: plan.data_parallel.mechanism: expected a name, got a map of keys");
  CHECK(error_of(ddp + "  mechanism: master\n") == "x.yaml:7:3: plan.mechanism: it belongs in plan.data_parallel");
  CHECK(error_of(ddp + "  data_paralel: {mechanism: master}\n") ==
        "x.yaml:7:3: unknown key \"data_paralel\" in plan; did you mean \"data_parallel\"?");
}

TEST_CASE("the exchange that the error of a refused ring names is accepted by its key", "[parallel-errors]") {
  for (const std::string model : {"gemma-2-9b", "gpt-oss-20b"}) {
    CAPTURE(model);
    const auto error_with = [&model](const std::string& exchange) {
      return error_of(
          "  seq_length: 8192\n  flash_attention: true\n  context_parallel: {size: 2, exchange: " + exchange + "}\n",
          model);
    };
    const std::string refusal = error_with("ring"), expected = "; expected ";
    CAPTURE(refusal);
    CHECK(refusal.find("ring attention with a sliding window is not modelled") != std::string::npos);
    const std::size_t words_begin = refusal.rfind(expected);
    REQUIRE(words_begin != std::string::npos);
    const std::string word = refusal.substr(words_begin + expected.size());
    CHECK(word == "all-to-all");
    CHECK(error_with(word) == "");
  }
}

}  // namespace scenarios_test_parallel_errors
