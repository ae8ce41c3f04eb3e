#pragma once
#include <deque>
#include <map>
#include <vector>

#include "models/stack.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A resource class made faster by a factor, for what-ifs: "compute", "memory", "latency", "framework", or a kind of
/// link ("NVLink", "PCIe", "HCA").
using Upgrade = std::map<std::string, double>;
/// Classes that a cluster has, in the order of a table.
std::vector<std::string> resource_classes(const ClusterSpec&);
/// The change in words: "2x GPU FLOP/s", "1/2 of the network latency".
std::string describe_upgrade(const std::string& resource_class, double factor);
ClusterSpec upgraded(ClusterSpec, const Upgrade&);
SoftwareStack upgraded(SoftwareStack, const Upgrade&);

/// Work::kernel of the host work of one step.
constexpr std::uint16_t kStepOverhead = 1000;

/// A cluster on which rank r runs on GPU r (node by node): kernels cost what the roofline of its GPU says, but at least
/// what the stack needs to issue one; messages take the graph's routes.
class ClusterMachine : public Machine {
 public:
  ClusterMachine(const ClusterSpec&, const SoftwareStack&);

  std::span<const Link> links() const override { return graph_.links(); }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass path) const override;
  bool interferes() const override {
    return gpu_.compute_while_communicating != 1 || gpu_.communication_while_computing != 1;
  }
  double speed(Actor, Kind, KindSet active) const override;
  std::span<const LinkId> ports(Actor actor) const override { return ports_.at(static_cast<std::size_t>(actor)); }
  void link_state(LinkId link, bool up) override { graph_.set_up(link, up); }
  std::string actor_name(Actor) const override;

  const DeviceGraph& graph() const { return graph_; }

 private:
  mutable DeviceGraph graph_;  // remembers the routes it has found
  Gpu gpu_;
  SoftwareStack stack_;
  std::vector<DeviceId> gpus_;
  mutable std::vector<DeviceId> hcas_;  // of each GPU, once asked: the nearest
  std::vector<std::vector<LinkId>> ports_;
  mutable std::deque<std::vector<LinkUse>> joined_;  // links of routes made of several

  Route through_own_hcas(std::size_t source, std::size_t target, PathClass) const;
  DeviceId nearest_hca(std::size_t gpu) const;
};

}  // namespace trainyard
