#include <catch2/catch.hpp>

#include "models/fitted/kernel_fit.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace models_test_roofline_fit {

using namespace trainyard;

namespace {

Gpu test_gpu(double gemm_flops, double gemm_memory, double launch) {
  Gpu gpu;
  gpu.name = "test";
  gpu.peak[static_cast<std::size_t>(Precision::bf16)] = FlopsPerSecond{300e12};
  gpu.memory_bandwidth = BytesPerSecond{2e12};
  gpu.kernel_launch = Seconds{launch};
  gpu.efficiency.fill({gemm_flops, gemm_memory});
  return gpu;
}

Work gemm(double m, double n, double k) {
  Work w;
  w.flops = Flops{2 * m * n * k};
  w.bytes = Bytes{2 * (m * n + n * k + m * k)};
  w.kernel = static_cast<std::uint16_t>(Kernel::gemm);
  w.precision = static_cast<std::uint8_t>(Precision::bf16);
  return w;
}

/// Returns the table that a GPU with known constants would measure.
std::string gemm_table(const Gpu& truth) {
  std::string text = "gpu,dtype,m,n,k,latency_us,source\n";
  for (const double m : {1, 16, 33, 64, 256, 1024, 4096, 8192})
    for (const double n : {32, 256, 1024, 5120, 8192, 16384})
      for (const double k : {32, 128, 1024, 4096, 8192, 16384}) {
        const double us = kernel_time(truth, gemm(m, n, k)).value * 1e6;
        text += "test_gpu,bfloat16," + exact(m) + "," + exact(n) + "," + exact(k) + "," + exact(us) + ",made\n";
        text += "test_gpu,fp8," + exact(m) + "," + exact(n) + "," + exact(k) + ",1,made\n";  // must be skipped
      }
  return text + "other_gpu,bfloat16,1,1,1,1,made\n";
}

std::string error_of(const std::string& table, Kernel kernel = Kernel::gemm, const char* name = "test_gpu") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("table.csv", table);
  return test::user_error_in(file, [&] { fit_roofline(file, kernel, test_gpu(1, 1, 0), name); });
}

}  // namespace

TEST_CASE("a fit recovers the constants that made the table", "[fit]") {
  const Gpu truth = test_gpu(0.7, 0.55, 3.25e-6);
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("table.csv", gemm_table(truth));
  const RooflineFit fit = fit_roofline(file, Kernel::gemm, test_gpu(1, 1, 1e-6), "test_gpu");
  CHECK(fit.efficiency.flops == Approx(0.7).epsilon(1e-6));
  CHECK(fit.efficiency.memory == Approx(0.55).epsilon(1e-6));
  CHECK(fit.launch.value == Approx(3.25e-6).epsilon(1e-4));
  CHECK(fit.fitted > 10);
  CHECK(fit.judged > 10);
  CHECK(fit.held_out.median < 1e-4);
  CHECK(fit.held_out.p90 < 1e-4);
  CHECK(fit.held_out.median <= fit.held_out.p90);
  const RooflineFit again = fit_roofline(file, Kernel::gemm, test_gpu(1, 1, 1e-6), "test_gpu");
  CHECK(again.efficiency.flops == fit.efficiency.flops);
  CHECK(again.launch == fit.launch);
}

TEST_CASE("causal attention is counted as half of the square, with the GPU's launch time", "[fit]") {
  const double launch = 2e-6;
  std::string text = "gpu,dtype,batch,heads,kv_heads,head_dim,seq,causal,latency_us\n";
  for (const double batch : {1, 2, 4, 8, 16})
    for (const double heads : {8, 16, 32, 64})
      for (const double seq : {1024, 2048, 4096, 8192}) {
        const double us = (launch + 2 * batch * heads * seq * seq * 128 / (300e12 * 0.6)) * 1e6;
        text += "test_gpu,bfloat16," + exact(batch) + "," + exact(heads) + ",8,128," + exact(seq) + ",1," + exact(us) +
                "\n";
      }
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("table.csv", text);
  const RooflineFit fit = fit_roofline(file, Kernel::attention, test_gpu(1, 1, launch), "test_gpu");
  CHECK(fit.efficiency.flops == Approx(0.6).epsilon(1e-6));
  CHECK(fit.launch.value == launch);
  CHECK(fit.held_out.p90 < 1e-6);
}

TEST_CASE("faulty tables are refused with file and line", "[fit]") {
  const std::string header = "gpu,dtype,m,n,k,latency_us\n";
  const std::string row = "test_gpu,bfloat16,1,2,3,4\n";
  CHECK(error_of("") == ": empty");
  CHECK(error_of("gpu,dtype,m,n,latency_us\n") == ":1:1: no column \"k\"; known: gpu, dtype, m, n, latency_us");
  CHECK(error_of(header + row + "test_gpu,bfloat16,1,2,3\n") == ":3:1: 5 fields, but the header has 6");
  CHECK(error_of(header + "test_gpu,bfloat16,1,x,3,4\n") == ":2:21: n: \"x\" is not a number greater than 0");
  CHECK(error_of(header + "test_gpu,bfloat16,1,2,3,-4\n") ==
        ":2:25: latency_us: \"-4\" is not a number greater than 0");
  CHECK(error_of(header + "test_gpu,bfloat16,1,2,3,nan\n") ==
        ":2:25: latency_us: \"nan\" is not a number greater than 0");
  CHECK(error_of(header + row, Kernel::gemm, "test_gpv") ==
        ": no rows of gpu \"test_gpv\"; did you mean \"test_gpu\"?");
  CHECK(error_of(header + row).starts_with(": too few bfloat16 rows of gpu test_gpu"));
  CHECK(error_of("gpu,dtype,batch,heads,kv_heads,head_dim,seq,causal,latency_us\ntest_gpu,bfloat16,1,1,1,64,8,2,1\n",
                 Kernel::attention) == ":2:30: causal: \"2\" is neither 0 nor 1");
  CHECK(error_of(header, Kernel::optimizer).find("known: gemm, attention") != std::string::npos);
  CHECK_THROWS_WITH(fit_roofline("/nonexistent.csv", Kernel::gemm, test_gpu(1, 1, 0), "x"),
                    "/nonexistent.csv: cannot be read: no such file");
}

}  // namespace models_test_roofline_fit
