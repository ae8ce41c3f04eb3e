#pragma once
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/folding/outline.hpp"
#include "sim/folding/partition.hpp"
#include "sim/folding/rows.hpp"
#include "sim/group_balance.hpp"
#include "sim/machine.hpp"

namespace trainyard::folding {

constexpr std::uint16_t kNoSlot = 0xffff;

/// A slot of an actor, and the path of its messages.
struct SlotRoute {
  Actor peer = 0;
  std::uint16_t first = 0;          ///< the first slot with the same peer
  std::uint16_t reverse = kNoSlot;  ///< the peer's first slot for this actor
  std::int64_t latency = 0;         ///< ps
  Bytes chunk;
  std::uint16_t legs = 0;
  std::uint64_t leg_costs = 0;                     ///< hash of the latencies and rates of its legs
  bool operator==(const SlotRoute& other) const {  // compares all attributes except the peer
    return first == other.first && reverse == other.reverse && latency == other.latency &&
           chunk.value == other.chunk.value && legs == other.legs && leg_costs == other.leg_costs;
  }
};

/// A bundle of links that a flow crosses, and the segment on which it does: slot and leg of an actor's messages; 0 for a
/// group.
struct Crossing {
  std::uint32_t bundle = 0;
  std::uint32_t segment = 0;
  double weight = 1;
};
constexpr std::uint32_t kLegsOfSlot = 64;  ///< segment = slot · kLegsOfSlot + leg; the port links of an actor are kPort
constexpr std::uint32_t kPort = 0xfffffff0U;

/// A group whose flow crosses links.
struct FoldGroup {
  Tag tag = 0;
  const GroupFlow* flow = nullptr;
  Picoseconds latency;                                   ///< latency of its longest route, if the latency counts
  std::vector<std::pair<Actor, std::uint16_t>> members;  ///< actor, and index into the actor's meetings
  std::vector<Crossing> crossings;
};

/// Everything that folding compares: the attributes of actors, their peers, and the links that their messages and
/// groups cross.
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
  Actor actors() const { return static_cast<Actor>(texts.size()); }
  Element group_element(std::size_t group) const { return static_cast<Element>(texts.size() + group); }
  Element bundle_element(std::size_t b) const { return static_cast<Element>(texts.size() + groups.size() + b); }
  /// The input of `refine`: actors, then groups, then bundles.
  ColouredGraph coloured_graph() const;
  /// Returns the classes of the links that messages cross, numbered in the order of `links`, from the classes of the
  /// graph's elements. Links of a bundle are of one class if their attributes are equal.
  std::vector<std::uint32_t> link_classes(const Partition&) const;

  // The outlines of the actors, indexed by actor: ActorOutline::text, the slots, the meetings.
  std::vector<std::uint64_t> texts;
  Rows<Actor> slots;
  Rows<ActorOutline::Meeting> meetings;
  std::vector<std::uint64_t> equivalence_class;  ///< indexed by actor: equivalence class by Machine::equivalence_class
  Rows<SlotRoute> slot_routes;                   ///< indexed by actor and slot
  Rows<Crossing> crossings;                      ///< indexed by actor: bundles of all slots, then of its ports
  Rows<std::uint32_t> group_of;                  ///< indexed by actor and meeting: index into `groups`
  std::vector<FoldGroup> groups;
  std::vector<LinkId> links;              ///< the links that messages cross
  std::vector<std::int32_t> used_number;  ///< indexed by link: its index in `links`; −1: no message crosses it
  /// Links that exactly the same flows cross, with the same weights: most links of a node lie in a row. Indexed by
  /// bundle: indices into `links`, in ascending order. Bundles are numbered in the order of their first links.
  Rows<std::uint32_t> bundles;

  const Link& link(std::size_t used) const { return machine_.links()[static_cast<std::size_t>(links[used])]; }
  const Link& first_link(std::size_t bundle) const { return link(bundles[bundle].front()); }
  /// Hash of the changes of a used link's capacity.
  std::uint64_t changes(std::size_t used) const {
    const auto found = changes_.find(used);
    return found == changes_.end() ? 0 : found->second;
  }

 private:
  const Machine& machine_;
  std::string refusal_;
  GroupBalance balance_;  // loads of the groups whose paths the network chooses
  std::optional<TooManyClasses> too_many_classes_;
  std::vector<SlotRoute> routes_of_actor_;                  // scratch memory of take_slot_routes
  std::vector<Crossing> crossed_;                           // scratch memory of take_slot_routes
  std::unordered_map<std::size_t, std::uint64_t> changes_;  // indexed by used link
  /// Hashes of the kinds of links. There are few kinds.
  mutable std::unordered_map<const std::string*, std::uint64_t> hash_of_kind_;

  void take_outlines(const ProgramSource&);
  void compare_peers(Actor most_classes);
  void take_slot_routes(Actor);
  void take_route(const Route&, SlotRoute);
  void find_reverse_slots();
  void take_group(FoldGroup&);
  void use(std::vector<Crossing>&, LinkId, std::uint32_t segment, double weight);
  void take_changes(std::span<const LinkChange>);
  void bundle_links();
  std::uint64_t attributes(std::size_t used) const;
};

}  // namespace trainyard::folding
