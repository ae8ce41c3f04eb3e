// Scenarios with compressed gradients: when compression pays, its memory, folding, and refusals with their places.
#include <fmt/format.h>

#include "scenarios/src/running/simulate.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_compression_scenarios {

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::string text_of(const std::string& data_parallel, const std::string& rate = "1 Gbit/s",
                    const std::string& software = "pytorch-ddp", const std::string& plan = "") {
  return fmt::format(
      "cluster: {{nodes: 4, node: {{base: t4-server, gpu: {{count: 1}}}}, hca: {{rate: {}}}, fabric: nonblocking}}\n"
      "model: {{mlp: {{widths: [512, 1024, 1024, 10]}}}}\n"
      "software: {}\n"
      "plan: {{idle_devices: allowed, micro_batch_size: 64, precision: fp32, optimizer: sgd{}, data_parallel: "
      "{{{}}}}}\n",
      rate, software, plan, data_parallel);
}

Result run(const std::string& text, Folding folding = Folding::automatic) {
  return simulate(read_scenario_text(text, "compression.yaml"), {.folding = folding});
}

Result result_with(const std::string& compression, const std::string& rate = "1 Gbit/s", const std::string& more = "") {
  return run(text_of((compression.empty() ? "" : "compression: " + compression) + more, rate));
}

Result nvlink_result(const std::string& compression) {
  return run(fmt::format(
      "cluster: {{nodes: 1, node: dgx-h100}}\n"
      "model: {{mlp: {{widths: [4096, 8192, 8192, 1000]}}}}\n"
      "software: pytorch-ddp\n"
      "plan: {{micro_batch_size: 2048, precision: fp32, optimizer: sgd, data_parallel: {{compression: {}}}}}\n",
      compression));
}

std::string refusal(const std::string& text) {
  return user_error([&] { run(text); });
}
std::string refusal_with(const std::string& data_parallel, const std::string& software = "pytorch-ddp") {
  return refusal(text_of(data_parallel, "1 Gbit/s", software));
}

}  // namespace

TEST_CASE("a compressor wins on a slow network, and loses on a fast one", "[compression]") {
  for (const char* compression : {"{name: top-k, density: 0.001}", "{name: dgc, density: 0.001}", "1-bit",
                                  "{name: powersgd, rank: 4}", "{name: random-k, density: 0.01}"}) {
    CAPTURE(compression);
    CHECK(result_with(compression).step_time.value < 0.5 * result_with("").step_time.value);
    CHECK(nvlink_result(compression).step_time.value > nvlink_result("none").step_time.value);
  }
}

TEST_CASE("an answer names what was compressed, its kernels and its bytes", "[compression]") {
  const Result r = result_with("{name: top-k, density: 0.01, error_feedback: false}");
  constexpr double elements = 512 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10;
  CHECK(r.compression.name == "top-k of 1 %, no error feedback");
  CHECK(r.compression.dense.value == near(4 * elements));
  CHECK(r.compression.sent.value ==
        Approx(8 * 0.01 * elements).epsilon(1e-4));  // each bucket sends a whole number of elements
  CHECK(r.compression.encode.value > 0);
  CHECK(r.compression.decode.value > 0);
  // Messages on the links and launches by the host slow the kernels a little.
  CHECK(r.breakdown.compression.value >= r.compression.encode.value + r.compression.decode.value);
  CHECK(r.breakdown.compression.value < 1.3 * (r.compression.encode.value + r.compression.decode.value));
  double sum = r.breakdown.compute.value + r.breakdown.compression.value + r.breakdown.bubble.value +
               r.breakdown.optimizer.value + r.breakdown.input.value + r.breakdown.framework.value +
               r.breakdown.other.value;
  for (const auto& [group, seconds] : r.breakdown.exposed_communication) sum += seconds;
  CHECK(sum == near(r.step_time.value));
  CHECK(result_with("").compression.name.empty());
  CHECK(result_with("none").step_time.value == result_with("").step_time.value);
}

TEST_CASE("the buffers of compression are counted in memory", "[compression]") {
  constexpr double elements = 512 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10;
  const auto added_buffers = [](const std::string& compression) {
    return result_with(compression).memory.buffers.value - result_with("").memory.buffers.value;
  };
  CHECK(added_buffers("{name: random-k, density: 0.01}") ==
        Approx(4 * elements + 4 * 0.01 * elements).epsilon(1e-5));  // the residual and the sent elements
  CHECK(added_buffers("fp16") == near(2 * elements));               // a cast copy
  CHECK(added_buffers("{name: dgc, density: 0.01}") ==
        Approx((8 + 4 * 0.08) * elements).epsilon(1e-4));  // two states, and the payloads of four ranks
}

