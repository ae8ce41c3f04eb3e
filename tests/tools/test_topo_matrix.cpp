// `trainyard topo import` reads the output of `nvidia-smi topo -m`. The node must give the same matrix.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include "models/hardware/node.hpp"
#include "tests/cases.hpp"
#include "tests/tools/topology_prints.hpp"
#include "topologies/cluster.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace tools_test_topo_matrix {

using namespace trainyard;
using namespace trainyard::test;

namespace {

using Words = std::vector<std::vector<std::string>>;

NodeType node_of_entry(const std::string& entry) {
  const Catalog catalog;
  return read_node(catalog.resolve("node", parse_document(entry, "imported")), catalog);
}
NodeType catalog_node(const std::string& name) { return node_of_entry("base: " + name); }

/// The words of a print, row by row, in its order: GPUs before NICs.
Words words_of(const std::string& print) {
  Words rows;
  std::istringstream lines(print);
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    row.erase(row.begin());
    rows.push_back(row);
  }
  for (auto& row : rows) row.resize(rows.size());
  return rows;
}

/// The word of the model for a word of the print. The model has one host bridge for each socket and one level of
/// switches.
std::string model_word(const std::string& word) {
  if (word == "NODE") return "PHB";
  if (word == "PXB") return "PIX";
  return word == "SOC" ? "SYS" : word;
}

Words matrix_of(const NodeType& node, BytesPerSecond one_nvlink) {
  ClusterSpec spec;
  spec.node = node;
  DeviceGraph graph = build_cluster(spec);
  std::vector<DeviceId> devices = graph.devices_of_kind(DeviceKind::gpu, 0);
  const std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca, 0);
  devices.insert(devices.end(), hcas.begin(), hcas.end());
  Words rows;
  for (const DeviceId a : devices) {
    rows.emplace_back();
    for (const DeviceId b : devices) rows.back().push_back(locality(graph, a, b, one_nvlink));
  }
  return rows;
}

void check_same_matrix(const std::string& print, const Words& words, const std::string& gpu,
                       BytesPerSecond one_nvlink) {
  const std::string entry = entry_of(print, gpu);
  INFO(print << "\n" << entry);
  Words expected = words;
  for (auto& row : expected)
    for (auto& word : row) word = model_word(word);
  CHECK(matrix_of(node_of_entry(entry), one_nvlink) == expected);
}
void check_same_matrix(const std::string& print, const std::string& gpu,
                       BytesPerSecond one_nvlink = BytesPerSecond{25e9}) {
  check_same_matrix(print, words_of(print), gpu, one_nvlink);
}

/// Variants of the format of a print.
struct PrintStyle {
  bool tabs = false, escapes = false, crlf = false, legend = false, nic_names = false;
  enum class Affinity { none, cpus, numa, unknown } affinity = Affinity::numa;
};

std::string print_of(const Words& words, int gpus, const std::vector<int>& sockets, const PrintStyle& style) {
  using Affinity = PrintStyle::Affinity;
  const auto device = [&](std::size_t i) {
    return static_cast<int>(i) < gpus
               ? fmt::format("GPU{}", i)
               : fmt::format("{}{}", style.nic_names ? "mlx5_" : "NIC", static_cast<int>(i) - gpus);
  };
  const auto cell = [&](const std::string& word) { return style.tabs ? word + "\t" : fmt::format("{:<8}", word); };
  std::string text = cell("") + (style.escapes ? "\x1b[4m" : "");
  for (std::size_t i = 0; i < words.size(); ++i) text += cell(device(i));
  if (style.affinity != Affinity::none) text += "CPU Affinity";
  if (style.affinity >= Affinity::numa) text += style.tabs ? "\tNUMA Affinity\tGPU NUMA ID" : "    NUMA Affinity";
  text += style.escapes ? "\x1b[0m\n" : "\n";
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += cell(device(i));
    for (const std::string& word : words[i]) text += cell(word == "X" ? " X " : word);
    const bool gpu = static_cast<int>(i) < gpus;
    if (gpu && style.affinity != Affinity::none)
      text += style.affinity == Affinity::unknown ? "N/A" : fmt::format("{0}-{0}5,{0}64", sockets[i] + 1);
    if (gpu && style.affinity >= Affinity::numa)
      text += style.affinity == Affinity::unknown ? "\tN/A"
                                                  : fmt::format("\t{}\t{}", sockets[i], style.tabs ? "\tN/A" : "");
    text += "\n";
  }
  if (style.legend) text = "$ nvidia-smi topo -m\n" + text + kPrintLegend + "\nNIC Legend:\n\n  NIC0: mlx5_0\n";
  if (style.crlf)
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
  return text;
}

