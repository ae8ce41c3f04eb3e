#pragma once
#include <optional>
#include <vector>

#include "scenarios/src/pictures/views.hpp"

namespace trainyard {

/// One rank of a scenario, simulated or stood for: where it is, whom it meets, and over which links.
struct RankView {
  MeshRank at;
  int simulated = 0;     ///< the rank that stands for it
  int alike = 1;         ///< how many that one stands for
  std::string unfolded;  ///< why each rank stands for itself
  /// A group that it communicates in, and its way to the next member.
  struct Group {
    std::string what;
    std::vector<int> members;
    RouteView next;
  };
  std::vector<Group> groups;
  std::vector<RouteView> peers;  ///< that it sends messages to outside of groups: neighbours in the pipeline
};
/// Throws UserError for a rank that is not there.
void require_rank(const Scenario&, int rank);
/// The next two throw it too.
RankView rank_view(const Scenario&, const Plan&, int rank);
nlohmann::ordered_json to_json(const RankView&);

/// What a rank does in a step, as the one that stands for it was simulated: work of one name that follows each other on a
/// stream together.
struct RankTimeline {
  struct Row {
    std::string stream, what;
    double begin = 0, end = 0;  // s
    int operations = 0;
  };
  std::vector<Row> rows;  ///< in the order in which they begin
};
RankTimeline rank_timeline(const Scenario&, const Plan&, int rank);

}  // namespace trainyard
