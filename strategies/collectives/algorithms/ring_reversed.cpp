// The ring in the opposite direction: each rank sends to the previous member and receives from the next. For teaching.
#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

std::vector<RingShare> reversed_ring(GroupPlace place) { return {{Numbering(place.size).reverse(), 0, 1}}; }

const RegisterRings register_ring_reversed{reversed_ring,
                                           {.name = "ring-reversed", .for_teaching = true, .role = all_alike}};

}  // namespace
}  // namespace trainyard
