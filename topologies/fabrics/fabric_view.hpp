#pragma once
#include <string>
#include <vector>

#include "topologies/device_graph.hpp"

namespace trainyard {

struct ClusterSpec;

/// Tolerance for rates, which are products of figures in files: sums that are equal on paper may differ in the last
/// digits.
constexpr double kRateTolerance = 1e-9;

/// The fabric of a graph: its ends (HCAs, or chips with links of their own), its switches, and the wires between them
/// that are up.
struct FabricView {
  /// The graph must outlive it.
  explicit FabricView(const DeviceGraph&);
  /// The fabric of one island alone, without the cables to others.
  FabricView(const DeviceGraph&, const ClusterSpec& part);

  const DeviceGraph& graph;
  std::vector<DeviceId> ends;  ///< in order
  const char* end_word;        ///< "HCA" | "chip"

  bool is_end(DeviceId d) const { return end_[d] != 0; }
  bool contains(DeviceId) const;
  std::vector<LinkId> links(DeviceId from) const;  ///< wires of the fabric that are up
  double capacity(LinkId link) const { return graph.links()[link].capacity.value; }  ///< bytes/s
  double rate(DeviceId end) const;                                                   ///< bytes/s, of all its wires
  bool equal_rates() const;
  /// Returns true if both directions of the wire share one rate.
  bool half_duplex(LinkId wire) const {
    return graph.medium(wire) >= 0 && graph.medium(wire) == graph.medium(wire ^ 1);
  }
  const std::string& name(DeviceId d) const { return graph.devices()[d].name; }
  std::string level_name(DeviceId) const;     ///< its name without its number: "leaf"
  std::string count(std::size_t ends) const;  ///< "3 HCAs"

 private:
  std::vector<char> end_;  // indexed by device
  int island_ = -1;        // −1: all islands
};

}  // namespace trainyard
