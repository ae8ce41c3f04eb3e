#include "scenarios/src/studies/failures/rent_costs.hpp"

#include <optional>
#include <utility>

#include "models/energy/energy.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {
namespace {

constexpr double kSecondsOfHour = 3600;

/// Rent of all nodes for an hour. No value: a type of node has no such rent.
std::optional<double> cluster_hour(const Scenario& s, const std::vector<Prices::Rent>& rents) {
  double all = 0;
  for (const auto& [type, nodes] : s.cluster.counted_types()) {
    const auto hour = Prices::gpu_hour_among(rents, type->name, type->gpu.name, type->gpus);
    if (!hour) return std::nullopt;
    all += *hour * nodes * type->gpus;
  }
  return all;
}

/// Simulates the training on nodes that are interrupted. Throws UserError if it never ends.
FailureResult study_interruptions(const Scenario& s, const Prices::Offer& offer, Seconds step,
                                  const FailureStudy& study) {
  Scenario interrupted = s;
  FailureChoice& choice = interrupted.failures;
  if (!choice.checkpoints)
    throw UserError(
        "interruptions would lose all work: expected faults.checkpoint, such as {every: 30 min, write: 20 s, "
        "load: 20 s}");
  if (s.training.steps <= 0)
    throw UserError("interruptions need the work of the training: expected plan.training: {tokens} or {steps}");
  FailingParts nodes;
  nodes.name = "spot node";
  nodes.count = s.cluster.nodes;
  nodes.mtbf = offer.interruption;
  nodes.takes_node = true;
  choice.parts.push_back(nodes);
  choice.find_best = false;
  choice.recovery.spares.reset();  // another spot node takes over
  if ((choice.recovery.detect + choice.recovery.restart).value <= 0) choice.recovery.restart = offer.restart;
  return study(interrupted, step);
}

/// Returns the cost of the training `r` at this rent of the cluster for an hour.
RentCost rent_cost(const Scenario& s, const Result& r, const Prices::Offer& offer, double cluster_hour) {
  RentCost cost;
  cost.time = r.whole_time();
  cost.goodput = r.failures ? r.failures->goodput : 1;
  const ReservedHours hours = reserved_hours(offer, cost.time / kSecondsOfHour);
  cost.paid_hours = hours.paid;
  cost.training = hours.cost * cluster_hour + s.prices.kwh / kJoulesOfKwh * r.training_energy();
  return cost;
}

}  // namespace

void book_rents(const Scenario& s, Result& r, const FailureStudy& study) {
  if (!r.money || s.prices.offers.empty() || r.whole_time() <= 0) return;
  const auto add = [&r](const std::string& terms, RentCost cost) {
    cost.terms = terms;
    r.money->rents.push_back(std::move(cost));
  };
  if (const auto hour = cluster_hour(s, s.prices.rents)) add("on demand", rent_cost(s, r, {}, *hour));
  for (const Prices::Offer& offer : s.prices.offers) {
    const std::optional<double> hour = cluster_hour(s, offer.rents);
    if (!hour) continue;
    if (offer.interruption.value <= 0) {
      add(offer.name(), rent_cost(s, r, offer, *hour));
      continue;
    }
    try {
      Result interrupted = r;
      interrupted.failures = study_interruptions(s, offer, Seconds{r.step_time}, study);
      add(offer.name(), rent_cost(s, interrupted, offer, *hour));
    } catch (const UserError& e) {
      RentCost none;
      none.error = e.what();
      add(offer.name(), none);
    }
  }
}

}  // namespace trainyard
