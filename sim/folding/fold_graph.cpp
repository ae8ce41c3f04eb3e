#include "sim/folding/fold_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "sim/hashing.hpp"

namespace trainyard::folding {
namespace {

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// Labels of edges between actors, groups and links, in disjoint ranges.
constexpr std::uint32_t kSlotLabel = 0x10000, kMeetingLabel = 0x20000, kMemberLabel = 0x40000,
                        kGroupLinkLabel = 0x80000, kFlowLabel = 0x1000000;

// Each slot takes about 500 bytes with its route: 10 GB in all.
constexpr double kMostSlots = 20e6;

enum class ElementKind : std::uint8_t { actor = 1, group, link };

}  // namespace

FoldGraph::FoldGraph(const Machine& machine, const ProgramSource& source, std::span<const LinkChange> link_changes,
                     Actor most_classes)
    : used_number(machine.links().size(), -1), machine_(machine) {
  take_outlines(source);
  double slots = 0;
  for (const ActorOutline& outline : outlines) slots += static_cast<double>(outline.slots.size());
  if (slots > kMostSlots) refusal_ = fmt::format("{:.3g} pairs of them exchange messages", slots);
  if (refusal_.empty()) compare_peers(most_classes);
  if (too_many_classes_) return;
  for (Actor a = 0; a < actors() && refusal_.empty(); ++a) take_slot_routes(a);
  if (!refusal_.empty()) return;
  find_reverse_slots();
  for (FoldGroup& group : groups) take_group(group);
  take_changes(link_changes);
}

void FoldGraph::take_outlines(const ProgramSource& source) {
  std::unordered_map<Tag, std::uint32_t> group_index;
  std::vector<std::uint32_t> group_numbers;
  for (Actor a = 0; a < source.actors(); ++a) {
    outlines.push_back(source.outline(a));
    equivalence_class.push_back(machine_.equivalence_class(a));
    group_numbers.clear();
    const std::vector<ActorOutline::Meeting>& meetings = outlines.back().meetings;
    for (std::size_t i = 0; i < meetings.size(); ++i) {
      const auto [found, fresh] = group_index.try_emplace(meetings[i].group, static_cast<std::uint32_t>(groups.size()));
      if (fresh) groups.push_back({meetings[i].group, meetings[i].flow, {}, {}, {}});
      groups[found->second].members.emplace_back(a, static_cast<std::uint16_t>(i));
      group_numbers.push_back(found->second);
    }
    group_of.add(group_numbers);
  }
}

/// Refines actors by their programs, equivalence classes and peers, if actors of one program differ in equivalence
/// class. Routes and groups could only split the result further.
void FoldGraph::compare_peers(Actor most_classes) {
  std::unordered_map<std::uint64_t, std::uint64_t> class_of_text;
  bool vary = false;
  for (std::size_t a = 0; a < outlines.size() && !vary; ++a)
    vary = class_of_text.try_emplace(outlines[a].text, equivalence_class[a]).first->second != equivalence_class[a];
  if (!vary || most_classes >= actors()) return;
  ColouredGraph graph;
  for (std::size_t a = 0; a < outlines.size(); ++a)
    graph.colours.push_back(hash_numbers({outlines[a].text, equivalence_class[a]}));
  // Each peer has an edge to the actor that has it in a slot, labelled with the slot.
  const auto each_edge = [this](auto visit) {
    for (std::size_t a = 0; a < outlines.size(); ++a)
      for (std::size_t s = 0; s < outlines[a].slots.size(); ++s)
        if (const Actor peer = outlines[a].slots[s]; peer >= 0 && peer < actors())
          visit(static_cast<Element>(peer), Edge{static_cast<Element>(a), static_cast<std::uint32_t>(s), 1});
  };
  graph.store_edges(each_edge);
  Partition partition = refine(graph, static_cast<Element>(actors()), static_cast<std::size_t>(most_classes));
  if (!partition.complete) too_many_classes_ = {std::move(graph.colours), std::move(partition)};
}

void FoldGraph::use(std::vector<Crossing>& into, LinkId link, std::uint32_t segment, double weight) {
  std::int32_t& number = used_number[static_cast<std::size_t>(link)];
  if (number < 0) {
    number = static_cast<std::int32_t>(links.size());
    links.push_back(link);
  }
  into.push_back({number, segment, weight});
}

void FoldGraph::take_slot_routes(Actor actor) {
  const std::vector<Actor>& slots = outlines[static_cast<std::size_t>(actor)].slots;
  routes_of_actor_.clear();
  crossed_.clear();
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const auto first = static_cast<std::uint16_t>(std::find(slots.begin(), slots.end(), slots[s]) - slots.begin());
    if (first < s) {
      SlotRoute same = routes_of_actor_[first];
      same.first = first;
      routes_of_actor_.push_back(same);
      continue;
    }
    machine_.visit_route(actor, slots[s], PathClass::automatic, [&](const Route& route) {
      if (!route.reachable || route.legs.size() >= kLegsOfSlot || s >= kNoSlot)
        refusal_ = fmt::format("{} does not reach {}", machine_.actor_name(actor), machine_.actor_name(slots[s]));
      else if (route.alternatives)
        refusal_ = "the network chooses the path of each message by the load";
      else
        take_route(route, {slots[s], first, kNoSlot, route.latency.count, route.chunk,
                           static_cast<std::uint16_t>(route.legs.size()), 0});
    });
    if (!refusal_.empty()) return;
  }
  if (const Contention* contention = machine_.contention())
    for (const LinkId port : contention->ports(actor)) use(crossed_, port, kPort, 1);
  slot_routes.add(routes_of_actor_);
  crossings.add(crossed_);
}

