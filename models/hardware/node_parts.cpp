#include "models/hardware/node_parts.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "models/hardware/link_fields.hpp"

namespace trainyard {

Cpu read_cpu(const Node& entry) {
  return read_entry<Cpu>("cpu", entry, [](Cpu& cpu, Fields& fields) {
    constexpr int most_lanes = 1024, most_cores = 4096;
    cpu.cores = fields.integer_within({"cores", "Number of cores of a CPU."}, 1, most_cores, 0);
    cpu.lanes = fields.integer_within({"lanes", "Number of PCIe lanes of a CPU."}, 1, most_lanes, 0);
    cpu.memory_bandwidth =
        fields.bandwidth({"memory_bandwidth", "Bandwidth of the memory of a CPU."}, BytesPerSecond{0});
    cpu.copy_rate =
        fields.bandwidth({"copy_rate", "Rate at which a thread of a CPU copies memory."}, BytesPerSecond{0});
    constexpr double slowest_thread = 0.01, fastest_thread = 100;
    cpu.thread_speed = fields.number("thread_speed", slowest_thread, fastest_thread, 1);
    cpu.power = read_power(fields);
    fields.read_map("peak", [&cpu](Fields& rates) {
      for (std::size_t p = 0; p < kPrecisions; ++p)
        cpu.peak[p] = rates.flops_rate(name_of(static_cast<Precision>(p)), FlopsPerSecond{0});
    });
  });
}

Seconds host_time(const Cpu& cpu, const Work& work) {
  Seconds arithmetic{0};
  if (work.flops.value > 0) {
    if (work.precision >= kPrecisions) throw InternalError(fmt::format("work of precision {}", work.precision));
    const FlopsPerSecond peak = cpu.peak[work.precision];
    if (peak.value <= 0)
      throw UserError(fmt::format("cpu {}: no peak is stated for {}, which host work needs", cpu.name,
                                  name_of(static_cast<Precision>(work.precision))));
    arithmetic = work.flops / peak;
  }
  if (cpu.memory_bandwidth.value <= 0) return arithmetic;
  return std::max(arithmetic, work.bytes / cpu.memory_bandwidth);
}

Storage read_storage(const Node& entry) {
  return read_entry<Storage>("storage", entry, [](Storage& storage, Fields& fields) {
    storage.read = fields.bandwidth("read");
    storage.write = fields.bandwidth("write", storage.read);
    storage.latency = read_latency(fields, "latency");
    storage.lanes = read_lanes(fields, "lanes", 0);
    storage.capacity = fields.bytes("capacity", Bytes{0});
    if (fields.has("iops")) storage.iops = fields.number("iops", 1, 1e12);
    storage.seek = fields.seconds("seek", Seconds{0});
  });
}

NetworkSwitch read_network_switch(const Node& entry) {
  return read_entry<NetworkSwitch>("switch", entry, [](NetworkSwitch& network_switch, Fields& fields) {
    constexpr int most_ports = 4096;
    network_switch.ports = fields.integer_within("ports", 2, most_ports);
    network_switch.rate = fields.bandwidth("rate");
    network_switch.latency = read_latency(fields, "latency");
    network_switch.power = read_power(fields);
    network_switch.sharp = fields.boolean("sharp", false);
    network_switch.rack_units = fields.integer<int>({"rack_units", "Height of the switch in units of a rack."}, 1, 0);
  });
}

void read_hca_figures(Hca& hca, Fields& fields) {
  constexpr double least_efficiency = 1e-3;
  hca.efficiency =
      fields.number({"efficiency", "Share of the adapters' rate that a test of the network reached, for example 0.25."},
                    least_efficiency, 1, 1);
  hca.rate = fields.bandwidth({"rate", "Rate of one adapter, each way."});
  hca.latency = read_latency(fields, {"latency", "Latency of an adapter from host to wire, on each side."});
  const std::string transport = fields.choice({"transport",
                                               "Protocol of an adapter; rdma: it moves the data; tcp: the CPU copies "
                                               "them; grpc: TCP, and TensorFlow's calls copy in user space."},
                                              {"rdma", "tcp", "grpc"}, "rdma");
  hca.grpc = transport == "grpc";
  hca.tcp = hca.grpc || transport == "tcp";
  hca.nccl_network =
      fields.text({"nccl_network", "NCCL's constants for the network (trainyard list nccl-networks)."}, "");
  hca.sharp =
      fields.choice({"sharp",
                     "Whether InfiniBand switches can sum an adapter's data (SHARP): possible or none. Default: "
                     "none; possible for InfiniBand adapters of the catalog."},
                    {"none", "possible"}, "none") == "possible";
  fields.child({"power", "Power of an adapter: {idle, busy}."});
  hca.power = read_power(fields);
}

Hca read_hca(const Node& entry) {
  return read_entry<Hca>("hca", entry, [](Hca& hca, Fields& fields) {
    read_hca_figures(hca, fields);
    fields.read_map("pcie", [&hca](Fields& pcie) {
      constexpr int oldest = 3, newest = 6;  // the range of `pcie_rate`
      hca.generation = pcie.integer_within("generation", oldest, newest);
      hca.lanes = read_lanes(pcie, "lanes");
    });
  });
}

}  // namespace trainyard
