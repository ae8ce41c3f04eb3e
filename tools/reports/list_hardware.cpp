#include <fmt/format.h>

#include "models/energy/energy.hpp"
#include "models/hardware/hca.hpp"
#include "models/hardware/network_switch.hpp"
#include "models/hardware/node.hpp"
#include "models/hardware/storage.hpp"
#include "tools/reports/listing.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

/// Of a link, as its maker states it.
ListCell gbit_rate(BytesPerSecond rate) { return {fmt::format("{:.4g} Gbit/s", rate.value * 8e-9), rate.value}; }

std::vector<ListRow> list_gpus(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("gpu")) {
    const Gpu gpu = read_gpu(catalog.resolve("gpu", Node::of_text(name)));
    const auto peak = [&gpu](Precision p) { return list_quantity(gpu.peak[static_cast<std::size_t>(p)]); };
    rows.push_back({list_word(name), peak(Precision::bf16), peak(Precision::fp16), peak(Precision::fp32),
                    list_quantity(gpu.memory_capacity), list_quantity(gpu.memory_bandwidth), list_quantity(gpu.nvlink),
                    list_quantity(gpu.pcie),
                    list_quantity(gpu.power_limit.value > 0 ? gpu.power_limit : gpu.power.busy)});
  }
  return rows;
}

std::vector<ListRow> list_nodes(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("node")) {
    const NodeType node = read_node(catalog.resolve("node", Node::of_text(name)), catalog);
    const ListCell rate = node.hcas == 0 ? ListCell{"-", nullptr} : gbit_rate(node.hca_rate);
    rows.push_back({list_word(name), list_number(node.gpus), list_word(node.gpu.name), list_word(node.interconnect),
                    list_number(node.hcas), rate, list_quantity(node.pcie_rate)});
  }
  return rows;
}

std::vector<ListRow> list_fabrics(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("fabric")) {
    ClusterSpec spec;
    read_fabric(spec, catalog.resolve("fabric", Node::of_text(name)));
    rows.push_back({list_word(name), list_word(spec.fabric->type()), list_quantity(spec.switch_latency.seconds()),
                    list_word(spec.fabric->summary())});
  }
  return rows;
}

std::vector<ListRow> list_cpus(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("cpu")) {
    const Cpu cpu = read_cpu(catalog.resolve("cpu", Node::of_text(name)));
    rows.push_back(
        {list_word(name), list_number(cpu.lanes), list_quantity(cpu.memory_bandwidth), list_quantity(cpu.copy_rate)});
  }
  return rows;
}

std::vector<ListRow> list_storages(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("storage")) {
    const Storage storage = read_storage(catalog.resolve("storage", Node::of_text(name)));
    rows.push_back({list_word(name), list_quantity(storage.read), list_quantity(storage.write),
                    list_quantity(storage.latency.seconds()),
                    storage.lanes > 0 ? list_number(storage.lanes) : ListCell{"-", nullptr},
                    list_quantity(storage.capacity)});
  }
  return rows;
}

std::vector<ListRow> list_hcas(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("hca")) {
    const Hca hca = read_hca(catalog.resolve("hca", Node::of_text(name)));
    rows.push_back({list_word(name), gbit_rate(hca.rate), list_quantity(hca.latency.seconds()),
                    list_word(hca.tcp ? "tcp" : "rdma"),
                    list_word(hca.generation > 0 ? fmt::format("{}.0 x{}", hca.generation, hca.lanes) : "-")});
  }
  return rows;
}

std::vector<ListRow> list_switches(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("switch")) {
    const NetworkSwitch one = read_network_switch(catalog.resolve("switch", Node::of_text(name)));
    rows.push_back(
        {list_word(name), list_number(one.ports), gbit_rate(one.rate), list_quantity(one.latency.seconds())});
  }
  return rows;
}

}  // namespace

ListCell list_word(const std::string& text) { return {text, text}; }
ListCell list_number(std::int64_t v) { return {fmt::format("{}", v), v}; }

std::vector<Listing> hardware_listings() {
  return {
      {"gpus",
       "cluster.node.gpu.type; peaks dense, links per direction",
       {{"name", "name"},
        {"bf16", "peak_bf16_FLOPps", true},
        {"fp16", "peak_fp16_FLOPps", true},
        {"fp32", "peak_fp32_FLOPps", true},
        {"memory", "memory_bytes", true},
        {"bandwidth", "memory_Bps", true},
        {"NVLink", "nvlink_Bps", true},
        {"PCIe", "pcie_Bps", true},
        {"power", "power_W", true}},
       list_gpus},
      {"nodes",
       "cluster.node",
       {{"name", "name"},
        {"GPUs", "gpus", true},
        {"type", "gpu"},
        {"interconnect", "interconnect"},
        {"HCAs", "hcas", true},
        {"HCA rate", "hca_Bps", true},
        {"PCIe", "pcie_Bps", true}},
       list_nodes},
      {"fabrics",
       "cluster.fabric",
       {{"name", "name"},
        {"type", "type"},
        {"switch latency", "switch_latency_s", true},
        {"levels (down, oversubscription)", "levels"}},
       list_fabrics},
      {"cpus",
       "cluster.cpu; memory of a socket",
       {{"name", "name"}, {"lanes", "lanes", true}, {"memory", "memory_Bps", true}, {"copies", "copy_Bps", true}},
       list_cpus},
      {"storages",
       "cluster.nvme.type, of those with lanes",
       {{"name", "name"},
        {"read", "read_Bps", true},
        {"write", "write_Bps", true},
        {"latency", "latency_s", true},
        {"PCIe lanes", "lanes", true},
        {"capacity", "capacity_bytes", true}},
       list_storages},
      {"hcas",
       "cluster.hca.type; one port",
       {{"name", "name"},
        {"rate", "rate_Bps", true},
        {"latency", "latency_s", true},
        {"transport", "transport"},
        {"PCIe", "pcie"}},
       list_hcas},
      {"switches",
       "cluster.fabric.switch, topo design --switch",
       {{"name", "name"}, {"ports", "ports", true}, {"rate", "rate_Bps", true}, {"latency", "latency_s", true}},
       list_switches},
      {"sites",
       "site: the data centre around the cluster",
       {{"name", "name"}, {"PUE", "pue", true}},
       [](const Catalog& catalog) {
         std::vector<ListRow> rows;
         for (const std::string& name : catalog.names("site")) {
           const double pue = read_site(catalog.resolve("site", Node::of_text(name))).pue;
           rows.push_back({list_word(name), {fmt::format("{}", pue), pue}});
         }
         return rows;
       }},
  };
}

}  // namespace trainyard
