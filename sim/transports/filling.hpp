#pragma once
#include <vector>

#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {

/// Shares the links of a component anew: progressive filling (Bertsekas & Gallager 1992, §6.5.2), with weights and caps.
class Filling {
 public:
  explicit Filling(FlowTable& table) : table_(table), unshared_(table.links.size()) {}

  /// All bundles that share links with the link's, and so on.
  void share_from(LinkId, double now);

 private:
  struct Unshared {       // of a link, while its component is shared:
    double capacity = 0;  // that no flow has yet
    double weights = 0;   // of the flows that have no rate yet
  };
  struct Bottleneck {
    double share;
    LinkId link;
  };
  struct Fixed {
    double rate = -1;
    LinkId by = -1;  // −1: by its cap
  };
  FlowTable& table_;
  IndexedVector<Unshared, LinkId> unshared_;
  IndexedVector<Fixed, BundleId> fixed_;
  std::vector<BundleId> component_, capped_;
  std::vector<LinkId> links_;
  std::vector<Bottleneck> bottlenecks_;  // a heap, the least share first
  std::uint32_t mark_ = 0;

  void gather(LinkId);
  void fill();
  void fix(BundleId, double rate, LinkId by);
  void group(double now);
};

}  // namespace trainyard::sharing
