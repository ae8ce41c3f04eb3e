#include "sim/folding/folded_system.hpp"

#include <algorithm>
#include <iterator>

namespace trainyard::folding {
namespace {

std::uint64_t key_of(Actor from, Actor to) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32 | static_cast<std::uint32_t>(to);
}

/// Weights by which flows use links, by class of links.
using Uses = std::map<LinkId, double>;

std::vector<LinkUse> list_of(const Uses& uses) {
  std::vector<LinkUse> list;
  for (const auto& [link, weight] : uses) list.push_back({link, weight});
  return list;
}

}  // namespace

Classes::Classes(const FoldGraph& fold_graph, const Partition& refined)
    : graph(fold_graph), partition(refined), class_of_link(fold_graph.link_classes(refined)) {
  for (Actor a = 0; a < graph.actors(); ++a) {
    const std::uint32_t c = partition.class_of[graph.element(a)];
    if (c == members.size()) members.emplace_back();
    members[c].push_back(a);
  }
  first_group = first_bundle = static_cast<std::uint32_t>(members.size());
  for (std::size_t g = 0; g < graph.groups.size(); ++g)
    first_bundle = std::max(first_bundle, partition.class_of[graph.group_element(g)] + 1);
}

/// The capacity that classes of flows use of links, each of which represents a class of links.
class FoldedSystem::Consumption {
 public:
  explicit Consumption(const Classes& classes) : by_group_(classes.first_bundle - classes.first_group) {
    const FoldGraph& graph = classes.graph;
    std::vector<char> represents(graph.links.size(), 0);
    LinkId next = 0;
    for (std::size_t l = 0; l < represents.size(); ++l)
      if (classes.link_class(l) == next) {
        represents[l] = 1;
        ++next;
      }
    // Classes that a link of the bundle represents. Few bundles have any.
    std::vector<std::vector<LinkId>> represented(graph.bundles.size());
    for (std::size_t b = 0; b < represented.size(); ++b)
      for (const std::uint32_t l : graph.bundles[b])
        if (represents[l]) represented[b].push_back(classes.link_class(l));
    for (Element flow = 0; flow < graph.crossings.size(); ++flow)
      for (const Crossing& c : graph.crossings[flow]) {
        const auto& [segment, weight, count] = graph.crossing_kinds[c.kind];
        if (represented[c.bundle].empty() || segment == kPort) continue;
        const std::uint32_t flow_class = classes.partition.class_of[flow];
        Uses& uses = flow_class < classes.first_group ? by_segment_[{static_cast<Actor>(flow_class), segment}]
                                                      : by_group_[flow_class - classes.first_group];
        for (const LinkId link_class : represented[c.bundle])
          for (std::uint32_t n = graph.crossings_of_link(flow, c); n > 0; --n) uses[link_class] += weight;
      }
  }

  /// Uses by the messages that the actors of a class send over a leg of a slot.
  const Uses& leg_uses(Actor class_index, std::size_t slot, std::size_t leg) const {
    static const Uses none;
    const auto found = by_segment_.find({class_index, static_cast<std::uint32_t>(slot * kLegsOfSlot + leg)});
    return found == by_segment_.end() ? none : found->second;
  }
  const Uses& group_uses(std::size_t class_index) const { return by_group_[class_index]; }
  const std::map<std::pair<Actor, std::uint32_t>, Uses>& segments() const { return by_segment_; }

 private:
  std::map<std::pair<Actor, std::uint32_t>, Uses> by_segment_;
  std::vector<Uses> by_group_;
};

FoldedSystem::FoldedSystem(const Machine& machine, const Classes& classes) {
  const Consumption consumption(classes);
  add_routes(machine, classes, consumption);
  add_members(classes);
  add_groups(classes, consumption);
  add_owners(consumption);
  add_views(classes);
}

void FoldedSystem::add_members(const Classes& classes) {
  members_of_groups_.resize(classes.first_bundle - classes.first_group);
  for (std::size_t g = 0; g < classes.graph.groups.size(); ++g)
    if (std::set<Actor>& members = members_of_groups_[classes.group_class(g)]; members.empty())
      for (const auto& [actor, join] : classes.graph.groups[g].members) members.insert(classes.actor_class(actor));
}

void FoldedSystem::add_owners(const Consumption& consumption) {
  const auto restrict_to = [this](const Uses& uses, const std::set<Actor>& actors) {
    for (const auto& [link, weight] : uses) {
      if (owners_.size() <= position(link)) owners_.resize(position(link) + 1);
      std::optional<std::set<Actor>>& owners = owners_[position(link)];
      if (!owners)
        owners = actors;
      else
        std::erase_if(*owners, [&actors](Actor owner) { return !actors.contains(owner); });
    }
  };
  for (const auto& [segment, uses] : consumption.segments()) restrict_to(uses, {segment.first});
  for (std::size_t g = 0; g < flows_.size(); ++g)
    restrict_to(consumption.group_uses(g), flows_[g].by_engines ? std::set<Actor>{} : members_of_groups_[g]);
  for (std::size_t g = 0; g < flows_.size(); ++g) {
    if (!flows_[g].known_group) continue;
    const std::span<const LinkUse> links = known_groups_[g].route.links;
    const auto owns_all = [&](Actor member) {
      return std::ranges::all_of(links,
                                 [&](const LinkUse& use) { return owners_[position(use.link)]->contains(member); });
    };
    std::copy_if(members_of_groups_[g].begin(), members_of_groups_[g].end(),
                 std::back_inserter(known_groups_[g].owners), owns_all);
  }
}

