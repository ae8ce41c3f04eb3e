#pragma once
#include <vector>

#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {

/// Shares the links of a component anew: progressive filling (Bertsekas & Gallager 1992, §6.5.2), with weights and
/// caps.
class Filling {
 public:
  explicit Filling(FlowTable& table) : table_(table), unshared_(table.links.size()) {}

  /// Shares the component of a link: all bundles that share links with the link's bundles, and so on.
  void share_from(LinkId, double now);

 private:
  struct UnsharedLink {   // State of a link while its component is shared:
    double capacity = 0;  // bytes/s not yet given to a flow
    double weights = 0;   // sum over the flows that have no rate yet
  };
  struct Bottleneck {
    double share;
    LinkId link;
  };
  struct FixedRate {
    double rate = -1;
    LinkId limiting_link = -1;  // limiting link; −1: the cap
  };
  FlowTable& table_;
  IndexedVector<UnsharedLink, LinkId> unshared_;
  IndexedVector<FixedRate, BundleId> fixed_;
  std::vector<BundleId> component_, capped_;
  std::vector<LinkId> links_;
  std::vector<Bottleneck> bottlenecks_;  // a heap, the smallest share first
  std::uint32_t mark_ = 0;

  void gather(LinkId);
  void fill();
  void fix(BundleId, double rate, LinkId limiting_link);
  void group(double now);
};

/// Finds the rates after flows come or go. The groups of these flows change, and so does each group whose limiting link a
/// changed group crosses; a bundle that another link limits now changes its group. The result is checked meanwhile: no
/// link is overfull, and on the link that limits a group no flow has a higher rate. Only the fair rates satisfy both. If
/// a check fails, or if too many groups change, the component has to be filled.
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
  int rates_left_ = 0;             // number of rates that may still be found before the component is filled
  std::vector<GroupId> affected_;  // groups whose rate has to be found
  std::vector<LinkId> grown_;      // links that limit nobody and that more flows cross now

  void affect(GroupId);
  void leave(BundleId, double now);
  void lower_ceiling(GroupId);
  void note_feed(GroupId, LinkId);
  GroupId limited_group(LinkId, double rate, double now);
  void move(BundleId, GroupId to, double now);
  void move_all(LinkId, GroupId from, GroupId to, double now);
  void group_alone(BundleId, double now);
  double rate_with(const Hop&, double flows) const;
  GroupId group_for(const Bundle&, double now);
  void find_rate(GroupId, double now);
  bool raise_ceiling(GroupId, double rate, double now);
  double room(LinkId, GroupId, double rate);
  bool fits(LinkId);
};

}  // namespace trainyard::sharing
