#pragma once
#include <string>
#include <vector>

#include "models/reading/registry.hpp"
#include "strategies/collectives/local.hpp"

namespace trainyard {

/// Which switches take part in a collective.
enum class SwitchKind : std::uint8_t { none, nvswitch, network };

/// An algorithm for a collective operation: whom each rank talks to, and what it does.
struct Collective {
  std::string name;
  /// The few members that a rank exchanges with. Of an operation with a root, ranks are numbered from the root.
  std::vector<int> (*peers)(GroupPlace) = nullptr;
  Ops (*run)(Local, Bytes) = nullptr;  ///< every rank's operations for data of that size
  /// Pairs of streams that it uses; default: one.
  int (*channels)(GroupPlace) = nullptr;
  /// Why it cannot do that group, or "".
  std::string (*refuses)(GroupPlace) = nullptr;
  /// Every rank is busy in every step (of a phase): its messages can be summed up into flows.
  bool steady = false;
  /// An algorithm to learn from: not a candidate of `auto`.
  bool for_teaching = false;
  /// Switches take part: they are members too (see SwitchTree), have peers, and run `on_switch`.
  SwitchKind switches = SwitchKind::none;
  Ops (*on_switch)(Local, Bytes) = nullptr;
  /// Numbers that are the same for members that give the same operations, but for the members behind their peers' slots and
  /// for which part of the data they are about. Null: `role_of` compares what they give.
  std::vector<int> (*role)(GroupPlace) = nullptr;
  Operation operation = Operation::all_reduce;

  int channels_of(GroupPlace place) const;
};

Registry<Collective>& collectives(Operation);
/// Finds it by name, and checks that it can do a group of that size. Throws UserError at `where`.
const Collective& find_collective(Operation, const std::string& name, GroupPlace, const Place& where);
/// Throws UserError at `where` for a group that it cannot do.
void require_fits(const Collective&, GroupPlace, const Place& where);
/// What is meant where nobody says an algorithm.
const Collective& default_collective(Operation);

/// Members that the rank at `place` exchanges with.
std::vector<int> peers_of(const Collective&, GroupPlace place);
/// One number for Collective::role. Groups of over 256 members whose algorithm says no roles are all unlike.
std::uint64_t role_of(const Collective&, GroupPlace place);
/// The role of members that all do the same.
inline std::vector<int> all_alike(GroupPlace) { return {}; }
/// Of several channels, some of whose neighbours may be the same: where each channel's stand among `rotated_ring_peers`.
std::vector<int> rotated_ring_role(GroupPlace);

// Peers that several algorithms have:

/// The next and the previous member.
std::vector<int> ring_peers(GroupPlace);
/// The same of each of the settings' channels, whose rings are rotated within nodes.
std::vector<int> rotated_ring_peers(GroupPlace);
std::vector<int> rotated_ring_peers(GroupPlace, int channels);
/// All others, the next first.
std::vector<int> all_others(GroupPlace);
/// Of rank 0 all others, of others rank 0.
std::vector<int> star_peers(GroupPlace);
/// One, two, four … places ahead and behind.
std::vector<int> power_of_two_peers(GroupPlace);
/// The order of the settings' channel: begins `channel` ranks further on in each node.
Numbering channel_ring(int ranks, const CollectiveSettings&, int channel);
/// As many as the settings say.
int settings_channels(GroupPlace);

/// The operations of one rank: the algorithm, and what belongs to the operation around it (averages are divided).
Ops collective_ops(const Collective&, Local, Bytes);

struct RegisterCollective {
  RegisterCollective(Operation operation, Collective collective) {
    const std::string name = collective.name;
    collective.operation = operation;
    collectives(operation).add(name, std::move(collective));
  }
};
/// At the end of an algorithm's file: makes it known by its name. Further members of Collective may follow.
#define TRAINYARD_COLLECTIVE(NAME, OPERATION, PEERS, RUN, ...)                         \
  static const ::trainyard::RegisterCollective register_##RUN {                        \
    OPERATION, { .name = NAME, .peers = PEERS, .run = RUN __VA_OPT__(, ) __VA_ARGS__ } \
  }

}  // namespace trainyard
