#pragma once
#include <string>

#include "models/networks/transformers/layout.hpp"
#include "models/networks/transformers/operator_lists.hpp"

namespace trainyard::transformers {

/// Returns true if tensor ranks split the operator without a key `split`.
bool splits_itself(const ListedOperator&);
/// Adds experts with their router, a scan with its projections, a convolution, an indexer, or a kernel or an exchange whose
/// sizes are stated, on rows of this layout. Throws UserError, and ShardingError if ranks do not divide its parts.
void add_special_operator(LayerBuilder&, const TransformerLayout&, const ListedOperator&, const SizeValues&);

/// Takes the numbers of experts that the expert axis divides. Throws UserError if operators have unlike numbers.
void take_experts(const std::vector<ListedOperator>&, const SizeValues&, TransformerConfig&);

/// Throws ShardingError for the axis `part` if its ranks do not divide a number of parts.
void require_shares(const TransformerLayout&, const char* part, double ranks, double parts, const std::string& words,
                    const ListedOperator&);

}  // namespace trainyard::transformers
