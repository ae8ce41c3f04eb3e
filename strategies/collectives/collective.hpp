#pragma once
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"
#include "strategies/collectives/local.hpp"

namespace trainyard {

/// Kind of switches that take part in a collective.
enum class SwitchKind : std::uint8_t { none, nvswitch, network };

/// An algorithm for a collective operation: the peers of each rank, and the operations that each rank runs.
struct Collective {
  std::string name;
  /// Returns the few members that a rank exchanges data with. If the operation has a root, ranks are numbered from the
  /// root.
  std::function<std::vector<int>(GroupPlace)> peers = {};
  std::function<Ops(Local, Bytes)> run = {};  ///< yields the operations of one rank for data of the given size
  /// Returns the number of stream pairs that the algorithm uses. Null: one pair.
  int (*channels)(GroupPlace) = nullptr;
  /// Returns the reason why the algorithm cannot serve the group, or "" if it can.
  std::function<std::string(GroupPlace)> refuses = {};
  /// True if every rank is busy in every step of a phase. The messages of a phase can then be summed up into flows.
  bool steady = false;
  /// True if the algorithm is for teaching only: `auto` never chooses it.
  bool for_teaching = false;
  bool equal_chunks = false;  ///< its ranks must divide the number of elements
  /// Kind of switches that take part. They are members of the group too (see SwitchTree), have peers, and run
  /// `on_switch`.
  SwitchKind switches = SwitchKind::none;
  Ops (*on_switch)(Local, Bytes) = nullptr;
  /// Members with equal numbers yield the same operations. Only their peers and the parts of the data differ.
  /// Null: `role_of` compares the operations themselves.
  std::vector<int> (*role)(GroupPlace) = nullptr;
  Operation operation = Operation::all_reduce;

  int channels_of(GroupPlace place) const;
};

/// Returns the algorithms of an operation. A name that ends in .yaml or .xml is read as a file (see read_collective).
Registry<Collective>& collectives(Operation);
/// Finds the algorithm by name and checks that it can serve the group. Throws UserError at `where`.
const Collective& find_collective(Operation, const std::string& name, GroupPlace, const Place& where);
/// Throws UserError at `where` if the algorithm cannot serve the group.
void require_fits(const Collective&, GroupPlace, const Place& where);
/// Returns the algorithm that is used if none is named.
const Collective& default_collective(Operation);

/// Returns the members that the rank at `place` exchanges data with.
std::vector<int> peers_of(const Collective&, GroupPlace place);
/// Hashes Collective::role into one number; members with equal numbers have the same role. If the algorithm has no
/// role function and the group has more than 256 members, every member gets a number of its own.
std::uint64_t role_of(const Collective&, GroupPlace place);
/// The role function of an algorithm whose members all do the same.
inline std::vector<int> all_alike(GroupPlace) { return {}; }

/// Adds the members that are not among the peers yet.
template <class Members = std::initializer_list<int>>
void add_peers(std::vector<int>& peers, const Members& members) {
  for (const int member : members)
    if (std::ranges::find(peers, member) == peers.end()) peers.push_back(member);
}

// Peer functions that several algorithms share:

/// The next and the previous member.
std::vector<int> ring_peers(GroupPlace);
/// All other members, beginning with the next one.
std::vector<int> all_others(GroupPlace);
/// All other members for rank 0; rank 0 alone for every other rank.
std::vector<int> star_peers(GroupPlace);
/// The members that are 1, 2, 4, … places ahead and behind.
std::vector<int> power_of_two_peers(GroupPlace);
/// The ring of one channel: in each node it begins `channel` ranks further on. If every two ranks of a node have a link of
/// their own, the rings of several nodes go through a node as zigzags, which use all its links and leave it by all its
/// ranks.
Numbering channel_ring(int ranks, const CollectiveSettings&, int channel);
/// The number of channels in the settings.
int settings_channels(GroupPlace);

/// Yields all operations of one rank: those of the algorithm, then the division by the number of ranks if the
/// settings ask for an average.
Ops collective_ops(const Collective&, Local, Bytes);
/// Calls visit(op) for all operations of one rank, until it returns false.
void visit_ops(const Collective&, GroupPlace, Bytes size, const std::function<bool(const Op&)>& visit);

struct RegisterCollective {
  RegisterCollective(Operation operation, Collective collective) {
    const std::string name = collective.name;
    collective.operation = operation;
    collectives(operation).add(name, std::move(collective));
  }
};
/// Registers an algorithm by its name, at the end of its file. Further members of Collective may follow as designated
/// initializers.
#define TRAINYARD_COLLECTIVE(NAME, OPERATION, PEERS, RUN, ...)                         \
  static const ::trainyard::RegisterCollective register_##RUN {                        \
    OPERATION, { .name = NAME, .peers = PEERS, .run = RUN __VA_OPT__(, ) __VA_ARGS__ } \
  }

}  // namespace trainyard
