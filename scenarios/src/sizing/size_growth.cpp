// A training on a cluster that grows as its nodes are delivered.
#include "scenarios/src/sizing/size_growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_ways.hpp"

namespace trainyard {
namespace {

/// Returns the largest number of nodes that has a plan, up to the delivered ones and above those of the phase before. 0:
/// none has.
int most_nodes_with_plan(const SizeCase& size_case, int delivered, int before, int unit,
                         const IslandSearches& searches) {
  constexpr int most_tries = 64;
  int tries = 0;
  for (int nodes = delivered / unit * unit; nodes > before && tries < most_tries; nodes -= unit, ++tries)
    if (searches.has_plan(size_case, nodes)) return nodes;
  return 0;
}

SizePhase phase_of(const SizeRow& row, double begin) {
  SizePhase phase;
  phase.nodes = row.nodes;
  phase.begin_days = begin;
  phase.alone_days = row.days();
  phase.step_time = row.step_time;
  phase.plan = row.plan;
  phase.scenario = yaml_text(row.document);
  return phase;
}

/// Sets the ends of the phases and their parts of the training. Phases behind the end of the training are dropped.
void divide(SizeGrowth& growth) {
  double left = 1;
  for (std::size_t i = 0; i < growth.phases.size() && left > 0; ++i) {
    SizePhase& phase = growth.phases[i];
    const double own_end = phase.begin_days + left * phase.alone_days;
    const bool is_last = i + 1 == growth.phases.size() || own_end <= growth.phases[i + 1].begin_days;
    phase.end_days = is_last ? own_end : growth.phases[i + 1].begin_days;
    phase.share = is_last ? left : (phase.end_days - phase.begin_days) / phase.alone_days;
    left -= phase.share;
    if (!is_last) continue;
    growth.phases.resize(i + 1);
    growth.end_days = phase.end_days;
    return;
  }
}

std::string growth_reason(const SizeAnswer& answer, const SizeGrowth& growth) {
  std::vector<std::string> phases;
  for (const SizePhase& phase : growth.phases)
    phases.push_back(fmt::format("{} from day {:.4g} on {} {:.3g} % of it", counted_noun(phase.nodes, "node"),
                                 phase.begin_days, phase.nodes == 1 ? "does" : "do", phase.share * 100));
  const double gain = growth.full_days - growth.end_days;
  return fmt::format(
      "The nodes are delivered in batches. If the training begins on the first ones and grows, it ends after {}, {}{}: "
      "{}. The verdict waits for all nodes ({}).",
      days_words(growth.end_days),
      gain > 0 ? days_words(gain) + " earlier" : "no earlier, since a part of it would run on fewer nodes",
      growth.end_days <= answer.days ? ", which is in time" : ", which is late", fmt::join(phases, ", "),
      days_words(growth.full_days));
}

}  // namespace

JsonFields<SizeGrowth> size_growth_fields() {
  using G = SizeGrowth;
  using P = SizePhase;
  return JsonFields<G>()
      .value("node", "", &G::node, "type of the nodes")
      .value("nodes", "", &G::nodes, "their number after the last delivery")
      .value("end_days", "d", &G::end_days, "days until the training ends")
      .value("full_days", "d", &G::full_days, "days until it ends if it waits for all nodes")
      .value("reason", "", &G::reason, "both in a sentence")
      .list("phases", &G::phases,
            JsonFields<P>()
                .value("nodes", "", &P::nodes, "nodes that train")
                .value("begin_days", "d", &P::begin_days, "days until the phase begins")
                .value("end_days", "d", &P::end_days, "days until it ends")
                .value("share", "share", &P::share, "part of the training that it does")
                .value("alone_days", "d", &P::alone_days, "days that the whole training takes on these nodes")
                .value("step_time_s", "s", &P::step_time, "time of a step")
                .value("plan", "", &P::plan, "the plan in words")
                .value("scenario", "", &P::scenario, "the whole training on these nodes, as `run` takes it"),
            "the phases in the order of time; restarts between them are not counted");
}

void grow_with_deliveries(SizeAnswer& answer, SizeQuestion& question, const std::vector<SizeCase>& cases,
                          const IslandSearches& searches) {
  const SizeRow* row = answer.cheapest ? &*answer.cheapest : answer.nearest ? &*answer.nearest : nullptr;
  if (!answer.purchase || !row || !row->good() || !row->beside.empty() || !row->network.empty()) return;
  const auto found = std::ranges::find_if(cases, [&](const SizeCase& each) {
    return each.node.name == row->node && question.model_of(each) == row->model;
  });
  if (found == cases.end()) return;
  const std::vector<Purchase::Batch> batches =
      question.prices().purchase.arrivals(row->node, found->node.gpu.name, row->nodes);
  if (batches.size() < 2) return;
  SizeGrowth growth;
  growth.node = row->node;
  growth.nodes = row->nodes;
  growth.full_days = row->days() + batches.back().after.value / kSecondsOfDay;
  const int unit = std::max(1, question.options().unit);
  for (std::size_t i = 0; i + 1 < batches.size(); ++i) {
    const int before = growth.phases.empty() ? 0 : growth.phases.back().nodes,
              nodes = most_nodes_with_plan(*found, batches[i].nodes, before, unit, searches);
    if (nodes == 0) continue;
    const SizeRow smaller = searches.row(*found, nodes, 0);
    if (smaller.good()) growth.phases.push_back(phase_of(smaller, batches[i].after.value / kSecondsOfDay));
  }
  growth.phases.push_back(phase_of(*row, batches.back().after.value / kSecondsOfDay));
  divide(growth);
  growth.reason = growth_reason(answer, growth);
  answer.growth = std::move(growth);
}

}  // namespace trainyard
