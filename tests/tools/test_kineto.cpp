// `trainyard compare --kineto` compares a trace of PyTorch's profiler with a simulated step.
#include <fmt/format.h>
#include <zlib.h>

#include <tuple>
#include <utility>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "scenarios/src/traces/kineto.hpp"
#include "scenarios/src/traces/kineto_comparison.hpp"
#include "tests/tools/trace_shell.hpp"

namespace tools_test_kineto {

using nlohmann::json;
using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

std::string event(const std::string& category, const std::string& name, double begin, double duration,
                  const std::string& args = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"device": 0{}}}}})",
      category, name, begin, duration, args);
}

/// Two steps of 10 ms each. The names are those of CUDA 12's cuBLAS, PyTorch and NCCL 2.20.
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

TEST_CASE("kernels of a profile are divided into families", "[kineto]") {
  const TemporaryFolder folder;
  const std::string trace_text =
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": [)" + profile() +
      R"(], "traceName": "x.json"})";
  const KinetoTrace trace = read_kineto(folder.write("step.json", trace_text));
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
  // A compressed list of events without a header, as torch.profiler's handlers for TensorBoard can write it.
  const std::string packed = (folder.path() / "step.json.gz").string();
  const gzFile file = gzopen(packed.c_str(), "wb");
  const std::string list = "[" + profile() + "]";
  REQUIRE(gzwrite(file, list.data(), static_cast<unsigned>(list.size())) == static_cast<int>(list.size()));
  gzclose(file);
  CHECK(read_kineto(packed).families.at("all-reduce").size() == 1);
}

TEST_CASE("compare --kineto compares a profile with the simulated step", "[kineto]") {
  const TraceFolder shell;
  shell.write("step.json", R"({"traceEvents": [)" + profile() + "]}");
  const std::string command = "compare " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --kineto step.json";
  const json j = shell.answer(command);
  CHECK(j["steps"] == 2);
  CHECK(j["measured_step_s"] == Approx(0.01));
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
    CHECK(family["measured_s"] == Approx(4e-3));
    CHECK(family["measured_count"] == 2);
    // Each layer has four products, once forward and twice backward.
    CHECK(family["predicted_count"].get<double>() > 12 * 4 * 3);
    CHECK(family["ratio"] == Approx(family["predicted_s"].get<double>() / 4e-3));
    CHECK(family["longest_kernels"][0]["time_s"] == Approx(3e-3));
  }
  CHECK(products);
  // Kernels that their late host launches take their own time, without the wait for the host.
  const std::string late =
      " --set software=pytorch-autocast --set plan.micro_batch_size=1 --set plan.global_batch_size=1";
  const json run = shell.answer("run " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --no-what-if" + late);
  const json late_families = shell.answer(command + late)["families"];
  double kernels = 0;
  for (const json& family : late_families) kernels += family["predicted_s"].get<double>();
  const double step = run["step_time_s"], framework = run["breakdown_s"]["framework"];
  CHECK(framework > 0.3 * step);
  CHECK(kernels == Approx(step - framework).epsilon(0.01));
  const TopoAnswer text = shell.trainyard(command + " --steps 1");
  CHECK(text.exit == 0);
  CHECK_THAT(text.out, Contains("matrix products"));
  CHECK(text.out.find("step 20 ms measured") == std::string::npos);  // the span of the kernels is 18.1 ms
  CHECK_THAT(text.out, Contains("step 18.1 ms measured"));
}

