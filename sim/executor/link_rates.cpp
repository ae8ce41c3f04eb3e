#include "sim/executor/link_rates.hpp"

namespace trainyard::execution {

void LinkRates::record(double until) {
  const double span = until - since_;
  if (span <= 0) return;
  rates_.assign(links_.size(), BytesPerSecond{0});
  for (Transfer& t : transfers_) {
    if (t.state != Transfer::State::flowing && t.state != Transfer::State::landed) continue;
    const Bytes left = t.state == Transfer::State::landed ? Bytes{0} : context_.transport.remaining(t.flow);
    const BytesPerSecond rate = (t.seen - left) / Seconds{span};
    t.seen = left;
    for (const LinkUse& use : t.links) rates_[use.link] += rate * use.weight;
  }
  for (Observer* o : context_.observers.all()) o->link_rates(Seconds{since_}, Seconds{until}, rates_);
  since_ = until;
}

}  // namespace trainyard::execution
