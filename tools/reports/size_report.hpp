#pragma once
#include <string>
#include <vector>

namespace trainyard {

struct SizeBound;
struct SizeRow;

/// Returns the first answer of `size` in words: the bounds of node types, and the cluster with one simulated plan.
/// `row` null: no plan was found.
std::string first_size_answer(const std::vector<SizeBound>&, const SizeRow* row);

}  // namespace trainyard
