#pragma once
#include <memory>
#include <vector>

#include "sim/program.hpp"

namespace trainyard {

/// What an actor's program is, known before it is made. Joins name their group by the upper bits of their tag, and count
/// its meetings by the lower ones.
struct ActorOutline {
  /// Equal for actors whose programs yield the same operations, but for the peers behind the slots, the groups behind the
  /// meetings, and values.
  std::uint64_t text = 0;
  std::vector<Actor> slots;  ///< as Program::slots
  struct Meeting {
    Tag group = 0;                    ///< tag >> kMeetingBits of its joins
    const GroupFlow* flow = nullptr;  ///< null: of joins without bytes
    std::uint16_t slot = 0;           ///< of Program::group_flows
  };
  std::vector<Meeting> meetings;  ///< groups that it joins
};
constexpr int kMeetingBits = 27;

/// All actors of a simulation, whose programs are made one by one, when they are asked for.
class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  virtual Actor actors() const = 0;
  /// Programs are static, send over paths of PathClass::automatic, and receive from peers that they name.
  virtual ActorOutline outline(Actor) const = 0;
  virtual std::unique_ptr<Program> program(Actor) const = 0;
};

}  // namespace trainyard
