#pragma once
#include <memory>
#include <vector>

#include "sim/program.hpp"

namespace trainyard {

/// Outline of an actor's program, known before the program is created. The upper bits of a join's tag identify its
/// group; the lower ones count the group's meetings.
struct ActorOutline {
  /// Fingerprint of the program: equal for actors whose programs yield the same operations, apart from the peers in the
  /// slots, the groups of the meetings, and values.
  std::uint64_t text = 0;
  std::vector<Actor> slots;  ///< see Program::slots
  struct Meeting {
    Tag group = 0;                    ///< tag >> kMeetingBits of its joins
    const GroupFlow* flow = nullptr;  ///< null: joins without bytes
    std::uint16_t slot = 0;           ///< index into Program::group_flows
  };
  std::vector<Meeting> meetings;  ///< the groups that it joins
};
constexpr int kMeetingBits = 27;  ///< number of lower bits of a join's tag, which count the meetings

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
