// The fields of what a training costs: energy and money.
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"

namespace trainyard {

double Result::training_energy() const {
  if (!energy || training_time <= 0) return 0;
  // What failures cost is work that is done again, but for the time in which nothing runs.
  const double down = failures ? failures->down : 0, busy = whole_time() - down;
  return energy->pue * (energy->devices() / step_time * busy + energy->idle_power * down);
}

JsonFields<Energy> energy_fields() {
  using E = Energy;
  return JsonFields<E>()
      .value("step_J", "J", &E::step, "a step, of the site: devices times PUE")
      .value(
          "step_kWh", "kWh", [](const E& e) { return e.step() / kJoulesOfKwh; }, "the same")
      .value("devices_J", "J", &E::parts, "a step, by part of the cluster, without PUE")
      .value("pue", "", &E::pue, "power usage effectiveness of the site")
      .value("gpu_power_W", "W", &E::gpu_power, "of a device, the mean over the step and over all")
      .value("gpu_power_limit_W", "W", &E::gpu_power_limit, "the most that a device draws")
      .value("idle_power_W", "W", &E::idle_power, "of all devices, without work")
      .value("not_stated", "", &E::not_stated, "parts whose power the catalog does not have, and that are left out")
      .when([](const E& e) { return !e.not_stated.empty(); }, "where there are any");
}

JsonFields<Money> money_fields() {
  using M = Money;
  return JsonFields<M>()
      .value("currency", "", &M::currency, "of the prices")
      .value("step", "money", &M::step, "of a step")
      .value("per_million", "money", &M::per_million, "of a million tokens; of samples where a network has no tokens")
      .value("of_tokens", "", &M::of_tokens, "per_million is of tokens")
      .value("training", "money", &M::training, "of the whole training, with what failures cost")
      .when([](const M& m) { return m.training > 0; }, "with plan.training");
}

}  // namespace trainyard
