// The ways to train on owned nodes, after plans were improved or a network was chosen.
#include "scenarios/src/sizing/size_island_update.hpp"

#include <algorithm>

#include "scenarios/src/sizing/size_island_rows.hpp"
#include "scenarios/src/sizing/size_islands.hpp"
#include "scenarios/src/sizing/size_networks.hpp"

namespace trainyard {
namespace {

/// Takes the ways of an answer from its rows again, which have other plans or networks than before.
class IslandUpdate : IslandRows {
 public:
  IslandUpdate(SizeAnswer& answer, const SizeQuestion& question) : IslandRows(answer, question), question_(question) {}

  void run() {
    for (SizeIslands& islands : answer_.islands) {
      const int gpus_of_node = islands.gpus / islands.nodes;
      const SizeRow* own_row = nullptr;
      for (SizeIsland& way : islands.rows) {
        const SizeRow* row = nullptr;
        if (way.kind == IslandKind::owned_alone)
          row = own_row = row_of(islands.node, way.gpus / gpus_of_node);
        else if (way.kind == IslandKind::two_jobs)
          take_network(way);
        else
          row = best_row(way.node, way.kind == IslandKind::one_job ? islands.node : "");
        const bool is_more = way.kind != IslandKind::more_owned || (row && row->nodes > islands.nodes);
        if (row && is_more) way = with_row(way, *row, own_row);
      }
      islands.reason = island_reason(answer_, islands);
    }
  }

 private:
  const SizeQuestion& question_;

  const SizeRow* row_of(const std::string& node, int nodes) const {
    const auto found = std::ranges::find_if(
        answer_.rows, [&](const SizeRow& row) { return row.node == node && row.nodes == nodes && row.beside.empty(); });
    return found == answer_.rows.end() ? nullptr : &*found;
  }

  SizeIsland with_row(const SizeIsland& way, const SizeRow& row, const SizeRow* own_row) const {
    SizeIsland other = island(way.kind, row);
    if (way.kind != IslandKind::one_job || !other.good()) return other;
    const SizeRow* alone = row_of(row.node, row.nodes);
    if (own_row && own_row->good() && alone && alone->good())
      other.of_two_jobs = other.samples_per_s / (samples_per_s(*own_row) + samples_per_s(*alone));
    else if (other.nodes == way.nodes && other.step_time == way.step_time && answer_.counted_network.empty())
      other.of_two_jobs = way.of_two_jobs;
    return other;
  }

  /// Simulates both jobs on the counted network, a network of its own for each.
  void take_network(SizeIsland& jobs) const {
    if (answer_.counted_network.empty() || !jobs.good()) return;
    std::vector<PartOfTraining> parts;
    for (const std::string& scenario : jobs.scenarios) {
      SizeRow row;
      row.model = answer_.rows.front().model;
      row.plan = jobs.plan;
      Node document = parse_document(scenario, "job");
      const Scenario s = read_scenario(document, row.model);
      row.node = s.cluster.node.name;
      row.nodes = s.cluster.nodes;
      row.gpus = s.cluster.gpus();
      row.batch = s.global_batch_size;
      question_.take_answer(std::move(document), row);
      if (row.nodes > 1) row = row_on_network(row, answer_.counted_network, answer_, question_);
      take_end(parts.emplace_back(PartOfTraining{std::move(row)}));
    }
    jobs = two_jobs(parts.front(), parts.back(), jobs.owned_share);
  }
};

}  // namespace

void update_islands(SizeAnswer& answer, const SizeQuestion& question) { IslandUpdate(answer, question).run(); }

}  // namespace trainyard
