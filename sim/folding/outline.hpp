#pragma once
#include <memory>
#include <vector>

#include "sim/program.hpp"

namespace trainyard {

/// Outline of an actor's program, known before the program is created. The upper bits of a join's tag identify its
/// group; the lower ones count the group's joins.
struct ActorOutline {
  /// Fingerprint of the program: equal for actors whose programs yield the same operations, apart from the peers in the
  /// slots, the groups of the joins, and values.
  std::uint64_t text = 0;
  std::vector<Actor> slots;  ///< see Program::slots
  struct GroupJoin {
    Tag group = 0;                    ///< tag >> kJoinBits of its joins
    const GroupFlow* flow = nullptr;  ///< null: joins without bytes
    std::uint16_t slot = 0;           ///< index into Program::group_flows
  };
  std::vector<GroupJoin> joins;  ///< the groups that it joins
};
constexpr int kJoinBits = 27;  ///< number of lower bits of a join's tag, which count the joins

/// All actors of a simulation. A program is created only when it is requested.
class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  virtual Actor actors() const = 0;
  /// The program must be static, send over paths of PathClass::automatic, and receive from peers in its slots.
  virtual ActorOutline outline(Actor) const = 0;
  virtual std::unique_ptr<Program> program(Actor) const = 0;
};

}  // namespace trainyard
