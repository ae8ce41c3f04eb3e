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
  double finish = 0;  ///< what its bundle has served each of its flows when it ends
  BundleId bundle;
  FlowToken token = 0;
};

/// What every flow of a bundle or a group has got since the clock was at 0, in bytes: virtual service (Parekh & Gallager
/// 1993). Who comes at service V with S bytes leaves at V + S, whatever happens to the rate meanwhile.
struct alignas(64) Clock {
  double rate = 0;     ///< bytes/s of each flow
  double service = 0;  ///< at `since`
  double since = 0;
  double due = 0;            ///< service at which its next flow ends
  FlowToken token = 0;       ///< of that flow
  GroupId group;             ///< whose clock it is; none: a bundle's that runs alone
  bool running = false;      ///< it has flows
  bool unscheduled = false;  ///< its next end may have changed

  double next_end() const { return since + std::max(0.0, due - service) / rate; }
  double at(double now) const { return service + rate * (now - since); }
  void advance(double now) {
    service = at(now);
    since = now;
  }
};

struct Hop {
  LinkId link = 0;
  std::uint32_t place = 0;  // in the link's list
  double weight = 1;
};

/// The flows of one route and rate cap: they have one rate at all times, so links know them as one entry.
struct alignas(64) Bundle {
  struct Due {
    double due = 0;  ///< service of the bundle at which the flow ends
    FlowId id;
  };
  // Flows that run alone come and go by the first two cache lines.
  boost::container::small_vector<Due, 1> flows;  ///< a heap, the next to end first
  ClockId clock;                                 ///< that it runs by: its own, or its group's
  ClockId own;
  GroupId group;         ///< none: it is alone on its links
  bool changed = false;  ///< flows have come or gone since links were last shared
  double shared = 0;     ///< how many flows there were then
  boost::container::small_vector<Hop, 2> hops;
  double cap = 0;                  ///< bytes/s of each flow; 0: none
  const LinkUse* route = nullptr;  ///< to know it again
  double shift = 0;                ///< its service less that of its clock
  std::uint32_t place = kNoPlace;  ///< in its group
  std::uint32_t mark = 0;          ///< component it was last gathered for

  double count() const { return static_cast<double>(flows.size()); }
};

/// Bundles that one link (or their cap) limits: they have one rate, and one clock.
struct Group {
  struct Next {
    double due = 0;  ///< service of the clock when the bundle's next flow ends
    BundleId id;
  };
  ClockId clock;
  LinkId link = -1;           ///< that limits them; −1: their cap
  double ceiling = 0;         ///< while no rate is above its ceiling, no link that limits nobody is more than full
  PlacedHeap<Next> bundles;   ///< that have flows
  std::size_t members = 0;    ///< bundles: the group goes with the last
  std::vector<LinkId> feeds;  ///< links which limit other groups, and which its bundles cross, or did
  std::uint32_t settled = 0;  ///< round in which its rate was last found
};

/// A link as flows that run alone know it: one cache line.
struct alignas(64) LinkState {
  struct Share {
    BundleId bundle;
    std::uint32_t hop;
  };
  double capacity = 0;
  boost::container::small_vector<Share, 2> bundles;
  std::uint32_t mark = 0;
  bool dirty = false;
};

/// A link that groups cross.
struct Load {
  struct Of {
    GroupId group;
    std::uint32_t bundles;
    double weight;  ///< sum over their flows
  };
  boost::container::small_vector<Of, 2> groups;
  GroupId limits;  ///< the group whose rate it sets; none: it may have something left

  Of* find(GroupId group) {
    for (Of& of : groups)
      if (of.group == group) return &of;
    return nullptr;
  }
  void add(GroupId group, double weight) {
    if (Of* of = find(group)) {
      ++of->bundles;
      of->weight += weight;
    } else {
      groups.push_back({group, 1, weight});
    }
  }
  void remove(GroupId group, double weight) {
    Of* of = find(group);
    of->weight -= weight;
    if (--of->bundles > 0) return;
    *of = groups.back();
    groups.pop_back();
  }
};

/// Flows, bundles, groups and links, and which clock has its next end when. Knows nothing of fairness.
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
  IndexedVector<BundleId, ClockId> bundle_by;  ///< whose clock it is; none: a group's
  PlacedHeap<End> ends;

  explicit FlowTable(std::span<const Link>);

  auto place_of_end() {
    return [this](ClockId id) -> std::uint32_t& { return place_[id]; };
  }

  /// The bundle of that route and cap; a new one if there is none.
  BundleId bundle_of(std::span<const LinkUse> route, double cap);
  FlowId add_flow(BundleId, double bytes, FlowToken, double now);
  void remove_flow(FlowId);
  /// The only flow of a bundle that runs by its own clock, taken out; none: there are others, or the clock is a group's.
  FlowId take_single(ClockId id) {
    if (!bundle_by[id]) return {};
    Bundle& bundle = bundles[bundle_by[id]];
    if (bundle.flows.size() != 1) return {};
    ends.remove(place_[id], place_of_end());
    const FlowId flow = bundle.flows.front().id;
    bundle.flows.clear();
    return flow;
  }
  /// The flow that ends next by that clock, if it does by `until`: taken out, and when it ended. None: it does not.
  FlowId take_ended(ClockId, double until, double& ended);
  double service(const Bundle& bundle, double now) const { return clocks[bundle.clock].at(now) + bundle.shift; }
  double rate(GroupId group) const { return clocks[groups[group].clock].rate; }
  /// Takes a bundle that has no flows off its links.
  void detach(BundleId);

  void prefetch(ClockId id) const {
    __builtin_prefetch(&clocks[id]);
    if (!bundle_by[id]) return;
    const char* lines = reinterpret_cast<const char*>(&bundles[bundle_by[id]]);
    __builtin_prefetch(lines);
    __builtin_prefetch(lines + 64);
  }

  /// Of a bundle that is alone on its links, and has flows.
  void run_alone(BundleId id, double rate, double now) {
    const Bundle& bundle = bundles[id];
    Clock& clock = clocks[bundle.own];
    if (clock.rate != rate) {
      clock.advance(now);
      clock.rate = rate;
    }
    clock.due = bundle.flows.front().due - bundle.shift;
    clock.running = true;
    clock.token = flows[bundle.flows.front().id].token;
    schedule(bundle.own);
  }
  void set_rate(ClockId, double rate, double now);
  /// The next flow of the bundle to end may be another one.
  void note_next(BundleId);
  /// Brings `ends` up to date.
  void schedule() {
    for (const ClockId id : unscheduled_) {
      clocks[id].unscheduled = false;
      schedule(id);
    }
    unscheduled_.clear();
  }

  /// Of a link that limits no group yet; −1: of a cap.
  GroupId new_group(LinkId limited_by, double rate, double now);
  void join(GroupId, BundleId, double now);
  /// It stands still until it has a rate.
  void leave_group(BundleId, double now);

 private:
  std::vector<ClockId> unscheduled_;
  IndexedVector<std::uint32_t, ClockId>
      place_;  // of clocks in `ends`: a dense table, since moves in the heap write to it

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