TEST_CASE("ranks that compress alike are simulated once", "[compression]") {
  for (const char* compression :
       {"{name: top-k, density: 0.01}", "{name: top-k, density: 0.01, exchange: ring}", "{name: powersgd, rank: 2}",
        "{name: 1-bit, exchange: stripes}", "{name: threshold, threshold: 0.1, density: 0.02}"}) {
    const std::string text =
        text_of(std::string("compression: ") + compression, "1 Gbit/s", "pytorch-ddp", ", collectives: messages");
    CAPTURE(compression);
    const Result folded = run(text), rank_by_rank = run(text, Folding::off);
    CHECK(folded.simulated_ranks == 1);
    CHECK(rank_by_rank.simulated_ranks == 4);
    CHECK(folded.step_time.value == near(rank_by_rank.step_time.value));
    CHECK(folded.bytes_total.value == near(rank_by_rank.bytes_total.value));
  }
}

TEST_CASE("servers take compressed pushes", "[compression]") {
  const std::string servers = "mechanism: parameter-server, servers: {count: 1}";
  const auto server_result = [&](const std::string& more) {
    return run(
        fmt::format("cluster: {{nodes: 3, node: {{base: pcie-2, cpu: xeon-e5-2698-v4, hca: {{count: 1, rate: 1 Gbit/s, "
                    "latency: 1 us}}}}, fabric: nonblocking}}\n"
                    "model: {{mlp: {{widths: [512, 1024, 1024, 10]}}}}\n"
                    "plan: {{micro_batch_size: 64, precision: fp32, optimizer: sgd, data_parallel: {{{}{}}}}}\n",
                    servers, more));
  };
  const Result plain = server_result(""), compressed = server_result(", compression: {name: top-k, density: 0.001}");
  CHECK(compressed.bytes_total.value < 0.6 * plain.bytes_total.value);  // the weights come back uncompressed
  CHECK(compressed.step_time.value < plain.step_time.value);
}

TEST_CASE("impossible compression is refused in one line with its place", "[compression]") {
  const std::string place = "compression.yaml:4:";
  const auto check = [&place](const std::string& why, const std::string& part) {
    CAPTURE(why, part);
    CHECK(why.starts_with(place));
    CHECK(why.find(part) != std::string::npos);
    CHECK(why.find('\n') == std::string::npos);
  };
  check(refusal_with("compression: {name: top-k, density: 0}"), "0 sends nothing");
  check(refusal_with("compression: {name: top-k, density: 1.5}"), "expected a number from 0 to 1");
  check(refusal_with("compression: {name: top-k}"), "density");
  check(refusal_with("compression: topk"), "did you mean \"top-k\"?");
  check(refusal_with("compression: {name: top-k, density: 0.1, rank: 2}"), "a key of powersgd, not of top-k");
  check(refusal_with("compression: {name: top-k, density: 0.1, error_feedbak: true}"),
        "did you mean \"error_feedback\"?");
  check(refusal_with("compression: {name: powersgd, rank: 2000}"), "no matrix of the network has a rank above 1024");
  check(refusal_with("compression: {name: powersgd, rank: 1000}"), "2 times smaller");
  check(refusal_with("bucket_boundaries: bytes, compression: {name: powersgd, rank: 2}"), "bucket_boundaries: tensors");
  check(refusal_with("zero_stage: 1, compression: fp16"), "zero_stage 0 only");
  check(refusal_with("gossip: ring, compression: fp16"), "neighbours average parameters");
  // Keys that would change nothing.
  for (const char* key : {"overlap: true", "bucket: 1 MiB", "bucket_boundaries: bytes"})
    check(refusal_with(std::string("gossip: ring, ") + key), "it would change nothing: neighbours exchange");
  check(refusal_with("local_steps: 4, overlap: false"), "it would change nothing: parameters are averaged");
  check(refusal_with("mechanism: diloco, inner_steps: 4, overlap: true"),
        "it would change nothing: workers exchange no");
  check(refusal_with("local_steps: 4, compression: fp16"), "replicas average parameters");
  check(refusal_with("delay: 1, compression: fp16"), "several steps are on their way");
  check(refusal_with("mechanism: parameter-server, compression: sign"), "a server cannot sum");
  check(refusal_with("compression: {name: top-k, density: 0.1, exchange: ring}"), "set plan.collectives: messages");
  check(refusal_with("size: 1, compression: fp16"), "one replica only");
  check(refusal(text_of("compression: bf16", "1 Gbit/s", "{base: pytorch-ddp, gradient_precision: fp16}")),
        "already exchanged in as few bytes");
}

}  // namespace scenarios_test_compression_scenarios
