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

}  // namespace trainyard::sharing
