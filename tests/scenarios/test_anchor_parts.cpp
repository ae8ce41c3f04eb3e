// Anchors by measurements of parts: collectives, matrix products, memory and kernels. The measurements come from the
// simulator with changed constants, which the anchor must find again.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "models/fitted/measured_family.hpp"
#include "models/fitted/nccl_cost.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/measured/anchor.hpp"
#include "scenarios/src/traces/kineto_comparison.hpp"
#include "strategies/collectives/library_model.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_anchor_parts {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

Node document_of(const char* file = "scenarios/llama3-8b-fsdp-64xh100.yaml", const char* stack = "pytorch-fsdp") {
  Node document = read_scenario_document(shipped_file(file));
  set_field(document, "software", stack);
  return document;
}

Scenario scenario_with(const Node& document, const Overrides& sets) { return read_scenario(document, "machine", sets); }

/// Returns the log of nccl-tests with `gpus` GPUs on nodes of eight, on the machine of the scenario.
std::string nccl_log(const Scenario& s, NcclOperation operation, int gpus) {
  const int nodes = (gpus + 7) / 8;
  NcclChoice choice = s.software.nccl_choice;
  choice.launch = NcclLaunch::ahead;  // CUDA graphs: the log has "graph: 1"
  const NcclNode node = nccl_nodes(s.cluster, choice).front();
  std::string text = fmt::format(
      "# Collective test starting: {}_perf\n# nThread 1 nGpus 1 minBytes 256 maxBytes 1073741824 step: 4(factor) "
      "graph: 1\n",
      name_of(operation));
  for (int r = 0; r < gpus; ++r)
    text += fmt::format("#  Rank  {} Group  0 Pid   {} on    node{} device  {} [0x1b] NVIDIA H100 80GB HBM3\n", r,
                        1234 + r, r / 8, r % 8);
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n";
  for (double size = 256; size <= 1U << 30; size *= 4) {
    const NcclCall call = node.call(operation, Bytes{size}, {gpus, nodes, gpus / nodes});
    const double us = nccl_cost(node.model(call), call).time.value * 1e6;
    text += fmt::format("{:.0f} {:.0f} float sum -1 {:.5f} 1.00 1.75 0 {:.5f} 1.00 1.75 0\n", size, size / 4, us, us);
  }
  return text;
}

double factor_of(const std::vector<AnchorScale>& scales, const std::string& words) {
  for (const AnchorScale& scale : scales)
    if (scale.words == words) {
      CHECK(scale.is_determined());
      return scale.factor;
    }
  FAIL("no scale " << words);
  return 0;
}

double set_value(const Overrides& sets, const std::string& path) {
  for (const auto& [key, value] : sets)
    if (key == path) return parse_number(value.substr(0, value.find(' ')));
  FAIL(path << " is not set");
  return 0;
}

}  // namespace

TEST_CASE("logs of nccl-tests give NCCL's start-ups and rates in a node and between nodes", "[anchor]") {
  const Node document = document_of();
  const Scenario machine = scenario_with(document, {{"cluster.node.nccl.startup", "1.15"},
                                                    {"cluster.node.nccl.rate", "0.95"},
                                                    {"cluster.node.nccl.network_startup", "1.25"},
                                                    {"cluster.node.nccl.network_rate", "0.7"}});
  const test::TemporaryFolder folder;
  std::vector<std::string> files;
  for (const NcclOperation operation : {NcclOperation::all_reduce, NcclOperation::all_gather})
    for (const int gpus : {8, 16, 64})
      files.push_back(
          folder.write(fmt::format("{}-{}.log", name_of(operation), gpus), nccl_log(machine, operation, gpus))
              .string());
  for (const std::string& file : files) CHECK(measures_part(file));
  const AnchorParts parts = fit_parts(document, "s", files);
  CHECK(factor_of(parts.scales, "NCCL's start-ups in a node") == Approx(1.15).epsilon(0.01));
  CHECK(factor_of(parts.scales, "NCCL's transfers in a node") == Approx(1 / 0.95).epsilon(0.01));
  CHECK(factor_of(parts.scales, "NCCL's start-ups between nodes") == Approx(1.25).epsilon(0.01));
  CHECK(factor_of(parts.scales, "NCCL's transfers between nodes") == Approx(1 / 0.7).epsilon(0.01));
  REQUIRE(parts.parts.size() == 1);
  CHECK(parts.parts.front().words == "72 collectives of nccl-tests");
  CHECK(parts.parts.front().before > 0.05);
  CHECK(parts.parts.front().after < 0.01);

  // The written node has the machine's step time. No stack is written, because nothing of it was measured.
  const Anchor anchor = anchor_steps({}, {}, parts);
  CHECK(anchored_stack_yaml(anchor, "logs") == "");
  const NcclRatios ratios = scenario_with(document, parts.sets).cluster.node.nccl;
  CHECK((ratios.measured.hold(Bytes{1 << 20}) && ratios.network_measured.hold(Bytes{1 << 20})));
  CHECK_FALSE(ratios.measured.hold(Bytes{1e15}));
  folder.write("catalog/nodes/mine.yaml", anchored_node_yaml(anchor, "logs"));
  ::setenv("TRAINYARD_PATH", (folder.path() / "catalog").c_str(), 1);
  Node anchored = document;
  set_field(anchored, "cluster.node", "mine");
  const SimulateOptions options{.critical_path = false};
  const double time = simulate(read_scenario(anchored, "s"), options).step_time.value;
  ::unsetenv("TRAINYARD_PATH");
  CHECK(time == Approx(simulate(machine, options).step_time.value).epsilon(0.005));
}

