#pragma once
#include <unordered_map>
#include <vector>

#include "sim/folding/outline.hpp"
#include "sim/machine.hpp"

namespace trainyard::folding {

/// A permutation of the actors under which a simulation stays the same. Actors lie in blocks of equal size. Each takes
/// the place of the one `step` further on in its block, and the last ones take those of the first. Actors, groups and
/// links that take each other's places are an orbit, and must be of one equivalence class: one of them stands for all.
class CyclicSymmetry {
 public:
  /// Moves nothing: each actor is an orbit of its own.
  explicit CyclicSymmetry(Actor actors) : CyclicSymmetry(actors, actors, actors) {}
  /// Finds the shift with the fewest orbits, and checks the programs, groups and routes of all actors. Returns one that
  /// moves nothing if there is none, or if there are few actors.
  static CyclicSymmetry find(const Machine&, const ProgramSource&);

  bool moves() const { return step_ < block_; }
  Actor actors() const { return actors_; }
  Actor orbits() const { return actors_ / block_ * step_; }  ///< number of orbits of actors
  Actor size() const { return block_ / step_; }              ///< number of actors of each orbit
  Actor orbit(Actor a) const { return a / block_ * step_ + a % block_ % step_; }
  Actor representative(Actor orbit) const { return orbit / step_ * block_ + orbit % step_; }  ///< its lowest actor
  Actor times(Actor a) const { return a % block_ / step_; }  ///< number of shifts from its representative to an actor
  Actor moved(Actor a, Actor times = 1) const { return a - a % block_ + (a % block_ + times * step_) % block_; }
  LinkId moved_link(LinkId link) const { return moves() ? next_link_[static_cast<std::size_t>(link)] : link; }
  Tag moved_group(Tag group) const { return moves() ? next_group_.at(group) : group; }

 private:
  struct Surroundings;
  class Senders;
  CyclicSymmetry(Actor actors, Actor block, Actor step) : actors_(actors), block_(block), step_(step) {}
  Actor actors_, block_, step_;
  std::vector<LinkId> next_link_, last_link_;  // indexed by link: the one whose place it takes, and back; −1: none
  std::unordered_map<Tag, Tag> next_group_, last_group_;

  bool is_actor(Actor a) const { return 0 <= a && a < actors_; }
  bool keeps_programs(const Machine&, const ProgramSource&);
  bool keeps_all(const Machine&, const ProgramSource&, std::int64_t& most_actors);
  bool keeps_weights(const Machine&, const Senders&) const;
  bool takes_program(const ActorOutline& from, const ActorOutline& to);
  bool takes(const Machine&, const Surroundings& from, const Surroundings& to);
  bool takes_link(const Machine&, LinkId from, LinkId to);
};

}  // namespace trainyard::folding
