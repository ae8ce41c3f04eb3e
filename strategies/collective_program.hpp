#pragma once
#include <memory>

#include "sim/names.hpp"
#include "strategies/collective.hpp"

namespace trainyard {

/// How one collective runs on its own.
struct CollectiveOptions {
  Bytes size;
  Mode mode = Mode::rendezvous;
  /// One stream for sends and receives: each waits for the one before, so that a blocking send blocks.
  bool one_stream = false;
};

/// Rank `place.index` of one collective on buffer 0; the ranks of the group are the actors `members`.
std::unique_ptr<Program> collective_program(const Collective&, GroupPlace place, const CollectiveOptions&, Names&,
                                            const std::vector<Actor>& members);

}  // namespace trainyard
