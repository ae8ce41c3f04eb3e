// PREC-01, ROOF-01, GPT3-01, GPT3-02, RES-01, RES-02: speeds of devices, and times of given work on them.
#include <fmt/format.h>

#include "models/networks/network_entry.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "tests/seeds/transfers.hpp"

namespace trainyard {
namespace {

constexpr double kSecondsOfDay = 86400, kYear = 365.25 * kSecondsOfDay, kPlainYear = 365 * kSecondsOfDay;

double tflops_of(const ClusterSpec& gpu, Precision precision) {
  constexpr Flops work{1e15};
  return work.value / work_seconds(gpu, {flops_work(work, precision)}) * 1e-12;
}

/// Checks for each GPU that fp32 has twice the rate of fp64, and fp16 at least twice the rate of fp32.
SeedFigures prec_01(const Node& inputs) {
  SeedFigures got;
  std::string holds, fails;
  const double tolerance = number_of(inputs, "tolerance");
  for (const std::string& name : words_of(inputs, "gpus")) {
    const ClusterSpec gpu = ideal_gpu(name);
    const auto has = [&gpu](Precision p) { return gpu.node.gpu.peak[static_cast<std::size_t>(p)].value > 0; };
    const double fp64 = tflops_of(gpu, Precision::fp64), fp32 = tflops_of(gpu, Precision::fp32);
    const double fp16 = has(Precision::fp16) ? tflops_of(gpu, Precision::fp16) : 0;
    got["TFLOPS " + name + " fp64"] = fp64;
    got["TFLOPS " + name + " fp32"] = fp32;
    if (fp16 > 0) got["TFLOPS " + name + " fp16"] = fp16;
    const bool rule = std::abs(fp32 / fp64 - 2) <= 2 * tolerance && fp16 >= 2 * fp32;
    std::string& list = rule ? holds : fails;
    list += (list.empty() ? "" : " ") + name;
  }
  got["rule_holds"] = holds;
  got["rule_fails"] = fails;
  return got;
}

/// Returns a GPU that reaches this peak (fp32) and this memory bandwidth.
ClusterSpec stated_gpu(double tflops, double gbps) {
  ClusterSpec gpu = star_cluster(1, BytesPerSecond{1e9});
  gpu.node.gpu.peak[static_cast<std::size_t>(Precision::fp32)] = FlopsPerSecond{tflops * 1e12};
  gpu.node.gpu.memory_bandwidth = BytesPerSecond{gbps * 1e9};
  return gpu;
}

SeedFigures roof_01(const Node& inputs) {
  const double peak = number_of(inputs, "peak_TFLOPS"), rate = number_of(inputs, "memory_GBps");
  const double elements = number_of(inputs, "relu_elements"), side = number_of(inputs, "gemm_side");
  Work relu = elementwise("relu", 2 * elements * element_size(Precision::fp32), Precision::fp32).work;
  relu.flops = Flops{elements};
  const Work product = gemm("gemm", side, side, side, Precision::fp32).work;
  const ClusterSpec gpu = stated_gpu(peak, rate), less_flops = stated_gpu(peak / 2, rate),
                    less_memory = stated_gpu(peak, rate / 2);
  const double relu_time = work_seconds(gpu, {relu}), product_time = work_seconds(gpu, {product});
  const bool relu_computes = work_seconds(less_flops, {relu}) > relu_time,
             product_moves = work_seconds(less_memory, {product}) > product_time;
  Scenario s = read_scenario_text(
      "cluster: {node: {base: pcie-1, gpu: {type: v100-sxm2-16gb}}}\nmodel: {mlp: {widths: [4, 4]}}\n"
      "plan: {precision: fp32, micro_batch_size: 1}\n",
      "roofline.yaml");
  s.cluster = gpu;
  return {{"ridge_flop_per_byte", layer_costs(s, plan(s).training, 0).ridge},
          {"relu_AI", relu.flops.value / relu.bytes.value},
          {"relu_ms", relu_time * 1e3},
          {"relu_bound", relu_computes ? "compute" : "memory"},
          {"gemm_AI", product.flops.value / product.bytes.value},
          {"gemm_ms", product_time * 1e3},
          {"gemm_bound", product_moves ? "memory" : "compute"},
          {"halving_flops_changes_relu", relu_computes},
          {"halving_bw_changes_gemm", product_moves}};
}

double seconds_at(double tflops, double flops) {
  return work_seconds(stated_gpu(tflops, 1), {flops_work(Flops{flops}, Precision::fp32)});
}

SeedFigures gpt3_01(const Node& inputs) {
  const double work = number_of(inputs, "PFLOP") * 1e15;
  const double seconds = seconds_at(number_of(inputs, "PFLOPS") * 1e3, work);
  const int gpus = static_cast<int>(number_of(inputs, "gpus"));
  // Dense work: each GPU does its share at its peak.
  const double dense =
      work_seconds(ideal_gpu(words_of(inputs, "gpu").front()), {flops_work(Flops{work / gpus}, Precision::bf16)});
  return {{"seconds", seconds}, {"years", seconds / kYear}, {"years_dense", dense / kYear}};
}

SeedFigures gpt3_02(const Node& inputs) {
  const double work = number_of(inputs, "FLOP"), years = number_of(inputs, "years");
  const double seconds_at_one = seconds_at(1, work);  // at 1 TFLOP/s
  ClusterSpec gpu = ideal_gpu(words_of(inputs, "gpu").front());
  const std::vector<Work> training{flops_work(Flops{work}, Precision::bf16)};
  const double peak = work_seconds(gpu, training);
  gpu.node.gpu.efficiency[0].flops = number_of(inputs, "sustained_TFLOPS") / tflops_of(gpu, Precision::bf16);
  return {{"implied_TFLOPS_365d", seconds_at_one / (years * kPlainYear)},
          {"implied_TFLOPS_julian", seconds_at_one / (years * kYear)},
          {"years_at_28TFLOPS", seconds_at(28, work) / kPlainYear},
          {"years_a100_peak_312T", peak / kPlainYear},
          {"years_a100_45pct_140T", work_seconds(gpu, training) / kPlainYear}};
}

Flops flops_of_image(const std::string& network) {
  const NetworkEntry entry = read_network_entry(Catalog().resolve("network", Node::scalar_node(network)));
  const Network one_image = make_network(entry, 1, 1, Precision::fp32);
  return one_image.model_flops_per_token();
}

SeedFigures res_01(const Node& inputs) {
  const double seconds = number_of(inputs, "days") * kSecondsOfDay, peak = number_of(inputs, "peak_TFLOPS");
  const double images = number_of(inputs, "images") * number_of(inputs, "epochs");
  // The share of the training time that the work would take at the peak.
  const double stated = seconds_at(peak, number_of(inputs, "FLOP")) / seconds;
  const double executed = images * flops_of_image(words_of(inputs, "model").front()).value;
  const double real = seconds_at(peak, executed) / seconds;
  return {{"seconds", seconds},
          {"implied_TFLOPS_1e18", stated * peak},
          {"implied_efficiency_of_7T", stated},
          {"implied_images_per_s", images / seconds},
          {"physical flop_fma2", executed},
          {"physical implied_TFLOPS", real * peak},
          {"physical efficiency_of_7T", real}};
}

/// Returns the time in s to read a batch from a drive.
double read_seconds(BytesPerSecond drive, Bytes batch) {
  const ClusterSpec box = cluster_of(1, fmt::format("interconnect: pcie\npcie: {{rate: 16 GB/s, latency: 0 us}}\n"
                                                    "nvme: {{count: 1, read: {} B/s, latency: 0 us}}\n",
                                                    drive.value));
  const Actor reader = host_of(box) + 1;
  return transfer_ms(box, {{reader, host_of(box), batch}}) * 1e-3;
}

SeedFigures res_02(const Node& inputs) {
  constexpr double batch = 1000;  // images
  const double images = number_of(inputs, "images") * number_of(inputs, "epochs");
  const Bytes bytes{batch * number_of(inputs, "bytes_per_image")};
  const Flops work = flops_of_image(words_of(inputs, "model").front()) * batch;
  const double read_time = read_seconds(
      read_storage(Catalog().resolve("storage", Node::scalar_node(words_of(inputs, "storage").front()))).read, bytes);
  SeedFigures got;
  std::map<std::string, double> training_times;
  for (const auto& [device, days] :
       {std::pair{"gpu", number_of(inputs, "gpu_days")}, std::pair{"tpu", number_of(inputs, "tpu_hours") / 24}}) {
    // The rate of a device that trains in that time.
    const double tflops = work.value / batch * images / (days * kSecondsOfDay) * 1e-12;
    const double step = seconds_at(tflops, work.value);
    training_times[device] = step * images / batch;
    got[fmt::format("images_per_s {}", device)] = batch / step;
    got[fmt::format("storage_MBps_needed_at_110KB_per_image {}", device)] = bytes.value / step * 1e-6;
    got[fmt::format("bottleneck {}", device)] = read_time > step ? "storage" : "compute";
  }
  got["speedup"] = training_times["gpu"] / training_times["tpu"];
  return got;
}

const RegisterSeed speed_seeds[] = {{"PREC-01", prec_01}, {"ROOF-01", roof_01}, {"GPT3-01", gpt3_01},
                                    {"GPT3-02", gpt3_02}, {"RES-01", res_01},   {"RES-02", res_02}};

}  // namespace
}  // namespace trainyard
