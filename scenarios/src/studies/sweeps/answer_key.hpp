#pragma once
#include <string>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Returns a fingerprint of everything that the answer to a scenario depends on. This includes the program itself: a
/// new build must not reuse the answers of an old one.
std::string answer_key(const Scenario&);
/// Returns the key of a scenario that differs only in its document from one whose key is `base_key`.
std::string answer_key(const std::string& base_key, const Node& document);

}  // namespace trainyard