TEST_CASE("a machine's own ratios of NCCL change start-ups and rates", "[anchor][nccl]") {
  const Node document = document_of();
  const auto time = [&document](const Overrides& sets, double size, int gpus) {
    const Scenario s = scenario_with(document, sets);
    const NcclNode node = nccl_nodes(s.cluster).front();
    const NcclCall call =
        node.call(NcclOperation::all_gather, Bytes{size}, {gpus, (gpus + 7) / 8, gpus / ((gpus + 7) / 8)});
    return nccl_cost(node.model(call), call).time.value;
  };
  constexpr double small_bytes = 256, large_bytes = 1e10;
  CHECK(time({{"cluster.node.nccl.startup", "2"}}, small_bytes, 8) ==
        Approx(2 * time({}, small_bytes, 8)).epsilon(0.02));
  CHECK(time({{"cluster.node.nccl.startup", "2"}}, large_bytes, 8) == Approx(time({}, large_bytes, 8)).epsilon(0.02));
  CHECK(time({{"cluster.node.nccl.rate", "0.5"}}, large_bytes, 8) ==
        Approx(2 * time({}, large_bytes, 8)).epsilon(0.02));
  // The network at half of its rate is already slower than the links in a node, so that it alone sets the time.
  CHECK(time({{"cluster.node.nccl.network_rate", "0.25"}}, large_bytes, 64) ==
        Approx(2 * time({{"cluster.node.nccl.network_rate", "0.5"}}, large_bytes, 64)).epsilon(0.02));
  CHECK(time({{"cluster.node.nccl.network_startup", "2"}}, small_bytes, 64) > 1.3 * time({}, small_bytes, 64));
  CHECK_THROWS_WITH(scenario_with(document, {{"cluster.node.nccl.rat", "1"}}), Contains("did you mean \"rate\"?"));
}

TEST_CASE("a table of matrix products gives the rates of the GPU", "[anchor]") {
  const Node document = document_of();
  const Gpu catalog = scenario_with(document, {{"software.slowdowns.products", "1"}}).cluster.node.gpu;
  const Overrides slower{{"software.long_runs", "false"},
                         {"software.slowdowns.products", "1"},
                         {"cluster.node.gpu.gemm.peak", fmt::format("{}", catalog.gemm.peak * 0.9)},
                         {"cluster.node.gpu.gemm.memory", fmt::format("{}", catalog.gemm.memory * 0.9)},
                         {"cluster.node.gpu.gemm.l2_feed", fmt::format("{} B/s", catalog.gemm.l2_feed.value * 0.9)}};
  const Gpu gpu = scenario_with(document, slower).cluster.node.gpu;
  std::string text = "m,n,k,dtype,time_us\n", rates = "m,n,k,precision,tflops\n";
  for (const double m : {2048, 4096, 8192, 16384})
    for (const double n : {2048, 4096, 8192})
      for (const double k : {2048, 4096}) {
        const Work work{Flops{2 * m * n * k}, Bytes{2 * (m * n + n * k + m * k)}, kernel_of(GemmShape{m, n, k}),
                        static_cast<std::uint8_t>(Precision::bf16)};
        const double time = kernel_time(gpu, work).value;
        text += fmt::format("{},{},{},bfloat16,{:.6f}\n", m, n, k, time * 1e6);
        rates += fmt::format("{},{},{},bf16,{:.6f}\n", m, n, k, 2e-12 * m * n * k / time);
      }
  const test::TemporaryFolder folder;
  for (const std::string& table : {text, rates}) {
    const std::string file = folder.write("products.csv", table + "64,64,64,bf16,9\n").string();
    CHECK(measures_part(file));
    const AnchorParts parts = fit_parts(document, "s", {file});
    CHECK(factor_of(parts.scales, "the GPU's matrix products") == Approx(1 / 0.9).epsilon(0.01));
    CHECK(set_value(parts.sets, "cluster.node.gpu.gemm.peak") == Approx(catalog.gemm.peak * 0.9).epsilon(0.01));
    CHECK(parts.parts.front().words == "24 matrix products");  // the product of 64 x 64 x 64 is left out
    CHECK(parts.parts.front().after < 0.01);
  }
}

