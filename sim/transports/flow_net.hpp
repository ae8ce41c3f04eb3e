#pragma once
#include <cstdint>
#include <vector>

#include "sim/transports/filling.hpp"
#include "sim/transports/flow_table.hpp"
#include "sim/transports/levels.hpp"

namespace trainyard {

/// Flows over links that share them max–min fair, with weights and rate caps. Knows no clock and no SimGrid: times go in,
/// times come out. Flows of one route and cap are one entry, a bundle. When flows come or go, a bundle that runs alone costs
/// a walk over its links; others cost the groups whose rate changes (Levels), or, where another link becomes the tightest
/// for somebody, all bundles that the change can reach over shared links (Filling).
class FlowNet {
 public:
  explicit FlowNet(std::span<const Link>);

  FlowId add(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken, double now);
  /// The flow ends without a completion. Its id is free again.
  void remove(FlowId);
  void set_capacity(LinkId, BytesPerSecond);

  /// When the next flow ends, all links being shared as they are now; −1: none does.
  double next(double now);
  /// Moves the tokens of the flows that have ended by `until` into `done`; their ids are free again.
  void collect(double until, double now, std::vector<FlowToken>& done);

  /// Tokens of flows that are among the next to end, the next one first; how many.
  std::size_t upcoming(std::array<FlowToken, kUpcoming>&) const;

  Bytes remaining(FlowId, double now) const;
  std::size_t flows() const { return table_.flows.in_use(); }
  /// Everything is so much later than it was.
  void shift(double seconds);
  /// Rate over capacity of a link, as last shared.
  double used_share(LinkId) const;

 private:
  struct Ended {
    double time;
    FlowId flow;
  };
  sharing::FlowTable table_;
  sharing::Levels levels_;
  sharing::Filling filling_;
  std::vector<sharing::BundleId> changed_;  // since links were last shared
  std::vector<LinkId> dirty_;
  std::vector<LinkId> near_;  // links of the grouped bundles that have changed: scratch of share
  std::vector<Ended> ended_;  // scratch of collect

  void note_change(sharing::BundleId);
  void mark_dirty(LinkId);
  void share(double now);
  void drop_empty(double now);
  double rate_alone(const sharing::Bundle&) const;
};

}  // namespace trainyard
