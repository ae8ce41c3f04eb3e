// Offload: transfers, times and memory against closed forms, and refusals.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"

namespace strategies_test_offload {

using namespace trainyard;
using namespace trainyard::test;

namespace {

// Eight linear layers of 1,000 x 1,000 weights and 1,000 biases, one bucket for each.
constexpr double kLayers = 8, kLayer = 1001000, kElements = kLayers * kLayer;
/// Bytes per element of Adam's update in bf16: gradient read, fp32 weight and two states read and written, new weight
/// written.
constexpr double kUpdate = 2 + 2 * 12 + 2, kStates = 12;
constexpr double kPcie = 1e9, kMemory = 10e9;

struct Box {
  int gpus = 1, sockets = 1;
  const char* pcie = "1 GB/s";
  const char* cpu = "{}";  ///< "{}": no limit of memory
  const char* more = "";
};
constexpr const char* kFree = "1e21 B/s";
constexpr const char* kSlowMemory = "{memory_bandwidth: 10 GB/s}";

/// A machine on which only PCIe, the memory of CPUs and drives take time.
std::string text_of(const Box& box, const std::string& data_parallel, int micro_batches = 1) {
  return fmt::format(
      "cluster:\n  node:\n    gpu: {{count: {}, type: {{peak: {{bf16: 1e24 FLOP/s}}, memory_bandwidth: 1e24 B/s, "
      "memory_capacity: 1 TB, pcie: {}}}}}\n    interconnect: pcie\n    pcie: {{rate: {}, latency: 0 us, "
      "peer_to_peer: node}}\n    cpu: {}\n    sockets: {}\n    socket_link: {{rate: 1e21 B/s, latency: 0 us}}\n{}"
      "model: {{mlp: {{widths: [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]}}}}\n"
      "plan:\n  global_batch_size: {}\n  micro_batch_size: 1\n  precision: bf16\n  collectives: messages\n"
      "  data_parallel: {{{}}}\n",
      box.gpus, box.pcie, box.pcie, box.cpu, box.sockets, box.more, box.gpus * micro_batches, data_parallel);
}

Result run(const Box& box, const std::string& data_parallel, int micro_batches = 1) {
  return simulate(read_scenario_text(text_of(box, data_parallel, micro_batches), "x.yaml"));
}

double bytes_on(const Result& r, const char* kind) { return r.bytes_by_link_kind.at(kind); }

std::string refusal(const std::string& data_parallel, const Box& box = {2}) {
  return user_error([&] { plan(read_scenario_text(text_of(box, data_parallel), "x.yaml")); });
}

constexpr const char* kLayerBuckets = ", bucket: 2002 kB, first_bucket: 2002 kB";

}  // namespace

TEST_CASE("gradients go to the host and parameters come back, two bytes each, once a step", "[offload]") {
  const Result r = run({}, std::string("zero_stage: 2, offload: cpu") + kLayerBuckets);
  CHECK(r.bytes_total.value == near(4 * kElements));
  CHECK(r.bytes_sent_per_rank_max.value == near(2 * kElements));
  CHECK(bytes_on(r, "PCIe") == near(2 * 4 * kElements));    // to a switch and from it
  CHECK(r.step_time.value == near(4 * kElements / kPcie));  // the update needs all gradients
  CHECK(r.breakdown.exposed_communication.at("offload copies") == near(r.step_time.value));
  // The GPU holds parameters, and gradients of one bucket that is computed and of one that is sent.
  CHECK(r.memory.parameters.value == near(2 * kElements));
  CHECK(r.memory.gradients.value == near(2 * 2 * kLayer));
  CHECK(r.memory.optimizer.value == 0);
  // The host holds gradients and states, and the parameters of two buckets on their way back.
  CHECK(r.host_memory.gradients.value == near(2 * kElements));
  CHECK(r.host_memory.optimizer.value == near(kStates * kElements));
  CHECK(r.host_memory.peak.value == near((2 + kStates) * kElements + 2 * 2 * kLayer));
  CHECK(r.fits);
}

TEST_CASE("several ranks offload a share each", "[offload]") {
  const Box box{4, 1, "1 GB/s", "{memory_bandwidth: 1e12 B/s}"};
  for (const int stage : {1, 2, 3}) {
    const Result r = run(box, fmt::format("zero_stage: {}, offload: cpu", stage));
    CHECK(bytes_on(r, "host memory") == near((2 + kUpdate + 2) * kElements));
    CHECK(r.host_memory.optimizer.value == near(kStates * kElements));
  }
  const Result gathered_twice = run(box, "zero_stage: 3, offload: {optimizer: cpu, parameters: cpu}");
  CHECK(bytes_on(gathered_twice, "host memory") == near((2 + kUpdate + 2 * 2) * kElements));  // forward and backward
  const Result gathered_once = run(box, "zero_stage: 3, reshard: false, offload: {optimizer: cpu, parameters: cpu}");
  CHECK(bytes_on(gathered_once, "host memory") == near((2 + kUpdate + 2) * kElements));
  CHECK(gathered_twice.host_memory.parameters.value == near(2 * kElements));
}

TEST_CASE("gradients that leave after each micro-batch are added on the host; others leave once", "[offload]") {
  const Box box{1, 1, kFree, kSlowMemory};
  const Result leave = run(box, "zero_stage: 2, offload: cpu", 3), stay = run(box, "zero_stage: 1, offload: cpu", 3);
  const double moved = 3 * 2 + 2 * 3 * 2 + kUpdate + 2;
  CHECK(bytes_on(leave, "host memory") == near(moved * kElements));
  CHECK(bytes_on(stay, "host memory") == near((2 + kUpdate + 2) * kElements));
  CHECK(stay.memory.gradients.value == near(2 * kElements));
}

TEST_CASE("the CPU's work takes its bytes over its memory's rate, which the ranks of a socket share", "[offload]") {
  for (const char* plan :
       {"zero_stage: 1, offload: cpu", "zero_stage: 2, offload: {optimizer: cpu}", "zero_stage: 3, offload: cpu"}) {
    CAPTURE(plan);
    const double one_gpu = (2 + kUpdate + 2) * kElements / kMemory;
    CHECK(run({1, 1, kFree, kSlowMemory}, plan).step_time.value == near(one_gpu));
    const double one_socket = run({2, 1, kFree, kSlowMemory}, plan).step_time.value,
                 two_sockets = run({2, 2, kFree, kSlowMemory}, plan).step_time.value;
    CHECK(two_sockets == near(one_gpu / 2));
    CHECK(one_socket == near(2 * two_sockets));
  }
}

TEST_CASE("parameters on the host are copied ahead of each pass, beside the gradients", "[offload]") {
  const Result r = run({}, "zero_stage: 3, offload: {optimizer: cpu, parameters: cpu}");
  CHECK(r.bytes_total.value == near(3 * 2 * kElements));
  // Forward and backward pass one after the other; the gradients of the first layer leave after its backward pass.
  CHECK(r.step_time.value == near((2 * 2 * kElements + 2 * kLayer) / kPcie));
  CHECK(r.memory.parameters.value == near(2 * 2 * kLayer));  // the present layer and the next
  CHECK(r.memory.gradients.value <= 2 * 2 * kLayer);
}

TEST_CASE("states on drives are read, updated and written in overlapping chunks", "[offload]") {
  const auto drives = [](int count, double read, double write) {
    return fmt::format(
        "    nvme: {{count: {}, read: {} B/s, write: {} B/s, latency: 0 us, lanes: 16, capacity: 1 GB}}\n", count, read,
        write);
  };
  const auto step = [&](int count, double read, double write) {
    const std::string more = drives(count, read, write);
    return run({1, 1, kFree, "{}", more.c_str()}, "zero_stage: 3, offload: nvme");
  };
  const double chunk = kStates * kLayer;
  CHECK(step(1, 2e9, 1e9).step_time.value == near(chunk / 2e9 + kLayers * chunk / 1e9));
  CHECK(step(1, 1e9, 2e9).step_time.value == near(kLayers * chunk / 1e9 + chunk / 2e9));
  const Result two = step(2, 1e9, 2e9);  // two drives are striped
  CHECK(two.step_time.value == near((kLayers * chunk / 1e9 + chunk / 2e9) / 2));
  CHECK(bytes_on(two, "NVMe") == near(2 * kStates * kElements));
  CHECK(two.drive.peak.value == near(kStates * kElements));
  CHECK(two.drive.capacity.value == near(2e9));
  CHECK(two.host_memory.buffers.value == near(3 * chunk + 2 * 2 * kLayer));
  // Ranks of a node share its drives.
  const std::string more = drives(1, 1e9, 2e9);
  CHECK(run({2, 1, kFree, "{}", more.c_str()}, "zero_stage: 3, offload: nvme").step_time.value ==
        near(kLayers * chunk / 1e9 + chunk / 2e9));
  CHECK(two.breakdown.exposed_communication.at("drive") > 0.9 * two.step_time.value);
}

TEST_CASE("parameters on drives come through host memory and go back after the update", "[offload]") {
  const char* more = "    nvme: {count: 1, read: 4 GB/s, write: 2 GB/s, latency: 0 us, lanes: 16, capacity: 1 GB}\n";
  const Result r = run({1, 1, "16 GB/s", "{}", more}, "zero_stage: 3, offload: {optimizer: nvme, parameters: nvme}");
  CHECK(bytes_on(r, "NVMe") == near((2 * 2 + 2 * kStates + 2) * kElements));
  CHECK(r.drive.peak.value == near((kStates + 2) * kElements));
  CHECK(r.memory.parameters.value <= 3 * 2 * kLayer);
}

TEST_CASE("a plan does not fit if host memory or drives are too small", "[offload]") {
  CHECK_FALSE(run({1, 1, "1 GB/s", "{}", "    host_memory: 100 MB\n"}, "zero_stage: 2, offload: cpu").fits);
  CHECK(run({1, 1, "1 GB/s", "{}", "    host_memory: 200 MB\n"}, "zero_stage: 2, offload: cpu").fits);
  const char* more = "    nvme: {count: 1, read: 4 GB/s, latency: 0 us, lanes: 16, capacity: 10 MB}\n";
  CHECK_FALSE(run({1, 1, "1 GB/s", "{}", more}, "zero_stage: 3, offload: nvme").fits);
}

TEST_CASE("impossible offload is refused with the rule", "[offload]") {
  const auto check = [](const std::string& plan, const std::string& rule) {
    CAPTURE(plan);
    const std::string error = refusal(plan);
    CHECK_THAT(error, Catch::StartsWith("x.yaml:15:"));
    CHECK_THAT(error, Catch::Contains(rule));
  };
  check("offload: cpu", "zero_stage 1, 2 or 3 expected");
  check("zero_stage: 2, offload: nvme", "at zero_stage 3 only");
  check("zero_stage: 2, offload: {optimizer: cpu, parameters: cpu}", "parameters: at zero_stage 3 only");
  check("zero_stage: 3, offload: {parameters: cpu}", "parameters without the optimizer");
  check("zero_stage: 3, offload: nvme", "has no drive");
  check("zero_stage: 2, overlap: false, offload: cpu", "plan.data_parallel.overlap: false with offload");
  check("zero_stage: 2, offload: disk", "none, cpu, nvme");
  check("zero_stage: 2, offload: {optimiser: cpu}", "optimizer");
  check("mechanism: central-storage, size: 1, offload: cpu", "with mechanism all-reduce only");
  CHECK_THROWS_WITH(
      plan(read_scenario_text(
          "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 1, "
          "tensor_parallel: 2, sequence_parallel: true,\n data_parallel: {zero_stage: 2, offload: cpu}}\n",
          "y.yaml")),
      Catch::StartsWith("y.yaml:4:42: plan.data_parallel.offload: not with tensors whose gradients are sums"));
  CHECK(refusal("offload: cpu", {1}) == "");
  CHECK(refusal("zero_stage: 3, offload: none") == "");
}

namespace {

// Layers 1 to 6 of the eight are between the first and the last, and store their input of 1,000 elements in bf16.
constexpr double kBlocks = 6, kKept = 2000;

Scenario with_activations(const Box& box, const std::string& where, int micro_batches = 1, const char* more = "") {
  return read_scenario_text(
      text_of(box, "size: 1", micro_batches) + fmt::format("  activation_offload: {}\n{}", where, more), "x.yaml");
}

std::string activation_refusal(const std::string& where, const char* more = "") {
  return user_error([&] { plan(with_activations({}, where, 1, more)); });
}

}  // namespace

TEST_CASE("activations go to the host and come back, once a micro-batch", "[offload]") {
  for (const int micro_batches : {1, 3}) {
    const Result r = simulate(with_activations({}, "all", micro_batches));
    CHECK(r.bytes_total.value == near(2 * kBlocks * kKept * micro_batches));
    CHECK(r.step_time.value == near(2 * kBlocks * kKept * micro_batches / kPcie));
    CHECK(r.breakdown.exposed_communication.at("offload copies") == near(r.step_time.value));
    CHECK(r.host_memory.activations.value == near(kBlocks * kKept));
    CHECK(r.host_memory.peak.value == near(kBlocks * kKept));
  }
  CHECK(simulate(with_activations({}, "2")).bytes_total.value == near(2 * 2 * kKept));
  CHECK(simulate(with_activations({}, "{blocks: 2, ahead: 3}")).bytes_total.value == near(2 * 2 * kKept));
  CHECK(simulate(with_activations({}, "none")).bytes_total.value == 0);
}

TEST_CASE("copies of activations hide behind passes that take longer than they do", "[offload]") {
  // The GPU's memory has 1 GB/s, and PCIe is four times as fast. Each pass reads its layer's 2 MB of weights.
  const Overrides slow{{"cluster.node.gpu.type.memory_bandwidth", "1 GB/s"}};
  const auto step = [&slow](const char* where) {
    return simulate(read_scenario_text(
                        text_of({1, 1, "4 GB/s"}, "size: 1") + fmt::format("  activation_offload: {}\n", where),
                        "x.yaml", slow))
        .step_time.value;
  };
  const double none = step("none");
  // The last block's activations leave while the last layer computes, and come back before their own backward pass.
  CHECK(step("{blocks: all, ahead: 1}") == near(none));
  CHECK(step("{blocks: all, ahead: 0}") == near(none + kBlocks * kKept / 4e9));
}

TEST_CASE("activations in host memory leave room on the GPU and take it on the host", "[offload]") {
  const char* base = "cluster: {node: dgx-a100}\nmodel: gpt2-xl\nplan: {global_batch_size: 64, micro_batch_size: 8";
  const auto run_with = [base](const std::string& more) {
    return simulate(read_scenario_text(fmt::format("{}{}}}\n", base, more), "x.yaml"));
  };
  const Result on_gpu = run_with(""), all = run_with(", activation_offload: all"),
               some = run_with(", activation_offload: 24"),
               inputs = run_with(", recompute: full, activation_offload: all");
  CHECK(all.memory.peak.value < some.memory.peak.value);
  CHECK(some.memory.peak.value < on_gpu.memory.peak.value);
  CHECK(all.host_memory.activations.value == near(2 * some.host_memory.activations.value));
  CHECK(inputs.host_memory.activations.value < 0.1 * all.host_memory.activations.value);
  CHECK(all.step_time.value >= on_gpu.step_time.value);
  CHECK(all.host_memory.activations.value > 0.9 * 8 * (on_gpu.memory.activations.value - all.memory.activations.value));
}

TEST_CASE("activations that cannot lie on the host are refused", "[offload]") {
  using Catch::Contains;
  CHECK_THAT(activation_refusal("7"), Contains("7 blocks a stage, but virtual stage 0 has 6"));
  CHECK_THAT(activation_refusal("some"), Contains("x.yaml:") && Contains("plan.activation_offload"));
  CHECK_THAT(activation_refusal("-1"), Contains("plan.activation_offload"));
  CHECK_THAT(activation_refusal("{ahead: 2}"), Contains("plan.activation_offload.blocks"));
  CHECK_THAT(activation_refusal("all", "  mode: inference\n"), Contains("plan.activation_offload"));
  const Scenario zero_bubble = read_scenario_text(
      "cluster: {node: dgx-a100}\nmodel: gpt2-xl\nplan: {global_batch_size: 64, micro_batch_size: 4, "
      "pipeline_parallel: "
      "4, pipeline: {schedule: zb-h1}, activation_offload: all}\n",
      "x.yaml");
  CHECK_THAT(user_error([&] { plan(zero_bubble); }),
             Contains("plan.activation_offload: not modelled with zb-h1") && Contains("1f1b"));
}

}  // namespace strategies_test_offload