TEST_CASE("a GPU without a model of tiles has its shares of peak and bandwidth scaled", "[anchor]") {
  Node document = document_of();
  set_field(document, "cluster.node.gpu.gemm", "null");
  const Overrides bare{{"software.long_runs", "false"}, {"software.slowdowns.products", "1"}};
  const Gpu catalog = scenario_with(document, bare).cluster.node.gpu;
  CHECK_FALSE(catalog.gemm.is_given);
  const double share = catalog.efficiency[static_cast<std::size_t>(Kernel::gemm)].flops;
  Overrides slower = bare;
  slower.emplace_back("cluster.node.gpu.efficiency.gemm.flops", fmt::format("{}", share * 0.9));
  const Gpu gpu = scenario_with(document, slower).cluster.node.gpu;
  const test::TemporaryFolder folder;
  std::string text = "m,n,k,precision,time_s\n";
  for (double m = 4096; m < 40000; m += 1024) {
    const Work work{Flops{2 * m * 4096 * 4096}, Bytes{}, kernel_of(GemmShape{m, 4096, 4096}),
                    static_cast<std::uint8_t>(Precision::bf16)};
    text += fmt::format("{},4096,4096,bf16,{:.9f}\n", m, kernel_time(gpu, work).value);
  }
  const AnchorParts parts = fit_parts(document, "s", {folder.write("products.csv", text).string()});
  CHECK(set_value(parts.sets, "cluster.node.gpu.efficiency.gemm.flops") == Approx(share * 0.9).epsilon(0.01));
}

TEST_CASE("the memory that nvidia-smi shows gives the allocator's reserve", "[anchor]") {
  Node document = document_of();
  for (const auto& [key, value] : Overrides{{"cluster.nodes", "1"}, {"plan.global_batch_size", "16"}})
    set_field(document, key, value);
  const SimulateOptions options{.critical_path = false};
  const auto device_memory = [&](const char* micro_batch) {
    return simulate(
               scenario_with(document, {{"software.reserved_memory", "1.1"}, {"plan.micro_batch_size", micro_batch}}),
               options)
        .memory.device.value;
  };
  const double bytes_of_one = device_memory("1"), bytes_of_two = device_memory("2");
  constexpr double mib = 1024 * 1024;
  const test::TemporaryFolder folder;
  const std::string table =
      folder
          .write("runs.csv", fmt::format("id,plan.micro_batch_size,device_memory\na,1,{:.2f} MiB\nb,2,{:.2f} MiB\n",
                                         bytes_of_one / mib, bytes_of_two / mib))
          .string();
  CHECK(measures_part(table));
  const AnchorParts parts = fit_parts(document, "s", {table});
  CHECK(factor_of(parts.scales, "memory: the allocator's reserve over what is allocated") == Approx(1.1).epsilon(0.01));
  CHECK(parts.parts.front().after < 0.01);
  CHECK(parts.parts.front().words == "memory of 2 runs");

  // A stated amount, nvidia-smi's table and its screen give the same memory: that of the fullest GPU.
  const std::string csv =
      folder.write("smi.csv", fmt::format("index, memory.used [MiB]\n0, 1100 MiB\n1, {:.0f} MiB\n", bytes_of_one / mib))
          .string();
  const std::string screen =
      folder
          .write("smi.txt", fmt::format("| NVIDIA-SMI 580.1   Driver Version: 580.1   CUDA Version: 13.0 |\n"
                                        "| N/A   35C    P0   70W / 700W |   1100MiB / 81559MiB |   0%  Default |\n"
                                        "| N/A   35C    P0  690W / 700W | {:.0f}MiB / 81559MiB |  99%  Default |\n",
                                        bytes_of_one / mib))
          .string();
  for (const std::string& file : {csv, screen, fmt::format("{:.0f} MiB", bytes_of_one / mib)}) {
    CAPTURE(file);
    CHECK(measures_part(file));
    const AnchorParts single = fit_parts(document, "s", {file});
    CHECK(single.parts.front().before > 0.05);
    CHECK(single.parts.front().after < 0.01);
  }
}

