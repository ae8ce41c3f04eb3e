#pragma once
#include <cstdlib>

namespace trainyard::test {

/// Whether random tests run all their cases (`tools/test --deep`).
inline bool all_cases() { return std::getenv("TRAINYARD_ALL_CASES") != nullptr; }
/// The number of cases that a random test runs: all of them, or a tenth.
inline int cases(int all) { return all_cases() ? all : (all + 9) / 10; }

}  // namespace trainyard::test
