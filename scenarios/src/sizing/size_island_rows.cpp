#include "scenarios/src/sizing/size_island_rows.hpp"

#include <algorithm>
#include <tuple>

#include "models/reading/document_text.hpp"
#include "scenarios/src/sizing/size_choices.hpp"

namespace trainyard {

const SizeRow* IslandRows::best_row(const std::string& node, const std::string& beside) const {
  const SizeRow* best = nullptr;
  const auto rank = [this](const SizeRow& row) {
    const bool in_time = row.good() && meets_deadline(answer_, row);
    return std::tuple(!row.good(), !in_time, in_time ? size_cost(answer_, row) : row.time);
  };
  for (const SizeRow& row : answer_.rows)
    if (row.node == node && row.beside == beside && (!best || rank(row) < rank(*best))) best = &row;
  return best;
}

SizeIsland IslandRows::island(IslandKind kind, const SizeRow& row) const {
  SizeIsland all;
  all.kind = kind;
  if (kind != IslandKind::owned_alone) {
    all.node = row.node;
    all.nodes = row.nodes;
  }
  all.gpus = row.gpus;
  all.error = row.error;
  if (!row.good()) return all;
  all.plan = row.plan;
  all.step_time = row.step_time;
  all.samples_per_s = static_cast<double>(row.batch) / row.step_time;
  all.days = row.days();
  all.scenarios.push_back(yaml_text(row.document));
  const std::optional<Payment> payment = purchase_of(answer_, row);
  if (!payment) {
    all.error = "prices.purchase lacks one of its types of nodes";
    return all;
  }
  all.days = payment->end();
  all.cost = payment->cost;
  all.missed = missed_by(answer_, *payment);
  all.bought_nodes = bought_nodes_of(row);
  const Catalog& catalog = question_.catalog();
  all.bought_gpus = all.bought_nodes * read_node(catalog.resolve("node", Node::scalar_node(row.node)), catalog).gpus;
  return all;
}

SizeIsland IslandRows::two_jobs(const PartOfTraining& first, const PartOfTraining& second, double share) const {
  SizeIsland jobs = island(IslandKind::two_jobs, second.row);
  if (!jobs.good()) return jobs;
  const double needed = std::max(first.needed, second.needed);
  const SizeRow& own_row = first.row;
  jobs.gpus += own_row.gpus;
  jobs.owned_step_time = own_row.step_time;
  jobs.owned_share = share;
  jobs.samples_per_s += samples_per_s(own_row);
  jobs.days = std::max(first.end, second.end);
  if (answer_.total_years > 0 && own_row.ownership) jobs.cost += own_row.ownership->total();
  const bool is_dear = answer_.budget > 0 && jobs.cost > answer_.budget;
  jobs.missed = needed <= answer_.days ? (is_dear ? "budget" : "") : is_dear ? "deadline and budget" : "deadline";
  jobs.scenarios.insert(jobs.scenarios.begin(), yaml_text(own_row.document));
  return jobs;
}

void IslandRows::take_end(PartOfTraining& part) const {
  part.row.phases.clear();  // each of two jobs begins on all of its nodes
  const std::optional<Payment> payment = purchase_of(answer_, part.row);
  part.end = payment ? payment->end() : part.row.days();
  part.needed = payment ? payment->needed_days() : part.end;
}

}  // namespace trainyard
