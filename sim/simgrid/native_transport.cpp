#include "sim/simgrid/native_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>

#include "sim/error.hpp"

namespace trainyard {
namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::resource::StandardLinkImpl;

/// SimGrid truncates payloads to whole bytes, while our shares of bytes are real numbers. Scaling up both bytes and
/// capacities leaves times unchanged.
constexpr double kScale = 1024.0 * 1024.0;
constexpr double kLargestMessage = 8e12;

/// A zone that answers SimGrid's request for the route of a communication with the path set just before. This keeps
/// routes ours: no dense table, no limit of one gateway per zone.
class PathZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit PathZone(const std::string& name) : NetZoneImpl(name) {}
  std::vector<StandardLinkImpl*> path;

 protected:
  void get_local_route(const simgrid::kernel::routing::NetPoint*, const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* into, double*) override {
    into->link_list_ = path;
  }
};

}  // namespace

struct NativeTransport::Impl {
  using CapId = TypedIndex<struct CapTag>;
  enum class State : std::uint8_t { free, moving, stalled, ended };
  struct Flow {
    s4u::CommPtr comm;
    FlowToken token = 0;
    State state = State::free;
    CapId cap_link;    // private link that implements the rate cap
    double left = 0;   // bytes, for a stalled flow
    double bound = 0;  // least capacity on its route when it started: SimGrid lets it go no faster
    std::span<const LinkUse> links;
  };

  PathZone* zone = nullptr;
  PathZone* cap_zone = nullptr;  // outside the platform, which accepts no more links once it runs
  s4u::Host* from = nullptr;
  s4u::Host* to = nullptr;
  IndexedVector<s4u::Link*, LinkId> links;
  IndexedVector<StandardLinkImpl*, LinkId> link_impls;  // stored, because Link::get_impl() is a dynamic_cast
  IndexedVector<double, LinkId> bandwidth;              // bandwidth of each link, scaled
  IndexedVector<char, LinkId> down;
  int links_down = 0;
  Pool<s4u::Link*, CapId> cap_links;
  Pool<Flow, FlowId> flows;
  std::vector<FlowId> ended;  // ended in this time step, not yet collected
  // SimGrid still refers to a cancelled communication for the rest of the time step. Communications that it has
  // released make room for new ones: freed one by one, their memory is reused while it is still warm.
  std::vector<s4u::CommPtr> released, released_before, reusable;

  CapId cap_link(BytesPerSecond rate) {
    const CapId id = cap_links.acquire();
    s4u::Link*& link = cap_links[id];
    if (!link) {
      link = cap_zone->create_link(fmt::format("cap {}", id.number()), {rate.value * kScale});
      link->seal();
    }
    link->set_bandwidth(rate.value * kScale);
    return id;
  }

  void release(FlowId id, std::vector<s4u::CommPtr>& keep) {
    Flow& flow = flows[id];
    if (flow.comm) keep.push_back(std::move(flow.comm));
    flow.comm.reset();
    if (flow.cap_link) cap_links.release(flow.cap_link);
    flow.cap_link = {};
    flow.state = State::free;
    flows.release(id);
  }

  /// Starts the flow, unless a link is down: SimGrid does not share anew when a suspended communication is resumed.
  void start(FlowId id, double bytes) {
    Flow& flow = flows[id];
    flow.left = bytes;
    flow.state = State::stalled;
    if (crosses_dead_link(flow)) return;
    // A link that is listed k times carries k times the flow's rate, exactly. So one flow stands for several.
    std::vector<StandardLinkImpl*>& path = zone->path;
    path.clear();
    flow.bound = HUGE_VAL;
    for (const LinkUse& use : flow.links) {
      StandardLinkImpl* link = link_impls[use.link];
      flow.bound = std::min(flow.bound, bandwidth[use.link]);
      if (use.weight < 1)
        throw UserError(
            "transport native: messages are striped over several HCAs, which SimGrid's communications cannot do; use "
            "transport flow");
      for (double i = 0; i < use.weight; ++i) path.push_back(link);
    }
    if (flow.cap_link) path.push_back(cap_links[flow.cap_link]->get_impl());
    if (!reusable.empty()) reusable.pop_back();
    flow.comm = s4u::Comm::sendto_init(from, to);
    flow.comm->set_payload_size(static_cast<std::uint64_t>(std::max(1.0, bytes * kScale)));
    flow.comm->set_data(reinterpret_cast<void*>(std::uintptr_t{id.number()} + 1));
    flow.state = State::moving;
    flow.comm->start();
  }

  /// Removes the communication from SimGrid. Returns the bytes left.
  double withdraw(Flow& flow) {
    const double bytes = flow.comm->get_remaining() / kScale;
    const s4u::CommPtr comm = flow.comm;
    flow.state = State::free;  // its callbacks are ignored
    flow.comm.reset();
    comm->cancel();
    released.push_back(comm);
    return bytes;
  }

  /// Continues with the rest as a new communication, which may be faster than the bound of the old one.
  void restart(FlowId id) {
    Flow& flow = flows[id];
    const double bytes = withdraw(flow);
    start(id, bytes);
  }

  static bool crosses(const Flow& flow, LinkId link) {
    return std::ranges::any_of(flow.links, [link](const LinkUse& use) { return use.link == link; });
  }

