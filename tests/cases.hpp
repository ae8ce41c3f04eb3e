#pragma once
#include <cstdlib>

namespace trainyard::test {

/// `tools/test --deep`: random tests have all their cases.
inline bool all_cases() { return std::getenv("TRAINYARD_ALL_CASES") != nullptr; }
/// Of the cases that a random test may have: all, or a tenth.
inline int cases(int all) { return all_cases() ? all : (all + 9) / 10; }

}  // namespace trainyard::test