/// A random wiring: devices are below sockets, host bridges, PCIe switches and second PCIe switches.
struct RandomWiring {
  struct Spot {
    int socket, bridge, above, below;
  };
  std::mt19937 random;
  int gpus = 0;
  std::vector<Spot> spots;
  Words words;

  explicit RandomWiring(unsigned seed) : random(seed) {}
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

  void place() {
    gpus = 1 + below(8);
    const int nics = below(5), sockets = 1 + below(3);
    for (int i = 0; i < gpus + nics; ++i) spots.push_back({below(sockets), below(2), below(2), below(2)});
    for (const Spot& a : spots) {
      words.emplace_back();
      for (const Spot& b : spots)
        words.back().push_back(&a == &b               ? "X"
                               : a.socket != b.socket ? "SYS"
                               : a.bridge != b.bridge ? "NODE"
                               : a.above != b.above   ? "PHB"
                               : a.below != b.below   ? "PXB"
                                                      : "PIX");
    }
  }
  void join(std::size_t a, std::size_t b, int links) { words[a][b] = words[b][a] = fmt::format("NV{}", links); }
  /// Adds at most six links to each GPU.
  void add_mesh() {
    std::vector<int> left(static_cast<std::size_t>(gpus), 6);
    for (std::size_t a = 0; a < left.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const int links = std::min({below(4), left[a], left[b]});
        if (links == 0) continue;
        join(a, b, links);
        left[a] -= links;
        left[b] -= links;
      }
  }
  void add_nvswitch() {
    for (std::size_t a = 0; a < static_cast<std::size_t>(gpus); ++a)
      for (std::size_t b = 0; b < a; ++b) join(a, b, 12);
  }
};

}  // namespace

TEST_CASE("topo import: real prints give nodes with the same matrix", "[topo]") {
  check_same_matrix(kDgx1vPrint, "v100-sxm2-16gb");
  check_same_matrix(kV100ServerPrint, "v100-sxm2-16gb");
  check_same_matrix(kTwoA100Print, "a100-sxm4-80gb");
  check_same_matrix(kApartPrint, "t4");
  check_same_matrix(kPowerPrint, "v100-sxm2-16gb");
}

TEST_CASE("topo import: a DGX-1V's print gives the wiring of the catalog's dgx-1v", "[topo]") {
  const NodeType node = node_of_entry(entry_of(kDgx1vPrint, "v100-sxm2-16gb")), known = catalog_node("dgx-1v");
  CHECK(node.interconnect == "nvlink-mesh");
  CHECK(node.nvlink_rate.value == 25e9);
  CHECK(node.sockets == 2);
  REQUIRE(node.pcie_switches.size() == 4);
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(node.pcie_switches[s].socket == known.pcie_switches[s].socket);
    CHECK(node.pcie_switches[s].gpus == known.pcie_switches[s].gpus);
  }
  // The order of the columns is mlx5_0, mlx5_2, mlx5_1, mlx5_3.
  CHECK(node.pcie_switches[1].hcas == std::vector<int>{2});
  CHECK(node.pcie_rate.value == Approx(known.pcie_rate.value).epsilon(1e-3));
  std::set<std::tuple<int, int, int>> mesh, expected;
  for (const NvlinkBundle& b : node.nvlink_mesh) mesh.emplace(b.a, b.b, b.links);
  for (const NvlinkBundle& b : known.nvlink_mesh) expected.emplace(b.a, b.b, b.links);
  CHECK(mesh == expected);
}

TEST_CASE("topo import: prints of the catalog's nodes come back with the same matrix", "[topo]") {
  const auto [name, gpu] = GENERATE(table<const char*, const char*>({{"dgx-1v", "v100-sxm2-16gb"},
                                                                     {"p3.16xlarge", "v100-sxm2-16gb"},
                                                                     {"dgx-a100", "a100-sxm4-80gb"},
                                                                     {"dgx-h100", "h100-sxm5-80gb"},
                                                                     {"pcie-4", "v100-sxm2-16gb"},
                                                                     {"pcie-8", "v100-sxm2-16gb"}}));
  const NodeType node = catalog_node(name);
  const Words words = matrix_of(node, BytesPerSecond{25e9});
  const std::vector<int> one_socket(words.size(), 0);
  PrintStyle style;
  style.affinity = PrintStyle::Affinity::none;
  check_same_matrix(print_of(words, node.gpus, one_socket, style), words, gpu, BytesPerSecond{25e9});
  CHECK(node_of_entry(entry_of(print_of(words, node.gpus, one_socket, style), gpu)).interconnect == node.interconnect);
}

