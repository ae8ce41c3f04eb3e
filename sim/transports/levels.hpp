#pragma once
#include <vector>

#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {

/// Finds the rates after flows come or go, as long as each group remains limited by its link. Then the groups of these
/// flows change, and so does each group whose limiting link a changed group crosses. The result is checked meanwhile: no
/// link is overfull, and on the link that limits a group no flow has a higher rate. Only the fair rates satisfy both. If
/// a check fails, the component has to be filled.
class Levels {
 public:
  explicit Levels(FlowTable& table) : table_(table) {}

  void begin();
  /// A bundle has lost all its flows: removes it from its group.
  void remove(BundleId, double now);
  /// A bundle in a group has another number of flows, or a bundle is new.
  void change(BundleId, double now);
  /// Returns false if the component has to be filled.
  bool settle(double now);

 private:
  FlowTable& table_;
  bool holds_ = true;
  std::uint32_t round_ = 0;
  std::vector<GroupId> affected_;  // groups whose rate has to be found
  std::vector<LinkId> grown_;      // links that limit nobody and that more flows cross now

  void affect(GroupId);
  GroupId group_for(const Bundle&, double now);
  bool find_rate(GroupId, double now);
  bool raise_ceiling(Group&, GroupId, double rate);
  double room(LinkId, GroupId, double rate);
  bool fits(LinkId);
};

}  // namespace trainyard::sharing
