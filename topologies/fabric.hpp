#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/hardware/link_kind.hpp"
#include "models/reading/registry.hpp"

namespace trainyard {

/// Devices and cables of something that is to be built, counted before.
struct BuildSize {
  double devices = 0, cables = 0;
};

/// Throws UserError at `place` where they are more than memory has room for: a graph takes about 1 kB a device.
void require_buildable(const BuildSize&, const std::string& what, const Place& place);

struct ClusterSpec;
class DeviceGraph;

/// One level of a folded Clos, from the hosts up.
struct FabricLevel {
  int down = 1;                 ///< what a switch (or group of switches) of this level has below it: HCAs, leaves, …
  double oversubscription = 1;  ///< rate from below over rate to above
};

/// A switch, or a cable ("A - B"), that the user has removed.
struct TakenOut {
  std::string name;
  Place place;
};

/// One part of a fabric in words: a level of switches, or all of a torus.
struct FabricRow {
  std::string title;   ///< "level 1: 8 switches (leaf)", "torus 4 x 4 of nodes"
  std::string detail;  ///< "64 links down to HCAs at 12.5 GB/s, 2 up at 400 GB/s"
  std::string up;      ///< what joins it to the next row: "64 links"; "" for none
  bool note = false;   ///< not a part but a remark: how messages are routed, what is taken out
};

/// A what-if: factors on the rates of links by kind, and a divisor of latencies.
struct LinkUpgrade {
  std::function<double(LinkKind)> rate;
  double latency = 1;
};

/// What joins the nodes of a cluster (or the chips of a pod): its parameters, its part of the device graph, and all
/// that is said of it. One file in fabrics/ for each type, which adds itself to `fabric_types` by name.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string type() const = 0;  ///< its name in the registry

  /// Adds its switches and cables to a graph that holds the nodes, and the router that finds paths through them. Throws
  /// UserError where they do not fit the nodes.
  virtual void build(DeviceGraph&, const ClusterSpec&) const = 0;
  /// Does `build` leave this out by itself? Otherwise it is taken out of the graph that `build` has made.
  virtual bool leaves_out(const TakenOut&) const { return false; }
  /// The same with faster links, for nodes as they are before the upgrade: rates that follow from those of the nodes'
  /// adapters are kept.
  virtual std::shared_ptr<const Fabric> upgraded(const ClusterSpec& before, const LinkUpgrade&) const = 0;

  virtual bool joins_chips() const { return false; }         ///< it joins the chips themselves, not HCAs
  virtual std::vector<LinkKind> link_kinds() const = 0;      ///< of its cables: classes of what-ifs
  virtual bool reduces_in_switches() const { return true; }  ///< its switches can take part in collectives (SHARP)
  virtual std::span<const FabricLevel> levels() const { return {}; }  ///< as configured; most have none
  virtual bool has_levels() const { return true; }  ///< false: switches without an order from the hosts upwards
  virtual BytesPerSecond slowest_stated_link() const { return {}; }  ///< 0: no rate is stated

  /// Its parts in words, for `topo show`.
  virtual std::vector<FabricRow> rows(const DeviceGraph&, const ClusterSpec&) const = 0;
  virtual std::string routing() const { return ""; }  ///< how messages are routed; "": there is only one path
  virtual std::string pair_routing() const { return "shortest paths"; }  ///< what chooses the one path of each pair
  virtual std::string summary() const { return ""; }                     ///< its parameters, for `list fabrics`
  virtual std::string title() const { return type(); }                   ///< in the line that describes a cluster
};

/// Reads the keys that only this type of fabric has. Throws UserError with the place.
using FabricReader = std::shared_ptr<const Fabric> (*)(Fields&);
Registry<FabricReader>& fabric_types();
}  // namespace trainyard
