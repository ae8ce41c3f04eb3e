#include "models/energy/energy.hpp"

#include <algorithm>

namespace trainyard {

Site read_site(const Node& entry) {
  Fields fields(entry, "site " + entry.find("name")->scalar);
  Site site;
  site.name = fields.text("name");
  fields.text("description", "");
  fields.child("sources");
  constexpr double most_pue = 5;  // a higher value is surely a mistake
  if (fields.has(
          {"pue",
           "Power of the whole site over that of its machines (PUE), for example 1.2. Default: that of `base`, or "
           "of the site average, 1.58."}))
    site.pue = fields.number("pue", 1, most_pue);
  constexpr double most_money = 1e9;
  if (fields.child_unless_null({"kwh", "Price of a kWh at the site, in place of that of the prices, for example 0.1."}))
    site.kwh = fields.number("kwh", 0, most_money);
  site.power =
      fields.power({"power", "Most power of the whole site with cooling, for `size`, for example 2 MW."}, Watts{});
  site.racks = fields.integer<int>({"racks", "Number of racks, for `size`, for example 40. Default: no limit."}, 1, 0);
  site.rack_power = fields.power({"rack_power", "Most power of the nodes of a rack, for example 40 kW."}, Watts{});
  site.rack_nodes =
      fields.integer<int>({"rack_nodes", "Most nodes of a rack, for example 4. Default: no limit."}, 1, 0);
  site.rack_units = fields.integer<int>(
      {"rack_units", "Units of a rack for nodes and switches, for example 42. Default: no limit."}, 1, 0);
  site.ports = fields.integer<int>(
      {"ports", "Ports of the network for adapters, for `size`, for example 512. Default: no limit."}, 1, 0);
  fields.finish();
  site.sources = figure_sources(entry, fields.what());
  return site;
}

double utilization(const PowerDraw& draw, GpuTime time) {
  const double range = (draw.busy - draw.idle).value;
  if (range <= 0) return 1;
  const double communicating = std::max(0.0, (kCommunicatingPower * draw.busy - draw.idle).value / range);
  return std::min(1.0, time.kernels + communicating * time.exposed_communication);
}

double Energy::devices() const {
  double sum = 0;
  for (const auto& [part, joules] : parts) sum += joules;
  return sum;
}

Energy energy_of(const std::vector<PoweredDevices>& all, double seconds, const Site& site) {
  Energy energy;
  energy.pue = site.pue;
  double gpus = 0;
  for (const PoweredDevices& devices : all) {
    if (devices.count == 0) continue;
    if (!devices.draw.is_given()) {
      if (energy.not_stated.find(devices.part) == std::string::npos)
        energy.not_stated += (energy.not_stated.empty() ? "" : ", ") + devices.part;
      continue;
    }
    const double power = devices.count * devices.draw.power(devices.utilization).value;
    energy.parts[devices.part] += power * seconds;
    energy.idle_power += devices.count * devices.draw.idle.value;
    if (devices.part != "GPU") continue;
    gpus += devices.count;
    energy.gpu_power += power;
    const double limit = devices.draw.busy.value;
    energy.gpu_power_least_limit = gpus > devices.count ? std::min(energy.gpu_power_least_limit, limit) : limit;
    energy.gpu_power_limit = std::max(energy.gpu_power_limit, limit);
  }
  if (gpus > 0) energy.gpu_power /= gpus;
  return energy;
}

}  // namespace trainyard
