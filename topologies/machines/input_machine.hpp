#pragma once
#include <deque>
#include <map>
#include <vector>

#include "models/hardware/input_supply.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// A cluster whose GPUs are fed with samples. Each group of ranks with the same samples has additional actors, after
/// those of the cluster: a loader on the CPU of its first rank, and readers at the storage (one at each drive of the
/// node, or one at the storage that the supply names). The rate of a storage, and the rate that the latency of files
/// allows each loader, are links beyond those of the cluster.
class InputMachine : public Machine, private Contention {
 public:
  /// `groups`: the ranks of each loader. `kernel`: the value of Work::kernel for decoding. Throws UserError at `where`
  /// for a node without drives, without a CPU, or without adapters if the samples come over these.
  InputMachine(ClusterMachine&, const InputSupply&, const std::vector<std::vector<Actor>>& groups, std::uint16_t kernel,
               const Place& where);

  struct Group {
    int node = 0;
    DeviceId cpu = 0;
    Actor loader = 0;
    std::vector<Actor> readers;
  };
  const std::vector<Group>& groups() const { return groups_; }
  /// Number of actors.
  Actor actors() const { return first_ + static_cast<Actor>(places_.size()); }
  /// Links that the samples of all nodes, or of one node, use at the storage.
  const std::vector<LinkId>& storage_links() const { return storage_links_; }

  std::span<const Link> links() const override { return links_; }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass) const override;
  const Contention* contention() const override { return base_.contention() ? this : nullptr; }
  double speed(Actor actor, Kind kind, KindSet active) const override {
    return actor < first_ ? base_.contention()->speed(actor, kind, active) : 1;
  }
  std::span<const LinkId> ports(Actor actor) const override {
    return actor < first_ ? base_.contention()->ports(actor) : std::span<const LinkId>{};
  }
  void link_state(LinkId link, bool up) override;
  std::string cause_of_cut(Actor from, Actor to) const override {
    return from < first_ && to < first_ ? base_.cause_of_cut(from, to) : "";
  }
  std::string actor_name(Actor) const override;

 private:
  struct InputActor {
    std::size_t group = 0;
    Actor drive = -1;  // for a reader: the drive; −1: a storage outside the cluster's graph
    bool reader = false;
  };
  ClusterMachine& base_;
  InputSupply supply_;
  std::uint16_t kernel_;
  Actor first_;
  std::vector<Group> groups_;
  std::vector<InputActor> places_;  // indexed by actor, from first_ on
  std::vector<Link> links_;
  std::vector<LinkId> storage_links_;
  std::vector<LinkId> files_;                         // indexed by group; −1: files cost no latency
  std::map<int, std::vector<LinkId>> links_of_node_;  // links of the storage, including its port
  mutable std::map<std::pair<Actor, Actor>, Route> routes_;
  mutable std::deque<std::vector<LinkUse>> uses_;
  mutable std::deque<std::vector<Leg>> legs_;

  LinkId add(std::string name, LinkKind kind, BytesPerSecond rate);
  void add_storage(const Place&);
  BytesPerSecond read_rate(int node) const;
  Picoseconds latency(int node) const;
  Route read_route(const InputActor&) const;
  Route with_links_before(const std::vector<LinkId>&, const Route&) const;
};

}  // namespace trainyard
