#pragma once
#include "sim/transports/flow_net.hpp"

namespace trainyard {

/// The fast transport, with max–min sharing of our own. Agrees with SimGrid's communications (sim/simgrid) to 1e-9.
class FlowTransport : public Transport {
 public:
  explicit FlowTransport(std::span<const Link> links) : net_(links) {}

  FlowId send(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token) override {
    return net_.add(route, bytes, rate_cap, token, now_);
  }
  void cancel(FlowId id) override { net_.remove(id); }
  void set_capacity(LinkId link, BytesPerSecond rate) override { net_.set_capacity(link, rate); }
  Bytes remaining(FlowId id) const override { return net_.remaining(id, now_); }
  double used_share(LinkId link) const override { return net_.used_share(link); }
  double next(double now) override {
    now_ = now;
    return net_.next(now);
  }
  bool advance(double now, double until, std::vector<FlowToken>& done) override {
    now_ = now;
    const std::size_t before = done.size();
    net_.collect(until, now, done);
    return done.size() > before;
  }
  std::size_t upcoming(std::array<FlowToken, kUpcoming>& tokens) const override { return net_.upcoming(tokens); }
  bool can_shift() const override { return true; }
  void shift(double seconds) override {
    net_.shift(seconds);
    now_ += seconds;
  }
  std::size_t flows() const override { return net_.flows(); }

 private:
  FlowNet net_;
  double now_ = 0;
};

}  // namespace trainyard
