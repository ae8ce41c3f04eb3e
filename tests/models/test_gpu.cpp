#include <catch2/catch.hpp>

#include "models/hardware/gpu.hpp"
#include "tests/replaced_text.hpp"
#include "tests/user_errors.hpp"

namespace models_test_gpu {

using namespace trainyard;

namespace {

const char* const kGpu = R"(name: test
peak: {bf16: 100 TFLOP/s, fp32: 10 TFLOP/s}
memory_bandwidth: 1 TB/s
memory_capacity: 16 GiB
kernel_launch: 3 us
efficiency:
  gemm: {flops: 0.8, memory: 0.7}
  elementwise: {memory: 0.5}
)";

Gpu gpu_of(std::string text) { return read_gpu(parse_document(text, "x.yaml")); }

Work work(Kernel kernel, Precision precision, double flops, double bytes) {
  Work w;
  w.flops = Flops{flops};
  w.bytes = Bytes{bytes};
  w.kernel = static_cast<std::uint16_t>(kernel);
  w.precision = static_cast<std::uint8_t>(precision);
  return w;
}

}  // namespace

TEST_CASE("a kernel's time is the roofline's, to rounding", "[gpu]") {
  const Gpu gpu = gpu_of(kGpu);
  const auto time = [&](Kernel k, Precision p, double flops, double bytes) {
    return kernel_time(gpu, work(k, p, flops, bytes)).value;
  };
  CHECK(time(Kernel::gemm, Precision::bf16, 1e12, 1e9) == Approx(3e-6 + 1e12 / 80e12).epsilon(1e-12));
  CHECK(time(Kernel::gemm, Precision::fp32, 1e12, 1e9) == Approx(3e-6 + 1e12 / 8e12).epsilon(1e-12));
  CHECK(time(Kernel::gemm, Precision::bf16, 1e9, 1e9) == Approx(3e-6 + 1e9 / 0.7e12).epsilon(1e-12));
  CHECK(time(Kernel::elementwise, Precision::bf16, 0, 1e9) == Approx(3e-6 + 1e9 / 0.5e12).epsilon(1e-12));
  CHECK(time(Kernel::optimizer, Precision::fp32, 1e9, 1e9) == Approx(3e-6 + 1e9 / 1e12).epsilon(1e-12));
  CHECK(time(Kernel::convolution, Precision::bf16, 1e12, 1e9) == time(Kernel::gemm, Precision::bf16, 1e12, 1e9));
  CHECK(time(Kernel::gemm, Precision::bf16, 0, 0) == 3e-6);
  CHECK(time(Kernel::gemm, Precision::fp8, 0, 1e9) > 0);  // without arithmetic no peak is needed
}

TEST_CASE("a convolution's efficiency is that of a product unless it is stated", "[gpu]") {
  const auto share = [](const std::string& rest) {
    return gpu_of(kGpu + rest).efficiency[static_cast<std::size_t>(Kernel::convolution)].flops;
  };
  CHECK(share("") == 0.8);
  CHECK(share("  convolution: {flops: 0.6}\n") == 0.6);
}

TEST_CASE("only convolutions may execute fewer multiplications than are counted", "[gpu]") {
  const auto share = [](const std::string& rest) {
    return gpu_of(kGpu + rest).efficiency[static_cast<std::size_t>(Kernel::convolution_3x3)].flops;
  };
  CHECK(share("") == 0.8);
  CHECK(share("  convolution: {flops: 0.6}\n") == 0.6);
  CHECK(share("  convolution: {flops: 0.6}\n  convolution_3x3: {flops: 1.9}\n") == 1.9);
  CHECK(share("  convolution: {flops: 1.2}\n") == 1.2);
  CHECK_THROWS_AS(share("  convolution_3x3: {flops: 4.1}\n"), UserError);
  CHECK_THROWS_AS(share("  attention: {flops: 1.1}\n"), UserError);
}

TEST_CASE("work of a precision that the GPU lacks is refused", "[gpu]") {
  CHECK_THROWS_WITH(kernel_time(gpu_of(kGpu), work(Kernel::gemm, Precision::fp8, 1, 0)),
                    "gpu test has no fp8; it has fp32, bf16");
  CHECK_THROWS_AS(kernel_time(gpu_of(kGpu), work(static_cast<Kernel>(99), Precision::fp8, 1, 0)), InternalError);
}

TEST_CASE("precisions are parsed, and their elements have the right sizes", "[gpu]") {
  CHECK(parse_precision("bf16") == Precision::bf16);
  CHECK(std::string(name_of(Precision::tf32)) == "tf32");
  CHECK(element_size(Precision::tf32) == Bytes{4});
  CHECK(element_size(Precision::bf16) == Bytes{2});
  CHECK(element_size(Precision::fp64) == Bytes{8});
  CHECK_THROWS_WITH(parse_precision("bf61"),
                    "unknown precision \"bf61\"; known: fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8");
}

