#pragma once
#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// Takes the figures of the ways to train on owned nodes from the rows of the answer again, which have other plans or another
/// network since their search, and states their reasons. Two jobs are simulated on the counted network, if there is one.
void update_islands(SizeAnswer&, const SizeQuestion&);

}  // namespace trainyard
