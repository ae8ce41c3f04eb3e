// Logs of nccl-tests as users post them: versions, launchers, other lines; and files that are no such logs.
#include <catch2/catch.hpp>

#include "models/fitted/nccl_fit.hpp"
#include "models/fitted/nccl_log.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace models_test_nccl_log {

using namespace trainyard;

namespace {

NcclLog read(const std::string& text, const NcclLogHints& hints = {}) {
  const test::TemporaryFolder folder;
  const std::vector<NcclLog> logs = read_nccl_logs(folder.write("run.log", text), hints);
  REQUIRE(logs.size() == 1);
  return logs.front();
}

std::string error_of(const std::string& text, const NcclLogHints& hints = {}, const char* name = "run.log") {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.write(name, text);
  return test::user_error_in(file, [&] { read_nccl_logs(file, hints); });
}

const std::string kHead =
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";

std::string ranks(int gpus, const std::string& device, const std::string& prefix = "", int a_node = 8) {
  std::string text = prefix + "# Using devices\n";
  for (int r = 0; r < gpus; ++r)
    text += prefix + "#  Rank  " + std::to_string(r) + " Group  0 Pid   " + std::to_string(1234 + r) + " on    node" +
            std::to_string(r / a_node) + " device  " + std::to_string(r % a_node) + " [0x1b] " + device + "\n";
  return text;
}

}  // namespace

TEST_CASE("a log of a present nccl-tests is read with its version, GPU, operation and times", "[nccl]") {
  const NcclLog log = read(
      "# nccl-tests version 2.17.6 nccl-headers=22907 nccl-library=22907\n"
      "# Collective test starting: all_gather_perf\n"
      "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n#\n" +
      ranks(8, "NVIDIA H100 80GB HBM3") + "#\n" + kHead +
      "           0             0     float    none      -1     0.12    0.00    0.00      0     0.13    0.00    0.00   "
      "   0\n"
      "        1024            32     float    none      -1    10.40    0.10    0.09      0    10.35    0.10    0.09   "
      "   0\n"
      "   536870912      16777216     float    none      -1   1399.7  383.56  335.61      0   1398.1  384.01  336.01   "
      "   0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 167.85\n");
  CHECK(log.version == "2.29.7");
  CHECK(log.gpu == "NVIDIA H100 80GB HBM3");
  REQUIRE(log.rows.size() == 2);  // a row of size 0 is ignored
  CHECK(log.rows[0].operation == NcclOperation::all_gather);
  CHECK(log.rows[0].gpus == 8);
  CHECK(log.rows[1].size == Bytes{536870912});
  CHECK(log.rows[1].time.value == Approx(1399.7e-6));  // out of place
}

TEST_CASE("reductions are recognized in a log without the program's name", "[nccl]") {
  const NcclLog log =
      read("# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor)\n" + ranks(8, "NVIDIA A100-SXM4-80GB") +
           "node0:1234:1234 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\nNCCL version 2.20.3+cuda12.3\n" + kHead +
           "           8             2     float     sum      -1    21.90    0.00    0.00      0    21.65    0.00    "
           "0.00      0\n"
           "node0:1234:1250 [0] NCCL INFO comm 0x55 rank 0 nranks 8\n"
           "   134217728      33554432     float     sum      -1   1162.0  115.51  202.14      0   1166.0  115.11  "
           "201.44    N/A\n");
  CHECK(log.version == "2.20.3");
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].operation == NcclOperation::all_reduce);  // by the row of 128 MiB
  CHECK(log.rows[1].operation == NcclOperation::all_reduce);
}

TEST_CASE("the table of old versions is read, and so are several programs in one file", "[nccl]") {
  const NcclLog log = read(
      "$ ./reduce_scatter_perf -g 4\n# nThread 1 nGpus 4 minBytes 33554432 maxBytes 33554432 step: 1048576(bytes)\n"
      "#   Rank  0 Pid  29565 on      server device  0 [0x01] A40\n#   Rank  3 Pid  29565 on      server device  3 "
      "[0x61] A40\n"
      "#                                                     out-of-place                       in-place\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "    33554432       8388608   float     sum   4100.0    8.18    6.14  0e+00   4090.0    8.20    6.15  0e+00\n"
      "$ ./alltoall_perf -g 2\n# nThread 1 nGpus 2 minBytes 8\n" +
      kHead +
      "     1048576        131072     float    none      -1    25.00   41.94   20.97      0    25.10   41.78   20.89   "
      " N/A\n");
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].operation == NcclOperation::reduce_scatter);
  CHECK(log.rows[0].gpus == 4);
  CHECK(log.rows[1].operation == NcclOperation::alltoall);
  CHECK(log.rows[1].gpus == 2);  // from nGpus: this log has no ranks
}

TEST_CASE("prefixes of launchers are removed, and nodes are counted", "[nccl]") {
  for (const char* before : {"[1,0]<stdout>:", "[0] ", "0: "}) {
    const std::string prefix = before;
    INFO(prefix);
    std::string text = "mpirun -np 16 ./sendrecv_perf -b 8\n" + prefix + "# nThread 1 nGpus 1 minBytes 8\n" +
                       ranks(16, "NVIDIA B200", prefix);
    text += prefix +
            "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
            "algbw   busbw #wrong\n";
    text += prefix +
            "     1048576        262144     float     sum      -1    81.00   12.95   12.95      0      N/A     "
            "N/A     N/A    N/A\n";
    const NcclLog log = read(text);
    REQUIRE(log.rows.size() == 1);
    CHECK(log.rows[0].operation == NcclOperation::sendrecv);
    CHECK(log.rows[0].gpus == 16);
    CHECK(log.rows[0].nodes == 2);
  }
}

