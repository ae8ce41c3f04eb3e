#include "sim/simgrid/packet_transport.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <simgrid/config.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>
#include <simgrid/s4u/NetZone.hpp>

#include "sim/error.hpp"

namespace trainyard {
namespace {

namespace grid = simgrid::s4u;

/// Sets the default of an attribute of ns-3, for example "ns3::TcpSocket::SegmentSize" to "1460", for all later
/// objects. SimGrid has no key for most attributes, and reads its library's environment variable when it is loaded,
/// which is too early. ns-3's headers are not needed: the function is looked up in the library that SimGrid has loaded.
/// Returns false if there is no such function or attribute.
bool set_ns3_default(const std::string& attribute, const std::string& value) {
  // ns3::StringValue::StringValue(const std::string&), bool ns3::Config::SetDefaultFailSafe(std::string, const
  // ns3::AttributeValue&).
  using MakeValue = void (*)(void*, const std::string&);
  using SetDefault = bool (*)(std::string, const void*);
  const auto make = reinterpret_cast<MakeValue>(
      ::dlsym(RTLD_DEFAULT, "_ZN3ns311StringValueC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"));
  const auto set = reinterpret_cast<SetDefault>(::dlsym(
      RTLD_DEFAULT,
      "_ZN3ns36Config18SetDefaultFailSafeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_14AttributeValueE"));
  if (!make || !set) return false;
  // A StringValue is two pointers and a string. It is never freed, because the settings stay.
  constexpr std::size_t kRoom = 4 * sizeof(std::string);
  static_assert(kRoom >= 2 * sizeof(void*) + sizeof(std::string));
  auto* room = new std::max_align_t[kRoom / sizeof(std::max_align_t)];
  make(room, value);
  return set(attribute, room);
}

[[noreturn]] void refuse_packets(const std::string& why) { throw UserError("--transport packets: " + why); }

// Frames of 1,500 bytes carry 1,460 bytes of data (IP 20, TCP 20 bytes: RFC 791, RFC 9293); ns-3's cables add 2 of PPP.
// The rate of our cables is the rate of data in full frames; ns-3's cables need the headers on top.
constexpr double kSegment = 1460, kFrame = kSegment + 40 + 2;

// SndBufSize: SimGrid 3.32 closes the receiver as soon as the sender has buffered its last byte, and aborts if that
// byte is not on its way yet; a buffer for any message avoids this. RcvBufSize: half of Linux's largest (ip-sysctl:
// tcp_rmem 6,291,456 bytes, tcp_adv_win_scale 1: half of it is window). SocketType: Linux's Reno, from ten segments on
// (RFC 6928). Linux's default, CUBIC, grows as Reno if round trips are short (RFC 9438, 4.3); ns-3 3.37's CUBIC ends
// slow start in the first round trips of paths as short as a data centre's, and crashes on losses
// (TcpRateLinux::SkbSent), as its Reno does only in long lossy transfers. MinRto: Linux's TCP_RTO_MIN (ns-3's is 1 s,
// RFC 6298).
constexpr const char* kTcpSettings[][2] = {{"ns3::TcpSocket::SegmentSize", "1460"},
                                           {"ns3::TcpSocket::SndBufSize", "4294967295"},
                                           {"ns3::TcpSocket::RcvBufSize", "3145728"},
                                           {"ns3::TcpL4Protocol::SocketType", "ns3::TcpLinuxReno"},
                                           {"ns3::TcpSocketBase::MinRto", "200ms"}};

/// Settings of one queue at every port, which drops frames beyond its size. ns-3's default is FqCoDel, as in Linux: a
/// queue for each connection, 10,240 frames for all, and a target delay of 5 ms for each.
std::vector<std::array<std::string, 2>> queue_settings(Bytes buffer) {
  if (buffer.value <= 0) return {};
  const auto frames = static_cast<std::int64_t>(std::max(1.0, std::floor(buffer.value / kFrame)));
  const std::string queue = "ns3::FqCoDelQueueDisc::";
  return {{queue + "MaxSize", fmt::format("{}p", frames)},
          {queue + "Flows", "1"},
          {queue + "DropBatchSize", "1"},
          {queue + "Target", "1000s"},
          {queue + "Interval", "1000s"}};
}

void set_or_refuse(const std::string& attribute, const std::string& value) {
  if (!set_ns3_default(attribute, value))
    refuse_packets(fmt::format("this ns-3 does not take {} = {}; 3.37 does", attribute, value));
}

constexpr double kLargestFlow = 4294967295;  // bytes: SimGrid counts them in 32 bits
constexpr std::uint64_t kMostFlows = 65535;  // each takes a TCP port, and SimGrid uses no port twice
constexpr double kNanosecond = 1e-9;         // s, unit of ns-3's clock
constexpr double kSameInstant = 1e-12;       // s, tolerance of our clock

}  // namespace

/// The parts of a route.
struct PacketTransport::PacketRoute {
  int from = -1, to = -1;      // hosts; −1: it crosses no cable
  BytesPerSecond rate;         // rate of its slowest cable
  std::vector<LinkUse> local;  // links that are not cables
  std::vector<LinkId> cables;
};

struct PacketTransport::Flow {
  FlowToken token = 0;
  const PacketRoute* packet_route = nullptr;
  grid::CommPtr comm;
  FlowId local;  // its part over other links, while that is under way
  bool in_network = false;
  bool cancelled = false;
};

struct PacketTransport::Impl {
  Impl(std::span<const Link> all, const PacketNetwork& packet_network)
      : links(all), network(packet_network), net(all), load(all.size(), 0) {}

