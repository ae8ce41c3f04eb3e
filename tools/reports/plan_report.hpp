#pragma once
#include <string>

#include "scenarios/src/search/plan_answer.hpp"

namespace trainyard {

/// One screen: the best plan, the next ones, what changing one thing costs, how flat the optimum is.
std::string plan_screen(const PlanAnswer&);

}  // namespace trainyard