TEST_CASE("topo import: NVLinks agree with the NVLinks of the GPU", "[topo]") {
  const auto all_alike = [](int gpus, const char* word) {
    Words words(static_cast<std::size_t>(gpus), std::vector<std::string>(static_cast<std::size_t>(gpus), word));
    for (std::size_t i = 0; i < words.size(); ++i) words[i][i] = "X";
    return print_of(words, gpus, std::vector<int>(words.size(), 0), {});
  };
  // Four A100 in a square with diagonals use 12 links each; eight would need 84.
  CHECK(node_of_entry(entry_of(all_alike(4, "NV4"), "a100-sxm4-80gb")).interconnect == "nvlink-mesh");
  const NodeType eight = node_of_entry(entry_of(all_alike(8, "NV12"), "a100-sxm4-80gb"));
  CHECK(eight.interconnect == "nvswitch");
  CHECK(eight.gpu.nvlink.value == 300e9);
  // An A800 has 8 of these links.
  CHECK(node_of_entry(entry_of(all_alike(8, "NV8"), "a100-sxm4-80gb")).gpu.nvlink.value == 200e9);
  // If the rate of a link is not known, it is the GPU's figure divided by the number of links.
  Gpu odd = gpu_called("a100-sxm4-80gb");
  odd.nvlink = BytesPerSecond{56.25e9};
  const std::string entry = node_entry_of_topology_matrix(all_alike(2, "NV4"), "topo.txt", odd, {});
  CHECK(node_of_entry(entry).nvlink_rate.value == Approx(14.0625e9));
  refused_print(all_alike(8, "NV18"),
                "topo.txt:2:17: GPU0 to GPU1: 18 NVLinks to each GPU, but gpu a100-sxm4-80gb has 12");
  refused_print(all_alike(2, "NV2"), "topo.txt:2:17: GPU0 to GPU1: NV2, but gpu t4 has no NVLinks", "t4");
}

TEST_CASE("topo import: the entry has notes and assumptions", "[topo]") {
  const std::string two = entry_of(kTwoA100Print, "a100-sxm4-80gb"), apart = entry_of(kApartPrint, "t4");
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(two, "# PXB: PCIe switches below a common one were merged with it; topo show prints PIX there.\n");
  has(two, "# NODE: a socket has one host bridge here; topo show prints PHB there.\n");
  has(two, "# HCA 0 is mlx5_0, 1 is mlx5_1,");
  has(two, "rate: {value: 100 Gbit/s, source: network, unverified: true}");
  has(two, "link_rate: {value: 25 GB/s, source: nvlinks, unverified: true}");
  has(apart, "# GPU0 and GPU1 name one affinity (NUMA node 0), but SYS lies between them: two sockets here.\n");
  const std::string with_rate =
      node_entry_of_topology_matrix(kTwoA100Print, "topo.txt", gpu_called("a100-sxm4-80gb"), BytesPerSecond{25e9});
  has(with_rate, "rate: {value: 200 Gbit/s, source: network}");
}

TEST_CASE("topo import: random wirings come back from any kind of print", "[topo]") {
  for (unsigned seed = 0; seed < static_cast<unsigned>(test::cases(300)); ++seed) {
    RandomWiring wiring(seed);
    wiring.place();
    const int links = wiring.below(3);
    if (links == 1) wiring.add_mesh();
    if (links == 2) wiring.add_nvswitch();
    PrintStyle style{wiring.below(2) == 0, wiring.below(2) == 0, wiring.below(2) == 0,
                     wiring.below(2) == 0, wiring.below(2) == 0, static_cast<PrintStyle::Affinity>(wiring.below(4))};
    std::vector<int> sockets;
    for (const RandomWiring::Spot& spot : wiring.spots) sockets.push_back(spot.socket);
    CAPTURE(seed);
    check_same_matrix(print_of(wiring.words, wiring.gpus, sockets, style), wiring.words,
                      links == 2 ? "a100-sxm4-80gb" : "v100-sxm2-16gb", BytesPerSecond{25e9});
  }
}

}  // namespace tools_test_topo_matrix
