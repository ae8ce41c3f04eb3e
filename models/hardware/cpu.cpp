#include "models/hardware/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

Cpu read_cpu(const Node& entry) {
  const std::string what = entry_title("cpu", entry, "custom-cpu");
  Fields fields(entry, what);
  Cpu cpu;
  cpu.name = read_entry_name(fields, "custom-cpu");
  constexpr std::int64_t most_lanes = 1024, most_cores = 4096;
  cpu.cores = fields.integer_within<int>("cores", 1, most_cores, 0);
  cpu.lanes = fields.integer_within<int>("lanes", 1, most_lanes, 0);
  cpu.memory_bandwidth = fields.bandwidth("memory_bandwidth", BytesPerSecond{0});
  cpu.copy_rate = fields.bandwidth("copy_rate", BytesPerSecond{0});
  constexpr double slowest_thread = 0.01, fastest_thread = 100;
  cpu.thread_speed = fields.number("thread_speed", slowest_thread, fastest_thread, 1);
  cpu.power = read_power(fields, what);
  if (const Node* peak = fields.child("peak")) {
    Fields rates(*peak, what + ": peak");
    for (std::size_t p = 0; p < kPrecisions; ++p)
      cpu.peak[p] = rates.flops_rate(name_of(static_cast<Precision>(p)), FlopsPerSecond{0});
    rates.finish();
  }
  fields.finish();
  cpu.sources = figure_sources(entry, what);
  return cpu;
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
