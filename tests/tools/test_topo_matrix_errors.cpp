// `trainyard topo import` refuses bad output of `nvidia-smi topo -m`, and then writes nothing.
#include "tests/replaced_text.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tests/tools/topology_prints.hpp"

namespace tools_test_topo_matrix_errors {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("topo import refuses bad prints, and names the place", "[topo]") {
  const std::string good =
      "      GPU0  GPU1  GPU2  NIC0  CPU Affinity  NUMA Affinity\n"
      "GPU0   X    PIX   PHB   PIX   0-31  0\n"
      "GPU1  PIX    X    PHB   PIX   0-31  0\n"
      "GPU2  PHB   PHB    X    PHB   0-31  0\n"
      "NIC0  PIX   PIX   PHB    X\n";
  CHECK_NOTHROW(entry_of(good, "t4"));
  const std::string none = "topo.txt: no GPU: expected what nvidia-smi topo -m prints, with a header GPU0 GPU1 …";
  refused_print("", none);
  refused_print("      NIC0\nNIC0   X\n", none);
  refused_print(good.substr(good.find('\n') + 1),
                "topo.txt:1:8: the row of GPU0, but there is no header GPU0 GPU1 … above it");
  refused_print(with_replaced(good, "GPU0  GPU1", "GPU0  GPU3"), "topo.txt:1:13: \"GPU3\": expected \"GPU1\"");
  refused_print(with_replaced(good, "CPU Affinity", "NIC0  CPU Affinity"), "topo.txt:1:31: \"NIC0\" a second time");
  refused_print(with_replaced(good, "NUMA Affinity", "NUMA Afinity"),
                "topo.txt:1:45: \"NUMA Afinity\": unknown column; did you mean \"NUMA Affinity\"?");
  refused_print(with_replaced(good, "PIX   0-31", "NODES 0-31"),
                "topo.txt:2:25: \"NODES\": expected X, NV#, PIX, PXB, PHB, NODE or SYS; did you mean \"NODE\"?");
  refused_print(with_replaced(good, "PIX   0-31", "NV0   0-31"),
                "topo.txt:2:25: \"NV0\": expected X, NV#, PIX, PXB, PHB, NODE or SYS; did you mean \"NV1\"?");
  refused_print(with_replaced(good, "PIX   0-31", "NV2   0-31"),
                "topo.txt:2:25: GPU0 to NIC0: \"NV2\", but NVLinks join GPUs only");
  refused_print(with_replaced(good, "PIX   0-31  0", "PIX   0-31  0 7"),
                "topo.txt:2:39: \"7\": one entry more than the header names columns");
  refused_print(with_replaced(good, "GPU0   X    PIX", "GPU0   X     X "),
                "topo.txt:2:14: GPU0 to GPU1: \"X\", expected how they are joined");
  refused_print(with_replaced(good, "GPU0   X ", "GPU0  PIX"), "topo.txt:2:7: GPU0 to itself: \"PIX\", expected \"X\"");
  refused_print(with_replaced(good, "GPU2  PHB   PHB    X    PHB   0-31  0\n", ""),
                "topo.txt:4:1: \"NIC0\": expected the row of GPU2");
  refused_print(with_replaced(good, "NIC0  PIX   PIX   PHB    X\n", ""),
                "topo.txt:4:1: the text ends, but the row of NIC0 is missing");
  refused_print(with_replaced(good, "PHB    X\n", "\n"),
                "topo.txt:5:1: NIC0: 2 entries, but the header names 4 devices");
  refused_print(with_replaced(good, "GPU2  PHB", "GPU2  SYS"),
                "topo.txt:4:7: GPU2 to GPU0: SYS, but line 2 says PHB from GPU0 to GPU2");
  const std::string split =
      with_replaced(with_replaced(good, "GPU0   X    PIX", "GPU0   X    PXB"), "GPU1  PIX", "GPU1  PXB");
  refused_print(split,
                "topo.txt:3:7: GPU1 to GPU0: PXB, but by their other entries to NIC0 both are below one PCIe switch");
  const std::string far =
      with_replaced(with_replaced(good, "GPU0   X    PIX", "GPU0   X    SYS"), "GPU1  PIX", "GPU1  SYS");
  refused_print(far,
                "topo.txt:3:7: GPU1 to GPU0: SYS, but by their other entries to NIC0 both are below one PCIe switch");
  refused_print(with_replaced(good, "PIX   0-31", "P\x01\xff   0-31"),
                "topo.txt:2:25: \"P??\": expected X, NV#, PIX, PXB, PHB, NODE or SYS");
  for (std::size_t cut = 1; cut < good.size(); cut += 3) {
    try {
      entry_of(good.substr(0, cut), "t4");
      CHECK(cut > good.size() - 3);
    } catch (const UserError& e) {
      CHECK(std::string(e.what()).starts_with("topo.txt:"));
    }
  }
}

TEST_CASE("topo import of a print writes a node that topo show reads, or nothing", "[topo]") {
  const TopoFolder folder;
  folder.write("topo.txt", std::string(kDgx1vPrint) + kPrintLegend);
  folder.write("two.txt", kTwoA100Print);
  folder.write("bad.txt", with_replaced(kDgx1vPrint, "PIX", "PIXX"));
  folder.write("prose.txt", "Of trains and yards.\n");
  folder.write("nccl.xml", "<system/>");
  CHECK(folder.run("import topo.txt --gpu v100-sxm2-16gb --hca-rate '100 Gbit/s' --yaml mine.yaml").exit == 0);
  const TopoAnswer shown = folder.run("show mine.yaml");
  CHECK(shown.exit == 0);
  CHECK(shown.out.find("hca0   PIX   PIX   PHB   PHB   SYS   SYS   SYS   SYS   X     SYS   PHB   SYS\n") !=
        std::string::npos);
  CHECK(folder.run("import topo.txt --gpu v100_sxm2_16gb --hca-rate 100Gbit/s").out == folder.text("mine.yaml"));
  // A GPU whose catalog entry is based on another one.
  CHECK(folder.run("import two.txt --gpu a100-sxm4-40gb").out.find("type: a100-sxm4-40gb\n") != std::string::npos);
  const auto check_nothing_written = [&folder](const std::string& arguments, const std::string& error) {
    const TopoAnswer answer = folder.run("import " + arguments + " --yaml x.yaml");
    CHECK(answer.exit == 2);
    CHECK(answer.err == error + "\n");
    CHECK_FALSE(std::filesystem::exists(folder.path() / "x.yaml"));
  };
  check_nothing_written("topo.txt", "topo.txt: the output of nvidia-smi does not name its GPUs; name them with --gpu");
  check_nothing_written("topo.txt --gpu v100",
                        "trainyard topo import: --gpu: unknown gpu \"v100\"; 5 names begin so: v100-pcie-16gb, "
                        "v100-pcie-32gb, v100-sxm2-16gb, v100-sxm2-32gb, v100-sxm3-32gb");
  check_nothing_written(
      "topo.txt --gpu t4 --hca-rate 100",
      "trainyard topo import: --hca-rate: \"100\" has no unit; expected a rate such as 400 Gbit/s or 25 GB/s");
  check_nothing_written("topo.txt --gpu t4 --hca-rate '0 GB/s'",
                        "trainyard topo import: --hca-rate: 0 GB/s: expected more than 0");
  check_nothing_written("nccl.xml --hca-rate '100 Gbit/s'",
                        "trainyard topo import: --hca-rate: nccl.xml is an NCCL topology, which has rates");
  check_nothing_written("bad.txt --gpu v100-sxm2-16gb",
                        "bad.txt:2:38: \"PIXX\": expected X, NV#, PIX, PXB, PHB, NODE or SYS; did you mean \"PIX\"?");
  check_nothing_written(
      "prose.txt",
      "prose.txt: expected an NCCL topology (XML), or what nvidia-smi topo -m prints (a header GPU0 GPU1 …)");
}

}  // namespace tools_test_topo_matrix_errors
