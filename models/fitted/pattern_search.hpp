#pragma once
#include <functional>
#include <span>

namespace trainyard {

/// Pattern search (Hooke & Jeeves 1961): a step along each axis that helps is kept and grows, one that does not shrinks.
/// Moves `at`, which `error` reads, to the least error found, and returns that. Deterministic.
double pattern_search(std::span<double> at, const std::function<double()>& error);

}  // namespace trainyard