/// Appends the route of the actor's next slot, and the links that it crosses.
void FoldGraph::take_route(const Route& route, SlotRoute slot_route) {
  const auto segment = static_cast<std::uint32_t>(routes_of_actor_.size()) * kLegsOfSlot;
  if (route.legs.empty())
    for (const LinkUse& u : route.links) use(crossed_, u.link, segment, u.weight);
  for (std::size_t l = 0; l < route.legs.size(); ++l) {
    const Leg& leg = route.legs[l];
    slot_route.leg_costs = hash_numbers({slot_route.leg_costs, bits(leg.latency.count), bits(leg.seconds_per_byte)});
    for (const LinkUse& u : leg.links) use(crossed_, u.link, segment + static_cast<std::uint32_t>(l), u.weight);
  }
  routes_of_actor_.push_back(slot_route);
}

void FoldGraph::find_reverse_slots() {
  for (std::size_t a = 0; a < slot_routes.size(); ++a)
    for (SlotRoute& slot_route : slot_routes[a]) {
      if (slot_route.peer < 0 || slot_route.peer >= actors()) continue;
      const std::vector<Actor>& back = outlines[static_cast<std::size_t>(slot_route.peer)].slots;
      const auto found = std::find(back.begin(), back.end(), static_cast<Actor>(a));
      if (found != back.end()) slot_route.reverse = static_cast<std::uint16_t>(found - back.begin());
    }
}

void FoldGraph::take_group(FoldGroup& group) {
  if (!group.flow) return;
  const GroupRoute route = route_of_group(machine_, *group.flow);
  if (!route.reachable) refusal_ = "members of a group do not reach each other";
  group.latency = route.latency;
  group.crossings.reserve(route.links.size());
  for (const LinkUse& u : route.links) use(group.crossings, u.link, 0, u.weight);
}

/// Capacities that change at some time are attributes of a link. If links fail, messages take other paths.
void FoldGraph::take_changes(std::span<const LinkChange> link_changes) {
  changes.assign(links.size(), 0);
  for (const LinkChange& change : link_changes) {
    const std::int32_t number = used_number[static_cast<std::size_t>(change.link)];
    if (number < 0) continue;
    if (change.capacity.value <= 0) refusal_ = "a link fails";
    std::uint64_t& hash = changes[static_cast<std::size_t>(number)];
    hash = hash_numbers({hash, bits(change.time.value), bits(change.capacity.value), bits(change.period.value)});
  }
}

ColouredGraph FoldGraph::coloured_graph() const {
  ColouredGraph graph;
  graph.colours.reserve(link_element(links.size()));
  const auto colour = [&graph](ElementKind kind, std::uint64_t hash) {
    graph.colours.push_back(hash_numbers({static_cast<std::uint64_t>(kind), hash}));
  };
  for (std::size_t a = 0; a < outlines.size(); ++a) {
    std::uint64_t hash = hash_numbers({outlines[a].text, equivalence_class[a], group_of[a].size()});
    for (const SlotRoute& w : slot_routes[a])
      hash = hash_numbers({hash, w.first, w.reverse, bits(w.latency), bits(w.chunk.value), w.legs, w.leg_costs});
    colour(ElementKind::actor, hash);
  }
  for (const FoldGroup& g : groups)
    colour(ElementKind::group,
           hash_numbers({g.members.size(), bits(g.latency.count), g.flow ? 1U + (g.flow->by_engines ? 1U : 0U) : 0U}));
  for (std::size_t l = 0; l < links.size(); ++l)
    colour(ElementKind::link, hash_numbers({bits(link(l).capacity.value), changes[l],
                                            static_cast<std::uint64_t>(std::hash<std::string>{}(link(l).kind))}));
  const auto each_edge = [this](auto visit) {
    for (std::size_t a = 0; a < outlines.size(); ++a) {
      const auto me = static_cast<Element>(a);
      // A peer receives this actor's edge under the slot that leads from the peer to this actor.
      for (std::size_t s = 0; s < slot_routes[a].size(); ++s)
        if (const SlotRoute& w = slot_routes[a][s]; w.first == s && w.reverse != kNoSlot)
          visit(me, Edge{static_cast<Element>(w.peer), kSlotLabel + w.reverse, 1});
      for (std::size_t m = 0; m < group_of[a].size(); ++m) {
        const Element group = group_element(group_of[a][m]);
        visit(me, Edge{group, kMeetingLabel + static_cast<std::uint32_t>(m), 1});
        visit(group, Edge{me, kMemberLabel + static_cast<std::uint32_t>(m), 1});
      }
      for (const Crossing& c : crossings[a]) {
        const Element link = link_element(static_cast<std::size_t>(c.link));
        visit(me, Edge{link, kFlowLabel + c.segment, c.weight});
        visit(link, Edge{me, kFlowLabel + c.segment, 1});
      }
    }
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const Crossing& c : groups[g].crossings) {
        const Element link = link_element(static_cast<std::size_t>(c.link));
        visit(group_element(g), Edge{link, kGroupLinkLabel, c.weight});
        visit(link, Edge{group_element(g), kGroupLinkLabel, 1});
      }
  };
  graph.store_edges(each_edge);
  return graph;
}

}  // namespace trainyard::folding
