#pragma once
#include <string>
#include <vector>

#include "topologies/cluster.hpp"

namespace trainyard {

/// A folded Clos switch by switch. Level 0 are the leaves; group g of level l has `planes(l)` switches, of which plane p
/// has an uplink to each of the planes p·uplinks(l) … of the group above, so that every plane of the top is reached by
/// one way up (an XGFT, Öhring et al. 1995). The top has one group.
class ClosShape {
 public:
  /// For as many HCAs. Levels whose groups are all one fall away. Throws UserError at `place` where `whole` is asked for
  /// and a level has no whole number of uplinks.
  ClosShape(const std::vector<FabricLevel>&, int hcas, bool whole, const Place& place);

  int levels() const { return static_cast<int>(groups_.size()); }  ///< the top included
  int groups(int level) const { return groups_[level]; }
  int down(int level) const { return down_[level]; }           ///< groups below one group
  double uplinks(int level) const { return uplinks_[level]; }  ///< of a switch; not the top's
  int planes(int level) const { return planes_[level]; }
  bool is_whole() const;   ///< every level has a whole number of uplinks
  BuildSize size() const;  ///< of all switches and the cables between them

  /// "leaf3", "pod0.5" (group, plane), "spine2" (top of two levels), "core7" (top of more).
  std::string name(int level, int group, int plane) const;
  std::vector<std::string> names() const;

 private:
  std::vector<int> groups_, down_, planes_;
  std::vector<double> uplinks_;
};

/// The HCAs in the order of the leaves' ports, node by node.
std::vector<DeviceId> hcas_in_order(const DeviceGraph&);
/// The same by rails: all of index 0, then all of index 1, …, each rail on leaves of its own. −1: a port without an HCA.
std::vector<DeviceId> hcas_by_rail(const DeviceGraph&, int leaf_ports);

/// Throws UserError at `spec.fabric_place` where the switch that the fabric names has too few ports for a level.
void require_ports(const std::vector<FabricLevel>&, const ClusterSpec& spec);

/// Switch by switch; the hash of a pair of HCAs (with the seed) chooses its path. `ports`: the HCAs in the order of the
/// leaves' ports.
void build_hashed_clos(DeviceGraph&, const ClusterSpec&, const ClosShape&, const std::vector<DeviceId>& ports,
                       BytesPerSecond link_rate, std::uint64_t seed);

}  // namespace trainyard
