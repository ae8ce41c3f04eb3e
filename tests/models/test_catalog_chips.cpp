// The peaks of the catalog's chips compared with those of their units and clocks, and with each other.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "models/fitted/measured_kernels.hpp"
#include "models/hardware/gpu.hpp"
#include "models/reading/shipped_files.hpp"

namespace models_test_catalog_chips {

using namespace trainyard;

namespace {

const Catalog& shipped() {
  static const Catalog catalog(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "models" / "catalog");
  return catalog;
}

Gpu chip(const std::string& name) { return read_gpu(shipped().resolve("gpu", parse_document(name, "x.yaml"))); }

double peak_of(const Gpu& gpu, Precision p) { return gpu.peak[static_cast<std::size_t>(p)].value; }

/// Number of fp32 lanes of an SM or compute unit. Each executes a multiply-add per clock.
int lanes_of(const Gpu& gpu) {
  static const std::map<std::string, int> lanes{
      {"kepler", 192},    {"maxwell", 128}, {"pascal", 64},  {"volta", 64},
      {"turing", 64},     {"ampere", 64},   {"hopper", 128}, {"ada", 128},
      {"blackwell", 128}, {"cdna3", 128},   {"cdna4", 128},  {"ampere-ga102", 128},
      {"cdna2", 64},      {"xe-hpc", 128},  {"rubin", 128},  {"blackwell-gb202", 128}};
  return lanes.at(gpu.architecture);
}

/// Ratio of fp32 to fp64. It is 2 for chips made for fp64.
int fp64_divisor(const Gpu& gpu) {
  static const std::map<std::string, int> divisors{
      {"kepler", 3}, {"maxwell", 32},         {"pascal", 2}, {"volta", 2},     {"turing", 32},
      {"ampere", 2}, {"hopper", 2},           {"ada", 64},   {"blackwell", 2}, {"cdna3", 2},
      {"cdna4", 2},  {"blackwell-gb202", 64}, {"cdna2", 1},  {"xe-hpc", 1}};
  return divisors.at(gpu.architecture);
}

bool near_to(double value, double expected, double share) { return std::abs(value / expected - 1) <= share; }

}  // namespace

TEST_CASE("the catalog has exactly these chips and nodes", "[catalog]") {
  const auto all_names = [](const char* kind) { return fmt::format("{}", fmt::join(shipped().names(kind), " ")); };
  CHECK(all_names("gpu") ==
        "a100-pcie-40gb a100-pcie-80gb a100-sxm4-40gb a100-sxm4-80gb a10g a30 a800-sxm4-80gb ascend-910b ascend-910c "
        "b200-sxm-180gb b300-sxm-288gb gaudi-2 gaudi-3 gb10 gb200 gb300 gh200-96gb h100-96gb-500w h100-nvl-94gb "
        "h100-pcie-80gb "
        "h100-sxm5-80gb h20-sxm-96gb h200-nvl-141gb h200-sxm-141gb h800-sxm-80gb k80-die l4 l40s m40 max-1550 "
        "mi250x-gcd mi300a "
        "mi300x mi325x mi350x mi355x p100-pcie-16gb p100-sxm2-16gb rtx-4090 rtx-5090 rtx-6000-ada rtx-pro-6000 rubin "
        "stratix-10-nx t4 tpu-7x tpu-v2 tpu-v3 tpu-v4 tpu-v5e tpu-v5p tpu-v6e trainium-1 trainium-2 trainium-3 "
        "v100-pcie-16gb v100-pcie-32gb v100-sxm2-16gb v100-sxm2-32gb v100-sxm3-32gb");
  CHECK(all_names("node") ==
        "a3-highgpu-8g a3-megagpu-8g a3-ultragpu-8g a4-highgpu-8g ascend-910b-8x aurora cloudmatrix-384 colab-t4 "
        "colab-tpu-v2 dgx-1p dgx-1v dgx-2 dgx-a100 dgx-a100-40gb dgx-b200 dgx-b300 dgx-h100 dgx-h200 dgx-spark "
        "el-capitan frontier g5.48xlarge g6.48xlarge gaudi-2-8x gaudi-3-8x gb200-nvl72 gb300-nvl72 gh200-4x "
        "grand-teton-h100 h100-nvl-2x h100-nvl-8x h200-nvl-8x hgx-a800 hgx-h20 hgx-h800 k80-gce l40s-8x mi300x-8x "
        "mi325x-8x "
        "mi350x-8x mi355x-8x nd-a100-v4 nd-h100-v5 nd-h200-v5 nd-mi300x-v5 p3.16xlarge p4d.24xlarge p4de.24xlarge "
        "p5.48xlarge p5e.48xlarge p5en.48xlarge p6-b200.48xlarge p6-b300.48xlarge pcie-1 pcie-2 pcie-3 pcie-4 pcie-5 "
        "pcie-6 pcie-7 pcie-8 rtx-5090-4x rtx-6000-ada-4x rtx-pro-6000-8x stratix-10-nx-2x t4-server t4-study "
        "tpu-7x-host tpu-v3-host tpu-v4-host tpu-v5e-host tpu-v5p-host tpu-v6e-host trn1.32xlarge trn2.48xlarge "
        "trn3-gen1 trn3-gen2 vr-nvl144 vr-nvl72");
}

TEST_CASE("the fp32 peak of a GPU is two operations per lane and clock", "[catalog]") {
  for (const std::string& name : shipped().names("gpu")) {
    const Gpu gpu = chip(name);
    if (gpu.kind != ChipKind::gpu) continue;
    INFO(name);
    REQUIRE(gpu.sms > 0);
    const double expected = 2.0 * gpu.sms * lanes_of(gpu) * gpu.clock.value;
    CAPTURE(expected, peak_of(gpu, Precision::fp32));
    // The sheet of an H20 has 44 TFLOP/s, which 78 SMs would do at 2.2 GHz.
    CHECK(near_to(peak_of(gpu, Precision::fp32), expected, name == "h20-sxm-96gb" ? 0.12 : 0.01));
  }
}

TEST_CASE("the bf16 peak of a TPU is two operations per cell of its matrix units and clock", "[catalog]") {
  const std::map<std::string, int> units{
      {"tpu-v2", 1},  {"tpu-v3", 2},   {"tpu-v4", 4}, {"tpu-v5e", 4},
      {"tpu-v5p", 4}, {"tpu-v6e", 16}, {"tpu-7x", 16}};  // number of matrix units of each TensorCore
  for (const std::string& name : shipped().names("gpu")) {
    const Gpu gpu = chip(name);
    if (gpu.kind != ChipKind::tpu) continue;
    INFO(name);
    const double expected = 2.0 * gpu.sms * units.at(name) * 128 * 128 * gpu.clock.value;
    CHECK(near_to(peak_of(gpu, Precision::bf16), expected, 0.01));
    const double fewer = name == "tpu-v2" ? 15 : 20;  // it has one matrix unit a core
    CHECK(peak_of(gpu, Precision::fp32) < peak_of(gpu, Precision::bf16) / fewer);
    CHECK(gpu.nvlink.value == 0);
  }
}

TEST_CASE("the peaks of a chip have the ratios of its architecture", "[catalog]") {
  for (const std::string& name : shipped().names("gpu")) {
    const Gpu gpu = chip(name);
    if (gpu.kind == ChipKind::asic || gpu.kind == ChipKind::fpga) continue;  // they have other ratios
    INFO(name);
    const auto peak = [&](Precision p) { return peak_of(gpu, p); };
    if (peak(Precision::fp64) > 0 && name != "h20-sxm-96gb")  // limited to 1 TFLOP/s
      CHECK(near_to(peak(Precision::fp32), peak(Precision::fp64) * fp64_divisor(gpu), 0.03));
    if (peak(Precision::bf16) > 0 && peak(Precision::fp16) > 0) CHECK(peak(Precision::bf16) == peak(Precision::fp16));
    // tf32, if a chip has it, is half of fp16.
    if (peak(Precision::tf32) > 0) CHECK(near_to(peak(Precision::fp16), 2 * peak(Precision::tf32), 0.02));
    const double bf16 = std::max(peak(Precision::fp16), peak(Precision::bf16));
    // NVIDIA announces more than four times the 16-bit rate of Rubin for 8 bits.
    if (peak(Precision::fp8) > 0 && name != "rubin") CHECK(near_to(peak(Precision::fp8), 2 * bf16, 0.02));
    if (peak(Precision::fp4) > 0) {
      const double times = peak(Precision::fp4) / peak(Precision::fp8);
      CHECK(times >= 2 * 0.98);
      CHECK(times <= (name == "rtx-5090" ? 4 : 3.2));  // Blackwell Ultra's is three times; see int8 for GeForce
      CHECK(peak(Precision::fp6) >= peak(Precision::fp8));
      CHECK(peak(Precision::fp6) <= peak(Precision::fp4));
    }
    if (peak(Precision::int8) == 0) continue;
    // GeForce halves the rate of products that accumulate in fp32, but not of integers. A TPU v4 is as fast in int8 as
    // in bf16.
    const double times = name == "rtx-4090" || name == "rtx-5090" ? 4 : name == "tpu-v4" ? 1 : 2;
    CHECK(near_to(peak(Precision::int8), times * std::max(peak(Precision::fp16), peak(Precision::bf16)), 0.02));
  }
}

TEST_CASE("only chips with tensor cores are much faster in fp16 than in fp32", "[catalog]") {
  const std::set<std::string> no_tensor_cores{"kepler", "maxwell", "pascal"};
  for (const std::string& name : shipped().names("gpu")) {
    const Gpu gpu = chip(name);
    if (gpu.kind != ChipKind::gpu) continue;
    INFO(name);
    const double ratio = peak_of(gpu, Precision::fp16) / peak_of(gpu, Precision::fp32);
    if (gpu.architecture == "pascal") CHECK(near_to(ratio, 2, 0.02));
    if (!no_tensor_cores.contains(gpu.architecture)) {
      CHECK(ratio >= 1.99);  // GeForce is the least
      CHECK(ratio <= 35);
    }
    const std::set<std::string> no_bf16{"kepler", "maxwell", "pascal", "volta", "turing"};
    CHECK((peak_of(gpu, Precision::bf16) == 0) == no_bf16.contains(gpu.architecture));
    const std::set<std::string> fp8{"hopper", "ada", "blackwell", "blackwell-gb202", "cdna3", "cdna4", "rubin"};
    CHECK((peak_of(gpu, Precision::fp8) > 0) == fp8.contains(gpu.architecture));
  }
}

TEST_CASE("memory, links and power of a chip have the sizes of its kind", "[catalog]") {
  const std::map<std::string, double> nvlinks{
      {"pascal", 20e9},     {"volta", 25e9},     {"ampere", 25e9},      {"hopper", 25e9},    {"gaudi", 25e9},
      {"trainium", 128e9},  {"blackwell", 50e9}, {"rubin", 50e9},       {"gaudi-2", 12.5e9}, {"trainium-1", 48e9},
      {"trainium-3", 32e9}, {"ascend", 28e9},    {"ascend-910c", 28e9}, {"xe-hpc", 26.5e9}};  // a link, per direction
  for (const std::string& name : shipped().names("gpu")) {
    const Gpu gpu = chip(name);
    INFO(name);
    if (gpu.nvlink.value > 0) {
      const double links = gpu.nvlink.value / nvlinks.at(gpu.architecture);
      CHECK(links == std::round(links));
      CHECK(links >= 4);
      CHECK(links <= 36);
    }
    CHECK((name.find("pcie") == std::string::npos || gpu.nvlink.value == 0));
    const double ici = gpu.chip_links.count * gpu.chip_links.rate.value;
    CHECK(ici < gpu.memory_bandwidth.value);
    CHECK((gpu.chip_links.count > 0) == (gpu.kind == ChipKind::tpu || name.starts_with("mi")));
    CHECK(gpu.power.busy > gpu.power.idle);
    CHECK(gpu.power.idle > Watts{0});
    CHECK(gpu.power.busy >= Watts{70});
    CHECK(gpu.power.busy <= Watts{1800});
    if (gpu.kind == ChipKind::gpu) CHECK(gpu.power.idle < 0.45 * gpu.power.busy);
    if (gpu.kind == ChipKind::gpu) CHECK(gpu.l2 >= Bytes{1.5 * 1048576});
    CHECK(gpu.l2 <= Bytes{(name == "max-1550" ? 408 : 128) * 1048576.0});
  }
}

TEST_CASE("the memory of a chip is stated in units of 2^30 bytes, or as a tool lists it", "[catalog]") {
  // Makers write GB of HBM and mean GiB. nvidia-smi and XLA show the memory without the part that the chip reserves.
  const std::map<std::string, double> gib{
      {"mi355x", 288},    {"mi325x", 256},    {"mi300x", 192},    {"tpu-v5p", 95.74}, {"tpu-v6e", 32},
      {"tpu-v5e", 16},    {"trainium-2", 96}, {"gaudi-3", 128},   {"mi350x", 288},    {"mi300a", 128},
      {"mi250x-gcd", 64}, {"tpu-7x", 192},    {"trainium-1", 32}, {"trainium-3", 144}};
  for (const std::string& name : shipped().names("gpu")) {
    INFO(name);
    const Node entry = shipped().resolve("gpu", parse_document(name, "x.yaml"));
    const Node* memory = entry.find("memory_capacity");
    const Node* figure = memory->find("value") ? memory->find("value") : memory;
    CHECK(figure->scalar.ends_with("iB"));
    const auto stated = gib.find(name);
    if (stated != gib.end()) CHECK(near_to(chip(name).memory_capacity.value, stated->second * 1073741824.0, 1e-9));
  }
  CHECK(chip("tpu-v2").memory_bandwidth == BytesPerSecond{700e9});
  CHECK(chip("tpu-v2").memory_bandwidth < chip("tpu-v3").memory_bandwidth);
  CHECK(chip("trainium-2").nvlink == BytesPerSecond{640e9});  // 1.28 TB/s in both directions
  CHECK(near_to(peak_of(chip("a10g"), Precision::fp32), 35e12, 0.01));
  CHECK(near_to(peak_of(chip("h20-sxm-96gb"), Precision::fp32), 44e12, 0.01));
}

TEST_CASE("chips that differ in a few figures share the others", "[catalog]") {
  const Gpu sxm = chip("a100-sxm4-80gb"), pcie = chip("a100-pcie-40gb"), volta = chip("v100-pcie-32gb");
  CHECK(pcie.peak == sxm.peak);
  CHECK(pcie.sms == sxm.sms);
  CHECK(pcie.l2 == sxm.l2);
  CHECK(pcie.memory_bandwidth == BytesPerSecond{1555e9});
  CHECK(pcie.nvlink.value == 0);
  CHECK(pcie.measured_as.empty());
  CHECK(pcie.power.busy == Watts{250});
  CHECK(volta.peak == chip("v100-pcie-16gb").peak);
  CHECK(volta.memory_capacity > chip("v100-pcie-16gb").memory_capacity * 1.9);
  CHECK(chip("h200-sxm-141gb").peak == chip("h100-sxm5-80gb").peak);
  CHECK(chip("gb200").l2 == chip("b200-sxm-180gb").l2);
}

/// Share of the memory bandwidth that kernels of PyTorch reach on a chip, `bytes` an element: the geometric mean of those
/// of 2^25 elements or more in rows of at most 8,192.
double measured_share(const std::string& chip_name, const std::string& kernel, double bytes) {
  std::ifstream table(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios/measured/tables/pytorch_kernels.csv");
  const std::string beginning = chip_name.substr(0, 4) + "," + kernel + ",rows";
  double logs = 0;
  int count = 0;
  for (std::string line; std::getline(table, line);) {
    double rows = 0, width = 0, us = 0;
    if (!line.starts_with(beginning) ||
        std::sscanf(line.c_str() + beginning.size(), "%lf d%lf,%lf", &rows, &width, &us) != 3 ||
        rows * width < 1 << 25 || width > 8192)
      continue;
    logs += std::log(bytes * rows * width / (us * 1e-6) / chip(chip_name).memory_bandwidth.value);
    ++count;
  }
  REQUIRE(count == 3);
  return std::exp(logs / count);
}

double memory_share(const std::string& name, Kernel kernel) {
  return chip(name).efficiency[static_cast<std::size_t>(kernel)].memory;
}

TEST_CASE("strided and mixed kernels have the measured rate on Hopper, and other chips that of elementwise kernels",
          "[catalog]") {
  for (const char* name : {"h100-sxm5-80gb", "h200-sxm-141gb"}) {
    CAPTURE(name);
    const double cast = measured_share(name, "cast,bf16->fp32", 6), sum = measured_share(name, "add,fp32+bf16", 10);
    CHECK(memory_share(name, Kernel::strided) == Approx(std::sqrt(cast * sum)).epsilon(0.01));
  }
  CHECK(memory_share("a100-sxm4-80gb", Kernel::strided) == memory_share("a100-sxm4-80gb", Kernel::elementwise));
  const double rate = memory_share("h200-sxm-141gb", Kernel::strided) * 4.8 * 148 / 132;
  CHECK(memory_share("b200-sxm-180gb", Kernel::strided) == Approx(rate / 8).epsilon(0.015));
}

TEST_CASE("kernels that memory bounds take a time for bytes and one for instructions on Blackwell", "[catalog]") {
  // An H100 and an H200 have the same SMs. Time for a byte: a / bandwidth + b / SMs.
  for (const Kernel kernel : {Kernel::elementwise, Kernel::optimizer}) {
    CAPTURE(name_of(kernel));
    const auto time = [&](const char* name) {
      return 1 / (memory_share(name, kernel) * chip(name).memory_bandwidth.value);
    };
    const auto inverse = [](const char* name) { return 1 / chip(name).memory_bandwidth.value; };
    const double first = time("h100-sxm5-80gb"), second = time("h200-sxm-141gb");
    const double a = (first - second) / (inverse("h100-sxm5-80gb") - inverse("h200-sxm-141gb"));
    const double b = (first - a * inverse("h100-sxm5-80gb")) * chip("h100-sxm5-80gb").sms;
    for (const char* name : {"b200-sxm-180gb", "gb200"}) {
      CAPTURE(name);
      const double all = a * inverse(name) + b / chip(name).sms;
      CHECK(memory_share(name, kernel) == Approx(1 / (all * chip(name).memory_bandwidth.value)).epsilon(0.025));
    }
  }
}

TEST_CASE("products of AMD's chips have the median of the tuned kernels, and their peak the fastest one", "[catalog]") {
  const std::filesystem::path tables = shipped_file("scenarios/measured/tables/gemm.csv").parent_path();
  const auto error = [&](const char* name, const char* dtype, Precision precision) {
    const Gpu gpu = chip(name);
    std::vector<double> logarithms;
    for (const MeasuredKernel& row : read_narrow_products(tables / "gemm_narrow.csv", name, dtype, precision))
      if (row.work.flops.value >= 1e10) logarithms.push_back(std::log(predicted_time(gpu, row) / row.measured));
    std::ranges::sort(logarithms);
    return sorted_quantile(logarithms, 0.5);
  };
  CHECK(std::abs(error("mi355x", "fp8_uncast", Precision::fp8)) < 0.02);
  CHECK(std::abs(error("mi355x", "fp8_block_uncast", Precision::fp8)) < 0.03);
  CHECK(std::abs(error("mi355x", "mxfp4_uncast", Precision::fp4)) < 0.02);
  CHECK(std::abs(error("mi325x", "int8_uncast", Precision::fp8)) < 0.05);
  CHECK(std::abs(error("mi325x", "fp8_block_uncast", Precision::fp8)) < 0.03);
  double fastest = 0;
  const MeasuredKernels products = read_products(tables / "gemm.csv", chip("mi355x"), "mi355x");
  for (const std::vector<MeasuredKernel>* half : {&products.fitted, &products.judged})
    for (const MeasuredKernel& row : *half) fastest = std::max(fastest, row.work.flops.value / row.measured.value);
  CHECK(chip("mi355x").gemm.peak == Approx(fastest / peak_of(chip("mi355x"), Precision::bf16)).epsilon(0.002));
  CHECK(chip("mi325x").gemm.peak == Approx(784.9 / 1307.4).epsilon(0.002));
  CHECK(chip("mi300x").gemm.peak == Approx(668.4 / 1307.4).epsilon(0.002));
  // Attention has 0.69 of the rate of the fastest product on each. An MI350X is an MI355X at a lower clock.
  const auto rate = [](const char* name, Kernel kernel) {
    return chip(name).efficiency[static_cast<std::size_t>(kernel)].flops * peak_of(chip(name), Precision::bf16);
  };
  const double share = 928.4 / 0.84 / 1597;
  CHECK(rate("mi355x", Kernel::attention) == Approx(928.4e12 / 0.84).epsilon(0.002));
  CHECK(rate("mi325x", Kernel::attention) == Approx(share * 784.9e12).epsilon(0.005));
  CHECK(rate("mi300x", Kernel::attention) == Approx(share * 668.4e12).epsilon(0.005));
  const double slower = 732.6 / 928.4;
  CHECK(rate("mi350x", Kernel::attention) == Approx(slower * rate("mi355x", Kernel::attention)).epsilon(0.002));
  CHECK(chip("mi350x").gemm.l2_feed.value == Approx(slower * chip("mi355x").gemm.l2_feed.value).epsilon(0.002));
  CHECK(chip("mi350x").gemm.peak * peak_of(chip("mi350x"), Precision::bf16) ==
        Approx(slower * chip("mi355x").gemm.peak * peak_of(chip("mi355x"), Precision::bf16)).epsilon(0.002));
}

}  // namespace models_test_catalog_chips
