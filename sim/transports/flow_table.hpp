#pragma once
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

#include "sim/placed_heap.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard::sharing {

using ClockId = TypedIndex<struct ClockTag>;
using BundleId = TypedIndex<struct BundleTag>;
using GroupId = TypedIndex<struct GroupTag>;

struct Flow {
  double finish = 0;  ///< service of its bundle at which it ends
  BundleId bundle;
  FlowToken token = 0;
};

/// Bytes that every flow of a bundle or group has received since the clock was at 0: virtual service (Parekh & Gallager
/// 1993). A flow of S bytes that arrives at service V ends at service V + S, even if the rate changes meanwhile.
struct alignas(64) Clock {
  double rate = 0;           ///< bytes/s of each flow
  double service = 0;        ///< bytes, at time `since`
  double since = 0;          ///< s
  double due = 0;            ///< service in bytes at which its next flow ends
  FlowToken token = 0;       ///< token of that flow
  GroupId group;             ///< owner of the clock; none: a bundle that runs alone
  bool running = false;      ///< it has flows
  bool unscheduled = false;  ///< its next end may have changed

  double next_end() const { return since + std::max(0.0, due - service) / rate; }
  double service_at(double now) const { return service + rate * (now - since); }
  void advance(double now) {
    service = service_at(now);
    since = now;
  }
};

struct Hop {
  LinkId link = 0;
  std::uint32_t place = 0;  // in the link's list
  double weight = 1;
};

/// The flows of one route and rate cap. They always have the same rate, so that links store them as one entry.
struct alignas(64) Bundle {
  struct DueFlow {
    double due = 0;  ///< service of the bundle at which the flow ends
    FlowId id;
  };
  // Flows that run alone only need the first two cache lines.
  boost::container::small_vector<DueFlow, 1> flows;  ///< a heap, the next to end first
  ClockId clock;                                     ///< the clock it runs by: its own, or its group's
  ClockId own_clock;
  GroupId group;         ///< none: it is alone on its links
  bool changed = false;  ///< flows have come or gone since links were last shared
  double shared = 0;     ///< number of flows at that time
  boost::container::small_vector<Hop, 2> hops;
  double cap = 0;                  ///< bytes/s of each flow; 0: none
  const LinkUse* route = nullptr;  ///< identifies the route
  double shift = 0;                ///< its service minus that of its clock
  std::uint32_t place = kNoPlace;  ///< in its group
  std::uint32_t mark = 0;          ///< component for which it was last gathered

  double count() const { return static_cast<double>(flows.size()); }
};

/// Bundles limited by the same link (or by their cap). They have one rate and one clock.
struct Group {
  struct Next {
    double due = 0;  ///< service of the clock at which the bundle's next flow ends
    BundleId id;
  };
  ClockId clock;
  LinkId link = -1;           ///< the limiting link; −1: the cap
  double ceiling = 0;         ///< while all rates are below their ceilings, every link that limits no group has room
  PlacedHeap<Next> bundles;   ///< bundles that have flows
  std::size_t members = 0;    ///< number of bundles; the group is removed with the last one
  std::vector<LinkId> feeds;  ///< links that limit other groups and that its bundles cross or crossed
};

/// State of a link for flows that run alone: one cache line.
struct alignas(64) LinkState {
  struct Share {
    BundleId bundle;
    std::uint32_t hop;
  };
  double capacity = 0;  // bytes/s
  boost::container::small_vector<Share, 2> bundles;
  std::uint32_t mark = 0;
  bool dirty = false;
};

/// State of a link for groups that cross it.
struct Load {
  struct GroupLoad {
    GroupId group;
    std::uint32_t bundles;
    double weight;  ///< sum over their flows
  };
  boost::container::small_vector<GroupLoad, 2> groups;
  GroupId limits;  ///< the group whose rate it limits; none: it may have capacity left

  GroupLoad* find(GroupId group) {
    for (GroupLoad& load : groups)
      if (load.group == group) return &load;
    return nullptr;
  }
  void add(GroupId group, double weight) {
    if (GroupLoad* load = find(group)) {
      ++load->bundles;
      load->weight += weight;
    } else {
      groups.push_back({group, 1, weight});
    }
  }
  void remove(GroupId group, double weight) {
    GroupLoad* load = find(group);
    load->weight -= weight;
    if (--load->bundles > 0) return;
    *load = groups.back();
    groups.pop_back();
  }
};

