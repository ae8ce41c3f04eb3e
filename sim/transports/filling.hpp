#pragma once
#include <vector>

#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {

/// Shares the links of a component anew: progressive filling (Bertsekas & Gallager 1992, §6.5.2), with weights and
/// caps.
class Filling {
 public:
  explicit Filling(FlowTable& table)
      : table_(table), unshared_(table.links.size()), neighbourhood_(table.links.size()) {}

  /// Shares the component of a link: all bundles that share links with the link's bundles, and so on.
  void share_from(LinkId, double now);
  /// Shares only the neighbourhood of a change: the changed bundles, the groups, and then the groups to which the result
  /// is unfair, until there are none. All others keep their rates. Then every bundle has a full link on which no other one
  /// has a higher rate, which only the fair rates satisfy. Returns false if that takes too many rounds; nothing has changed
  /// then.
  bool share_near(const std::vector<BundleId>& changed, const std::vector<GroupId>& groups, double now);

 private:
  struct UnsharedLink {   // State of a link while its component is shared:
    double capacity = 0;  // bytes/s not yet given to a flow
    double weights = 0;   // sum over the flows that have no rate yet
  };
  struct NearLink {       // State of a link while the neighbourhood of a change is shared:
    double capacity = 0;  // bytes/s that groups outside leave
    double load = 0;      // bytes/s of bundles inside
    double highest = 0;   // highest rate of a bundle inside
    double lowest = 0;    // lowest rate of a bundle inside that the link limits
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
  IndexedVector<NearLink, LinkId> neighbourhood_;
  std::vector<BundleId> component_, capped_;  // component_: or the neighbourhood of a change
  std::vector<LinkId> links_;
  std::vector<Bottleneck> bottlenecks_;  // a heap, the smallest share first
  std::uint32_t mark_ = 0;

  void gather(LinkId);
  void prepare();
  void gather_group(GroupId);
  void gather_bundle(BundleId);
  void gather_link(LinkId);
  void prepare_near();
  bool gather_unfair();
  void regroup(double now);
  void fill();
  void fix(BundleId, double rate, LinkId limiting_link);
  void group(double now);
  void join_limiting_group(BundleId, double now);
};

}  // namespace trainyard::sharing
