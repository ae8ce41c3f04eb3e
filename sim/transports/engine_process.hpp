#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/transports/engine_messages.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard {

/// Flows that SimGrid moves, in a process of its own (sim/simgrid): its engine is one for a process, and its libraries are
/// loaded there alone. The process ends with this object.
class EngineProcess : public Transport {
 public:
  /// `packets`: the network of TCP's packets; null: SimGrid's own communications. Throws InternalError where the process
  /// cannot be started.
  EngineProcess(std::span<const Link>, const PacketNetwork* packets);
  ~EngineProcess() override;
  EngineProcess(const EngineProcess&) = delete;

  /// Runs the engine's clock: `step` is told how far it has come, at first 0, and returns the time of the simulation's next
  /// timer (−1: none). Ends when nothing happens any more, or when `enough`. Throws UserError and Interrupted.
  void run(const std::function<double(double now)>& step, const std::function<bool()>& enough);

  FlowId send(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken) override;
  void cancel(FlowId) override;
  void set_capacity(LinkId, BytesPerSecond) override;
  Bytes remaining(FlowId) const override;
  double used_share(LinkId link) const override { return shares_[static_cast<std::size_t>(link)]; }
  double next(double) override { return -1; }
  bool advance(double now, double until, std::vector<FlowToken>& done) override;

 private:
  pid_t process_ = -1;
  int socket_ = -1;
  int caught_stderr_ = -1;
  bool by_packets_;
  mutable EngineMessage orders_;  // not sent yet
  struct KnownRoute {
    std::uint32_t number = 0;
    std::vector<LinkUse> links;
  };
  std::map<const LinkUse*, KnownRoute> routes_;  // that the engine was told, by where they lay then
  std::uint32_t route_count_ = 0;
  Pool<FlowToken, FlowId> flows_;
  std::vector<double> shares_;      // by link, as last told
  std::vector<FlowToken> arrived_;  // and not taken yet

  void start();
  std::uint32_t number_of(std::span<const LinkUse> route);
  void take_arrived(EngineMessage&);
  EngineMessage receive() const;
  void flush() const;
  [[noreturn]] void report_death() const;
};

}  // namespace trainyard
