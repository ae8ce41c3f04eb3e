#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// The data centre around a cluster: an entry of the catalog's sites.
struct Site {
  std::string name;
  double pue = 1;  ///< power usage effectiveness: all that the site draws, over what its computers draw
  Sources sources;
};
/// Reads and checks an entry, `pue` (1 to 5). Throws UserError with the place.
Site read_site(const Node& entry);

/// Share of its most that a GPU draws while all it does is communicate: half, as in the synchronization of GPT-NeoX on
/// A100 (Patel et al. 2024, Characterizing Power Management Opportunities for LLMs in the Cloud; unverified).
constexpr double kCommunicatingPower = 0.5;

constexpr double kJoulesOfKwh = 3.6e6;

/// How a GPU spends a step, in shares of it. The rest it waits.
struct GpuTime {
  double kernels = 0;                ///< whatever else goes on besides
  double exposed_communication = 0;  ///< and no kernel
};
/// Utilization by which `PowerDraw::at` gives a GPU's mean power over the step.
double utilization(const PowerDraw&, GpuTime);

/// Devices that are alike.
struct PoweredDevices {
  std::string part;  ///< "GPU", "CPU", "HCA", "switch", "rest of the node"
  double count = 0;
  PowerDraw draw;
  double utilization = 1;
};

/// What a step takes. J and W at the devices, without the site's PUE.
struct Energy {
  std::map<std::string, double> parts;  ///< J a step, by part
  double gpu_power = 0;                 ///< W: the mean of a GPU over the step
  double gpu_power_limit = 0;           ///< W: what it may draw
  double idle_power = 0;                ///< W: of all devices, without work
  double pue = 1;
  std::string not_stated;  ///< parts that are there, but whose power is not: "CPU, switch"; they count as nothing

  double devices() const;                          ///< J a step, of all parts
  double step() const { return devices() * pue; }  ///< J a step, of the site
};

/// Devices over a step of `seconds`.
Energy energy_of(const std::vector<PoweredDevices>&, double seconds, const Site&);

}  // namespace trainyard
