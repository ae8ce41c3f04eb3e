#pragma once
#include <vector>

#include "sim/transports/filling.hpp"
#include "sim/transports/flow_table.hpp"

namespace trainyard {

/// Flows over links that they share max–min fair, with weights and rate caps. It has no clock of its own: times are
/// parameters and results. Flows of one route and cap are one entry, a bundle. When flows come or go, a bundle that
/// runs alone costs a walk over its links. Others cost the groups whose rate changes (Levels), or, if these are too many,
/// all bundles that the change can reach over shared links (Filling).
class FlowNet {
 public:
  explicit FlowNet(std::span<const Link>);

  FlowId add(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken, double now);
  /// Removes a flow before its end. Its id is free again.
  void remove(FlowId);
  void set_capacity(LinkId, BytesPerSecond);

  /// Time at which the next flow ends while links are shared as they are now; −1: none does.
  double next(double now);
  /// Moves the tokens of the flows that have ended by `until` into `done`, and frees their ids.
  void collect(double until, double now, std::vector<FlowToken>& done);

  /// Writes the tokens of some flows that end next, the very next one first. Returns their number.
  std::size_t upcoming(std::array<FlowToken, kUpcoming>&) const;

  Bytes remaining(FlowId, double now) const;
  std::size_t flows() const { return table_.flows.in_use(); }
  /// Shifts all times by `seconds`.
  void shift(double seconds);
  /// Returns the rate of a link divided by its capacity, as last shared.
  double used_share(LinkId) const;

 private:
  struct EndedFlow {
    double time;
    FlowId flow;
  };
  sharing::FlowTable table_;
  sharing::Levels levels_;
  sharing::Filling filling_;
  std::vector<sharing::BundleId> changed_;  // since links were last shared
  std::vector<LinkId> dirty_;
  std::vector<LinkId> near_;      // links of the changed bundles that are in groups; scratch memory of share
  std::vector<EndedFlow> ended_;  // scratch memory of collect

  void note_change(sharing::BundleId);
  void mark_dirty(LinkId);
  void share(double now);
  void drop_empty(double now);
  double rate_alone(const sharing::Bundle&) const;
};

}  // namespace trainyard
