#include <fmt/format.h>

#include "models/energy/energy.hpp"
#include "models/hardware/node.hpp"
#include "models/hardware/node_parts.hpp"
#include "tools/reports/listing.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

/// The rate of a link in Gbit/s, the unit of data sheets.
ListCell gbit_rate(BytesPerSecond rate) { return {fmt::format("{:.4g} Gbit/s", rate.value * 8e-9), rate.value}; }

}  // namespace

std::vector<Listing> hardware_listings() {
  return {
      catalog_listing("gpus", "gpu", "cluster.node.gpu.type; peaks dense, links per direction",
                      {{"bf16", "peak_bf16_FLOPps", true},
                       {"fp16", "peak_fp16_FLOPps", true},
                       {"fp32", "peak_fp32_FLOPps", true},
                       {"memory", "memory_bytes", true},
                       {"bandwidth", "memory_Bps", true},
                       {"NVLink", "nvlink_Bps", true},
                       {"PCIe", "pcie_Bps", true},
                       {"power", "power_W", true}},
                      [](const Node& entry, const Catalog&) -> ListRow {
                        const Gpu gpu = read_gpu(entry);
                        const auto peak = [&gpu](Precision p) { return gpu.peak[static_cast<std::size_t>(p)]; };
                        return {peak(Precision::bf16),
                                peak(Precision::fp16),
                                peak(Precision::fp32),
                                gpu.memory_capacity,
                                gpu.memory_bandwidth,
                                gpu.nvlink,
                                gpu.pcie,
                                gpu.power_limit.value > 0 ? gpu.power_limit : gpu.power.busy};
                      }),
      catalog_listing("nodes", "node", "cluster.node",
                      {{"GPUs", "gpus", true},
                       {"type", "gpu"},
                       {"interconnect", "interconnect"},
                       {"HCAs", "hcas", true},
                       {"HCA rate", "hca_Bps", true},
                       {"PCIe", "pcie_Bps", true}},
                      [](const Node& entry, const Catalog& catalog) -> ListRow {
                        const NodeType node = read_node(entry, catalog);
                        return {node.gpus,
                                node.gpu.name,
                                node.interconnect,
                                node.hcas,
                                node.hcas == 0 ? ListCell("-", nullptr) : gbit_rate(node.hca_rate),
                                node.pcie_rate};
                      }),
      catalog_listing("fabrics", "fabric", "cluster.fabric",
                      {{"type", "type"},
                       {"switch latency", "switch_latency_s", true},
                       {"levels (down, oversubscription)", "levels"}},
                      [](const Node& entry, const Catalog&) -> ListRow {
                        ClusterSpec spec;
                        read_fabric(spec, entry);
                        return {spec.fabric->type(), spec.switch_latency.seconds(), spec.fabric->summary()};
                      }),
      catalog_listing("cpus", "cpu", "cluster.cpu; memory of a socket",
                      {{"lanes", "lanes", true},
                       {"memory", "memory_Bps", true},
                       {"copies", "copy_Bps", true},
                       {"thread speed", "thread_speed", true}},
                      [](const Node& entry, const Catalog&) -> ListRow {
                        const Cpu cpu = read_cpu(entry);
                        return {cpu.lanes, cpu.memory_bandwidth, cpu.copy_rate,
                                ListCell(fmt::format("{:.2f}", cpu.thread_speed), cpu.thread_speed)};
                      }),
      catalog_listing("storages", "storage", "cluster.nvme.type takes those with PCIe lanes",
                      {{"read", "read_Bps", true},
                       {"write", "write_Bps", true},
                       {"latency", "latency_s", true},
                       {"PCIe lanes", "lanes", true},
                       {"capacity", "capacity_bytes", true}},
                      [](const Node& entry, const Catalog&) -> ListRow {
                        const Storage storage = read_storage(entry);
                        return {storage.read, storage.write, storage.latency.seconds(), list_stated(storage.lanes),
                                storage.capacity};
                      }),
      catalog_listing(
          "hcas", "hca", "cluster.hca.type; one port",
          {{"rate", "rate_Bps", true}, {"latency", "latency_s", true}, {"transport", "transport"}, {"PCIe", "pcie"}},
          [](const Node& entry, const Catalog&) -> ListRow {
            const Hca hca = read_hca(entry);
            return {gbit_rate(hca.rate), hca.latency.seconds(),
                    hca.grpc  ? "grpc"
                    : hca.tcp ? "tcp"
                              : "rdma",
                    hca.generation > 0 ? fmt::format("{}.0 x{}", hca.generation, hca.lanes) : "-"};
          }),
      catalog_listing("switches", "switch", "cluster.fabric.switch, topo design --switch",
                      {{"ports", "ports", true}, {"rate", "rate_Bps", true}, {"latency", "latency_s", true}},
                      [](const Node& entry, const Catalog&) -> ListRow {
                        const NetworkSwitch one = read_network_switch(entry);
                        return {one.ports, gbit_rate(one.rate), one.latency.seconds()};
                      }),
      catalog_listing("sites", "site", "site: the data centre around the cluster", {{"PUE", "pue", true}},
                      [](const Node& entry, const Catalog&) -> ListRow {
                        const double pue = read_site(entry).pue;
                        return {{fmt::format("{}", pue), pue}};
                      }),
  };
}

}  // namespace trainyard
