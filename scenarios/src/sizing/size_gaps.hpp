#pragma once
#include <vector>

#include "scenarios/src/sizing/size_islands.hpp"
#include "scenarios/src/sizing/size_payments.hpp"

namespace trainyard {

/// The most sizes that are searched to name the next decisions: a search takes as long as that of any other size. With less
/// work for each, more of them are.
constexpr int kNextSizes = 4, kMostNextSizes = 8;

/// Searches the sizes next to the fewest enough that may be the decision beyond a threshold, or may come next to the
/// decision, one after the other. It sets `gaps` of the answer, whose rows must have the sizes of all cases, and judges them.
/// Throws Interruption.
void search_next_sizes(SizeAnswer&, const SizeQuestion&, const std::vector<SizeCase>&, const IslandSearches&);

/// Returns the way that comes next to the decision: the best other one that meets all conditions with a model of the same
/// size. Null: there is none.
const Payment* next_payment(const SizeAnswer&, const std::vector<Payment>&, const Payment& decision);
/// Returns the gap above the decision if one of its sizes may come before the next way. Null: none may.
const SizeGap* gap_before_next(const SizeAnswer&, const std::vector<Payment>&, const Payment& decision);

}  // namespace trainyard
