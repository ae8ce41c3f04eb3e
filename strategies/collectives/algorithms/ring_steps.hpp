#pragma once
#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/ring_step.hpp"

namespace trainyard {

// One ring through all members of a view, on one channel. `data` selects the parts that travel round the ring: the
// members' blocks, or the chunks of any data.
using RingData = Chunk (Local::*)(int) const;

/// n−1 steps: each rank adds its own data to every part that it passes on, and rank i ends with the sum of part i.
template <RingData data = &Local::block>
Ops one_ring_reduce_scatter(Local me) {
  return ring_steps(me, me.group_size() - 1, [](const Local& rank, int step) {
    return RingStep{
        .send = (rank.*data)(rank.index() - step - 1), .receive = (rank.*data)(rank.index() - step - 2), .adds = true};
  });
}
/// n−1 steps: rank i begins with part i, and every part travels round the ring.
template <RingData data = &Local::block>
Ops one_ring_all_gather(Local me) {
  return ring_steps(me, me.group_size() - 1, [](const Local& rank, int step) {
    return RingStep{.send = (rank.*data)(rank.index() - step), .receive = (rank.*data)(rank.index() - step - 1)};
  });
}
/// 2(n−1) steps: a reduce-scatter, then an all-gather. Each rank sends 2(n−1)/n of the data. After the reduce-scatter,
/// rank i owns chunk i+1.
Ops one_ring_all_reduce(Local);

/// One of several rings that run at the same time, and its share of the data: `count` of `parts` equal parts, from part
/// `first` on.
struct RingShare {
  Numbering ring;
  int first, parts, count = 1;
};
/// For each ring: the places of both neighbours in the list of peers, since rings may share neighbours.
std::vector<int> role_in_rings(const std::vector<RingShare>&, int index);
/// Registers an all-reduce, a reduce-scatter and an all-gather by rings that run at the same time, ring k on channel k.
/// `algorithm` describes all three but for their operations. Its peers are the neighbours in all rings.
struct RegisterRings {
  using Shares = std::vector<RingShare> (*)(GroupPlace);
  RegisterRings(Shares, Collective algorithm);
};

}  // namespace trainyard
