// `trainyard compare --kineto`: a trace of PyTorch's profiler beside a simulated step.
#include <fmt/format.h>
#include <zlib.h>

#include "scenarios/traces/kineto.hpp"
#include "sim/error.hpp"
#include "tests/tools/trace_shell.hpp"

using nlohmann::json;
using namespace trainyard;
using namespace trainyard::test;

namespace {

std::string event(const std::string& category, const std::string& name, double begin, double duration,
                  const std::string& args = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"device": 0{}}}}})",
      category, name, begin, duration, args);
}

/// Two steps of 10 ms each; names as CUDA 12's cuBLAS, PyTorch and NCCL 2.20 give them.
std::string profile() {
  std::string events;
  for (int step = 0; step < 2; ++step) {
    const double at = 1e6 + step * 1e4;
    for (const std::string& text :
         {event("user_annotation", fmt::format("ProfilerStep#{}", step), at, 10000),
          event("gpu_user_annotation", fmt::format("ProfilerStep#{}", step), at, 9000),
          event("cpu_op", "aten::mm", at, 400),
          event("kernel", "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", at, 3000),
          event("kernel", "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n", at + 3000, 1000),
          event("kernel", "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", at + 4000, 500),
          event("kernel", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", at + 4500,
                200),
          event("kernel", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernel>", at + 4700,
                300),
          event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", at + 5000, 2000,
                R"(, "Collective name": "allreduce", "In msg nelems": 1024, "dtype": "BFloat16", "Group size": 32)"),
          event("kernel", "ncclDevKernel_Generic(ncclDevComm*)", at + 7000, 100,
                R"(, "Collective name": "_allgather_base")"),
          event("kernel", "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", at + 7100, 800),
          event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", at + 8000, 100)})
      events += (events.empty() ? "" : ",\n") + text;
  }
  return events;
}

}  // namespace

TEST_CASE("kernels of a profile are told apart by family", "[kineto]") {
  const TemporaryFolder folder;
  const std::string whole =
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [)" + profile() +
      R"(], "traceName": "x.json"})";
  const KinetoTrace trace = read_kineto(folder.write("step.json", whole));
  CHECK(trace.steps == 2);
  CHECK(trace.step_time == Approx(0.01));
  CHECK(trace.families.size() == 8);
  const auto sum = [&trace](const std::string& family) {
    KernelSum all;
    REQUIRE(trace.families.contains(family));
    for (const auto& [name, kernels] : trace.families.at(family)) all += kernels;
    return all;
  };
  CHECK(sum("matrix products").seconds == Approx(8e-3));
  CHECK(sum("matrix products").count == 4);
  CHECK(sum("attention").seconds == Approx(1e-3));
  CHECK(sum("normalization").seconds == Approx(4e-4));
  CHECK(sum("elementwise").seconds == Approx(6e-4));
  CHECK(sum("all-reduce").seconds == Approx(4e-3));
  CHECK(sum("all-gather").seconds == Approx(2e-4));
  CHECK(sum("optimizer").seconds == Approx(1.6e-3));
  CHECK(sum("copies").seconds == Approx(2e-4));
  // A bare list of events, packed: as torch.profiler's handlers for TensorBoard can write it.
  const std::string packed = (folder.path() / "step.json.gz").string();
  const gzFile file = gzopen(packed.c_str(), "wb");
  const std::string list = "[" + profile() + "]";
  REQUIRE(gzwrite(file, list.data(), static_cast<unsigned>(list.size())) == static_cast<int>(list.size()));
  gzclose(file);
  CHECK(read_kineto(packed).families.at("all-reduce").size() == 1);
}

TEST_CASE("compare --kineto puts a profile beside the simulated step", "[kineto]") {
  const TraceFolder shell;
  shell.write("step.json", R"({"traceEvents": [)" + profile() + "]}");
  const std::string command = "compare " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --kineto step.json";
  const json j = shell.answer(command);
  CHECK(j["steps"] == 2);
  CHECK(j["measured_step_s"].get<double>() == Approx(0.01));
  CHECK(j["predicted_step_s"].get<double>() ==
        shell.answer("run " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --no-what-if")["step_time_s"]);
  double last = 1e300;
  bool products = false;
  for (const json& family : j["families"]) {
    const double gap = family["gap_s"];
    CHECK(gap == family["measured_s"].get<double>() - family["predicted_s"].get<double>());
    CHECK(std::abs(gap) <= last);
    last = std::abs(gap);
    if (family["family"] != "matrix products") continue;
    products = true;
    CHECK(family["measured_s"].get<double>() == Approx(4e-3));
    CHECK(family["measured_count"] == 2);
    CHECK(family["predicted_count"].get<double>() > 12 * 4 * 3);  // four products a layer, forward and twice backward
    CHECK(family["ratio"].get<double>() == Approx(family["predicted_s"].get<double>() / 4e-3));
    CHECK(family["longest_kernels"][0]["time_s"].get<double>() == Approx(3e-3));
  }
  CHECK(products);
  const TopoAnswer text = shell.trainyard(command + " --steps 1");
  CHECK(text.exit == 0);
  CHECK(text.out.find("matrix products") != std::string::npos);
  CHECK(text.out.find("step 20 ms measured") == std::string::npos);  // the span of the kernels: 18.1 ms
  CHECK(text.out.find("step 18.1 ms measured") != std::string::npos);
}

TEST_CASE("bad profiles are refused with file and byte", "[kineto]") {
  const TraceFolder shell;
  const std::string on = "compare " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --kineto ";
  shell.write("cut.json", R"({"traceEvents": [{"ph": "X", "cat": "ker)");
  const TopoAnswer cut = shell.trainyard(on + "cut.json");
  CHECK(cut.exit == 2);
  CHECK(cut.err.find("cut.json: byte 41: ") == 0);
  shell.write("none.json", R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}]})");
  shell.refused(
      on + "none.json",
      "none.json: no kernel of a GPU is in it; a trace of torch.profiler with ProfilerActivity.CUDA expected");
  shell.refused(on + "missing.json", "missing.json: cannot be read");
  shell.refused("compare a.yaml b.yaml --kineto none.json",
                "compare --kineto: one scenario file expected, to put beside the trace");
}