TEST_CASE("a trace gives the slow-downs of the stack by kind of kernel", "[anchor][kineto]") {
  Node document = document_of("scenarios/gpt2-one-a100.yaml", "pytorch-autocast");
  const test::TemporaryFolder folder;
  const auto trace = [&folder](const std::string& name, const std::map<std::string, double>& seconds) {
    std::string events;
    double begin_us = 1e6;
    for (const auto& [kernel, duration] : seconds) {
      events += fmt::format(
          R"({}{{"ph": "X", "cat": "kernel", "name": "{}", "ts": {}, "dur": {:.6f}, "args": {{"device": 0}}}})",
          events.empty() ? "" : ", ", kernel, begin_us, duration * 1e6);
      begin_us += duration * 1e6;
    }
    return folder.write(name, "{\"traceEvents\": [" + events + "]}").string();
  };
  const std::map<std::string, std::string> kernel_names{{"matrix products", "ampere_bf16_s16816gemm"},
                                                        {"attention", "flash_fwd_kernel"},
                                                        {"elementwise", "vectorized_elementwise_kernel"},
                                                        {"normalization", "vectorized_layer_norm_kernel"},
                                                        {"embedding", "embedding_backward"},
                                                        {"copies", "direct_copy_kernel"},
                                                        {"optimizer", "multi_tensor_apply_kernel"}};
  const std::string short_trace = trace("any.json", {{"ampere_bf16_s16816gemm", 1e-3}});
  const Scenario catalog = scenario_with(document, {});
  const SoftwareStack::Slowdowns& slow = catalog.software.slowdowns;
  const Scenario machine =
      scenario_with(document, {{"software.slowdowns.products", fmt::format("{}", slow.products * 1.12)},
                               {"software.slowdowns.elementwise", fmt::format("{}", slow.elementwise * 0.9)},
                               {"software.slowdowns.optimizer", fmt::format("{}", slow.optimizer * 1.2)},
                               {"software.kernel_dispatch", "0 us"}});
  std::map<std::string, double> seconds;
  for (const KinetoComparison::Family& family : compare_kineto(machine, short_trace).families)
    if (family.predicted > 0) seconds[kernel_names.at(family.name)] += family.predicted;
  REQUIRE(seconds.size() > 3);
  const AnchorParts parts = fit_parts(document, "s", {trace("step.json", seconds)});
  CHECK(factor_of(parts.scales, "kernels: matrix products") == Approx(1.12).epsilon(0.01));
  CHECK(factor_of(parts.scales, "kernels: element-wise, norms, embeddings, copies") == Approx(0.9).epsilon(0.01));
  CHECK(factor_of(parts.scales, "kernels: optimizer") == Approx(1.2).epsilon(0.01));
  CHECK(parts.parts.front().after < 0.01);
  // Nsight Systems' summary of ten such steps gives the same factors.
  std::string summary =
      "Processing [step.sqlite] with [cuda_gpu_kern_sum.py]... \n\n"
      "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n";
  for (const auto& [kernel, duration] : seconds)
    summary +=
        fmt::format("9.0,{:.0f},10,1.0,1.0,1,1,0.0,\"void {}<float, 4>(int, float*)\"\n", duration * 1e10, kernel);
  const std::string csv = folder.write("kernels.csv", summary).string();
  CHECK(measures_part(csv));
  const AnchorParts summarized = fit_parts(document, "s", {csv}, 10);
  REQUIRE(summarized.scales.size() == parts.scales.size());
  for (std::size_t i = 0; i < parts.scales.size(); ++i)
    CHECK(summarized.scales[i].factor == Approx(parts.scales[i].factor).epsilon(1e-4));
  CHECK_THROWS_WITH(
      fit_parts(document, "s", {csv}),
      Contains("kernels.csv: how many steps does this summary of Nsight Systems cover? --steps N expected"));
  CHECK_THROWS_WITH(fit_parts(document_of("scenarios/gpt2-one-a100.yaml", "plain"), "s", {short_trace}),
                    Contains("plain is an ideal stack"));
}

