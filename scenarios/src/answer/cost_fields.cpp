// The fields of the costs of a training: energy and money.
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"

namespace trainyard {

double Result::training_energy() const {
  if (!energy || training_time.value <= 0) return 0;
  // Failures cost repeated work, at full power, and down time, at idle power.
  const double down = failures ? failures->down.value : 0, busy = whole_time().value - down;
  return energy->pue * (energy->devices() / step_time.value * busy + energy->idle_power * down);
}

JsonFields<Energy> energy_fields() {
  using E = Energy;
  return JsonFields<E>()
      .value("step_J", "J", &E::step, "energy of the site in a step: that of the devices, times PUE")
      .value(
          "step_kWh", "kWh", [](const E& e) { return e.step() / kJoulesOfKwh; }, "energy of the site in a step")
      .value("devices_J", "J", &E::parts, "energy in a step by part of the cluster, without PUE")
      .value("pue", "", &E::pue, "power usage effectiveness of the site")
      .value("gpu_power_W", "W", &E::gpu_power, "mean power of a device over the step and over all devices")
      .value("gpu_power_limit_W", "W", &E::gpu_power_limit, "most power that a device may draw")
      .value("idle_power_W", "W", &E::idle_power, "power of all devices without work")
      .value("not_stated", "", &E::not_stated, "parts that are left out, because the catalog has no power of them")
      .when([](const E& e) { return !e.not_stated.empty(); }, "if there are any");
}

JsonFields<Ownership> ownership_fields() {
  using O = Ownership;
  return JsonFields<O>()
      .value("purchase_parts", "money", &O::purchase_prices, "purchase price by part")
      .value(
          "purchase", "money", [](const O& o) { return o.price(); }, "purchase price, the sum of its parts")
      .value("year_parts", "money", &O::yearly, "cost of a year in use by part")
      .value(
          "year", "money", [](const O& o) { return o.year(); }, "cost of a year in use, the sum of its parts")
      .value("per_million", "money", &O::per_million,
             "cost of a million tokens (of samples if the network has no tokens), if the cluster is always in use")
      .value("interest", "share", &O::interest, "interest of a year")
      .value("owned_nodes", "", &O::owned_nodes, "nodes that were owned before: the purchase price is of the others")
      .when([](const O& o) { return o.owned_nodes > 0; }, "with prices.purchase.owned")
      .value("delivery_s", "s", &O::delivery, "time until all nodes are delivered")
      .when([](const O& o) { return o.delivery > 0; }, "with prices.purchase.delivery")
      .value("training", "money", &O::training, "cost of the time that the whole training takes")
      .when([](const O& o) { return o.training > 0; }, "with plan.training")
      .value("rent_year", "money", &O::rent_year, "rent of the same devices for a year")
      .when([](const O& o) { return o.rent_year > 0; }, "if the devices have a rent")
      .value(
          "break_even_use", "share", [](const O& o) { return o.break_even_use(); },
          "use of the cluster, as a share of all hours, at which renting it for these hours costs as much as owning "
          "it; null: at no use")
      .when([](const O& o) { return o.rent_year > 0; }, "if the devices have a rent")
      .value(
          "break_even_years", "", [](const O& o) { return o.break_even_years(); },
          "years of full use after which the purchase costs as much as renting; null: it never does")
      .when([](const O& o) { return o.rent_year > 0; }, "if the devices have a rent");
}

JsonFields<RentCost> rent_cost_fields() {
  using C = RentCost;
  return JsonFields<C>()
      .value("terms", "", &C::terms, "kind of rent: on demand, a reserved term, or spot")
      .value("error", "", &C::error, "why the training is impossible on these terms")
      .when([](const C& c) { return !c.error.empty(); }, "if it is impossible")
      .value("training", "money", &C::training,
             "cost of the whole training, with unused hours of a reserved term and electricity")
      .value("training_s", "s", &C::time, "time of the training with failures, interruptions and checkpoints")
      .value("goodput", "share", &C::goodput, "useful share of the time")
      .value("paid_hours", "h", &C::paid_hours, "hours of the cluster that are used, or reserved if these are more");
}

JsonFields<Money> money_fields() {
  using M = Money;
  return JsonFields<M>()
      .value("currency", "", &M::currency, "currency of the prices")
      .value("step", "money", &M::step, "cost of a step")
      .value("per_million", "money", &M::per_million,
             "cost of a million tokens, or of a million samples if the network has no tokens")
      .value("of_tokens", "", &M::of_tokens, "true: per_million is the cost of tokens; false: of samples")
      .value("training", "money", &M::training, "cost of the whole training, including failures")
      .when([](const M& m) { return m.training > 0; }, "with plan.training")
      .object("ownership", &M::ownership, ownership_fields(), "cost of buying the cluster")
      .when([](const M& m) { return m.ownership.has_value(); }, "with prices of a purchase")
      .list("rents", &M::rents, rent_cost_fields(), "the whole training by each kind of rent")
      .when([](const M& m) { return !m.rents.empty(); }, "with plan.training and prices of reserved terms or spot");
}

}  // namespace trainyard
