#pragma once
#include <vector>

#include "scenarios/src/pictures/views.hpp"

namespace trainyard {

/// One rank of a scenario: its position, its groups and peers, and the links to them.
struct RankView {
  MeshRank place;
  int simulated = 0;            ///< the simulated rank of its equivalence class
  int class_size = 1;           ///< size of its equivalence class
  std::string unfolded_reason;  ///< why no ranks are folded; "": they are
  /// A group in which the rank communicates, and its route to the next member.
  struct Group {
    std::string what;
    std::vector<int> members;
    RouteView next;
  };
  std::vector<Group> groups;
  std::vector<RouteView> peers;  ///< routes to ranks outside its groups: neighbours in the pipeline
};
/// Throws UserError if the scenario has no such rank.
void require_rank(const Scenario&, int rank);
/// Throws UserError if the scenario has no such rank.
RankView rank_view(const Scenario&, const Plan&, int rank);
nlohmann::ordered_json to_json(const RankView&);

/// The operations of a rank in a step, taken from the simulated rank of its equivalence class. Consecutive operations
/// of one name on a stream are one row.
struct RankTimeline {
  struct Row {
    std::string stream, what;
    double begin = 0, end = 0;  // s
    int operations = 0;
  };
  std::vector<Row> rows;  ///< sorted by begin
};
/// Throws UserError if the scenario has no such rank.
RankTimeline rank_timeline(const Scenario&, const Plan&, int rank);

}  // namespace trainyard