TEST_CASE("steps are fitted after the parts of their machine", "[anchor]") {
  Node document = document_of();
  for (const auto& [key, value] : Overrides{{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}})
    set_field(document, key, value);
  const test::TemporaryFolder folder;
  const AnchorParts parts = fit_parts(document, "s", {"40 GiB"});
  const Scenario s = scenario_with(document, parts.sets);
  const SimulateOptions options{.critical_path = false};
  const AnchorStep step{"run", document, simulate(s, options).step_time.value};
  const Anchor anchor = anchor_steps({step}, {}, parts);
  CHECK(anchor.steps.front().error_after() == Approx(0).margin(1e-9));
  CHECK(anchor.parts.size() == 1);
  CHECK(anchor.scales.size() == parts.scales.size() + 4);
  CHECK_THAT(anchored_stack_yaml(anchor, "runs"), Contains("runs: 1 measured step, memory of 1 run."));
  CHECK_THROWS_WITH(anchor_steps({}, {}), Contains("no measured step"));
}

namespace {

/// Anchors by the first `count` steps, and judges by the others.
Anchor anchor_by_first(std::vector<AnchorStep> steps, std::size_t count) {
  const auto cut = steps.begin() + static_cast<std::ptrdiff_t>(count);
  return anchor_steps({steps.begin(), cut}, {cut, steps.end()});
}

}  // namespace

TEST_CASE("the manual's examples of anchors have the errors that it states", "[anchor][manual]") {
  const std::string folder = "scenarios/measured/training-2026/";
  std::vector<AnchorStep> llama = read_anchor_steps({}, "", shipped_file(folder + "pytorch-llama-h200.yaml"));
  for (AnchorStep& step : llama) {
    set_field(step.document, "cluster.node.base", "dgx-h100");
    set_field(step.document, "cluster.node.gpu.memory_bandwidth", "4.8 TB/s");
  }
  const Anchor unknown_machine = anchor_by_first(llama, 2);
  CHECK(unknown_machine.judged.size() == 8);
  CHECK(Anchor::mean_error(unknown_machine.judged, &AnchorStep::error_before) == Approx(0.042).margin(0.001));
  CHECK(Anchor::mean_error(unknown_machine.judged, &AnchorStep::error_after) == Approx(0.022).margin(0.001));

  const auto judged_step_of = [&folder](const char* name) {
    std::vector<AnchorStep> steps = read_anchor_steps({}, "", shipped_file(folder + "bridge-llama3.yaml"));
    std::erase_if(steps, [name](const AnchorStep& step) { return step.id.find(name) == std::string::npos; });
    REQUIRE(steps.size() == 2);
    return anchor_by_first(steps, 1).judged.front();
  };
  const AnchorStep better = judged_step_of("25.11"), worse = judged_step_of("25.09");
  CHECK(better.error_before() == Approx(0.069).margin(0.001));
  CHECK(better.error_after() == Approx(0.055).margin(0.001));
  CHECK(std::abs(worse.error_after()) > std::abs(worse.error_before()));
}

TEST_CASE("shipped tables give factors close to 1, and a shipped trace and memory are read", "[anchor][manual]") {
  const auto table = [](const char* name) {
    return shipped_file(std::string("scenarios/measured/tables/") + name).string();
  };
  const AnchorParts machine = fit_parts(document_of(), "s", {table("nccl.csv"), table("gemm.csv")});
  CHECK(machine.parts.size() == 2);
  for (const AnchorScale& scale : machine.scales) {
    CAPTURE(scale.words);
    CHECK(scale.factor == Approx(1).margin(0.1));
  }
  Node document = document_of("scenarios/gpt2-one-a100.yaml", "pytorch-autocast");
  set_field(document, "cluster.node", parse_document("{base: dgx-h100, gpu: {count: 1}}", "node"));
  set_field(document, "plan.micro_batch_size", "4");
  set_field(document, "plan.global_batch_size", "4");
  const AnchorParts run = fit_parts(document, "s", {table("kineto-gpt-h100.json.gz"), "7337 MiB"});
  REQUIRE(run.parts.size() == 2);
  for (const AnchorPart& part : run.parts) CHECK(part.after < part.before);
  const std::string gz = table("kineto-gpt-h100.json.gz");
  CHECK_THROWS_WITH(fit_parts(document_of("scenarios/gpt2-one-a100.yaml", "pytorch-autocast"), "s", {gz}),
                    Contains("recorded on \"NVIDIA H100 80GB HBM3\", another GPU than a100-sxm4-80gb"));
  set_field(document, "plan.global_batch_size", "8");
  CHECK_THROWS_WITH(fit_parts(document, "s", {gz}), Contains("not a trace of this scenario's step: its products are "));
}

