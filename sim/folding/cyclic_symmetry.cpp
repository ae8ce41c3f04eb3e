#include "sim/folding/cyclic_symmetry.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "sim/index.hpp"

namespace trainyard::folding {
namespace {

constexpr Actor kLeastActors = 512;  // comparing fewer takes no time
constexpr Actor kMostOrbits = 1024;

}  // namespace

/// The edges of all groups by the actor that sends over them.
class CyclicSymmetry::Senders {
 public:
  std::span<const GroupFlow::Edge> edges(const ActorOutline::GroupJoin& join, Actor sender) {
    auto [group, fresh] = groups_.try_emplace(join.group);
    std::vector<GroupFlow::Edge>& edges = group->second.edges;
    if (fresh) {
      group->second.flow = join.flow;
      edges = join.flow->edges;
      std::ranges::stable_sort(edges, {}, &GroupFlow::Edge::from);
      left_ += edges.size();
    }
    const auto range = std::ranges::equal_range(edges, sender, {}, &GroupFlow::Edge::from);
    return {range.begin(), range.end()};
  }
  void see(std::size_t edges) { left_ -= edges; }
  bool has_seen_all() const { return left_ == 0; }
  template <class Visit>
  bool all_of(Visit visit) const {
    return std::ranges::all_of(groups_, [&](const auto& g) { return visit(g.first, *g.second.flow); });
  }

 private:
  struct Group {
    const GroupFlow* flow = nullptr;
    std::vector<GroupFlow::Edge> edges;
  };
  std::unordered_map<Tag, Group> groups_;
  std::size_t left_ = 0;  // number of edges that have not been seen
};

/// All that a simulation has around an actor: its outline, and the routes of its messages and of the edges of its
/// groups on which it sends.
struct CyclicSymmetry::Surroundings {
  ActorOutline outline;
  std::uint64_t equivalence_class = 0;
  std::vector<std::vector<GroupFlow::Edge>> edges;                  // indexed by join
  std::vector<std::tuple<std::int64_t, double, std::size_t>> legs;  // latency, rate or chunk, and number of links
  std::vector<LinkUse> uses;
  bool is_plain = true;  // each route exists, and the load does not choose it

  Surroundings(const Machine& machine, const ProgramSource& source, Senders& senders, Actor actor)
      : outline(source.outline(actor)), equivalence_class(machine.equivalence_class(actor)) {
    for (const Actor peer : outline.slots) take_route(machine, actor, peer);
    for (const ActorOutline::GroupJoin& join : outline.joins) {
      edges.emplace_back();
      if (!join.flow) continue;
      const std::span<const GroupFlow::Edge> range = senders.edges(join, actor);
      edges.back().assign(range.begin(), range.end());
      for (const GroupFlow::Edge& edge : range) take_route(machine, edge.from, edge.to);
    }
    if (const Contention* contention = machine.contention())
      for (const LinkId port : contention->ports(actor)) uses.push_back({port, 1});
  }

