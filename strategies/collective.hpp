#pragma once
#include <string>
#include <vector>

#include "models/registry.hpp"
#include "strategies/local.hpp"

namespace trainyard {

enum class Operation : std::uint8_t { all_reduce };
const char* name_of(Operation);

/// An algorithm for a collective operation: whom each rank talks to, and what it does.
struct Collective {
  std::string name;
  std::vector<int> (*peers)(GroupPlace) = nullptr;  ///< the few members of the group that this rank exchanges with
  Ops (*run)(Local, Bytes) = nullptr;               ///< every rank's operations for data of that size
};

Registry<Collective>& collectives(Operation);

/// Peers of a ring: the next and the previous member.
std::vector<int> ring_peers(GroupPlace);

struct RegisterCollective {
  RegisterCollective(Operation operation, Collective collective) {
    const std::string name = collective.name;
    collectives(operation).add(name, std::move(collective));
  }
};
/// At the end of an algorithm's file: makes it known by its name.
#define TRAINYARD_COLLECTIVE(NAME, OPERATION, PEERS, RUN)       \
  static const ::trainyard::RegisterCollective register_##RUN { \
    OPERATION, { NAME, PEERS, RUN }                             \
  }

}  // namespace trainyard
