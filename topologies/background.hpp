#pragma once
#include <span>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/executor/changes.hpp"

namespace trainyard {

class DeviceGraph;

/// Traffic of others on cables between the nodes. It takes a share of the rate of each of its links, as traffic does that
/// does not slow down when links are full; the simulated messages share the rest.
struct BackgroundTraffic {
  enum class Links : std::uint8_t {
    all,
    adapters,  ///< cables with an adapter at one end
    uplinks,   ///< cables between switches
    spines,    ///< cables between switches that lead to the top level
  };
  struct Part {
    Seconds from;
    double share = 0;  ///< share of the rate of each link, from 0 to below 1
  };
  Links links = Links::all;
  std::vector<Part> profile;  ///< sorted by time; the first part begins at 0
  Seconds period;             ///< the profile begins anew after this time; 0: its last part stays
  Place place;

  bool varies() const { return profile.size() > 1; }
  /// Describes it in a few words: "50 % background traffic on uplinks".
  std::string text() const;
};

/// Reads `background` of a cluster with several nodes: a map, or a list of maps. Throws UserError with the place.
std::vector<BackgroundTraffic> read_background(Fields& cluster, int nodes);

/// Returns the changes of capacity that background traffic means for the links of a cluster's graph. Throws
/// UserError for traffic on links that the fabric does not have, and for two kinds of traffic on one link.
std::vector<LinkChange> background_changes(std::span<const BackgroundTraffic>, const DeviceGraph&);

}  // namespace trainyard