TEST_CASE("a faulty GPU is refused at its place", "[gpu]") {
  const auto error_of = [](const std::string& from, const std::string& to) {
    return test::user_error([&] { gpu_of(test::with_replaced(kGpu, from, to)); });
  };
  CHECK(error_of("flops: 0.8", "flops: 1.8") ==
        "x.yaml:7:17: gpu test: efficiency.gemm.flops: 1.8 is out of range; expected a number from 1e-06 to 1");
  CHECK(error_of("flops: 0.8", "flops: nan").find("not a number") != std::string::npos);
  CHECK(error_of("gemm:", "gem:") == "x.yaml:7:3: unknown key \"gem\" in gpu test: efficiency; did you mean \"gemm\"?");
  CHECK(error_of("memory_bandwidth: 1 TB/s\n", "") == "x.yaml:1:1: gpu test: missing key \"memory_bandwidth\"");
  CHECK(error_of("memory_bandwidth", "memory_bandwith") ==
        "x.yaml:3:1: unknown key \"memory_bandwith\" in gpu test; did you mean \"memory_bandwidth\"?");
  CHECK(error_of("bf16: 100 TFLOP/s, fp32: 10 TFLOP/s", "") ==
        "x.yaml:2:7: gpu test: peak: no precision given; known: fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8");
  CHECK(error_of("100 TFLOP/s", "100 TFLOPs").find("unknown unit \"TFLOPs\"") != std::string::npos);
  CHECK(error_of("3 us", "-3 us") == "x.yaml:5:16: gpu test: kernel_launch: \"-3 us\" must be 0 or more");
  CHECK(error_of("16 GiB", "16").find("has no unit") != std::string::npos);
}

TEST_CASE("figures of a datasheet are read, and are 0 if they are not stated", "[gpu]") {
  const Gpu bare = gpu_of(kGpu);
  CHECK(bare.kind == ChipKind::gpu);
  CHECK(bare.sms == 0);
  CHECK(bare.l2 == Bytes{0});
  CHECK(bare.clock == Hertz{0});
  CHECK(bare.power.busy == Watts{0});
  CHECK(bare.chip_links.count == 0);
  const Gpu gpu = gpu_of(std::string(kGpu) +
                         "kind: tpu\nsms: 2\nl2: 128 MiB\nclock: 1050 MHz\npower: {idle: 90 W, busy: 0.192 kW}\n"
                         "chip_links: {count: 6, rate: 400 Gbit/s}\n");
  CHECK(gpu.kind == ChipKind::tpu);
  CHECK(std::string(name_of(gpu.kind)) == "tpu");
  CHECK(gpu.sms == 2);
  CHECK(gpu.l2 == Bytes{134217728});
  CHECK(gpu.clock == Hertz{1.05e9});
  CHECK(gpu.power.idle == Watts{90});
  CHECK(gpu.power.busy == Watts{192});
  CHECK(gpu.chip_links.count == 6);
  CHECK(gpu.chip_links.rate == BytesPerSecond{50e9});
  CHECK(gpu_of(std::string(kGpu) + "chip_links: null\npower: null\n").chip_links.count == 0);
}

TEST_CASE("a faulty figure of a datasheet is refused at its place", "[gpu]") {
  const auto refused = [](const std::string& line, const std::string& error) {
    CHECK_THROWS_WITH(gpu_of(std::string(kGpu) + line + "\n"), error);
  };
  refused("kind: npu", "x.yaml:9:7: gpu test: kind: unknown value \"npu\"; did you mean \"gpu\"?");
  refused("sms: 0", "x.yaml:9:6: gpu test: sms: 0 is too small; the least is 1");
  refused("sms: 5000", "x.yaml:9:6: gpu test: sms: 5000 is too many; the most is 4096");
  refused("clock: 1.4", "x.yaml:9:8: gpu test: clock: \"1.4\" has no unit; expected a frequency such as 1410 MHz");
  refused("power: {idle: 70 W, busy: 70 W}", "x.yaml:9:15: gpu test: power.idle: not below busy");
  refused("power: {bussy: 70 W}", "x.yaml:9:9: unknown key \"bussy\" in gpu test: power; did you mean \"busy\"?");
  refused("power: {busy: -1 W}", "x.yaml:9:15: gpu test: power.busy: \"-1 W\" must be greater than 0");
  refused("chip_links: {rate: 50 GB/s}", "x.yaml:9:13: gpu test: chip_links: missing key \"count\"");
  refused("chip_links: {count: 6}", "x.yaml:9:13: gpu test: chip_links: missing key \"rate\"");
  refused("chip_links: {count: 65, rate: 1 GB/s}",
          "x.yaml:9:21: gpu test: chip_links.count: 65 is too many; the most is 64");
}

}  // namespace models_test_gpu
