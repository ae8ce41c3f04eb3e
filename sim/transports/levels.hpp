#pragma once
#include <vector>

#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {

/// Finds the rates that follow when flows come or go, as long as each group stays limited by the link that limits it:
/// then only the groups at that link change, and those that feel it over links which limit them. The result is proved as it
/// is found: no link is more than full, and on the link that limits a group nobody has a higher rate. Rates with both are
/// the fair ones, and there are no others. Where that fails, all is as undone: the component has to be filled.
class Levels {
 public:
  explicit Levels(FlowTable& table) : table_(table) {}

  void begin();
  /// A bundle has lost all its flows: it leaves its group.
  void remove(BundleId, double now);
  /// A bundle in a group has got another number of flows, or a bundle is new.
  void change(BundleId, double now);
  /// False: the component has to be filled.
  bool settle(double now);

 private:
  FlowTable& table_;
  bool holds_ = true;
  std::uint32_t round_ = 0;
  std::vector<GroupId> affected_;  // whose rate has to be found
  std::vector<LinkId> grown_;      // links that limit nobody, which more flows cross

  void affect(GroupId);
  void load_more(LinkId, GroupId);
  GroupId group_for(const Bundle&, double now);
  bool find_rate(GroupId, double now);
  bool raise_ceiling(Group&, GroupId, double rate);
  double room(LinkId, GroupId, double rate);
  bool fits(LinkId);
};

}  // namespace trainyard::sharing
