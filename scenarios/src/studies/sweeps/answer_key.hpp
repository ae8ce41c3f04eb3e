#pragma once
#include <string>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Everything that the answer to a scenario depends on, the program that computes it included, as one number in text: a
/// new build must not take the answers of the old one.
std::string answer_key(const Scenario&);
/// The same of a scenario that differs from one in its document alone.
std::string answer_key(const std::string& of, const Node& document);

}  // namespace trainyard