  std::span<const Link> links;
  const PacketNetwork& network;
  FlowNet net;
  std::vector<grid::Host*> hosts;
  Pool<Flow, FlowId> flows;
  std::map<const LinkUse*, PacketRoute> packet_routes;
  std::vector<double> load;   // indexed by link: sum of the rates of the connections over it
  std::vector<FlowId> ended;  // ended in the network in this time step
  std::vector<FlowToken> local_ended;
  double now = 0;
  int under_way = 0;  // connections in the network
  std::uint64_t sent = 0;

  bool moves(FlowId id) const { return flows[id].in_network || flows[id].local; }

  void leave_network(FlowId id) {
    Flow& flow = flows[id];
    flow.in_network = false;
    flow.comm.reset();
    for (const LinkId cable : flow.packet_route->cables) load[position(cable)] -= flow.packet_route->rate.value;
  }

  void release(FlowId id) {
    flows[id] = {};
    flows.release(id);
  }

  /// Creates SimGrid's platform. ns-3 needs hosts and routers that are one link apart.
  void build() {
    // Creates SimGrid's model of ns-3, which has settings too.
    grid::NetZone* zone = grid::create_full_zone("trainyard");
    for (const auto& [attribute, value] : kTcpSettings) set_or_refuse(attribute, value);
    for (const auto& [attribute, value] : queue_settings(network.port_buffer)) set_or_refuse(attribute, value);
    std::vector<simgrid::kernel::routing::NetPoint*> points;
    for (int i = 0; i < network.hosts; ++i) {
      hosts.push_back(zone->create_host(fmt::format("host {}", i), 1.0)->seal());
      points.push_back(hosts.back()->get_netpoint());
    }
    for (int i = 0; i < network.routers; ++i) points.push_back(zone->create_router(fmt::format("router {}", i)));
    for (std::size_t i = 0; i < network.cables.size(); ++i) {
      const PacketNetwork::Cable& cable = network.cables[i];
      grid::Link* link = zone->create_link(fmt::format("cable {}", i), cable.rate.value * kFrame / kSegment);
      link->set_latency(cable.latency.seconds().value)->seal();
      zone->add_route(points[static_cast<std::size_t>(cable.from)], points[static_cast<std::size_t>(cable.to)], nullptr,
                      nullptr, {grid::LinkInRoute(link)}, true);
    }
    zone->seal();
    // ns-3 finds its routes now. SimGrid itself emits this signal only for platforms that it reads from files.
    grid::Engine::on_platform_created();
  }
};

PacketTransport::PacketTransport(std::span<const Link> links, const PacketNetwork& network)
    : impl_(std::make_shared<Impl>(links, network)) {
  impl_->build();
  grid::Activity::on_completion_cb([weak_impl = std::weak_ptr<Impl>(impl_)](const grid::Activity& activity) {
    const std::shared_ptr<Impl> impl = weak_impl.lock();
    if (!impl) return;
    const auto number = reinterpret_cast<std::uintptr_t>(static_cast<const grid::Comm&>(activity).get_data<void>());
    if (number == 0) return;
    const FlowId id{number - 1};
    if (impl->flows[id].comm.get() != &activity || !impl->flows[id].in_network) return;
    --impl->under_way;
    impl->ended.push_back(id);
  });
}

std::vector<const char*> PacketTransport::settings() {
#if SIMGRID_HAVE_NS3
  // Half of ns-3's unit of time: for ns-3, anything closer is the same instant, and SimGrid would wait forever for its
  // clock to get there.
  return {"--cfg=network/model:ns-3", "--cfg=surf/precision:5e-10"};
#else
  refuse_packets("SimGrid was built without ns-3 here (SIMGRID_HAVE_NS3); Debian's package has it");
#endif
}

const PacketTransport::PacketRoute& PacketTransport::route_parts(std::span<const LinkUse> route) {
  const auto [entry, fresh] = impl_->packet_routes.try_emplace(route.data());
  PacketRoute& packet_route = entry->second;
  if (!fresh) return packet_route;
  for (const LinkUse& use : route) {
    const PacketNetwork::Direction* cable = impl_->network.find(use.link);
    if (!cable) {
      packet_route.local.push_back(use);
      continue;
    }
    const BytesPerSecond rate = impl_->links[position(use.link)].capacity;
    if (use.weight != 1)
      refuse_packets(
          fmt::format("{} carries {} times the bytes of a message: it is striped over several adapters, or stands for "
                      "several messages; packets belong to single messages",
                      impl_->links[position(use.link)].name, use.weight));
    if (packet_route.to >= 0 && (packet_route.to != cable->from || packet_route.to < impl_->network.hosts))
      refuse_packets(
          "an exchange of a whole group is one flow over all its links here; packets belong to single messages. Choose "
          "an algorithm that sends messages (data_parallel: {all_reduce: ring, collectives: messages})");
    if (packet_route.from < 0) packet_route.from = cable->from;
    packet_route.to = cable->to;
    packet_route.rate = packet_route.cables.empty() ? rate : std::min(packet_route.rate, rate);
    packet_route.cables.push_back(use.link);
  }
  if (packet_route.from >= impl_->network.hosts || packet_route.to >= impl_->network.hosts)
    refuse_packets("a message that starts or ends at a switch, which has no TCP");
  return packet_route;
}

FlowId PacketTransport::send(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token) {
  Impl& impl = *impl_;
  const PacketRoute& packet_route = route_parts(route);
  const FlowId id = impl.flows.acquire();
  Flow& flow = impl.flows[id];
  flow.token = token;
  flow.packet_route = &packet_route;
  BytesPerSecond cap = rate_cap;
  if (!packet_route.cables.empty()) cap = cap.value > 0 ? std::min(cap, packet_route.rate) : packet_route.rate;
  if (packet_route.cables.empty() || !packet_route.local.empty() || rate_cap.value > 0)
    flow.local = impl.net.add(packet_route.local, bytes, cap, id.number(), impl.now);
  if (packet_route.cables.empty()) return id;

  if (bytes.value > kLargestFlow)
    refuse_packets(fmt::format("a message of {}; SimGrid hands at most 4.29 GB to a connection of ns-3", show(bytes)));
  if (++impl.sent > kMostFlows)
    refuse_packets(fmt::format("more than {} messages; each is a TCP connection with a port of its own", kMostFlows));
  flow.in_network = true;
  ++impl.under_way;
  for (const LinkId cable : packet_route.cables) impl.load[position(cable)] += packet_route.rate.value;
  flow.comm = grid::Comm::sendto_init(impl.hosts[static_cast<std::size_t>(packet_route.from)],
                                      impl.hosts[static_cast<std::size_t>(packet_route.to)]);
  flow.comm->set_payload_size(static_cast<std::uint64_t>(std::ceil(bytes.value)));
  flow.comm->set_data(reinterpret_cast<void*>(std::uintptr_t{id.number()} + 1));
  flow.comm->start();
  return id;
}

void PacketTransport::cancel(FlowId id) {
  Flow& flow = impl_->flows[id];
  if (flow.local) impl_->net.remove(flow.local);
  flow.local = {};
  flow.cancelled = true;
  if (!flow.in_network) impl_->release(id);
}

void PacketTransport::set_capacity(LinkId link, BytesPerSecond rate) {
  if (impl_->network.find(link))
    refuse_packets(fmt::format("{} would change its rate or fail during the run; ns-3's cables stay as they are",
                               impl_->links[position(link)].name));
  impl_->net.set_capacity(link, rate);
}

Bytes PacketTransport::remaining(FlowId id) const {
  const Flow& flow = impl_->flows[id];
  Bytes left;
  if (flow.local) left = impl_->net.remaining(flow.local, impl_->now);
  if (flow.in_network && flow.comm) left = std::max(left, Bytes{flow.comm->get_remaining()});
  return left;
}

double PacketTransport::used_share(LinkId link) const {
  if (!impl_->network.find(link)) return impl_->net.used_share(link);
  return impl_->load[position(link)] / impl_->links[position(link)].capacity.value;
}

double PacketTransport::next(double now) {
  impl_->now = now;
  return impl_->net.next(now);
}

bool PacketTransport::advance(double now, double until, std::vector<FlowToken>& done) {
  Impl& impl = *impl_;
  impl.now = now;
  const std::size_t before = done.size();
  const auto arrived = [&](FlowId id) {
    if (impl.moves(id)) return;
    if (!impl.flows[id].cancelled) done.push_back(impl.flows[id].token);
    impl.release(id);
  };
  impl.local_ended.clear();
  impl.net.collect(until, now, impl.local_ended);
  for (const FlowToken number : impl.local_ended) {
    impl.flows[FlowId{number}].local = {};
    arrived(FlowId{number});
  }
  for (const FlowId id : std::exchange(impl.ended, {})) {
    impl.leave_network(id);
    arrived(id);
  }
  return done.size() > before;
}

/// While anything is in the network, SimGrid's clock stops where ns-3's does, at whole nanoseconds. Otherwise it stops
/// where we choose: just after a whole nanosecond. If the next message starts then, ns-3 reaches that time however it
/// rounds.
double PacketTransport::step_to(double now, double time) const {
  if (time <= now + kSameInstant / 2) return std::max(0.0, time - now);
  const double stop = std::ceil(time / kNanosecond - kSameInstant / kNanosecond / 2);
  if (impl_->under_way > 0) return (stop - std::round(now / kNanosecond) + 0.25) * kNanosecond;
  return std::max(0.0, (stop + 0.25) * kNanosecond - now);
}

}  // namespace trainyard