TEST_CASE("malformed measurements of parts give one error with file and line", "[anchor]") {
  const Node document = document_of();
  const test::TemporaryFolder folder;
  const auto error = [&](const char* name, const std::string& text) {
    const std::filesystem::path file = folder.write(name, text);
    return test::user_error_in(file, [&] { fit_parts(document, "s", {file.string()}); });
  };
  CHECK(error("p.csv", "m,n,k,precision\n1,1,1,bf16\n") ==
        ": no time of a product; expected a column time_us, latency_us, time_s, tflops");
  CHECK(error("p.csv", "m,n,k,precision,time_us\n4096,4096,4096,bf61,9\n").starts_with(":2:16: precision: unknown "));
  CHECK(error("p.csv", "m,n,k,precision,time_us\n4096,4096,4096,fp4,9\n").starts_with(":2:16: precision: h100"));
  CHECK(error("p.csv", "m,n,k,precision,time_us\n4096,4096,x,bf16,9\n").starts_with(":2:11: k: \"x\" is not a number"));
  CHECK_THAT(error("p.csv", "m,n,k,precision,time_us\n4096,4096,4096,bf16,0.2\n"),
             Contains("no product of h100-sxm5-80gb to fit to") && Contains("1 faster than the chip's peak"));
  CHECK(error("m.csv", "index, memory.used [MiB]\n0, much\n") ==
        ":2:3: memory.used [MiB]: \"much\" is no amount of memory; expected one such as 71234 MiB");
  CHECK(error("m.txt", "| NVIDIA-SMI 580.1 |\n") == ": no memory of a GPU found, such as 71234MiB / 81559MiB");
  CHECK(error("n.log", "# size count type redop root time algbw busbw\n") ==
        ":1:1: the table has no rows; expected size, count, …, time, algbw, busbw");
  CHECK_THAT(error("n.csv", "gpu,nccl_version,op,num_gpus,message_bytes,latency_us\nmi300x,2.2,all_gather,8,8,9\n"),
             Contains("measured on mi300x; expected the scenario's GPU, h100-sxm5-80gb"));
  CHECK_THAT(error("n.csv", "gpu,nccl_version,op,num_gpus,message_bytes,latency_us\nh100_sxm,2.2,all_gather,128,8,9\n"),
             Contains("128 GPUs on 16 nodes; the scenario's cluster has 8 nodes of 8 GPUs"));
  CHECK(error("t.json", "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"ker").starts_with(": byte "));
}

TEST_CASE("parts that cannot be true are refused, and rows that contradict each other are named", "[anchor]") {
  const Node document = document_of();
  CHECK_THROWS_WITH(fit_parts(document, "s", {"500 GiB"}), Contains("500 GiB used; h100-sxm5-80gb has 80"));
  CHECK_THROWS_WITH(fit_parts(document, "s", {"0 GiB"}), Contains("more than 0"));
  const test::TemporaryFolder folder;
  std::string log = nccl_log(scenario_with(document, {}), NcclOperation::all_reduce, 8);
  const std::string good = folder.write("good.log", log).string();
  CHECK(fit_parts(document, "s", {good}).warnings.empty());
  // The time of the row of 1 MiB is 20 times as long.
  const std::size_t row = log.find("\n1048576 "), time = log.find(" -1 ", row) + 4;
  log.replace(time, log.find(' ', time) - time, fmt::format("{:.5f}", 20 * std::stod(log.substr(time))));
  const std::vector<std::string> warnings = fit_parts(document, "s", {folder.write("odd.log", log).string()}).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front(), Contains("1.00 MiB") && Contains("times off after the fit"));
}

}  // namespace scenarios_test_anchor_parts
