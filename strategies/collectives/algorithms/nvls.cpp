// NVLink SHARP: every GPU owns a share of the data. It asks the NVSwitch for the sum of its share, which the switch
// reads from all GPUs (multimem.ld_reduce), and stores the sum in all GPUs by a multicast (multimem.st): Klenk et al.
// 2020, "An in-network architecture for accelerating shared-memory multiprocessor collectives"; PTX ISA, multimem.
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

// Each hop has a channel, so that none waits for another: all data up to the switch, sums down to their owners, these
// sums up again, and down to all.
constexpr int kDataUp = 0, kSumDown = 1, kSumUp = 2, kAllDown = 3, kHops = 4;

int four_hops(GroupPlace) { return kHops; }

std::string no_nvswitch(GroupPlace place) {
  return place.size == 1 || place.settings->switches.parent.size() == 1
             ? ""
             : "no NVSwitch that adds (of Hopper and later) joins all the ranks";
}

std::vector<int> switch_and_ranks(GroupPlace place) {
  std::vector<int> peers;
  if (place.index < place.size) return {place.size};
  for (int rank = 0; rank < place.size; ++rank) peers.push_back(rank);
  return peers;
}

/// Pieces of the shares, in the order in which they pass the switch: the first piece of each share, then the second, …
class SharePieces {
 public:
  explicit SharePieces(const Local& me) : me_(me), per_share_(me.pieces(me.block(0))) {}
  int per_share() const { return per_share_; }
  int all() const { return per_share_ * me_.group_size(); }
  int owner(int k) const { return k % me_.group_size(); }
  Chunk piece(int k) const { return piece(owner(k), k / me_.group_size()); }
  Chunk piece(int share, int i) const { return me_.block(share).part(i, per_share_); }

 private:
  Local me_;
  int per_share_;
};

// Hops of a rank:

Ops nvls_give_data(Local me) {
  const SharePieces pieces(me);
  for (int k = 0; k < pieces.all(); ++k) co_yield me.send_piece(k, me.group_size(), pieces.piece(k));
}
Ops nvls_take_sum(Local me) {
  const SharePieces pieces(me);
  for (int i = 0; i < pieces.per_share(); ++i) co_yield me.recv_copy(me.group_size(), pieces.piece(me.index(), i));
}
Ops nvls_relay_sum(Local me) {
  const SharePieces pieces(me);
  Local down = me.on_channel(kSumDown), up = me.on_channel(kSumUp);
  for (int i = 0; i < pieces.per_share(); ++i) {
    co_yield down.recv_copy(me.group_size(), pieces.piece(me.index(), i));
    co_yield up.pass_on(me.group_size(), pieces.piece(me.index(), i), down.last_receive());
  }
}
Ops nvls_give_share(Local me) {
  const SharePieces pieces(me);
  for (int i = 0; i < pieces.per_share(); ++i) co_yield me.send_piece(i, me.group_size(), pieces.piece(me.index(), i));
}
Ops nvls_take_all(Local me) {
  const SharePieces pieces(me);
  for (int k = 0; k < pieces.all(); ++k) co_yield me.recv_copy(me.group_size(), pieces.piece(k));
}

// Hops of the switch:

Ops nvls_add_up(Local me) {
  const SharePieces pieces(me);
  Local up = me.on_channel(kDataUp), down = me.on_channel(kSumDown);
  for (int k = 0; k < pieces.all(); ++k) {
    co_yield up.recv_copy(0, pieces.piece(k));
    for (int rank = 1; rank < me.group_size(); ++rank) co_yield up.recv_reduce(rank, pieces.piece(k));
    co_yield down.pass_on(pieces.owner(k), pieces.piece(k), up.last_receive());
  }
}
Ops nvls_multicast(Local me) {
  const SharePieces pieces(me);
  Local up = me.on_channel(kSumUp), down = me.on_channel(kAllDown);
  for (int k = 0; k < pieces.all(); ++k) {
    const Chunk piece = Local::scratch(pieces.piece(k));
    co_yield up.recv_copy(pieces.owner(k), piece);
    for (int rank = 0; rank < me.group_size(); ++rank) co_yield down.pass_on(rank, piece, up.last_receive());
  }
}

/// size·(1 + 1/n) out of and into every GPU, in four hops. A ring takes 2(n−1)/n of the size, in 2(n−1) hops.
Ops nvls_all_reduce(Local me, Bytes) {
  return side_by_side(me, nvls_give_data(me.on_channel(kDataUp)), nvls_relay_sum(me), nothing(),
                      nvls_take_all(me.on_channel(kAllDown)));
}
Ops nvls_all_reduce_switch(Local me, Bytes) {
  return side_by_side(me, nvls_add_up(me), nvls_multicast(me), nothing(), nothing());
}
/// The first two hops: each GPU sends the size and receives an n-th of it.
Ops nvls_reduce_scatter(Local me, Bytes) {
  return side_by_side(me, nvls_give_data(me.on_channel(kDataUp)), nvls_take_sum(me.on_channel(kSumDown)), nothing(),
                      nothing());
}
Ops nvls_reduce_scatter_switch(Local me, Bytes) {
  return side_by_side(me, nvls_add_up(me), nothing(), nothing(), nothing());
}
/// The last two hops: each GPU sends an n-th of the size and receives all of it.
Ops nvls_all_gather(Local me, Bytes) {
  return side_by_side(me, nothing(), nothing(), nvls_give_share(me.on_channel(kSumUp)),
                      nvls_take_all(me.on_channel(kAllDown)));
}
Ops nvls_all_gather_switch(Local me, Bytes) {
  return side_by_side(me, nothing(), nothing(), nvls_multicast(me), nothing());
}

#define NVLS(OPERATION, RUN, SWITCH)                                                               \
  TRAINYARD_COLLECTIVE("nvls", Operation::OPERATION, switch_and_ranks, RUN, .channels = four_hops, \
                       .refuses = no_nvswitch, .switches = SwitchKind::nvswitch, .on_switch = SWITCH)
NVLS(all_reduce, nvls_all_reduce, nvls_all_reduce_switch);
NVLS(reduce_scatter, nvls_reduce_scatter, nvls_reduce_scatter_switch);
NVLS(all_gather, nvls_all_gather, nvls_all_gather_switch);
#undef NVLS

}  // namespace
}  // namespace trainyard
