#include "models/hardware/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace trainyard
