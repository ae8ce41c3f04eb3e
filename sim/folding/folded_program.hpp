#pragma once
#include <map>
#include <memory>
#include <vector>

#include "sim/folding/outline.hpp"

namespace trainyard::folding {

/// What a representative's program is told apart from the original by.
struct ClassView {
  std::vector<Actor> peers;                      ///< by slot: classes
  std::vector<Program::Way> sending, receiving;  ///< by slot
  struct Meeting {
    Tag number = 0;             ///< of the class of groups
    std::uint32_t classes = 1;  ///< of members
  };
  std::map<Tag, Meeting> meetings;            ///< by the group that tags name
  std::vector<const GroupFlow*> group_flows;  ///< by slot
};

/// The program of a representative, whose peers are classes and whose groups are classes of groups.
std::unique_ptr<Program> folded_program(std::unique_ptr<Program>, ClassView);

}  // namespace trainyard::folding
