#pragma once
#include <memory>

#include "sim/names.hpp"
#include "strategies/collectives/collective.hpp"

namespace trainyard {

// Buffers of a collective that runs on its own:
/// The data that the algorithm works on; in place, also the input and the output.
constexpr std::uint16_t kDataBuffer = 0;
constexpr std::uint16_t kInputBuffer = 1;   ///< out of place: the input, which is only read
constexpr std::uint16_t kOutputBuffer = 2;  ///< out of place: the result of a reduce-scatter or scatter

/// Options of one collective that runs on its own.
struct CollectiveOptions {
  Bytes size;  ///< as nccl-tests counts it (see NcclCall); ignored for all-to-all-v
  CollectiveSettings settings;
  Mode mode = Mode::rendezvous;
  /// Sends and receives share one stream: each operation waits for the one before it, so that a blocking send blocks.
  bool one_stream = false;
  bool in_place = true;
  int times = 1;  ///< number of runs, one after the other
};

/// Makes the program of rank `place.index` for one collective. `members` are the actors of the group's ranks, followed
/// by those of its switches. `options` must outlive the program.
std::unique_ptr<Program> collective_program(const Collective&, GroupPlace place, const CollectiveOptions&, Names&,
                                            const std::vector<Actor>& members);

}  // namespace trainyard