TEST_CASE("kernels of cuDNN, MIOpen, rocBLAS and others belong to their families", "[kineto]") {
  const std::pair<const char*, const char*> names[] = {
      {"Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_SN_1LDSB0", "matrix products"},
      {"Custom_Cijk_Alik_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT256x256x64_MI16x16x1", "matrix products"},
      {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTT", "matrix products"},
      {"volta_sgemm_128x64_nt", "matrix products"},
      {"triton_tem_fused_addmm_3", "matrix products"},
      {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>", "matrix products"},
      {"volta_scudnn_128x64_relu_interior_nn_v1", "convolution"},
      {"maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt", "convolution"},
      {"turing_fp16_s1688cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1", "convolution"},
      {"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16", "convolution"},
      {"sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc", "convolution"},
      {"void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_128x128_32x3>", "convolution"},
      {"void cudnn::detail::implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>", "convolution"},
      {"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", "convolution"},
      {"void fft2d_r2c_32x32<float, false, 1u, false>", "convolution"},
      {"im2col4d_kernel", "convolution"},
      {"miopenSp3AsmConv_v30_3_1_gfx9_fp32_f3x2_stride1", "convolution"},
      {"igemm_fwd_gtcx2_nhwc_fp16_bx0_ex1_bt256x128x32", "convolution"},
      {"void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>", "copies"},
      {"__amd_rocclr_copyBuffer", "copies"},
      {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "normalization"},
      {"MIOpenBatchNormFwdTrainSpatialNorm", "normalization"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64_4x1x1_kernel0_0", "attention"},
      {"void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<>>", "attention"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "elementwise"},
      {"void at::native::unrolled_elementwise_kernel<at::native::convert_float8>", "elementwise"},
      {"void cudnn::ops::pooling_fw_4d_kernel<float, float>", "elementwise"}};
  for (const auto& [name, family] : names) {
    INFO(name);
    CHECK(family_of_kernel(name, "") == family);
  }
}

namespace {

/// A trace of a step with one product of the shapes m x k and k x n, on a device of that name and memory.
std::string recorded_on(const std::string& device, double memory, const std::string& shapes) {
  const std::string product =
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000, "dur": 5, "args": {"External id": 3, )"
      R"("Input Dims": )" +
      shapes + R"(, "Input type": ["float", "float"]}})";
  return fmt::format(
      R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 1, "name": "other", "totalGlobalMem": 7}}, {{"id": 0, "name": "{}", )"
      R"("totalGlobalMem": {:.0f}, "maxThreads": [1, 2]}}], "record_shapes": 1, "traceEvents": [{}, {}]}})",
      device, memory, product, profile());
}

}  // namespace

TEST_CASE("a profile of another GPU is refused; a note says if it is of another model", "[kineto]") {
  const TraceFolder shell;
  const std::string command =
      "compare " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --kineto step.json";  // 80 GB
  constexpr double gib = 1 << 30;
  const std::string small = "[[64, 128], [128, 256]]";
  for (const auto& [device, memory, why] : std::vector<std::tuple<std::string, double, std::string>>{
           {"NVIDIA H100 80GB HBM3", 79.1, "another GPU than a100-sxm4-80gb"},
           {"NVIDIA A100-PCIE-80GB", 79.1, "another GPU than a100-sxm4-80gb"},
           {"NVIDIA A100-SXM4-40GB", 39.4, "of 39.4 GiB"},
           {"AMD Instinct MI300X", 192, "another GPU than a100-sxm4-80gb"}}) {
    shell.write("step.json", recorded_on(device, memory * gib, small));
    const TopoAnswer refused = shell.trainyard(command);
    INFO(refused.err);
    CHECK(refused.exit == 2);
    CHECK(refused.err.find("step.json: recorded on \"" + device + "\", " + why) == 0);
    CHECK_THAT(refused.err, Contains("--any-gpu compares them all the same\n"));
    const json j = shell.answer(command + " --any-gpu");
    CHECK(j["gpu"] == device);
    CHECK(j["doubts"].get<std::string>().find("the trace was recorded on \"" + device) == 0);
  }
  shell.write("step.json", recorded_on("NVIDIA A100-SXM4-80GB", 79.2 * gib, small));
  const json j = shell.answer(command);
  CHECK(j["measured_product_flops"] == 2.0 * 64 * 128 * 256 / 2);  // the trace has two steps
  CHECK(j["doubts"].get<std::string>().find("its products are ") == 0);
  CHECK_THAT(shell.trainyard(command).out, Contains("another model"));
  // There is no note if the sizes agree.
  const double flops = j["predicted_product_flops"];
  shell.write("step.json", recorded_on("NVIDIA A100-SXM4-80GB", 79.2 * gib,
                                       fmt::format("[[1000, 1000], [1000, {:.0f}]]", flops * 2 / 2e6)));
  const json same = shell.answer(command);
  CHECK(same["measured_product_flops"] == Approx(flops).epsilon(1e-3));
  CHECK_FALSE(same.contains("doubts"));
  // A note says so if the trace does not show the sizes.
  shell.write("step.json", R"({"traceEvents": [)" + profile() + "]}");
  CHECK(shell.answer(command)["doubts"].get<std::string>().find(
            "the trace does not say which GPU it was recorded on") == 0);
  for (const char* name : {"h100-sxm5-80gb", "a100-pcie-80gb", "mi300x", "rtx-6000-ada", "t4"}) {
    Gpu gpu;
    gpu.name = name;
    const std::string device = std::string(name) == "h100-sxm5-80gb"   ? "NVIDIA H100 80GB HBM3"
                               : std::string(name) == "a100-pcie-80gb" ? "NVIDIA A100 80GB PCIe"
                               : std::string(name) == "mi300x"         ? "AMD Instinct MI300X OAM"
                               : std::string(name) == "rtx-6000-ada"   ? "NVIDIA RTX 6000 Ada Generation"
                                                                       : "Tesla T4";
    CHECK(other_gpu(gpu, device, 0) == "");
    CHECK(other_gpu(gpu, "NVIDIA B200", 0) == fmt::format("another GPU than {}", name));
  }
}

TEST_CASE("a summary of Nsight Systems has kernels by name, of a number of steps", "[kineto]") {
  const TraceFolder shell;
  // The columns of Nsight Systems 2021, in quotes.
  const std::string summary =
      "\"Time(%)\",\"Total Time (ns)\",\"Instances\",\"Average\",\"Minimum\",\"Maximum\",\"StdDev\",\"Name\"\n"
      "80.0,8000000,4,2000000,1,1,0,\"ampere_bf16_s16816gemm_bf16_128x256\"\n"
      "20.0,2000000,2,1000000,1,1,0,\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, int)\"\n";
  const std::string file = shell.write("sum.csv", summary).string();
  const KinetoTrace trace = read_kineto(file);
  CHECK(trace.families.at("all-reduce").begin()->second.seconds == Approx(2e-3));
  CHECK(trace.families.at("matrix products").begin()->second.count == 4);
  const std::string command = "compare " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --kineto sum.csv";
  const json j = shell.answer(command + " --steps 2");
  CHECK(j["measured_step_s"] == 0);
  for (const json& family : j["families"])
    if (family["family"] == "matrix products") CHECK(family["measured_s"] == Approx(4e-3));
  CHECK(shell.trainyard(command + " --steps 2").out.find("ms measured, ") == std::string::npos);
  shell.check_refused(command, "sum.csv: how many steps does this summary of Nsight Systems cover? --steps N expected");
  shell.write("sum.csv", summary + "1.0,none,1,1,1,1,0,\"k\"\n");
  shell.check_refused(command + " --steps 2", "sum.csv:4:5: Total Time (ns): \"none\" is not a number greater than 0");
}

TEST_CASE("bad profiles are refused with file and byte", "[kineto]") {
  const TraceFolder shell;
  const std::string command = "compare " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml --kineto ";
  shell.write("cut.json", R"({"traceEvents": [{"ph": "X", "cat": "ker)");
  const TopoAnswer cut = shell.trainyard(command + "cut.json");
  CHECK(cut.exit == 2);
  CHECK(cut.err.find("cut.json: byte 41: ") == 0);
  shell.write("none.json", R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}]})");
  shell.check_refused(command + "none.json",
                      "none.json: no kernel of a GPU is in it; a trace of torch.profiler with ProfilerActivity.CUDA, "
                      "or of nsys with --trace=cuda, expected");
  shell.write("long.json", "{\"traceEvents\": [" + event("kernel", "gemm", 1000, 1e30, ", \"stream\": 7") + "]}");
  const std::string too_long =
      "long.json: event \"gemm\" at ts 1000: dur is 1e+30 us; at most 1e+12 us (12 days) expected";
  shell.check_refused(command + "long.json", too_long);
  shell.check_replay_refused("long.json", too_long);
  shell.check_refused(command + "missing.json", "missing.json: cannot be read: no such file");
  shell.check_refused("compare a.yaml b.yaml --kineto none.json",
                      "compare --kineto: one scenario file expected, to put beside the trace");
}

}  // namespace tools_test_kineto
