#pragma once
#include <string>

#include "scenarios/src/pictures/rank_view.hpp"

namespace trainyard {

/// Where a rank is, which one stands for it, its groups and peers and the links to them.
std::string rank_text(const RankView&);
/// The beginning of what a rank does.
std::string rank_timeline_text(const RankTimeline&, int rank);

}  // namespace trainyard