  bool crosses_dead_link(const Flow& flow) const {
    return links_down > 0 &&
           std::ranges::any_of(flow.links, [this](const LinkUse& use) { return down[use.link] != 0; });
  }

  void stall_or_resume(FlowId id) {
    Flow& flow = flows[id];
    const bool dead = crosses_dead_link(flow);
    if (dead && flow.state == State::moving) {
      flow.left = withdraw(flow);
      flow.state = State::stalled;
    } else if (!dead && flow.state == State::stalled) {
      start(id, flow.left);
    }
  }
};

NativeTransport::NativeTransport(std::span<const Link> links) : impl_(std::make_shared<Impl>()) {
  impl_->zone = new PathZone("trainyard");  // owned by the engine
  impl_->cap_zone = new PathZone("caps");
  impl_->cap_zone->set_network_model(impl_->zone->get_network_model());
  impl_->from = impl_->zone->create_host("from", {1.0})->seal();
  impl_->to = impl_->zone->create_host("to", {1.0})->seal();
  for (std::size_t i = 0; i < links.size(); ++i) {
    s4u::Link* link = impl_->zone->create_link(fmt::format("link {}", i), {links[i].capacity.value * kScale});
    link->seal();
    impl_->links.push_back(link);
    impl_->link_impls.push_back(link->get_impl());
    impl_->bandwidth.push_back(links[i].capacity.value * kScale);
  }
  impl_->down.assign(links.size(), 0);
  impl_->zone->get_iface()->seal();

  s4u::Activity::on_completion_cb([weak_impl = std::weak_ptr<Impl>(impl_)](const s4u::Activity& activity) {
    const std::shared_ptr<Impl> impl = weak_impl.lock();
    if (!impl) return;
    const auto number = reinterpret_cast<std::uintptr_t>(static_cast<const s4u::Comm&>(activity).get_data<void>());
    if (number == 0) return;
    const FlowId id{number - 1};
    Impl::Flow& flow = impl->flows[id];
    // A cancelled communication calls back twice; at the second call its slot may serve another flow.
    if (flow.comm.get() != &activity || flow.state != Impl::State::moving) return;
    flow.state = Impl::State::ended;
    impl->ended.push_back(id);
  });
}

FlowId NativeTransport::send(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token) {
  if (!(bytes.value > 0) || bytes.value > kLargestMessage)
    throw InternalError(
        fmt::format("a flow of {} bytes: expected more than 0, at most {}", bytes.value, kLargestMessage));
  Impl& impl = *impl_;
  const FlowId id = impl.flows.acquire();
  Impl::Flow& flow = impl.flows[id];
  flow.token = token;
  flow.links = route;

  if (rate_cap.value > 0) flow.cap_link = impl.cap_link(rate_cap);
  if (route.empty() && !flow.cap_link) throw InternalError("a flow without a link or a rate cap");
  impl.start(id, bytes.value);
  return id;
}

void NativeTransport::cancel(FlowId id) {
  Impl::Flow& flow = impl_->flows[id];
  if (flow.state == Impl::State::ended) std::erase(impl_->ended, id);
  if (flow.state == Impl::State::moving) impl_->withdraw(flow);
  impl_->release(id, impl_->released);
}

void NativeTransport::set_capacity(LinkId link, BytesPerSecond rate) {
  const bool down = rate.value <= 0;
  if (!down) {
    impl_->bandwidth[link] = rate.value * kScale;
    impl_->links[link]->set_bandwidth(rate.value * kScale);
  }
  if (down != (impl_->down[link] != 0)) {
    // SimGrid silently reads a bandwidth of 0 as "no limit": stalled flows are suspended instead.
    impl_->down[link] = down ? 1 : 0;
    impl_->links_down += down ? 1 : -1;
    for (FlowId id{0}; id < impl_->flows.end_id(); ++id)
      if (Impl::crosses(impl_->flows[id], link)) impl_->stall_or_resume(id);
  }
  for (FlowId id{0}; id < impl_->flows.end_id(); ++id) {
    const Impl::Flow& flow = impl_->flows[id];
    if (flow.state == Impl::State::moving && rate.value * kScale > flow.bound && Impl::crosses(flow, link))
      impl_->restart(id);
  }
}

Bytes NativeTransport::remaining(FlowId id) const {
  const Impl::Flow& flow = impl_->flows[id];
  if (flow.state == Impl::State::ended) return Bytes{0};
  if (flow.state == Impl::State::stalled) return Bytes{flow.left};
  return Bytes{flow.comm->get_remaining() / kScale};
}

double NativeTransport::used_share(LinkId link) const {
  return impl_->links[link]->get_usage() / impl_->bandwidth[link];
}

bool NativeTransport::advance(double, double, std::vector<FlowToken>& done) {
  for (s4u::CommPtr& comm : impl_->released_before) impl_->reusable.push_back(std::move(comm));
  impl_->released_before.clear();
  impl_->released_before.swap(impl_->released);
  if (impl_->ended.empty()) return false;
  for (const FlowId id : impl_->ended) {
    done.push_back(impl_->flows[id].token);
    impl_->release(id, impl_->reusable);  // its only callback has been called
  }
  impl_->ended.clear();
  return true;
}

}  // namespace trainyard
