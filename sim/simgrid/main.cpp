// The engine of --transport native and packets. It moves flows on SimGrid's clock for the simulation that started it.
// Its standard input is a socket to that simulation (see sim/transports/engine_messages.hpp).
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <utility>

#include "sim/error.hpp"
#include "sim/observer.hpp"
#include "sim/simgrid/native_transport.hpp"
#include "sim/simgrid/packet_transport.hpp"
#include "sim/transports/engine_messages.hpp"

namespace trainyard {
namespace {

constexpr int kSocket = STDIN_FILENO;

// With these settings a transfer moves exactly its bytes at its max-min share (no TCP window, no weights by latency),
// and events are simultaneous within a picosecond instead of a nanosecond. All links have latency zero: the executor
// pays latencies before a flow starts.
constexpr const char* kExactSharing[] = {
    "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",      "--cfg=network/crosstraffic:0",
    "--cfg=network/weight-S:0", "--cfg=network/latency-factor:1", "--cfg=network/bandwidth-factor:1",
    "--cfg=network/optim:Lazy", "--cfg=surf/precision:1e-12",     "--cfg=maxmin/precision:1e-9",
};

simgrid::s4u::Engine& make_engine(bool packets) {
  static std::vector<const char*> arguments{"trainyard", "--log=root.thres:error"};
  if (packets)
    for (const char* setting : PacketTransport::settings()) arguments.push_back(setting);
  else
    arguments.insert(arguments.end(), std::begin(kExactSharing), std::end(kExactSharing));
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  static simgrid::s4u::Engine instance(&count, const_cast<char**>(arguments.data()));
  return instance;
}

/// Ends the process when the simulation has ended or died.
[[noreturn]] void leave() { ::_exit(0); }

/// A resource model for SimGrid. It advances the clock to the simulation's next timer or to the end of a flow, and lets
/// the simulation act there.
class SimulationModel : public simgrid::kernel::resource::Model {
 public:
  explicit SimulationModel(EngineSetup setup) : Model("trainyard"), setup_(std::move(setup)) {
    if (setup_.packets)
      transport_ = std::make_unique<PacketTransport>(setup_.links, setup_.network);
    else
      transport_ = std::make_unique<NativeTransport>(setup_.links);
  }

  double next_occurring_event(double now) override {
    const double flow_end = transport_->next(now);
    note_shares();
    transport_->advance(now, now, ended_);
    double next = next_;
    if (flow_end >= 0 && (next < 0 || flow_end < next)) next = flow_end;
    if (!ended_.empty()) next = now;
    return next < 0 ? -1 : std::max(0.0, transport_->step_to(now, next));
  }

  /// SimGrid completes flows that end at this instant after this call: a timer that is due now waits for them.
  void update_actions_state(double now, double delta) override {
    const bool timer = next_ >= 0 && next_ <= now + kSameTime;
    transport_->advance(now, now + kSameTime, ended_);
    if (!ended_.empty() || timer) {
      if (timer && delta > 0) return;
      step(now);
    }
  }

 private:
  EngineSetup setup_;
  std::unique_ptr<SimgridTransport> transport_;
  std::deque<std::vector<LinkUse>> routes_;  // indexed by the simulation's number
  std::map<std::uint32_t, FlowId> flows_;    // indexed by the simulation's number
  std::vector<std::uint32_t> departed_;      // routes of flows that departed since the links were last shared
  std::map<LinkId, double> shares_;          // indexed by link, for the links of those routes
  std::vector<FlowToken> ended_;             // not reported to the simulation yet
  double next_ = 0;                          // s, next timer of the simulation; −1: none
  EngineMessage message_;

  /// Records how full the links of the flows are that have departed since the last call. Links have just been shared
  /// anew, and the link that limits such a flow is on its route.
  void note_shares() {
    for (const std::uint32_t route : departed_)
      for (const LinkUse& use : routes_[route]) shares_[use.link] = transport_->used_share(use.link);
    departed_.clear();
  }

  /// Reports the time and the flows that have ended to the simulation, and follows its orders until it sends its next
  /// timer.
  void step(double now) {
    message_.add(EngineMessageType::step, now, shares_.size());
    for (const auto& [link, share] : std::exchange(shares_, {})) message_.add(link, share);
    message_.add_list(std::span<const FlowToken>(ended_));
    for (const FlowToken number : std::exchange(ended_, {})) flows_.erase(number);
    for (;;) {
      EngineMessage orders;
      if (!message_.write(kSocket) || !orders.read(kSocket)) leave();
      while (!orders.at_end()) {
        const auto word = orders.take<EngineMessageType>();
        if (word == EngineMessageType::go_on) {
          next_ = orders.take<double>();
          return;
        }
        obey(word, orders);
      }
    }
  }

  void obey(EngineMessageType word, EngineMessage& orders) {
    if (word == EngineMessageType::new_route) {
      routes_.push_back(orders.take_list<LinkUse>());
    } else if (word == EngineMessageType::send) {
      const auto number = orders.take<std::uint32_t>();
      const auto route = orders.take<std::uint32_t>();
      const auto bytes = orders.take<Bytes>();
      const auto rate_cap = orders.take<BytesPerSecond>();
      flows_[number] = transport_->send(routes_[route], bytes, rate_cap, number);
      departed_.push_back(route);
    } else if (word == EngineMessageType::cancel) {
      const auto found = flows_.find(orders.take<std::uint32_t>());
      transport_->cancel(found->second);
      flows_.erase(found);
    } else if (word == EngineMessageType::set_capacity) {
      const auto link = orders.take<LinkId>();
      transport_->set_capacity(link, orders.take<BytesPerSecond>());
    } else {
      const auto number = orders.take<std::uint32_t>();
      message_.add(EngineMessageType::remaining, transport_->remaining(flows_.at(number)));
    }
  }
};

void serve() {
  EngineMessage message;
  if (!message.read(kSocket)) leave();
  EngineSetup setup = take_setup(message);
  message.clear();
  try {
    simgrid::s4u::Engine& engine = make_engine(setup.packets);
    engine.add_model(std::make_shared<SimulationModel>(std::move(setup)));
    engine.run();
    message.add(EngineMessageType::ended);
  } catch (const UserError& e) {
    message.add(EngineMessageType::failed);
    message.add_text(e.what());
  }
  message.write(kSocket);
}

}  // namespace
}  // namespace trainyard

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count != 2 || ::getppid() != std::atoi(words[1])) {
    ::fprintf(stderr, "trainyard_simgrid is started by trainyard --transport native and --transport packets\n");
    return 2;
  }
  std::signal(SIGINT, SIG_IGN);  // the simulation handles the signal and ends this process
  std::signal(SIGTERM, SIG_IGN);
  trainyard::serve();
  ::_exit(0);
}
