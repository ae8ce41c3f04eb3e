#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// The data centre around a cluster: an entry of the catalog's sites.
struct Site {
  std::string name;
  double pue = 1;             ///< power usage effectiveness: power of the whole site over that of its computers
  std::optional<double> kwh;  ///< price of a kWh. No value: that of the prices
  // Limits that `size` sets; 0: no limit.
  Watts power, rack_power;                   ///< most power of the whole site, with cooling, and of a rack, without it
  int racks = 0, rack_nodes = 0, ports = 0;  ///< number of racks, most nodes of a rack, and ports for adapters
  int rack_units = 0;                        ///< units (of 44.45 mm) of a rack that nodes and switches can have
  Sources sources;
  /// Returns true if it says how many nodes a rack takes.
  bool knows_racks() const { return racks > 0 || rack_nodes > 0 || rack_units > 0 || rack_power.value > 0; }
};
/// Reads and checks an entry with `pue` (1 to 5). Throws UserError with the place.
Site read_site(const Node& entry);

/// Share of its busy power that a GPU draws while it only communicates: half, as in the synchronization of GPT-NeoX on
/// A100 (Patel et al. 2024, Characterizing Power Management Opportunities for LLMs in the Cloud; unverified).
constexpr double kCommunicatingPower = 0.5;

constexpr double kJoulesOfKwh = 3.6e6;

/// Shares of a step that a GPU spends in kernels and in communication. It waits in the rest of the step.
struct GpuTime {
  double kernels = 0;                ///< kernels run, with or without communication
  double exposed_communication = 0;  ///< communication without kernels
};
/// Returns the utilization for which `PowerDraw::power` gives a GPU's mean power over the step.
double utilization(const PowerDraw&, GpuTime);

/// A number of equal devices.
struct PoweredDevices {
  std::string part;  ///< "GPU", "CPU", "HCA", "switch", "rest of the node"
  double count = 0;
  PowerDraw draw;
  double utilization = 1;  ///< 0 (idle) to 1 (busy), for `PowerDraw::power`
};

/// Energy of a step and power of the devices, without the site's PUE.
struct Energy {
  std::map<std::string, double> parts;  ///< J a step, by `PoweredDevices::part`
  double gpu_power = 0;                 ///< W, mean of a GPU over the step
  double gpu_power_limit = 0;           ///< W, the most that a GPU may draw
  double gpu_power_least_limit = 0;     ///< W, the same of the type of GPU with the lowest limit
  double idle_power = 0;                ///< W, all devices without work
  double pue = 1;
  std::string not_stated;  ///< parts whose power is not stated, counted as 0 W: "CPU, switch"

  double devices() const;                          ///< J a step, sum of the parts
  double step() const { return devices() * pue; }  ///< J a step, of the whole site
};

/// Returns the energy of the devices in a step of `seconds`.
Energy energy_of(const std::vector<PoweredDevices>&, double seconds, const Site&);

}  // namespace trainyard
