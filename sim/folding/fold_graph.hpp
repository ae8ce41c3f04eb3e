#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/folding/outline.hpp"
#include "sim/folding/partition.hpp"
#include "sim/machine.hpp"

namespace trainyard::folding {

constexpr std::uint16_t kNoSlot = 0xffff;

/// A slot of an actor, and the way that its messages take.
struct SlotWay {
  Actor peer = 0;
  std::uint16_t first = 0;          ///< the first slot that names the same peer
  std::uint16_t reverse = kNoSlot;  ///< the first slot by which the peer names this actor
  std::int64_t latency = 0;         ///< ps
  Bytes chunk;
  std::uint16_t legs = 0;
  std::uint64_t leg_costs = 0;                   ///< hash of the latencies and rates of its legs
  bool operator==(const SlotWay& other) const {  // as attributes
    return first == other.first && reverse == other.reverse && latency == other.latency &&
           chunk.value == other.chunk.value && legs == other.legs && leg_costs == other.leg_costs;
  }
};

/// A link that a flow takes: of which of its stretches (slot and leg of an actor's messages; 0 of a group).
struct Crossing {
  LinkId link = 0;
  std::uint32_t stretch = 0;
  double weight = 1;
};
constexpr std::uint32_t kLegsOfSlot = 64;  ///< stretch = slot · this + leg; the port links of an actor are kPort
constexpr std::uint32_t kPort = 0xfffffff0U;

/// A group that meets, and whose flow goes over links.
struct FoldGroup {
  Tag tag = 0;
  const GroupFlow* flow = nullptr;
  Picoseconds latency;                                   ///< of its longest route, where that counts
  std::vector<std::pair<Actor, std::uint16_t>> members;  ///< and which of the actor's meetings it is
  std::vector<Crossing> crossings;
};

/// Everything that folding compares: what actors are, whom they name, which links their messages and groups cross.
class FoldGraph {
 public:
  FoldGraph(const Machine&, const ProgramSource&, std::span<const LinkChange>);

  /// Why nothing can be folded; "": it can.
  const std::string& refusal() const { return refusal_; }
  Actor actors() const { return static_cast<Actor>(outlines.size()); }
  Element group_element(std::size_t group) const { return static_cast<Element>(outlines.size() + group); }
  Element link_element(std::size_t used) const { return static_cast<Element>(outlines.size() + groups.size() + used); }
  /// What `refine` takes: actors, then groups, then the links that somebody crosses.
  ColouredGraph coloured() const;

  std::vector<ActorOutline> outlines;
  std::vector<std::uint64_t> likeness;               ///< of actors, by the machine
  std::vector<std::vector<SlotWay>> ways;            ///< by actor and slot
  std::vector<std::vector<Crossing>> crossings;      ///< by actor, of all slots; then of its ports
  std::vector<std::vector<std::uint32_t>> group_of;  ///< by actor and meeting: index into `groups`
  std::vector<FoldGroup> groups;
  std::vector<LinkId> links;              ///< that are used
  std::vector<std::int32_t> used_number;  ///< by link: its index in `links`; −1: nobody crosses it
  std::vector<std::uint64_t> changes;     ///< by used link: hash of what changes it

  const Link& link(std::size_t used) const { return machine_.links()[static_cast<std::size_t>(links[used])]; }

 private:
  const Machine& machine_;
  std::string refusal_;
  std::vector<Crossing> crossed_;  // scratch of take_ways

  void take_outlines(const ProgramSource&);
  void take_ways(Actor);
  void find_reverse_slots();
  void take_group(FoldGroup&);
  void use(std::vector<Crossing>&, LinkId, std::uint32_t stretch, double weight);
  void take_changes(std::span<const LinkChange>);
};

}  // namespace trainyard::folding
