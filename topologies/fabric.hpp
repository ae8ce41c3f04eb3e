#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/hardware/link_fields.hpp"
#include "models/reading/registry.hpp"

namespace trainyard {

struct ClusterSpec;
class DeviceGraph;

/// One level of a folded Clos, from the hosts up.
struct FabricLevel {
  int down = 1;  ///< number of devices below a switch (or group of switches) of this level: HCAs, leaves, …
  double oversubscription = 1;  ///< rate from below divided by rate to above
};

/// A switch, or a cable ("A - B"), that the user has removed.
struct RemovedPart {
  std::string name;
  Place place;
};

/// Description of one part of a fabric: a level of switches, or all of a torus.
struct FabricRow {
  std::string title;   ///< "level 1: 8 switches (leaf)", "torus 4 x 4 of nodes"
  std::string detail;  ///< "64 links down to HCAs at 12.5 GB/s, 2 up at 400 GB/s"
  std::string up;      ///< connection to the next row: "64 links"; "": none
  bool note = false;   ///< not a part but a remark: how messages are routed, or what has been removed
  int island = 0;      ///< number of the island that it is a part of (ClusterSpec::island)
};

/// Places of the chips of a pod on their torus.
struct ChipPlaces {
  std::vector<int> dims;      ///< lengths of one slice
  std::vector<int> position;  ///< number of each chip of a slice along the dimensions, the first fastest
  /// Returns the coordinates of chip `number`, and after them the number of its slice.
  std::vector<int> coordinates(int number) const;
};

/// Joins the nodes of a cluster, or the chips of a pod: holds its parameters, adds its part to the device graph, and
/// describes itself. Each type is one file in fabrics/, which registers itself by name in `fabric_types`.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string type() const = 0;  ///< its name in the registry

  /// Adds its switches, its cables and its router to a graph that contains the nodes. Throws UserError if they do not
  /// fit the nodes.
  virtual void build(DeviceGraph&, const ClusterSpec&) const = 0;
  /// Returns true if `build` itself leaves this out. Otherwise it is removed from the finished graph.
  virtual bool leaves_out(const RemovedPart&) const { return false; }

  virtual bool joins_chips() const { return false; }  ///< it joins the chips themselves, not HCAs
  /// Number of slices of chips. Only the adapters of their hosts join the slices.
  virtual int slices() const { return 1; }
  /// Returns the places of the chips; null: it joins no chips. Throws UserError if they do not fit the nodes.
  virtual std::shared_ptr<const ChipPlaces> chip_places(const ClusterSpec&) const { return nullptr; }
  virtual std::vector<LinkKind> link_kinds() const = 0;      ///< kinds of its cables, as classes of what-ifs
  virtual bool reduces_in_switches() const { return true; }  ///< its switches can reduce in collectives (SHARP)
  virtual std::span<const FabricLevel> levels() const { return {}; }  ///< as configured; empty for most
  /// False: adapters of different places in their nodes have no path to each other.
  virtual bool joins_rails() const { return true; }
  virtual bool has_levels() const { return true; }  ///< false: its switches have no order from the hosts upwards
  /// True: cables to other islands end at the switch that `build` adds last. False: `build` adds a border switch for them,
  /// last, if the part of the cluster has such cables.
  virtual bool has_top() const { return false; }
  /// Returns why no cables to another fabric can end at its switches, and what is expected; "": they can.
  virtual std::string border_refusal() const { return ""; }
  virtual BytesPerSecond slowest_stated_link() const { return {}; }  ///< 0: no rate is stated

  /// Describes its parts, for `topo show`.
  virtual std::vector<FabricRow> rows(const DeviceGraph&, const ClusterSpec&) const = 0;
  virtual std::string routing() const { return ""; }  ///< how messages are routed; "": there is only one path
  /// Rule that chooses the one path of each pair.
  virtual std::string pair_routing() const { return "shortest paths"; }
  virtual std::string summary() const { return ""; }    ///< its parameters, for `list fabrics`
  virtual std::string title() const { return type(); }  ///< its name in the line that describes a cluster
};

/// Reads the keys of one type of fabric. Throws UserError with the place.
using FabricReader = std::shared_ptr<const Fabric> (*)(Fields&);
Registry<FabricReader>& fabric_types();
/// Makes a fabric from the name of its type and its own keys as YAML: `make_fabric("ring", "{wrap: false}")`.
std::shared_ptr<const Fabric> make_fabric(const std::string& type, std::string_view keys = "{}");

}  // namespace trainyard
