#pragma once
#include <deque>
#include <vector>

#include "models/hardware/node_parts.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// A cluster with a store that all nodes share. Each CPU socket has a door to the store: an actor after those of the
/// cluster. All doors share the store's read and write rates. A socket's messages to its door go through its HCA to the
/// switch to which the HCA is wired; a node without a network reaches the store directly. The store thus has a port at
/// every leaf, and the core of the fabric never limits it.
class StorageMachine : public Machine {
 public:
  /// Throws UserError at the cluster's place if sockets have HCAs that are not wired to a switch.
  StorageMachine(ClusterMachine& base, const Storage& store);
  StorageMachine(const StorageMachine&) = delete;

  const std::vector<Actor>& sockets() const { return sockets_; }
  Actor door(std::size_t socket) const { return first_door_ + static_cast<Actor>(socket); }  ///< index in `sockets()`
  Actor actors() const { return door(sockets_.size()); }

  std::span<const Link> links() const override { return links_; }
  Cost price(const Work& work, Actor actor) const override { return base_.price(work, actor); }
  /// Besides the cluster's routes, only a socket and its own door are connected.
  Route route(Actor from, Actor to, PathClass) const override;
  std::string actor_name(Actor) const override;

 private:
  ClusterMachine& base_;
  Storage store_;
  std::vector<Link> links_;
  LinkId read_ = 0, write_ = 0;
  std::vector<Actor> sockets_, gateways_;  // gateway of each socket; −1: none needed
  Actor first_door_ = 0;
  mutable std::deque<std::vector<LinkUse>> paths_;
  mutable std::deque<std::vector<Leg>> legs_;
};

}  // namespace trainyard
