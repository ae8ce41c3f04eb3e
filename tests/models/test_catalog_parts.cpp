// CPUs, storages, network adapters and switches of the catalog: sources, physical sense, and references from nodes.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

#include "models/hardware/node.hpp"
#include "models/hardware/node_parts.hpp"
#include "tests/temporary_folder.hpp"
#include "topologies/cluster.hpp"

namespace models_test_catalog_parts {

using namespace trainyard;

namespace {

const Catalog& parts() {
  static const Catalog catalog(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "models" / "catalog");
  return catalog;
}

Node part_reference(std::string_view text) { return parse_document(text, "x.yaml"); }

/// Does a source admit that its figures are assumed or were not checked, without naming a check?
bool tells_no_check(const std::string& source) {
  const auto has = [&source](const char* words) { return source.find(words) != std::string::npos; };
  return source.starts_with("assumed") ||
         (has("not checked") && !has("checked against") && !has("checked at") && !has("checked there"));
}

void check_part_sources(const Sources& sources) {
  CHECK_FALSE(sources.empty());
  for (const FigureSource& f : sources) {
    INFO(f.figure << " = " << f.value << ", source \"" << f.source << "\"");
    CHECK(f.source.size() > 20);
    CHECK(f.source.find(' ') != std::string::npos);
    if (tells_no_check(f.source)) CHECK(f.unverified);
  }
}

NodeType node_of(const std::string& text) {
  return read_node(parts().resolve("node", part_reference("node: " + text).fields.front().second), parts());
}

ClusterSpec fabric_of(const std::string& text) {
  ClusterSpec spec;
  read_fabric(spec, parts().resolve("fabric", part_reference("fabric: " + text).fields.front().second), parts());
  return spec;
}

}  // namespace

TEST_CASE("no shipped file states a figure from memory", "[catalog]") {
  int files = 0;
  for (const char* folder : {"models/catalog", "scenarios"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(TRAINYARD_SOURCE_DIR) / folder)) {
      const std::string type = entry.path().extension().string();
      if (!entry.is_regular_file() || (type != ".yaml" && type != ".json" && type != ".csv" && type != ".md")) continue;
      ++files;
      INFO(entry.path());
      const std::string text = test::file_text(entry.path());
      CHECK(text.find("from memory") == std::string::npos);
      CHECK(text.find("From memory") == std::string::npos);
      CHECK(text.find("recalled") == std::string::npos);
    }
  CHECK(files > 300);
}

TEST_CASE("a misspelt node or GPU is answered with one that names the same family of chips", "[catalog]") {
  int families = 0;
  for (const char* kind : {"node", "gpu"}) {
    const std::vector<std::string> names = parts().names(kind);
    std::set<std::string> known;
    for (const std::string& name : names)
      for (std::size_t begin = 0; begin < name.size(); begin = std::min(name.find('-', begin), name.size()) + 1) {
        const std::string word = name.substr(begin, name.find('-', begin) - begin);
        const std::size_t digits = word.find_first_of("0123456789");
        const std::size_t end = std::min(word.find_first_not_of("0123456789", digits), word.size());
        if (digits > 0 && digits != std::string::npos && end >= digits + 2 && word.find('.') == std::string::npos)
          known.insert(word.substr(0, end));
      }
    for (const std::string& family : known)
      for (const std::string& misspelt : {"dgx-" + family, family + "-4x", "8x" + family, family + "-sxm-96gb",
                                          "hgx_" + family + "_8", "server-" + family}) {
        CAPTURE(kind, family, misspelt);
        if (std::ranges::find(names, misspelt) != names.end()) continue;
        ++families;
        const auto near = nearest(misspelt, names);
        REQUIRE(near);
        CHECK(("-" + *near).find("-" + family) != std::string::npos);
      }
  }
  CHECK(families > 100);
}

TEST_CASE("a node with fewer GPUs than its base keeps the adapters of each GPU", "[catalog]") {
  const auto adapters = [](const std::string& text) { return node_of(text).hcas; };
  CHECK(adapters("gb300-nvl72") == 72);
  CHECK(adapters("{base: gb300-nvl72, gpu: {count: 8}}") == 8);
  CHECK(adapters("{base: vr-nvl72, gpu: {count: 4}}") == 8);
  CHECK(adapters("{base: gb300-nvl72, gpu: {count: 8}, hca: {count: 2}}") == 2);
  CHECK(adapters("{base: gb300-nvl72, gpu: {count: 8}, hca: {rate: 400 Gbit/s}}") == 8);
  CHECK(adapters("{base: gb300-nvl72, gpu: {count: 8}, hca: ~}") == 0);
  CHECK(adapters("{base: {base: gb300-nvl72, gpu: {count: 8}}, gpu: {count: 4}}") == 4);
  CHECK(adapters("{base: t4-server, gpu: {count: 4}}") == 1);  // half an adapter is one
  CHECK(adapters("{base: dgx-2, gpu: {count: 16}}") == node_of("dgx-2").hcas);
  for (const std::string& name : parts().names("node")) {
    CAPTURE(name);
    const NodeType whole = node_of(name);
    if (whole.gpus < 2 || whole.hcas == 0 || whole.interconnect == "graph") continue;
    const Node half =
        parts().resolve("node", part_reference(fmt::format("{{base: {}, gpu: {{count: {}}}}}", name, whole.gpus / 2)));
    const Node* count = half.find("hca")->find("count");
    const std::int64_t kept = parse_integer((count->find("value") ? count->find("value") : count)->scalar);
    CHECK((kept == whole.hcas || kept == (whole.hcas * (whole.gpus / 2) + whole.gpus - 1) / whole.gpus));
    CHECK(kept >= 1);
  }
}

TEST_CASE("a node with fewer GPUs than its base keeps the links among them, and their PCIe switches", "[catalog]") {
  int meshes = 0, with_switches = 0;
  for (const std::string& name : parts().names("node")) {
    const NodeType whole = node_of(name);
    if (whole.interconnect == "graph") continue;
    for (const int gpus : {1, 3, whole.gpus - 1}) {
      if (gpus < 1 || gpus >= whole.gpus) continue;
      CAPTURE(name, gpus);
      const NodeType part = node_of(fmt::format("{{base: {}, gpu: {{count: {}}}}}", name, gpus));
      const auto is_kept = [gpus](const NvlinkBundle& link) { return link.a < gpus && link.b < gpus; };
      CHECK(static_cast<std::ptrdiff_t>(part.nvlink_mesh.size()) == std::ranges::count_if(whole.nvlink_mesh, is_kept));
      CHECK(std::ranges::all_of(part.nvlink_mesh, is_kept));
      meshes += part.nvlink_mesh.empty() ? 0 : 1;
      REQUIRE(part.pcie_switches.size() == whole.pcie_switches.size());
      with_switches += part.pcie_switches.empty() ? 0 : 1;
    }
  }
  CHECK(meshes > 10);
  CHECK(with_switches > 5);
}

TEST_CASE("CPUs of the catalog have sourced figures that make physical sense", "[catalog]") {
  CHECK(parts().names("cpu").size() >= 10);
  for (const std::string& name : parts().names("cpu")) {
    INFO(name);
    const Cpu cpu = read_cpu(parts().resolve("cpu", part_reference(name)));
    CHECK(cpu.name == name);
    check_part_sources(cpu.sources);
    CHECK(cpu.lanes >= 40);
    CHECK(cpu.lanes <= 128);
    CHECK(cpu.memory_bandwidth > BytesPerSecond{50e9});
    CHECK(cpu.memory_bandwidth < BytesPerSecond{1e12});
    CHECK(cpu.copy_rate < cpu.memory_bandwidth / 2);  // a copy reads and writes
    CHECK(cpu.thread_speed > 0.4);
    CHECK(cpu.thread_speed < 1.5);
  }
}

TEST_CASE("drives and stores of the catalog have sourced figures that make physical sense", "[catalog]") {
  CHECK(parts().names("storage").size() >= 8);
  for (const std::string& name : parts().names("storage")) {
    INFO(name);
    const Storage storage = read_storage(parts().resolve("storage", part_reference(name)));
    CHECK(storage.name == name);
    check_part_sources(storage.sources);
    CHECK(storage.write <= storage.read);
    CHECK(storage.latency.count > 0);
    if (storage.lanes == 0) continue;
    CHECK(storage.read <= pcie_rate(5, storage.lanes));
    CHECK(storage.latency < Picoseconds{200'000'000});
    CHECK(storage.capacity > Bytes{100e9});
  }
}

TEST_CASE("network adapters of the catalog have sourced figures that make physical sense", "[catalog]") {
  double slowest = 1e18, fastest = 0;
  for (const std::string& name : parts().names("hca")) {
    INFO(name);
    const Hca hca = read_hca(parts().resolve("hca", part_reference(name)));
    CHECK(hca.name == name);
    check_part_sources(hca.sources);
    slowest = std::min(slowest, hca.rate.value);
    fastest = std::max(fastest, hca.rate.value);
    if (hca.generation > 0) CHECK(hca.rate <= pcie_rate(hca.generation, hca.lanes));
    CHECK(hca.latency.count >= 500'000);
    CHECK((hca.latency > Picoseconds{5'000'000}) == (hca.tcp || name == "efa-100g"));
  }
  CHECK(slowest == 10e9 / 8);
  CHECK(fastest == 800e9 / 8);
}

TEST_CASE("switches of the catalog have sourced figures that make physical sense", "[catalog]") {
  CHECK(parts().names("switch").size() >= 8);
  for (const std::string& name : parts().names("switch")) {
    INFO(name);
    const NetworkSwitch one = read_network_switch(parts().resolve("switch", part_reference(name)));
    CHECK(one.name == name);
    check_part_sources(one.sources);
    CHECK(one.ports >= 32);
    CHECK(one.ports * one.rate.value * 8 <= 116e12);  // the largest is of 2025
    CHECK(one.latency >= Picoseconds{90'000});
    CHECK(one.latency <= Picoseconds{1'000'000});
  }
}

TEST_CASE("a node takes its adapter and its drives by name, and changes their figures in place", "[catalog]") {
  const NodeType dgx = node_of("dgx-a100");
  CHECK(dgx.hca_rate == BytesPerSecond{25e9});
  CHECK(dgx.hca_latency.count == 600'000);
  CHECK_FALSE(dgx.network.tcp);
  CHECK(node_of("{base: dgx-a100, hca: {type: connectx-7}}").hca_rate == BytesPerSecond{50e9});
  CHECK(node_of("{base: dgx-a100, hca: {rate: 1 GB/s}}").hca_rate == BytesPerSecond{1e9});
  CHECK(node_of("{base: dgx-a100, hca: {type: connectx-7, rate: 1 GB/s}}").hca_rate == BytesPerSecond{1e9});
  // The figures that the catalog's node states for its own adapter are replaced too.
  const NodeType cloud = node_of("{base: t4-server, hca: {type: connectx-8}}");
  CHECK(cloud.hca_rate == BytesPerSecond{100e9});
  CHECK(cloud.hca_latency.count == 600'000);
  CHECK(node_of("t4-server").hca_rate == BytesPerSecond{6.25e9});
  CHECK(node_of("p3.16xlarge").hca_rate == BytesPerSecond{25e9 / 8});
  CHECK(node_of("{base: t4-server, hca: {type: ethernet-10g}}").network.tcp);
  const NodeType fed = node_of("{base: dgx-a100, nvme: {count: 2, type: samsung-pm9a3}}");
  CHECK(fed.nvme.count == 2);
  CHECK(fed.nvme.read == BytesPerSecond{6.5e9});
  CHECK(fed.nvme.lanes == 4);
  CHECK(fed.nvme.capacity == Bytes{7.68e12});
  CHECK(node_of("{base: dgx-a100, nvme: {count: 2, type: samsung-pm9a3, read: 1 GB/s}}").nvme.read ==
        BytesPerSecond{1e9});
  CHECK(std::ranges::any_of(fed.sources,
                            [](const FigureSource& f) { return f.figure == "storage samsung-pm9a3: read"; }));
  CHECK_THROWS_WITH(node_of("{base: dgx-a100, nvme: {count: 2, type: object-store}}"),
                    Catch::EndsWith("object-store is no drive on PCIe"));
  CHECK_THROWS_WITH(node_of("{base: dgx-a100, hca: {type: connectx-10}}"),
                    Catch::Contains("unknown hca \"connectx-10\"; did you mean"));
}

TEST_CASE("a fabric takes the latency of a switch by name", "[catalog]") {
  CHECK(fabric_of("leaf-spine").switch_latency.count == 130'000);
  const ClusterSpec named = fabric_of("{base: leaf-spine, switch: tomahawk-4}");
  CHECK(named.switch_latency.count == 450'000);
  CHECK(std::ranges::any_of(named.fabric_sources, [](const FigureSource& f) {
    return f.figure == "switch tomahawk-4: latency" && f.unverified;
  }));
  CHECK(std::ranges::none_of(named.fabric_sources,
                             [](const FigureSource& f) { return f.figure.ends_with(": switch_latency"); }));
  CHECK(fabric_of("{base: leaf-spine, switch: tomahawk-4, switch_latency: 1 us}").switch_latency.count == 1'000'000);
  CHECK_THROWS_WITH(fabric_of("{base: leaf-spine, switch: tomahwk-4}"),
                    Catch::Contains("did you mean \"tomahawk-4\"?"));
}

TEST_CASE("a CPU by name leaves the wiring of the catalog's nodes as it was", "[catalog]") {
  for (const char* name : {"dgx-1v", "dgx-1p", "p3.16xlarge", "dgx-2", "t4-server", "l40s-8x"}) {
    INFO(name);
    const NodeType with_cpu = node_of(name), without_cpu = node_of("{base: " + std::string(name) + ", cpu: null}");
    CHECK(with_cpu.cpu.memory_bandwidth.value > 0);
    CHECK(without_cpu.cpu.memory_bandwidth.value == 0);
    ClusterSpec a, b;
    a.node = with_cpu;
    b.node = without_cpu;
    const DeviceGraph built = build_cluster(a), plain = build_cluster(b);
    CHECK(built.devices().size() == plain.devices().size());
    const auto wires = [](const DeviceGraph& graph) {  // all links but those of a socket's memory and copies
      return std::count_if(graph.links().begin(), graph.links().end(),
                           [](const Link& link) { return link.kind != "host memory" && link.kind != "CPU copies"; });
    };
    CHECK(wires(built) == wires(plain));
  }
}

}  // namespace models_test_catalog_parts
