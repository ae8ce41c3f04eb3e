#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <vector>

#include "sim/transports/engine_messages.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard {

/// Flows that SimGrid moves, in a process of its own (sim/simgrid): a process can have only one SimGrid engine, and
/// only that process loads its libraries. The process ends with this object.
class EngineProcess : public Transport {
 public:
  /// `packets`: the network on which TCP moves packets; null: SimGrid's own communications. Throws InternalError if the
  /// process cannot be started.
  EngineProcess(std::span<const Link>, const PacketNetwork* packets);
  ~EngineProcess() override;
  EngineProcess(const EngineProcess&) = delete;

  /// Runs the engine's clock. Calls `step` with the engine's time, at first 0; it returns the time of the simulation's
  /// next timer (−1: none). Ends when nothing happens any more, or when `enough` returns true. Throws UserError and
  /// Interruption.
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
  // Routes that the engine knows, by the address of their links at that time.
  std::map<const LinkUse*, KnownRoute> routes_;
  std::uint32_t route_count_ = 0;
  Pool<FlowToken, FlowId> flows_;
  std::vector<double> shares_;      // indexed by link, as last reported
  std::vector<FlowToken> arrived_;  // flows that have ended and are not taken yet

  void start();
  std::uint32_t number_of(std::span<const LinkUse> route);
  void take_arrived(EngineMessage&);
  EngineMessage receive() const;
  void flush() const;
  [[noreturn]] void report_death() const;
};

}  // namespace trainyard
