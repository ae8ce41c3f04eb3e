#pragma once
#include <string>
#include <vector>

#include "topologies/build_size.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A folded Clos switch by switch. Level 0 has the leaves. Group g of level l has `planes(l)` switches. Plane p has an
/// uplink to each of the planes p·uplinks(l) … of the group above, so that exactly one way up leads to every plane of
/// the top (an XGFT, Öhring et al. 1995). The top has one group.
class ClosShape {
 public:
  /// A Clos for `hcas` HCAs. Levels above the first one with a single group are dropped. Throws UserError at `place` if
  /// `must_be_whole` is set and a level has no integer number of uplinks.
  ClosShape(const std::vector<FabricLevel>&, int hcas, bool must_be_whole, const Place& place);

  int levels() const { return static_cast<int>(groups_.size()); }  ///< number of levels, including the top
  int groups(int level) const { return groups_[level]; }
  int down(int level) const { return down_[level]; }           ///< number of groups below one group
  double uplinks(int level) const { return uplinks_[level]; }  ///< uplinks of a switch; not defined for the top
  int planes(int level) const { return planes_[level]; }
  BuildSize size() const;  ///< all switches, and the cables between them

  /// "leaf3", "pod0.5" (group, plane), "spine2" (top of two levels), "core7" (top of more).
  std::string name(int level, int group, int plane) const;
  std::vector<std::string> names() const;

 private:
  std::vector<int> groups_, down_, planes_;
  std::vector<double> uplinks_;
};

/// Returns the HCAs by rails: all HCAs of index 0, then all of index 1, …, each rail on leaves of its own. −1: a port
/// without an HCA.
std::vector<DeviceId> hcas_by_rail(const DeviceGraph&, const ClusterSpec&, int leaf_ports);

/// Throws UserError at `spec.fabric_place` if the switch that the fabric names has too few ports for a level.
void require_ports(const std::vector<FabricLevel>&, const ClusterSpec& spec);

/// The hash of a fabric's routes.
struct RouteHash {
  std::uint64_t seed = 1;
  int queue_pairs = 1;  ///< flows that carry equal parts of the messages of a pair of HCAs, each with a path of its own
  /// Each message takes the path with the least load when it starts, in place of that of the hash.
  bool adaptive = false;
  Bytes flowlet = {};  ///< adaptive: the bytes after which a message chooses again; 0: it keeps its path
};

/// Builds the Clos switch by switch. The hash of a pair of HCAs, the queue pair and the seed choose a path, or the loads
/// do if the routes are adaptive. `ports`: the HCAs in the order of the leaves' ports.
void build_hashed_clos(DeviceGraph&, const ClusterSpec&, const ClosShape&, const std::vector<DeviceId>& ports,
                       BytesPerSecond link_rate, const RouteHash&);

}  // namespace trainyard
