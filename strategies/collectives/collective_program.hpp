#pragma once
#include <memory>

#include "sim/names.hpp"
#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Buffers of a collective that runs on its own.
constexpr std::uint16_t kDataBuffer = 0;    ///< what the algorithm works on; in place, input and output too
constexpr std::uint16_t kInputBuffer = 1;   ///< out of place: read only
constexpr std::uint16_t kOutputBuffer = 2;  ///< out of place: a reduce-scatter's or scatter's result

/// How one collective runs on its own.
struct CollectiveOptions {
  Bytes size;  ///< as nccl-tests counts it: see NcclCall; of all-to-all-v, ignored
  CollectiveSettings settings;
  Mode mode = Mode::rendezvous;
  /// One stream for sends and receives: each waits for the one before, so that a blocking send blocks.
  bool one_stream = false;
  bool in_place = true;
  int times = 1;  ///< one after the other
};

/// Rank `place.index` of one collective; the ranks of the group, then its switches, are the actors `members`. `options`
/// must outlive it.
std::unique_ptr<Program> collective_program(const Collective&, GroupPlace place, const CollectiveOptions&, Names&,
                                            const std::vector<Actor>& members);

}  // namespace trainyard
