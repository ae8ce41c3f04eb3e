// Times of matrix products by shape, and the fit of their constants.
#include <catch2/catch.hpp>

#include "models/fitted/kernel_fit.hpp"
#include "models/hardware/shape_numbers.hpp"
#include "models/networks/layers/layer_builder.hpp"
#include "tests/temporary_folder.hpp"

namespace models_test_gemm {

using namespace trainyard;

namespace {

Gpu tiled_gpu() {
  Gpu gpu;
  gpu.name = "test";
  gpu.peak[static_cast<std::size_t>(Precision::bf16)] = FlopsPerSecond{300e12};
  gpu.peak[static_cast<std::size_t>(Precision::fp8)] = FlopsPerSecond{600e12};
  gpu.memory_bandwidth = BytesPerSecond{2e12};
  gpu.kernel_launch = Seconds{2e-6};
  gpu.sms = 100;
  gpu.l2 = Bytes{40e6};
  gpu.gemm.is_given = true;
  gpu.gemm.peak = 0.9;
  gpu.gemm.memory = 0.8;
  gpu.gemm.l2_feed = BytesPerSecond{5e12};
  gpu.gemm.split = Seconds{3e-6};
  gpu.gemm.throttle = 0.2;
  gpu.gemm.throttle_after = Seconds{500e-6};
  gpu.gemm.exposed_output = 0.5;
  return gpu;
}

double time(const Gpu& gpu, double m, double n, double k) { return product_time(gpu, {m, n, k}).value; }

std::string table_of(const Gpu& truth) {
  std::string text = "gpu,dtype,m,n,k,latency_us\n";
  for (const double m : {1, 16, 33, 64, 256, 1000, 4096, 8192})
    for (const double n : {32, 256, 1024, 5120, 8192})
      for (const double k : {128, 1024, 4096, 16384})
        text += "test,bfloat16," + exact(m) + "," + exact(n) + "," + exact(k) + "," +
                exact(time(truth, m, n, k) * 1e6) + "\n";
  return text;
}

}  // namespace

TEST_CASE("a product takes the time of its waves of tiles", "[gemm]") {
  Gpu gpu = tiled_gpu();
  gpu.gemm.throttle = 0;
  // 100 tiles of 256 x 128 fill the SMs once; another row of tiles needs another wave.
  const double one = time(gpu, 2560, 1280, 8192), two = time(gpu, 2816, 1280, 8192);
  CHECK(two > 1.2 * one);  // for 1.1 times the FLOPs
  const double flops = 2.0 * 2560 * 1280 * 8192;
  CHECK(one > flops / (300e12 * 0.9));
  CHECK(one < 1.2 * flops / (300e12 * 0.9));
  // A product of few tiles is split along its inner dimension: far faster than all steps on one SM.
  CHECK(time(gpu, 64, 64, 65536) < 64.0 * 64 * 65536 * 2 / (300e12 / 100) / 4);
}

TEST_CASE("a product of few rows takes the time to read its weights from memory", "[gemm]") {
  const Gpu gpu = tiled_gpu();
  const double weights = 2.0 * 8192 * 16384;
  CHECK(time(gpu, 16, 8192, 16384) == Approx(weights / (2e12 * 0.8)).epsilon(0.15));
  const KernelCall call = gemm("few", 16, 8192, 16384, Precision::bf16);
  CHECK(memory_time(gpu, call.work).value == Approx((kernel_time(gpu, call.work) - gpu.kernel_launch).value));
  const Work many = gemm("many", 8192, 8192, 8192, Precision::bf16).work;
  CHECK(memory_time(gpu, many) < 0.05 * kernel_time(gpu, many));
}

TEST_CASE("in short tests only long products slow down, in long runs all products do", "[gemm]") {
  Gpu gpu = tiled_gpu();
  const auto rate = [](const Gpu& g, double m) { return 2 * m * 8192 * 8192 / (time(g, m, 8192, 8192) - 2e-6); };
  Gpu cool = gpu;
  cool.gemm.throttle = 0;
  CHECK(rate(gpu, 65536) < 0.87 * rate(cool, 65536));
  CHECK(time(gpu, 256, 1024, 1024) < 1.02 * time(cool, 256, 1024, 1024));
  gpu.gemm.sustained = 0.7;
  const Gpu hot = sustained_gpu(gpu);
  CHECK(hot.gemm.clock == 0.7);
  CHECK(rate(hot, 65536) == Approx(rate(hot, 12800)).epsilon(0.03));
}

TEST_CASE("products in 4 bits slow down less in long runs, and products with block scales are slower", "[gemm]") {
  Gpu gpu = tiled_gpu();
  gpu.peak[static_cast<std::size_t>(Precision::fp4)] = FlopsPerSecond{1200e12};
  gpu.gemm.fp4 = 0.6;
  gpu.gemm.throttle = 0;
  gpu.gemm.sustained = 0.5;
  const auto rate = [](const Gpu& g, Precision precision, bool in_blocks = false) {
    const KernelCall call = gemm("large", 16384, 8192, 8192, precision, 1, false, in_blocks);
    return call.work.flops.value / (kernel_time(g, call.work) - g.kernel_launch).value;
  };
  const double short_ratio = rate(gpu, Precision::fp4) / rate(gpu, Precision::bf16);
  CHECK(rate(sustained_gpu(gpu), Precision::fp4) / rate(sustained_gpu(gpu), Precision::bf16) ==
        Approx(short_ratio).epsilon(0.02));
  gpu.gemm.sustained_fp4 = 0.9;
  CHECK(rate(gpu, Precision::fp4) / rate(gpu, Precision::bf16) == Approx(short_ratio));  // short tests keep their rate
  CHECK(rate(sustained_gpu(gpu), Precision::fp4) / rate(sustained_gpu(gpu), Precision::bf16) ==
        Approx(short_ratio * 0.9 / 0.5).epsilon(0.03));
  const double short_fp8 = rate(gpu, Precision::fp8) / rate(gpu, Precision::bf16);
  gpu.gemm.sustained_fp8 = 0.6;
  CHECK(rate(gpu, Precision::fp8) / rate(gpu, Precision::bf16) == Approx(short_fp8));
  CHECK(rate(sustained_gpu(gpu), Precision::fp8) / rate(sustained_gpu(gpu), Precision::bf16) ==
        Approx(short_fp8 * 0.6 / 0.5).epsilon(0.03));
  CHECK(rate(gpu, Precision::fp8, true) == rate(gpu, Precision::fp8));
  gpu.gemm.fp8_block = 0.9;
  CHECK(rate(gpu, Precision::fp8, true) == Approx(0.9 * rate(gpu, Precision::fp8)).epsilon(0.02));
  CHECK(rate(gpu, Precision::bf16, true) == rate(gpu, Precision::bf16));
}

TEST_CASE("a shape has one number, and always the same time", "[gemm]") {
  CHECK(kernel_of(GemmShape{3, 5, 7, 2}) == kernel_of(GemmShape{3, 5, 7, 2}));
  CHECK(kernel_of(GemmShape{3, 5, 7, 2}) != kernel_of(GemmShape{3, 5, 7, 3}));
  CHECK(shape_of(kernel_of(GemmShape{3, 5, 7, 2})) == GemmShape{3, 5, 7, 2});
  const Gpu gpu = tiled_gpu();
  const Work work = gemm("again", 640, 1280, 512, Precision::bf16).work;
  const Seconds first = kernel_time(gpu, work);
  CHECK(kernel_time(gpu, work) == first);
  Gpu faster = gpu;
  faster.gemm.peak = 1;
  CHECK(kernel_time(faster, work) < first);
}

TEST_CASE("kernels that are priced at once take no lasting numbers, however many there are", "[gemm]") {
  const Gpu gpu = tiled_gpu();
  const std::uint16_t before = kernel_of(GemmShape{11, 13, 17, 19});
  for (int m = 1; m <= 40000; ++m) {
    const TemporaryShapes temporary;
    const GemmShape shape{static_cast<double>(m), 12345, 77, 1};
    CHECK(shape_of(kernel_of(shape)) == shape);
    if (m % 8000 != 0) continue;
    const Work work = gemm("once", m, 12345, 77, Precision::bf16).work;
    CHECK(kernel_time(gpu, work) > Seconds{});
    CHECK(kernel_of(GemmShape{11, 13, 17, 19}) == before);  // a shape that lasts keeps its number
  }
  CHECK(kernel_of(GemmShape{11, 13, 17, 23}) <= before + 1);
  std::uint16_t lost = 0;
  {
    const TemporaryShapes temporary;
    lost = kernel_of(GemmShape{21, 22, 23, 24});
  }
  CHECK_THROWS_AS(shape_of(lost), InternalError);
}

TEST_CASE("a shape that is priced at once takes as long as one with a lasting number", "[gemm]") {
  const Gpu gpu = tiled_gpu();
  Seconds once;
  {
    const TemporaryShapes temporary;
    once = kernel_time(gpu, gemm("once", 777, 1280, 512, Precision::bf16).work);
  }
  CHECK(kernel_time(gpu, gemm("lasting", 777, 1280, 512, Precision::bf16).work) == once);
}

TEST_CASE("numbers of shapes are freed between answers once half of them are taken", "[gemm]") {
  constexpr std::uint16_t first = 100;
  ShapeNumbers<GemmShape> numbers(first, 1000 + ShapeNumbers<GemmShape>::kTemporary, "test products");
  const auto shape = [](int m) { return GemmShape{static_cast<double>(m), 2, 3, 4}; };
  for (int m = 1; m < 500; ++m) CHECK(numbers.number_of(shape(m)) == first + m - 1);
  CHECK_FALSE(numbers.free_if_half_full());
  CHECK(numbers.number_of(shape(1)) == first);
  numbers.number_of(shape(500));
  CHECK(numbers.free_if_half_full());
  CHECK_THROWS_AS(numbers.shape_of(first), InternalError);
  for (int m = 0; m < 1000; ++m) numbers.number_of(shape(2000 + m));
  CHECK_THROWS_WITH(numbers.number_of(shape(5000)), "more than 1000 shapes of test products in one process");
}

TEST_CASE("products of experts one after another leave SMs idle, and a grouped kernel fills them", "[gemm]") {
  const Gpu gpu = tiled_gpu();
  const auto seconds = [&gpu](double rows, bool in_turn, double experts) {
    return gemm_time(gpu.gemm,
                     {gpu.peak[static_cast<std::size_t>(Precision::bf16)], gpu.memory_bandwidth, gpu.l2, gpu.sms},
                     {rows, 3072, 5120, experts, in_turn}, Bytes{2})
        .total.value;
  };
  CHECK(seconds(600, true, 20) == Approx(20 * seconds(600, false, 1)).epsilon(1e-12));
  CHECK(seconds(600, true, 20) > 1.05 * seconds(600, false, 20));
  CHECK(seconds(600, true, 1) == seconds(600, false, 1));
}

TEST_CASE("products in fp8 are faster, and a cast comes before them", "[gemm][fp8]") {
  const Gpu gpu = tiled_gpu();
  const auto layer = [](bool fp8) {
    LayerBuilder b("layer", 4096, Precision::bf16);
    b.set_fp8({fp8});
    b.linear({.name = "fc", .in = 4096, .out = 8192});
    return std::move(b).build(Bytes{1});
  };
  const Layer wide = layer(false), narrow = layer(true);
  REQUIRE(wide.forward.size() == 1);
  REQUIRE(narrow.forward.size() == 2);
  CHECK(narrow.forward.front().name == "fc.cast");
  CHECK(narrow.backward.size() == wide.backward.size() + 1);
  CHECK(kernel_time(gpu, narrow.forward.back().work) < 0.7 * kernel_time(gpu, wide.forward.back().work));
  CHECK(narrow.activations() == wide.activations() / 2);  // the input is kept in fp8
}

TEST_CASE("the fit finds the constants that a table was made with", "[gemm][fit]") {
  const test::TemporaryFolder folder;
  const Gpu truth = tiled_gpu();
  Gpu unknown = truth;
  unknown.gemm = {};
  const MeasuredKernels rows = read_products(folder.write("gemm.csv", table_of(truth)), unknown, "test");
  CHECK(rows.impossible.empty());
  const KernelFit fit = fit_kernel(Kernel::gemm, rows, unknown);
  CHECK(fit.held_out.median < 0.02);
  CHECK(fit.held_out.p90 < 0.06);
  CHECK(fit.gpu.kernel_launch.value == Approx(2e-6).epsilon(0.2));
  CHECK(fit_kernel(Kernel::gemm, rows, unknown).gpu.gemm.peak == fit.gpu.gemm.peak);
}

TEST_CASE("impossible rows in a table of products are named by their lines", "[gemm][fit]") {
  const test::TemporaryFolder folder;
  const Gpu gpu = tiled_gpu();
  const auto read = [&](const std::string& text) { return read_products(folder.write("gemm.csv", text), gpu, "test"); };
  const MeasuredKernels rows = read(table_of(gpu) + "test,bfloat16,8192,8192,8192,10\n");
  REQUIRE(rows.impossible.size() == 1);
  CHECK_THAT(rows.impossible.front(), Catch::Contains("gemm.csv:162: ") && Catch::Contains("above the 300 TFLOP/s"));
  CHECK_THROWS_WITH(read("gpu,dtype,m,n,k,latency_us\ntest,bfloat16,1,1,1,1\n"), Catch::Contains("too few"));
  CHECK_THROWS_WITH(read("gpu,dtype,m,n,k,latency_us\ntest,bfloat16,1,-1,1,1\n"), Catch::Contains("gemm.csv:2:17"));
  CHECK_THROWS_WITH(read("gpu,dtype,m,n,latency_us\n"), Catch::Contains("no column \"k\""));
  CHECK_THROWS_WITH(read("gpu,dtype,m,n,k,latency_us\ntset,bfloat16,1,1,1,1\n"), Catch::Contains("did you mean"));
}

}  // namespace models_test_gemm
