#pragma once
#include <string>

#include "scenarios/src/studies/sweeps/learn_study.hpp"

namespace trainyard {

/// One training: what was trained on what, its curve, and what the target took.
std::string learn_report(const Scenario&, const LearnVariant&, int seeds);
/// Several variants side by side.
std::string learn_comparison(const Scenario&, const LearnStudy&);
/// Loss (and accuracy) against simulated time, samples and bytes, a line a variant: the mean of its seeds. SVG.
std::string learn_svg(const std::string& title, const LearnStudy&);

}  // namespace trainyard
