#pragma once
#include <optional>
#include <string>

#include "models/energy/energy.hpp"
#include "models/hardware/node_type.hpp"
#include "models/reading/catalog.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The most nodes of a type in a rack of a site.
struct RackRoom {
  int nodes = 0;      ///< 0: a rack has no room for a node
  std::string limit;  ///< key of `site` that sets this number: "rack_units"
};
/// Returns the room of a rack: by its power, its units and its number of nodes, else one node. No value: the site says
/// nothing about racks. Throws UserError if the site states units of a rack, but the node has no height.
std::optional<RackRoom> rack_room(const Site&, const NodeType&, const Catalog&);
/// Returns the number of racks that so many nodes need. 0: it is not known, or a rack has no room for a node.
int racks_of(const Site&, const NodeType&, int nodes, const Catalog&);

/// The most nodes of a type that the site has room for.
struct SiteLimit {
  std::string node;
  int nodes = 0;
  std::string limit;            ///< the key of `site` that sets this limit: "power"
  double node_power = 0;        ///< most power of a node without cooling, W; 0: not stated
  double site_power = 0;        ///< power of the site, W; 0: it has no limit
  double pue = 1;               ///< power of the site over that of its nodes
  int nodes_of_rack = 0;        ///< most nodes of a rack; 0: the site says nothing about racks
  std::string rack_limit = {};  ///< key of `site` that sets it: "rack_units"
  /// The reason why there is no room for a single node: "a node needs 10.2 kW, …"; empty: there is room.
  std::string shortage = {};
};

/// Returns the most nodes of a type that a site has room for, and the limit that allows the fewest. No value: the site
/// has no limits. Switches are not counted. Throws UserError if the site limits power or units of a rack, but the power
/// or the height of the nodes is not stated.
std::optional<SiteLimit> site_limit(const Site&, const NodeType&, const Catalog&);
/// Says that a site has no room for a cluster whose nodes are of one type: "room for 1 x dgx-a100 (site.power; …), not for
/// 4"; "": it has room, or states no limits.
std::string shortage_of_site(const Site&, const ClusterSpec&);
/// Describes such a limit: "room for 196 x dgx-h100 (site.power; 10.2 kW a node)".
std::string room_in_words(const SiteLimit&);

}  // namespace trainyard
