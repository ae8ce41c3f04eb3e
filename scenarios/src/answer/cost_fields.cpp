// The fields of the costs of a training: energy and money.
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"

namespace trainyard {

double Result::training_energy() const {
  if (!energy || training_time <= 0) return 0;
  // Failures cost repeated work, at full power, and down time, at idle power.
  const double down = failures ? failures->down : 0, busy = whole_time() - down;
  return energy->pue * (energy->devices() / step_time * busy + energy->idle_power * down);
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

JsonFields<Money> money_fields() {
  using M = Money;
  return JsonFields<M>()
      .value("currency", "", &M::currency, "currency of the prices")
      .value("step", "money", &M::step, "cost of a step")
      .value("per_million", "money", &M::per_million,
             "cost of a million tokens, or of a million samples if the network has no tokens")
      .value("of_tokens", "", &M::of_tokens, "whether per_million is the cost of tokens")
      .value("training", "money", &M::training, "cost of the whole training, including failures")
      .when([](const M& m) { return m.training > 0; }, "with plan.training");
}

}  // namespace trainyard