void FoldedSystem::add_routes(const Machine& machine, const Classes& classes, const Consumption& consumption) {
  for (Actor c = 0; c < static_cast<Actor>(classes.members.size()); ++c) {
    const Actor first = classes.members[position(c)].front();
    const std::span<const SlotRoute> slots = classes.graph.slots[classes.graph.element(first)];
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (slots[s].first != s) continue;
      Route route = machine.route(first, slots[s].peer, PathClass::automatic);
      route.name = names_.insert(route.name).first->c_str();
      if (route.legs.empty()) {
        route.links = links_.emplace_back(list_of(consumption.leg_uses(c, s, 0)));
      } else {
        std::vector<Leg>& legs = legs_.emplace_back(route.legs.begin(), route.legs.end());
        Uses all_legs;
        for (std::size_t l = 0; l < legs.size(); ++l) {
          const Uses& uses_of_leg = consumption.leg_uses(c, s, l);
          for (const auto& [link, weight] : uses_of_leg) all_legs[link] += weight;
          legs[l].links = links_.emplace_back(list_of(uses_of_leg));
        }
        route.links = links_.emplace_back(list_of(all_legs));
        route.legs = legs;
      }
      routes_.emplace(key_of(first, slots[s].peer), route);
    }
  }
}

void FoldedSystem::add_groups(const Classes& classes, const Consumption& consumption) {
  const std::vector<FoldGroup>& groups = classes.graph.groups;
  std::vector<const FoldGroup*> first(classes.first_bundle - classes.first_group, nullptr);
  flows_.resize(first.size());
  known_groups_.resize(first.size());
  for (GroupFlow& flow : flows_) flow.copies = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    flows_[classes.group_class(g)].copies += groups[g].orbit_size;
    if (!first[classes.group_class(g)]) first[classes.group_class(g)] = &groups[g];
  }
  for (std::size_t c = 0; c < first.size(); ++c) {
    const GroupFlow* original = first[c]->flow;
    if (!original) continue;
    GroupFlow& flow = flows_[c];
    flow.by_engines = original->by_engines;
    std::map<Actor, GroupFlow::Share> shares;
    std::map<Actor, double> members;
    for (const auto& [actor, join] : first[c]->members) members[classes.actor_class(actor)] += 1;
    const auto is_rank = [&classes](Actor actor) { return actor < classes.graph.actors(); };
    for (const GroupFlow::Edge& edge : original->edges) {
      if (edge.from == edge.to) continue;
      flow.moved += edge.weight;
      if (is_rank(edge.from)) shares[classes.actor_class(edge.from)].sends += edge.weight;
      if (is_rank(edge.to)) shares[classes.actor_class(edge.to)].receives += edge.weight;
    }
    for (const auto& [actor, count] : members)
      flow.shares.push_back({actor, shares[actor].sends / count, shares[actor].receives / count});
    KnownGroup& known_group = known_groups_[c];
    flow.known_group = &known_group;
    known_group.route.latency = first[c]->latency;
    known_group.route.slow = first[c]->slow;
    known_group.route.links = links_.emplace_back(list_of(consumption.group_uses(c)));
  }
}

void FoldedSystem::add_views(const Classes& classes) {
  const FoldGraph& graph = classes.graph;
  for (const std::vector<Actor>& members : classes.members) {
    const Actor rep = members.front();
    ClassView& view = views_.emplace_back();
    for (const SlotRoute& slot : graph.slots[graph.element(rep)]) {
      const Actor peer_class = classes.actor_class(slot.peer);
      const Actor sender = classes.members[position(peer_class)].front();
      view.peers.push_back(peer_class);
      view.sending.push_back({rep, slot.peer});
      // Messages come over the route on which the peer's representative sends.
      if (slot.reverse == kNoSlot)
        view.receiving.push_back({slot.peer, rep});
      else
        view.receiving.push_back({sender, graph.slots[graph.element(sender)][slot.reverse].peer});
    }
    for (const GroupJoin& join : graph.joins[graph.element(rep)]) {
      const FoldGroup& group = graph.groups[join.group];
      const std::size_t group_class = classes.group_class(join.group);
      view.joins[join.tag] = {static_cast<Tag>(group_class),
                              static_cast<std::uint32_t>(members_of_groups_[group_class].size())};
      if (!group.flow) continue;
      if (view.group_flows.size() <= join.slot) view.group_flows.resize(join.slot + 1U, nullptr);
      view.group_flows[join.slot] = &flows_[group_class];
    }
  }
}

const Route* FoldedSystem::route(Actor from, Actor to) const {
  const auto found = routes_.find(key_of(from, to));
  return found == routes_.end() ? nullptr : &found->second;
}

}  // namespace trainyard::folding
