#pragma once
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/folding/cyclic_symmetry.hpp"
#include "sim/folding/outline.hpp"
#include "sim/folding/partition.hpp"
#include "sim/folding/rows.hpp"
#include "sim/group_balance.hpp"
#include "sim/machine.hpp"

namespace trainyard::folding {

constexpr std::uint16_t kNoSlot = 0xffff;

/// Attributes of the path of a slot's messages. Few paths differ in them.
struct RouteKind {
  Picoseconds latency;
  Bytes chunk;
  std::uint16_t legs = 0;
  std::uint64_t leg_costs = 0;  ///< hash of the latencies and rates of its legs, and of Route::slow
  auto operator<=>(const RouteKind&) const = default;
};

/// A slot of an actor, and the path of its messages.
struct SlotRoute {
  Actor peer = 0;
  std::uint16_t first = 0;          ///< the first slot with the same peer
  std::uint16_t reverse = kNoSlot;  ///< the peer's first slot for this actor
  std::uint32_t kind = 0;           ///< index into FoldGraph::route_kinds
  /// Compares all attributes except the peer.
  bool is_like(const SlotRoute& o) const { return first == o.first && reverse == o.reverse && kind == o.kind; }
};

/// A bundle of links that a flow crosses, and the kind of the crossing: a segment and a weight.
struct Crossing {
  std::uint32_t bundle = 0;
  std::uint32_t kind = 0;  ///< its label is the segment
};
/// The segment of an actor's messages over a leg of a slot is slot · kLegsOfSlot + leg. The port links of an actor are
/// kPort, the links of a group 0.
constexpr std::uint32_t kLegsOfSlot = 64;
constexpr std::uint32_t kPort = 0xfffffff0U;

/// A group that an actor joins, and the slot of its flow (ActorOutline::GroupJoin).
struct GroupJoin {
  Tag tag = 0;              ///< ActorOutline::GroupJoin::group
  std::uint32_t group = 0;  ///< index into FoldGraph::groups
  std::uint16_t slot = 0;
};

/// A group whose flow crosses links. It stands for all groups of its orbit.
struct FoldGroup {
  Tag tag = 0;
  const GroupFlow* flow = nullptr;
  std::uint32_t orbit_size = 1;
  Picoseconds latency;                                   ///< latency of its longest route, if the latency counts
  std::vector<std::pair<Actor, std::uint16_t>> members;  ///< actor, and index into the actor's joins
  bool slow = false;                                     ///< one of its routes is slow
};

/// Everything that folding compares: the attributes of actors, their peers, and the links that their messages and
/// groups cross. Elements are orbits of a shift: one actor, group or link of each stands for all.
class FoldGraph {
 public:
  /// Stops before it requests routes if programs, equivalence classes and peers alone make more than `most_classes`
  /// classes of actors.
  FoldGraph(const Machine&, const ProgramSource&, std::span<const LinkChange>,
            Actor most_classes = std::numeric_limits<Actor>::max());

  /// The reason why nothing can be folded; "": folding is possible.
  const std::string& refusal() const { return refusal_; }
  /// If it stopped: the colours and the partition with too many classes.
  struct TooManyClasses {
    std::vector<std::uint64_t> colours;
    Partition partition;
  };
  const std::optional<TooManyClasses>& too_many_classes() const { return too_many_classes_; }
  Actor actors() const { return symmetry_.actors(); }
  Element element(Actor actor) const { return static_cast<Element>(symmetry_.orbit(actor)); }
  Actor representative(std::size_t element) const { return symmetry_.representative(static_cast<Actor>(element)); }
  Element group_element(std::size_t group) const { return static_cast<Element>(texts.size() + group); }
  Element bundle_element(std::size_t b) const { return static_cast<Element>(texts.size() + groups.size() + b); }
  /// The input of `refine`: actors, then groups, then bundles.
  ColouredGraph coloured_graph() const;
  /// Returns the classes of the links that messages cross, numbered in the order of `links`, from the classes of the
  /// graph's elements. Links of a bundle are of one class if their attributes are equal.
  std::vector<std::uint32_t> link_classes(const Partition&) const;

  std::vector<std::uint64_t> texts;              ///< indexed by actor: ActorOutline::text
  std::vector<std::uint64_t> equivalence_class;  ///< indexed by actor: equivalence class by Machine::equivalence_class
  Rows<SlotRoute> slots;                         ///< indexed by actor and slot
  Rows<GroupJoin> joins;                         ///< indexed by actor and join
  std::vector<FoldGroup> groups;
  std::vector<RouteKind> route_kinds;
  /// Bundles that a flow crosses. Indexed by element: an actor's messages cross those of all its slots, then those of
  /// its ports; a group's flow has one row after those of the actors.
  Rows<Crossing> crossings;
  EdgeKinds crossing_kinds;
  std::vector<LinkId> links;              ///< the links that messages cross, one of each orbit
  std::vector<std::int32_t> used_number;  ///< indexed by link: its orbit's index in `links`; −1: no message crosses it
  /// Links that exactly the same flows cross, with the same weights: most links of a node lie in a row. Indexed by
  /// bundle: indices into `links`, in ascending order. Bundles are numbered in the order of their first links.
  Rows<std::uint32_t> bundles;

  /// Number of links that a used link stands for.
  std::uint32_t orbit_size(std::size_t used) const { return orbit_sizes_.empty() ? 1 : orbit_sizes_[used]; }
  /// Number of times that flows of a flow's orbit cross each link of a bundle's orbits as `crossing` says.
  std::uint32_t crossings_of_link(Element flow, const Crossing& crossing) const {
    const std::uint32_t flows =
        flow < texts.size() ? static_cast<std::uint32_t>(symmetry_.size()) : groups[flow - texts.size()].orbit_size;
    return flows * crossing_kinds[crossing.kind].count / orbit_size(bundles[crossing.bundle].front());
  }
  const Link& link(std::size_t used) const { return machine_.links()[static_cast<std::size_t>(links[used])]; }
  const Link& first_link(std::size_t bundle) const { return link(bundles[bundle].front()); }
  /// Hash of the changes of a used link's capacity.
  std::uint64_t changes(std::size_t used) const {
    const auto found = changes_.find(used);
    return found == changes_.end() ? 0 : found->second;
  }

 private:
  const Machine& machine_;
  const CyclicSymmetry symmetry_;
  std::vector<std::uint32_t> orbit_sizes_;  // indexed by used link; empty: the shift moves nothing
  std::string refusal_;
  GroupBalance balance_;  // loads of the groups whose paths the network chooses
  std::optional<TooManyClasses> too_many_classes_;
  std::vector<Crossing> crossed_;                           // scratch memory: crossings of one flow
  std::map<RouteKind, std::uint32_t> number_of_route_;      // indices into `route_kinds`
  std::unordered_map<std::size_t, std::uint64_t> changes_;  // indexed by used link
  /// Hashes of the kinds of links. There are few kinds.
  mutable std::unordered_map<const std::string*, std::uint64_t> hash_of_kind_;

  void take_outlines(const ProgramSource&);
  void compare_peers(Actor most_classes);
  void take_slot_routes(Actor);
  std::uint32_t take_route(const Route&, std::size_t slot);
  void find_reverse_slots();
  void take_group(FoldGroup&);
  void add_crossings();
  void use(LinkId, std::uint32_t segment, double weight);
  void take_changes(std::span<const LinkChange>);
  void bundle_links();
  std::uint64_t attributes(std::size_t used) const;
};

}  // namespace trainyard::folding
