#pragma once
#include <string>

#include "models/networks/transformers/layout.hpp"
#include "models/networks/transformers/operator_lists.hpp"

namespace trainyard::transformers {

/// Returns true if an operator has several parts that mix rows or columns: experts, a scan, a convolution.
bool is_mixer(const ListedOperator&);
/// Returns true if tensor ranks split the operator without a key `split`.
bool splits_itself(const ListedOperator&);
/// Adds such an operator on rows of this layout. Throws UserError, and ShardingError if ranks do not divide its parts.
void listed_mixer(LayerBuilder&, const TransformerLayout&, const ListedOperator&, const SizeValues&);

/// Takes the numbers of experts that the expert axis divides. Throws UserError if operators have unlike numbers.
void take_experts(const std::vector<ListedOperator>&, const SizeValues&, TransformerConfig&);

/// Throws ShardingError for the axis `part` if its ranks do not divide a number of parts.
void require_shares(const TransformerLayout&, const char* part, double ranks, double parts, const std::string& words,
                    const ListedOperator&);

}  // namespace trainyard::transformers
