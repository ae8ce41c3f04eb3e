// A training on a cluster that grows as its nodes are delivered.
#include "scenarios/src/sizing/size_growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/sizing/size_payments.hpp"

namespace trainyard {

SizePhase phase_of(const SizeRow& row, double begin) {
  SizePhase phase;
  phase.nodes = row.nodes;
  phase.begin_days = begin;
  phase.alone_days = row.days();
  phase.alone_energy = row.energy;
  phase.alone_money = row.ownership ? row.ownership->training : 0;
  phase.step_time = row.step_time;
  phase.plan = row.plan;
  phase.scenario = yaml_text(row.document);
  return phase;
}

namespace {

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

std::string growth_reason(const SizeGrowth& growth) {
  std::vector<std::string> phases;
  for (const SizePhase& phase : growth.phases)
    phases.push_back(fmt::format("{} from day {:.4g} on {} {:.3g} % of it", counted_noun(phase.nodes, "node"),
                                 phase.begin_days, phase.nodes == 1 ? "does" : "do", phase.share * 100));
  return fmt::format(
      "The nodes are delivered in batches. The training begins on the first ones{}, and ends after {}: {}. If it "
      "waited for all nodes, it would end after {}.",
      growth.phases.size() > 1 ? ", grows" : "", days_words(growth.end_days), fmt::join(phases, ", "),
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

int DeliveryPhases::most_with_plan(const SizeCase& size_case, int delivered, int before) const {
  constexpr int most_tries = 64;
  const int unit = std::max(1, question_.options().unit);
  int tries = 0;
  for (int nodes = delivered / unit * unit; nodes > before && tries < most_tries; nodes -= unit, ++tries)
    if (searches_.has_plan(size_case, nodes)) return nodes;
  return 0;
}

std::vector<Purchase::Batch> DeliveryPhases::batches(const SizeCase& size_case, int nodes) const {
  const SizeOptions& options = question_.options();
  if (!options.purchase || size_case.beside) return {};
  return question_.prices().purchase.arrivals(size_case.node.name, size_case.node.gpu.name, nodes);
}

const SizeRow& DeliveryPhases::row(const SizeCase& size_case, int nodes) {
  const auto [found, is_new] = rows_.try_emplace({question_.model_of(size_case), size_case.node.name, nodes});
  if (is_new) found->second = searches_.row(size_case, nodes, 0);
  return found->second;
}

std::vector<SizePhase> DeliveryPhases::before(const SizeCase& size_case, int nodes) {
  const std::vector<Purchase::Batch> all = batches(size_case, nodes);
  std::vector<SizePhase> phases;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const int most = most_with_plan(size_case, all[i].nodes, phases.empty() ? 0 : phases.back().nodes);
    if (most == 0 || most == nodes) continue;
    const SizeRow& smaller = row(size_case, most);
    if (smaller.good()) phases.push_back(phase_of(smaller, all[i].after.value / kSecondsOfDay));
  }
  return phases;
}

double DeliveryPhases::useful_days(const SizeCase& size_case, int nodes) {
  const double days = question_.days_left(size_case, nodes);
  SizeRow phases;
  phases.phases = before(size_case, nodes);
  if (phases.phases.empty()) return days;
  Payment earlier;
  earlier.row = &phases;
  earlier.grows = true;
  earlier.days = HUGE_VAL;  // the part that all nodes do is not known
  earlier.wait = batches(size_case, nodes).back().after.value / kSecondsOfDay;
  const double part = 1 - earlier.done(question_.options().days);
  return part > 0 ? days / part : 0;
}

int DeliveryPhases::first_guess(const SizeCase& size_case) {
  constexpr double hours_of_day = 24;
  const double needed = question_.rough_hours(size_case) / (hours_of_day * size_case.node.gpus),
               deadline = question_.options().days;
  const auto node_days = [&](int nodes) {
    const std::vector<Purchase::Batch> all = batches(size_case, nodes);
    if (all.size() < 2) return nodes * question_.days_left(size_case, nodes);
    double days = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double begin = all[i].after.value / kSecondsOfDay,
                   end = i + 1 < all.size() ? all[i + 1].after.value / kSecondsOfDay : deadline;
      days += all[i].nodes * std::max(0.0, std::min(end, deadline) - begin);
    }
    return days;
  };
  int nodes = std::max(1, question_.options().unit);
  while (node_days(nodes) < needed && 2 * nodes <= kMostSizedNodes) nodes *= 2;
  return nodes;
}

std::vector<SizePhase> phases_on_network(const SizeQuestion& question, const SizeNetwork& network,
                                         const std::vector<SizePhase>& phases) {
  std::vector<SizePhase> all;
  for (const SizePhase& phase : phases) {
    SizeRow row;
    row.nodes = phase.nodes;
    row.plan = phase.plan;
    try {
      Node document = parse_document(phase.scenario, "phase");
      if (phase.nodes > 1) set_field(document, "cluster.fabric", network.fabric);
      question.take_answer(std::move(document), row);
    } catch (const UserError&) {
      continue;
    }
    if (row.ownership && network.price_of_switches && network.price_of_cables)
      row.ownership->set_network(question.prices().purchase, *network.price_of_switches, *network.price_of_cables);
    all.push_back(phase_of(row, phase.begin_days));
  }
  return all;
}

void take_phases(SizeRow& row, std::vector<SizePhase> phases) {
  row.phases = std::move(phases);
  if (row.phases.empty() || !row.ownership) return;
  SizeGrowth growth;
  growth.phases = row.phases;
  growth.phases.push_back(phase_of(row, row.ownership->delivery / kSecondsOfDay));
  divide(growth);
  double energy = 0, money = 0;
  for (const SizePhase& phase : growth.phases) {
    energy += phase.share * phase.alone_energy;
    money += phase.share * phase.alone_money;
  }
  if (row.energy > 0) row.energy = energy;
  row.ownership->training = money;
}

void add_growth(SizeAnswer& answer) {
  const SizeRow* row = answer.cheapest ? &*answer.cheapest : answer.nearest ? &*answer.nearest : nullptr;
  if (!answer.purchase || !row || row->phases.empty()) return;
  SizeGrowth growth;
  growth.node = row->node;
  growth.nodes = row->nodes;
  growth.full_days = row->days() + row->wait_days;
  growth.phases = row->phases;
  growth.phases.push_back(phase_of(*row, row->wait_days));
  divide(growth);
  growth.reason = growth_reason(growth);
  answer.growth = std::move(growth);
}

}  // namespace trainyard