/// Flows, bundles, groups and links, and the next end of each clock. Independent of fairness.
class FlowTable {
 public:
  struct End {
    double due;  ///< s
    ClockId id;
    FlowToken token;
  };
  IndexedVector<LinkState, LinkId> links;
  IndexedVector<Load, LinkId> loads;
  Pool<Flow, FlowId> flows;
  Pool<Bundle, BundleId> bundles;
  Pool<Group, GroupId> groups;
  IndexedVector<Clock, ClockId> clocks;
  IndexedVector<BundleId, ClockId> bundle_of_clock;  ///< the bundle that owns the clock; none: a group owns it
  PlacedHeap<End> ends;

  explicit FlowTable(std::span<const Link>);

  auto place_of_end() {
    return [this](ClockId id) -> std::uint32_t& { return place_[id]; };
  }

  /// Returns the bundle of that route and cap. Creates it if there is none.
  BundleId bundle_of(std::span<const LinkUse> route, double cap);
  FlowId add_flow(BundleId, double bytes, FlowToken, double now);
  void remove_flow(FlowId);
  /// Takes out the only flow of a bundle that runs by its own clock. Returns none if there are others, or if the clock
  /// is a group's.
  FlowId take_single(ClockId id) {
    if (!bundle_of_clock[id]) return {};
    Bundle& bundle = bundles[bundle_of_clock[id]];
    if (bundle.flows.size() != 1) return {};
    ends.remove(place_[id], place_of_end());
    const FlowId flow = bundle.flows.front().id;
    bundle.flows.clear();
    return flow;
  }
  /// Takes out the next flow to end by that clock, if it ends by `until`, and assigns its end to `ended`. Otherwise
  /// returns none.
  FlowId take_ended(ClockId, double until, double& ended);
  double service(const Bundle& bundle, double now) const { return clocks[bundle.clock].service_at(now) + bundle.shift; }
  double rate(GroupId group) const { return clocks[groups[group].clock].rate; }
  /// Removes a bundle without flows from its links.
  void detach(BundleId);

  void prefetch(ClockId id) const {
    __builtin_prefetch(&clocks[id]);
    if (!bundle_of_clock[id]) return;
    const char* lines = reinterpret_cast<const char*>(&bundles[bundle_of_clock[id]]);
    __builtin_prefetch(lines);
    __builtin_prefetch(lines + 64);
  }

  /// Sets the rate of a bundle that is alone on its links and has flows.
  void run_alone(BundleId id, double rate, double now) {
    const Bundle& bundle = bundles[id];
    Clock& clock = clocks[bundle.own_clock];
    if (clock.rate != rate) {
      clock.advance(now);
      clock.rate = rate;
    }
    clock.due = bundle.flows.front().due - bundle.shift;
    clock.running = true;
    clock.token = flows[bundle.flows.front().id].token;
    schedule(bundle.own_clock);
  }
  void set_rate(ClockId, double rate, double now);
  /// Updates the clock after the bundle's next flow to end may have changed.
  void note_next(BundleId);
  /// Updates `ends`.
  void schedule() {
    for (const ClockId id : unscheduled_) {
      clocks[id].unscheduled = false;
      schedule(id);
    }
    unscheduled_.clear();
  }

  /// Creates a group for a link that limits no group yet, or for a cap (−1).
  GroupId new_group(LinkId limited_by, double rate, double now);
  void join(GroupId, BundleId, double now);
  /// Removes a bundle from its group. The bundle stands still until it gets a rate.
  void leave_group(BundleId, double now);

 private:
  std::vector<ClockId> unscheduled_;
  // Places of clocks in `ends`: a dense table, because moves in the heap write to it.
  IndexedVector<std::uint32_t, ClockId> place_;

  void schedule_later(ClockId id) {
    if (clocks[id].unscheduled) return;
    clocks[id].unscheduled = true;
    unscheduled_.push_back(id);
  }
  void schedule(ClockId id) {
    Clock& clock = clocks[id];
    if (clock.running && clock.rate > 0)
      ends.set({clock.next_end(), id, clock.token}, place_of_end());
    else if (place_[id] != kNoPlace)
      ends.remove(place_[id], place_of_end());
  }
  ClockId new_clock(BundleId, GroupId);
  BundleId new_bundle(std::span<const LinkUse> route, double cap);
  auto place_in_group() {
    return [this](BundleId id) -> std::uint32_t& { return bundles[id].place; };
  }
};

}  // namespace trainyard::sharing
