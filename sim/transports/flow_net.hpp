#pragma once
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

#include "sim/transports/transport.hpp"

namespace trainyard {

/// Flows over links that share them max–min fair (progressive filling, Bertsekas & Gallager 1992, §6.5.2), with weights
/// and rate caps. Knows no clock and no SimGrid: times go in, times come out. Only the flows that a change can reach
/// over shared links are shared anew. Rates of flows that run alone cost a walk over their links.
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
  /// Rate over capacity of a link, as last shared.
  double used_share(LinkId) const;

 private:
  struct Hop {
    LinkId link = 0;
    std::uint32_t place = 0;  // in the link's list
    double weight = 1;
  };
  // Thousands of flows that end one by one are taken up from cold memory: each lies in two cache lines, a link in one.
  struct alignas(64) Flow {
    double rate = 0, cap = 0;    // bytes/s; cap 0: none
    double left = 0, since = 0;  // bytes left at that time
    boost::container::small_vector<Hop, 4> hops;
    std::uint32_t mark = 0;  // component it was last gathered for
    FlowToken token = 0;
  };
  struct Share {
    FlowId flow;
    std::uint32_t hop;
  };
  struct alignas(64) LinkState {
    double capacity = 0;
    double used = 0;  // sum of rates, as last shared
    boost::container::small_vector<Share, 2> flows;
    std::uint32_t mark = 0;
    bool dirty = false;
  };
  struct Unshared {       // of a link, while its component is shared:
    double capacity = 0;  // that no flow has yet
    double weights = 0;   // of the flows that have no rate yet
  };
  struct End {
    double time;
    FlowId flow;
    FlowToken token;
  };
  static constexpr std::uint32_t kOut = 0xffffffffU;

  IndexedVector<LinkState, LinkId> links_;
  IndexedVector<Unshared, LinkId> unshared_;
  Pool<Flow, FlowId> flows_;
  std::vector<LinkId> dirty_;
  std::vector<FlowId> unshared_flows_;  // added since links were last shared
  std::vector<End> ends_;  // a heap with four below each, by time alone: flows that end together cost no moves
  IndexedVector<std::uint32_t, FlowId> place_;  // of each flow in that heap, or kOut
  IndexedVector<double, FlowId> fixed_;         // rate found while the flow's component is shared
  std::vector<End> ended_;                      // scratch of collect
  std::uint32_t mark_ = 0;
  // Scratch of sharing:
  std::vector<FlowId> component_, capped_;
  std::vector<LinkId> component_links_;
  struct Bottleneck {
    double share;
    LinkId link;
  };
  std::vector<Bottleneck> bottlenecks_;  // a heap, the least share first

  void mark_dirty(LinkId);
  void share(double now);
  double rate_alone(const Flow&) const;
  void gather_component(LinkId);
  void share_component(double now);
  void fix(FlowId, double rate);
  void set_rate(FlowId, double rate, double now);
  void detach(FlowId);
  void schedule_end(FlowId, double time);
  void remove_end(std::uint32_t at);
  void sift_up(std::uint32_t);
  void sift_down(std::uint32_t);
  void put(std::uint32_t at, const End& end) {
    ends_[at] = end;
    place_[end.flow] = at;
  }
};

}  // namespace trainyard
