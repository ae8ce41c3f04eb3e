// `trainyard topo import` on topologies in the form of NCCL's dumps, written by hand.
#include <fmt/format.h>
#include <sys/wait.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/hardware/node.hpp"
#include "models/imports/imported_node.hpp"
#include "sim/json_text.hpp"
#include "tests/replaced_text.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"
#include "topologies/cluster.hpp"

namespace tools_test_topo_import {

using namespace trainyard;
namespace fs = std::filesystem;

namespace {

/// A switch at a root port with two GPUs and HCAs below, as in both kinds of DGX.
struct XmlSwitch {
  int number = 0;
  std::string speed;              ///< for example "8 GT/s"
  std::vector<std::string> gpus;  ///< XML elements of the GPUs
  std::vector<std::string> nets;
};

std::string pci_xml(const std::string& bus, const char* cls, const std::string& speed, const std::string& inside) {
  return fmt::format("<pci busid=\"{}\" class=\"{}\" link_speed=\"{}\" link_width=\"16\">\n{}</pci>\n", bus, cls, speed,
                     inside);
}
std::string gpu_bus(int gpu) { return fmt::format("0000:{:02x}:00.0", 0x10 + gpu); }

std::string xml_of(const XmlSwitch& s, int first_gpu, int first_net) {
  std::string inside;
  for (std::size_t i = 0; i < s.gpus.size(); ++i)
    inside += pci_xml(gpu_bus(first_gpu + static_cast<int>(i)), "0x030200", s.speed, s.gpus[i]);
  for (std::size_t i = 0; i < s.nets.size(); ++i)
    inside += pci_xml(fmt::format("0000:{:02x}:00.0", 0x80 + first_net + static_cast<int>(i)), "0x020700", s.speed,
                      "<nic>" + s.nets[i] + "</nic>\n");
  return pci_xml(fmt::format("0000:{:02x}:00.0", s.number), "0x060400", s.speed, inside);
}

std::string net_xml(int dev, int megabits) {
  return fmt::format(
      "<net name=\"mlx5_{0}\" dev=\"{0}\" speed=\"{1}\" port=\"1\" guid=\"0x{0}\" maxconn=\"131072\" "
      "gdr=\"1\"/>",
      dev, megabits);
}

const std::vector<NvlinkBundle> kCubeMesh{{0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 5, 2}, {2, 3, 2}, {4, 7, 2},
                                          {5, 6, 2}, {6, 7, 2}, {0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 6, 1},
                                          {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {5, 7, 1}};

/// Four PCIe switches on two sockets, with two GPUs each. `nvswitch`: 6 NVSwitches with 2 links to each GPU; otherwise
/// the cube mesh.
std::string dgx_xml(int sm, const std::string& speed, bool nvswitch, int hcas, int megabits) {
  std::string text = "<?xml version=\"1.0\"?>\n<system version=\"1\">\n";
  int net = 0;
  for (int socket = 0; socket < 2; ++socket) {
    text += fmt::format("<cpu numaid=\"{}\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n", socket);
    for (int i = 2 * socket; i < 2 * socket + 2; ++i) {
      XmlSwitch s{i, speed, {}, {}};
      for (int g = 2 * i; g < 2 * i + 2; ++g) {
        std::string links;
        for (int n = 0; nvswitch && n < 6; ++n)
          links += fmt::format("<nvlink target=\"0000:{:02X}:00.0\" count=\"2\" tclass=\"0x068000\"/>\n", 0xc4 + n);
        for (const NvlinkBundle& b : kCubeMesh)
          if (!nvswitch && (b.a == g || b.b == g))
            links += fmt::format("<nvlink target=\"{}\" count=\"{}\" tclass=\"0x030200\"/>\n",
                                 gpu_bus(b.a == g ? b.b : b.a), b.links);
        s.gpus.push_back(fmt::format("<gpu dev=\"{0}\" sm=\"{1}\" rank=\"{0}\" gdr=\"1\">\n{2}</gpu>\n", g, sm, links));
      }
      const int first = net;
      for (int n = 0; n < hcas; ++n) s.nets.push_back(net_xml(net++, megabits));
      text += xml_of(s, 2 * i, first);
    }
    text += "</cpu>\n";
  }
  return text + "</system>\n";
}
std::string dgx1v_xml() { return dgx_xml(70, "8 GT/s", false, 1, 100000); }
std::string dgx_a100_xml() { return dgx_xml(80, "16.0 GT/s PCIe", true, 2, 200000); }

NodeType node_of(const std::string& xml, const std::string& gpu = "") {
  const std::string yaml = node_entry_of_nccl_topology(xml, "dump.xml", gpu);
  INFO(yaml);
  const Catalog catalog;
  return read_node(catalog.resolve("node", parse_document(yaml, "imported")), catalog);
}

/// All wires with the names of their ends and their rates.
std::set<std::string> wires_of(const NodeType& node) {
  ClusterSpec spec;
  spec.node = node;
  const DeviceGraph graph = build_cluster(spec);
  std::set<std::string> wires;
  for (const Link& link : graph.links())
    wires.insert(fmt::format("{} {} {:.3g}", link.name, link.kind, link.capacity.value));
  return wires;
}

void check_refused(const std::string& xml, const std::string& error) {
  CHECK(test::user_error([&] { node_entry_of_nccl_topology(xml, "dump.xml", ""); }) == error);
}

}  // namespace

TEST_CASE("topo import: a DGX-1V's dump gives the wiring of the catalog's dgx-1v", "[topo]") {
  // A dump does not describe the memory of a socket.
  const Node reference = parse_document("{base: dgx-1v, cpu: null}", "dgx-1v");
  const Catalog catalog;
  const NodeType imported = node_of(dgx1v_xml()), known = read_node(catalog.resolve("node", reference), catalog);
  CHECK(imported.interconnect == "nvlink-mesh");
  CHECK(imported.gpu.name == known.gpu.name);
  CHECK(wires_of(imported) == wires_of(known));
  CHECK(std::any_of(imported.sources.begin(), imported.sources.end(),
                    [](const auto& s) { return s.source.find("imported from dump.xml") != std::string::npos; }));
}

TEST_CASE("topo import: a DGX A100's dump has NVSwitches, two HCAs a switch, PCIe 4", "[topo]") {
  const NodeType node = node_of(dgx_a100_xml());
  CHECK(node.interconnect == "nvswitch");
  CHECK(node.gpu.nvlink.value == 300e9);
  CHECK(node.hcas == 8);
  CHECK(node.hca_rate.value == 25e9);
  CHECK(node.pcie_rate.value == Approx(31.508e9).epsilon(1e-3));
  REQUIRE(node.pcie_switches.size() == 4);
  CHECK(node.pcie_switches[3].socket == 1);
  CHECK(node.pcie_switches[3].gpus == std::vector<int>{6, 7});
  CHECK(node.pcie_switches[3].hcas == std::vector<int>{6, 7});
  CHECK(node_of(dgx_a100_xml(), "a100-sxm4-40gb").gpu.name == "a100-sxm4-40gb");
}

TEST_CASE("topo import reads link widths, generations and root ports, and leaves out slower networks", "[topo]") {
  const std::string gpu =
      "<pci busid=\"a\" link_speed=\"8.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"75\" rank=\"0\"/></pci>";
  const std::string nic =
      "<pci busid=\"b\" link_speed=\"16 GT/s\" link_width=\"16\"><nic>" + net_xml(0, 100000) + "</nic></pci>";
  // A GPU of generation 3 (16 lanes) beside an adapter of generation 4 has the same rate as 8 lanes of the adapter.
  const NodeType mixed = node_of("<system version=\"1\"><cpu numaid=\"0\">" + gpu + nic +
                                 "<nic><net name=\"eth0\" dev=\"1\" speed=\"10000\"/></nic></cpu></system>");
  CHECK(mixed.gpus == 1);
  CHECK(mixed.hcas == 1);
  CHECK(mixed.interconnect == "pcie");
  CHECK(mixed.device_lanes == 8);
  REQUIRE(mixed.pcie_switches.size() == 2);
  CHECK(mixed.pcie_switches[0].uplink_lanes == 8);
  CHECK(mixed.pcie_switches[1].uplink_lanes == 16);
  CHECK(wires_of(mixed).contains(fmt::format("node0/gpu0 -> node0/pcie0 PCIe {:.3g}", pcie_rate(3, 16).value)));
}

TEST_CASE("topo import refuses bad dumps, and names the place", "[topo]") {
  const std::string good = dgx1v_xml();
  check_refused("", "dump.xml:1:1: not XML: No document element found");
  check_refused("<system>\n<cpu>\n</system>", "dump.xml:3:3: not XML: Start-end tags mismatch");
  check_refused("<system>\n<cpu numaid=\"0\"/>\n", "dump.xml:2:18: not XML: Start-end tags mismatch");
  check_refused("<system>\n<!-- a\n", "dump.xml:2:7: not XML: Error parsing comment");
  check_refused("<system>\n<cpu numaid=0/>\n</system>", "dump.xml:2:13: not XML: Error parsing element attribute");
  check_refused("<graphs version=\"1\"/>", "dump.xml:1:1: <graphs>: expected <system>");
  check_refused("<system>\n<cpu numaid=\"0\"/>\n</system>",
                "dump.xml:1:1: <system>: no <gpu> in it; NCCL_TOPO_DUMP_FILE writes a file that names the GPUs");
  check_refused("<system>\n<cpu numaid=\"0\">\n<gpu dev=\"0\"/>\n</cpu></system>",
                "dump.xml:3:1: <gpu> in <cpu>: expected <pci> or <nic>");
  check_refused(test::with_replaced(good, "dev=\"0\" sm", "sm"), "dump.xml:6:1: <gpu>: missing attribute \"dev\"");
  check_refused(test::with_replaced(good, "dev=\"0\"", "dev=\"x\""),
                "dump.xml:6:1: <gpu>: dev=\"x\" is no whole number");
  check_refused(test::with_replaced(good, "dev=\"1\"", "dev=\"0\""), "dump.xml:14:1: <gpu>: dev=\"0\" a second time");
  check_refused(test::with_replaced(good, "sm=\"70\"", "sm=\"80\""),
                "dump.xml:14:1: <gpu>: sm=\"70\" besides sm=\"80\": a node has GPUs of one type");
  check_refused(test::with_replaced(good, "8 GT/s", "2.5 GT/s"),
                "dump.xml:4:1: <pci>: link_speed=\"2.5 GT/s\", expected 8, 16, 32 or 64 GT/s");
  check_refused(test::with_replaced(good, "link_width=\"16\"", "link_width=\"12\""),
                "dump.xml:4:1: <pci>: link_width=\"12\", expected 1, 2, 4, 8 or 16");
  check_refused(test::with_replaced(good, "target=\"0000:13:00.0\"", "target=\"0000:33:00.0\""),
                "dump.xml:7:1: <nvlink>: target=\"0000:33:00.0\" is no GPU of the file");
  check_refused(test::with_replaced(good, "count=\"2\"", "count=\"1\""),
                "dump.xml:6:1: <gpu>: 1 NVLinks from GPU 0 to 3, but 2 back");
  check_refused(
      test::with_replaced(good, "tclass=\"0x030200\"", "tclass=\"0x068001\""),
      "dump.xml:7:1: <nvlink>: tclass=\"0x068001\", expected that of a GPU (0x03…) or an NVSwitch (0x068000)");
  check_refused("<system/>\n<system/>", "dump.xml:2:1: not XML: expected one element around all others");
  check_refused("<system>\n<cpu numaid=\"0\" numaid=\"1\"/>\n</system>",
                "dump.xml:2:1: <cpu>: attribute \"numaid\" is given twice");
  std::string deep, ends;
  for (int i = 0; i < 100'000; ++i) {
    deep += "<pci>";
    ends += "</pci>";
  }
  check_refused(deep, "dump.xml:1:500000: not XML: Start-end tags mismatch");
  check_refused(deep + ends, "dump.xml:1:321: nested deeper than 64");
  for (std::size_t cut = 1; cut + 1 < good.size(); cut += 37)
    CHECK_THROWS_AS(node_entry_of_nccl_topology(good.substr(0, cut), "dump.xml", ""), UserError);
}

TEST_CASE("topo import writes a node that topo show reads, or nothing", "[topo]") {
  const test::TemporaryFolder temporary;
  const fs::path& folder = temporary.path();
  fs::copy(Catalog().root(), folder / "catalog", fs::copy_options::recursive);
  std::ofstream(folder / "a100.xml") << dgx_a100_xml();
  std::ofstream(folder / "p100.xml") << dgx_xml(60, "8 GT/s", false, 1, 100000);
  std::ofstream(folder / "bad.xml") << "<system>\n";
  const auto text = [&temporary](const char* file) { return temporary.text(file); };
  const auto run = [&folder](const std::string& arguments) {
    const int status =
        std::system(("cd '" + folder.string() + "' && TRAINYARD_CATALOG=catalog exec '" TRAINYARD_BINARY "' topo " +
                     arguments + " >.out 2>.err </dev/null")
                        .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(run("import a100.xml --yaml catalog/nodes/mine.yaml") == 0);
  CHECK(text(".out").empty());
  CHECK(run("show mine --json -") == 0);
  const auto shown = parse_json(text(".out"));
  CHECK(shown["devices"].size() == 2 + 4 + 8 + 8 + 1);
  CHECK(shown["locality"]["node0/gpu0"]["node0/gpu7"] == "NV");
  CHECK(run("import a100.xml") == 0);
  CHECK(text(".out") == text("catalog/nodes/mine.yaml"));
  const auto check_nothing_written = [&](const std::string& arguments, const std::string& error) {
    CHECK(run("import " + arguments + " --yaml x.yaml") == 2);
    CHECK(text(".err") == error + "\n");
    CHECK_FALSE(fs::exists(folder / "x.yaml"));
  };
  check_nothing_written("bad.xml", "bad.xml:1:9: not XML: Start-end tags mismatch");
  check_nothing_written("none.xml", "none.xml: no such file");
  check_nothing_written("p100.xml",
                        "p100.xml:6:1: <gpu>: sm=\"60\" does not identify the type of GPU; name one with --gpu");
  check_nothing_written(
      "a100.xml --gpu a100-sxm4-80g",
      "trainyard topo import: --gpu: unknown gpu \"a100-sxm4-80g\"; did you mean \"a100-sxm4-80gb\"?");
}

}  // namespace tools_test_topo_import