TEST_CASE("hints replace facts that a log does not contain", "[nccl]") {
  const std::string row =
      "     1048576        262144     float     sum      -1    81.00   12.95   12.95      0    80.00   13.11   13.11   "
      "   0\n";
  const NcclLog log = read(kHead + row, {4, "broadcast"});
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].operation == NcclOperation::broadcast);
  CHECK(log.rows[0].gpus == 4);
  CHECK(error_of(kHead + row) == ":4:6: how many GPUs? The log has no \"# Rank\" lines; give --gpus N");
  CHECK(error_of(kHead + row, {2, ""}) ==
        ":4:1: which operation? The log names no program such as all_reduce_perf; give --operation NAME (bench), or "
        "write "
        "its name into the log's first line");
  CHECK(error_of(kHead + row, {4, "allreduce"}) == "unknown operation \"allreduce\"; did you mean \"all_reduce\"?");
}

TEST_CASE("files that are no logs of nccl-tests are refused with file, line and the expected content", "[nccl]") {
  const std::string expected =
      ": no nccl-tests log: expected its table, headed \"size count type redop root time algbw busbw\", or nccl.csv's "
      "columns (gpu, nccl_version, op, num_gpus, message_bytes, latency_us)";
  CHECK(error_of("") == ":1:1" + expected);
  CHECK(error_of("Hello.\nThis is a letter.\n") == ":2:1" + expected);
  CHECK(error_of(std::string("\x7f"
                             "ELF\x02\x01\0\0\0\n\xff\xfe",
                             12)) == ":2:1" + expected);
  CHECK(error_of("# nThread 1 nGpus 8 minBytes 8\n" + kHead) ==
        ":3:1: the table has no rows; expected size, count, …, time, algbw, busbw");
  CHECK(error_of(kHead + "1024 256 float sum -1 9.9\n", {8, ""}) ==
        ":4:1: 6 columns, but the table's header has 13: size count type redop root time algbw busbw #wrong time algbw "
        "busbw #wrong");
  CHECK(error_of(kHead + "1024 256 float sum -1 fast 0.1 0.2 0 9.9 0.1 0.2 0\n", {8, ""}) ==
        ":4:23: time: \"fast\" is not a number greater than 0");
  CHECK(error_of("gpu,op\n", {}, "nccl.csv") == ":1:1: no column \"nccl_version\"; known: gpu, op");
  const std::string columns = "gpu,nccl_version,op,num_gpus,message_bytes,latency_us\n";
  CHECK(error_of(columns) == ": no rows");
  CHECK(
      error_of(columns + "a,2.1,all_redux,2,8,9\n").starts_with(":2:7: unknown operation \"all_redux\"; did you mean"));
  CHECK(error_of(columns + "a,2.1,all_reduce,two,8,9\n") ==
        ":2:18: num_gpus: \"two\" is not a whole number from 2 to 20000");
  CHECK(error_of(columns + "a,2.1,all_reduce,2,8,0\n") == ":2:22: latency_us: \"0\" is not a number greater than 0");
  CHECK_THROWS_WITH(read_nccl_logs("/nonexistent.log", {}), "/nonexistent.log: cannot be read: no such file");
}

TEST_CASE("a fit finds the protocols that made a log, and keeps some sizes out", "[nccl]") {
  Gpu gpu;
  gpu.name = "test";
  gpu.architecture = "ampere";
  gpu.nvlink = BytesPerSecond{300e9};
  NcclLog log{"made.log", "test", "2.1", "", {}};
  const NcclProtocol ll{Seconds{8e-6}, BytesPerSecond{10e9}}, ll128{Seconds{10e-6}, BytesPerSecond{100e9}},
      simple{Seconds{30e-6}, BytesPerSecond{200e9}};
  for (double size = 512; size < 2e9; size *= 2) {
    const Bytes wire = nccl_wire(NcclOperation::all_reduce, Bytes{size}, 4);
    const Seconds time = std::min({ll.time(wire), ll128.time(wire), simple.time(wire)});
    log.rows.push_back({NcclOperation::all_reduce, 4, 1, Bytes{size}, time});
  }
  const NcclFit fit = fit_nccl({log}, gpu, "test");
  CHECK(fit.judged.rows == 11);
  CHECK(fit.judged.median < 0.01);
  CHECK(fit.judged.p90 < 0.05);
  const NcclCurve& curve = fit.model.curves.at(NcclOperation::all_reduce).front();
  CHECK(curve.simple.rate.value == Approx(200e9).epsilon(0.02));
  CHECK(fit_nccl({log}, gpu, "test").entry == fit.entry);
  log.rows.resize(2);
  CHECK_THROWS_WITH(fit_nccl({log}, gpu, "test"), "all_reduce on 4 GPUs: 2 sizes; expected 3 or more to fit");
  for (NcclRow& row : log.rows) row.nodes = 2;
  CHECK_THROWS_WITH(fit_nccl({log}, gpu, "test"), "made.log: only rows between nodes; a fit needs rows within one");
}

}  // namespace models_test_nccl_log