  void take_route(const Machine& machine, Actor from, Actor to) {
    machine.visit_route(from, to, PathClass::automatic, [this](const Route& route) {
      is_plain = is_plain && route.reachable && !route.alternatives;
      legs.emplace_back(route.latency.count, route.chunk.value, route.links.size());
      uses.insert(uses.end(), route.links.begin(), route.links.end());
      for (const Leg& leg : route.legs) {
        legs.emplace_back(leg.latency.count, leg.seconds_per_byte, leg.links.size());
        uses.insert(uses.end(), leg.links.begin(), leg.links.end());
      }
    });
  }
  std::size_t count_edges() const {
    std::size_t count = 0;
    for (const auto& of_join : edges) count += of_join.size();
    return count;
  }
};

bool CyclicSymmetry::takes_program(const ActorOutline& from, const ActorOutline& to) {
  const auto is_moved = [this](Actor a, Actor b) { return is_actor(a) && is_actor(b) && moved(a) == b; };
  const auto takes_group = [this](const ActorOutline::GroupJoin& a, const ActorOutline::GroupJoin& b) {
    return a.slot == b.slot && !a.flow == !b.flow && (!a.flow || a.flow->by_engines == b.flow->by_engines) &&
           next_group_.try_emplace(a.group, b.group).first->second == b.group &&
           last_group_.try_emplace(b.group, a.group).first->second == a.group;
  };
  return from.text == to.text && std::ranges::equal(from.slots, to.slots, is_moved) &&
         std::ranges::equal(from.joins, to.joins, takes_group);
}

bool CyclicSymmetry::takes_link(const Machine& machine, LinkId from, LinkId to) {
  LinkId &next = next_link_[position(from)], &last = last_link_[position(to)];
  if (next < 0 && last < 0) {
    const Link &a = machine.links()[position(from)], &b = machine.links()[position(to)];
    if (a.capacity.value != b.capacity.value || a.kind != b.kind) return false;
    next = to;
    last = from;
  }
  return next == to && last == from;
}

/// Returns true if `to` can take the place of `from`, as far as places have been taken before.
bool CyclicSymmetry::takes(const Machine& machine, const Surroundings& from, const Surroundings& to) {
  if (!from.is_plain || !to.is_plain || !takes_program(from.outline, to.outline) ||
      from.equivalence_class != to.equivalence_class || from.legs != to.legs)
    return false;
  const auto is_moved = [this](const GroupFlow::Edge& e, const GroupFlow::Edge& f) {
    return is_actor(e.to) && is_actor(f.to) && moved(e.to) == f.to && e.weight == f.weight;
  };
  for (std::size_t m = 0; m < from.edges.size(); ++m)
    if (!std::ranges::equal(from.edges[m], to.edges[m], is_moved)) return false;
  return std::ranges::equal(from.uses, to.uses, [&](const LinkUse& a, const LinkUse& b) {
    return a.weight == b.weight && takes_link(machine, a.link, b.link);
  });
}

/// Compares the programs of the representatives with their neighbours' on either side.
bool CyclicSymmetry::keeps_programs(const Machine& machine, const ProgramSource& source) {
  for (Actor orbit = 0; orbit < orbits(); ++orbit) {
    const Actor a = representative(orbit), before = moved(a, size() - 1);
    const ActorOutline outline = source.outline(a);
    if (machine.equivalence_class(a) != machine.equivalence_class(before) ||
        !takes_program(outline, source.outline(moved(a))) || !takes_program(source.outline(before), outline))
      return false;
  }
  return true;
}

/// Goes round each orbit, and compares each actor with the one before it. Gives up after `most_actors`, and counts
/// them.
bool CyclicSymmetry::keeps_all(const Machine& machine, const ProgramSource& source, std::int64_t& most_actors) {
  next_link_.assign(machine.links().size(), -1);
  last_link_ = next_link_;
  Senders senders;
  for (Actor orbit = 0; orbit < orbits(); ++orbit) {
    Actor a = representative(orbit);
    const Surroundings first(machine, source, senders, a);
    Surroundings present = first;
    senders.see(first.count_edges());
    for (Actor k = 1; k < size(); ++k) {
      a = moved(a);
      Surroundings next(machine, source, senders, a);
      if (--most_actors < 0 || !takes(machine, present, next)) return false;
      senders.see(next.count_edges());
      present = std::move(next);
    }
    if (!takes(machine, present, first)) return false;
  }
  return senders.has_seen_all() && keeps_weights(machine, senders);
}

/// Returns true if each group that takes its range place after some shifts loads the links that do so equally.
bool CyclicSymmetry::keeps_weights(const Machine& machine, const Senders& senders) const {
  std::unordered_map<Tag, bool> is_known;
  return senders.all_of([&](Tag group, const GroupFlow& flow) {
    if (is_known[group]) return true;
    int times = 0;
    for (Tag g = group; times == 0 || g != group; g = moved_group(g), ++times) is_known[g] = true;
    const std::vector<LinkUse> uses = route_of_group(machine, flow).links;
    return std::ranges::all_of(uses, [&](const LinkUse& use) {
      LinkId link = use.link;
      for (int k = 0; k < times; ++k) link = moved_link(link);
      const auto same = std::ranges::lower_bound(uses, link, {}, &LinkUse::link);
      return same != uses.end() && same->link == link && same->weight == use.weight;
    });
  });
}

CyclicSymmetry CyclicSymmetry::find(const Machine& machine, const ProgramSource& source) {
  const Actor actors = source.actors();
  if (actors < kLeastActors) return CyclicSymmetry(actors);
  std::map<Actor, std::vector<CyclicSymmetry>> candidates;  // sorted by number of orbits
  for (Actor blocks = 1; blocks <= kMostOrbits; ++blocks)
    for (Actor step = 1; blocks * step <= std::min(kMostOrbits, actors / 4); ++step)
      if (actors % (blocks * step) == 0)
        candidates[blocks * step].push_back(CyclicSymmetry(actors, actors / blocks, step));
  std::int64_t most_actors = 2 * std::int64_t{actors};
  for (auto& [orbits, shifts] : candidates)
    for (CyclicSymmetry& shift : shifts)
      if (shift.keeps_programs(machine, source) && shift.keeps_all(machine, source, most_actors))
        return std::move(shift);
  return CyclicSymmetry(actors);
}

}  // namespace trainyard::folding
