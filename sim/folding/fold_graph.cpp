#include "sim/folding/fold_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

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
    : used_number(machine.links().size(), -1),
      machine_(machine),
      symmetry_(link_changes.empty() ? CyclicSymmetry::find(machine, source) : CyclicSymmetry(source.actors())) {
  take_outlines(source);
  const double pairs = static_cast<double>(slots.elements()) * symmetry_.size();
  if (pairs > kMostSlots) refusal_ = fmt::format("{:.3g} pairs of them exchange messages", pairs);
  if (refusal_.empty()) compare_peers(most_classes);
  if (too_many_classes_) return;
  for (Actor orbit = 0; orbit < symmetry_.orbits() && refusal_.empty(); ++orbit)
    take_slot_routes(symmetry_.representative(orbit));
  if (!refusal_.empty()) return;
  find_reverse_slots();
  for (FoldGroup& group : groups) take_group(group);
  take_changes(link_changes);
  bundle_links();
}

void FoldGraph::take_outlines(const ProgramSource& source) {
  std::unordered_map<Tag, std::uint32_t> group_index;
  std::vector<SlotRoute> slots_of_actor;
  std::vector<GroupJoin> joins_of_actor;
  for (Actor orbit = 0; orbit < symmetry_.orbits(); ++orbit) {
    const Actor a = symmetry_.representative(orbit);
    const ActorOutline outline = source.outline(a);
    texts.push_back(outline.text);
    equivalence_class.push_back(machine_.equivalence_class(a));
    slots_of_actor.clear();
    for (const Actor peer : outline.slots) {
      const auto first = std::ranges::find(outline.slots, peer) - outline.slots.begin();
      slots_of_actor.push_back({.peer = peer, .first = static_cast<std::uint16_t>(first)});
    }
    slots.add(slots_of_actor);
    joins_of_actor.clear();
    for (const ActorOutline::GroupJoin& join : outline.joins) {
      const auto [found, fresh] = group_index.try_emplace(join.group, static_cast<std::uint32_t>(groups.size()));
      const std::uint32_t number = found->second;
      if (fresh) {
        FoldGroup& group = groups.emplace_back(FoldGroup{join.group, join.flow, 1, {}, {}});
        for (Tag t = symmetry_.moved_group(group.tag); t != group.tag; t = symmetry_.moved_group(t), ++group.orbit_size)
          group_index.emplace(t, number);
      }
      Tag tag = join.group;
      for (Actor k = 0; k < symmetry_.size(); ++k, tag = symmetry_.moved_group(tag))
        if (tag == groups[number].tag)
          groups[number].members.emplace_back(symmetry_.moved(a, k), static_cast<std::uint16_t>(joins_of_actor.size()));
      joins_of_actor.push_back({join.group, number, join.slot});
    }
    joins.add(joins_of_actor);
  }
  if (symmetry_.moves())
    for (FoldGroup& group : groups) std::ranges::sort(group.members);
}

/// Refines actors by their programs, equivalence classes and peers, if actors of one program differ in equivalence
/// class. Routes and groups could only split the result further.
void FoldGraph::compare_peers(Actor most_classes) {
  std::unordered_map<std::uint64_t, std::uint64_t> class_of_text;
  bool vary = false;
  for (std::size_t a = 0; a < texts.size() && !vary; ++a)
    vary = class_of_text.try_emplace(texts[a], equivalence_class[a]).first->second != equivalence_class[a];
  if (!vary || most_classes >= actors()) return;
  ColouredGraph graph;
  for (std::size_t a = 0; a < texts.size(); ++a)
    graph.colours.push_back(hash_numbers({texts[a], equivalence_class[a]}));
  // Each peer has an edge to the actor that has it in a slot, labelled with the slot.
  const auto each_edge = [this](auto visit) {
    for (std::size_t a = 0; a < texts.size(); ++a)
      for (std::size_t s = 0; s < slots[a].size(); ++s)
        if (const Actor peer = slots[a][s].peer; peer >= 0 && peer < actors())
          visit(element(peer), Edge{static_cast<Element>(a), {static_cast<std::uint32_t>(s)}});
  };
  graph.store_edges(each_edge);
  Partition partition = refine(graph, group_element(0), static_cast<std::size_t>(most_classes));
  if (!partition.complete) too_many_classes_ = {std::move(graph.colours), std::move(partition)};
}

void FoldGraph::use(LinkId link, std::uint32_t segment, double weight) {
  std::int32_t& number = used_number[static_cast<std::size_t>(link)];
  if (number < 0) {
    number = static_cast<std::int32_t>(links.size());
    links.push_back(link);
    if (symmetry_.moves()) orbit_sizes_.push_back(1);
    for (LinkId other = symmetry_.moved_link(link); other != link; other = symmetry_.moved_link(other)) {
      used_number[static_cast<std::size_t>(other)] = number;
      ++orbit_sizes_.back();
    }
  }
  crossed_.push_back({static_cast<std::uint32_t>(number), crossing_kinds.number({segment, weight})});
}

/// Adds the row of a flow. Crossings of several links of an orbit are one.
void FoldGraph::add_crossings() {
  if (symmetry_.moves()) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> counts;
    for (const Crossing& c : crossed_) ++counts[{c.bundle, c.kind}];
    crossed_.clear();
    for (const auto& [crossing, count] : counts) {
      EdgeKind kind = crossing_kinds[crossing.second];
      kind.count = count;
      crossed_.push_back({crossing.first, crossing_kinds.number(kind)});
    }
  }
  crossings.add(crossed_);
}

void FoldGraph::take_slot_routes(Actor actor) {
  const std::span<SlotRoute> row = slots[element(actor)];
  crossed_.clear();
  for (std::size_t s = 0; s < row.size(); ++s) {
    if (row[s].first < s) {
      row[s].kind = row[row[s].first].kind;
      continue;
    }
    machine_.visit_route(actor, row[s].peer, PathClass::automatic, [&](const Route& route) {
      if (!route.reachable || route.legs.size() >= kLegsOfSlot || s >= kNoSlot)
        refusal_ = fmt::format("{} does not reach {}", machine_.actor_name(actor), machine_.actor_name(row[s].peer));
      else if (route.alternatives)
        refusal_ = "the network chooses the path of each message by the load";
      else
        row[s].kind = take_route(route, s);
    });
    if (!refusal_.empty()) return;
  }
  if (const Contention* contention = machine_.contention())
    for (const LinkId port : contention->ports(actor)) use(port, kPort, 1);
  add_crossings();
}

/// Appends the links that a slot's route crosses, and returns the number of its kind.
std::uint32_t FoldGraph::take_route(const Route& route, std::size_t slot) {
  const auto segment = static_cast<std::uint32_t>(slot) * kLegsOfSlot;
  RouteKind kind{route.latency, route.chunk, static_cast<std::uint16_t>(route.legs.size()), route.slow ? 1U : 0U};
  if (route.legs.empty())
    for (const LinkUse& u : route.links) use(u.link, segment, u.weight);
  for (std::size_t l = 0; l < route.legs.size(); ++l) {
    const Leg& leg = route.legs[l];
    kind.leg_costs = hash_numbers({kind.leg_costs, bits(leg.latency.count), bits(leg.seconds_per_byte)});
    for (const LinkUse& u : leg.links) use(u.link, segment + static_cast<std::uint32_t>(l), u.weight);
  }
  const auto [found, fresh] = number_of_route_.try_emplace(kind, static_cast<std::uint32_t>(route_kinds.size()));
  if (fresh) route_kinds.push_back(kind);
  return found->second;
}

void FoldGraph::find_reverse_slots() {
  for (std::size_t a = 0; a < slots.size(); ++a)
    for (SlotRoute& slot : slots[a]) {
      if (slot.peer < 0 || slot.peer >= actors()) continue;
      const std::span<const SlotRoute> back = slots[element(slot.peer)];
      const Actor times = symmetry_.times(slot.peer);  // the slots are those of the peer's representative
      const auto leads_back = [&](const SlotRoute& s) {
        return s.peer >= 0 && s.peer < actors() && symmetry_.moved(s.peer, times) == representative(a);
      };
      const auto found = std::ranges::find_if(back, leads_back);
      if (found != back.end()) slot.reverse = static_cast<std::uint16_t>(found - back.begin());
    }
}

void FoldGraph::take_group(FoldGroup& group) {
  crossed_.clear();
  if (group.flow) {
    const GroupRoute route = route_of_group(machine_, *group.flow, balance_);
    if (!route.reachable) refusal_ = "members of a group do not reach each other";
    group.latency = route.latency;
    group.slow = route.slow;
    for (const LinkUse& u : route.links) use(u.link, 0, u.weight);
  }
  add_crossings();
}

/// Capacities that change at some time are attributes of a link. If links fail, messages take other paths.
void FoldGraph::take_changes(std::span<const LinkChange> link_changes) {
  for (const LinkChange& change : link_changes) {
    const std::int32_t number = used_number[static_cast<std::size_t>(change.link)];
    if (number < 0) continue;
    if (change.capacity.value <= 0) refusal_ = "a link fails";
    std::uint64_t& hash = changes_[static_cast<std::size_t>(number)];
    hash = hash_numbers({hash, bits(change.time.value), bits(change.capacity.value), bits(change.period.value)});
  }
}

/// Until here, each used link is a bundle of its own. Flows keep one crossing of each bundle, that of its first link.
void FoldGraph::bundle_links() {
  // At first all links whose orbits are equally large are in one part. Each flow moves the links that it crosses into
  // new parts, one for each kind of crossing and part that they were in.
  struct Part {
    std::uint32_t links = 0, visit = 0;  // number of its links, and the last visit that moved some of them
    std::uint32_t moved_to = 0;
  };
  std::vector<Part> parts;
  std::map<std::uint32_t, std::uint32_t> part_of_size;  // links of one bundle are of orbits of one size
  std::vector<std::uint32_t> part_of, empty;
  for (std::size_t l = 0; l < links.size(); ++l) {
    const auto [part, fresh] = part_of_size.try_emplace(orbit_size(l), static_cast<std::uint32_t>(parts.size()));
    if (fresh) parts.emplace_back();
    ++parts[part->second].links;
    part_of.push_back(part->second);
  }
  std::uint32_t visit = 0;
  for (std::size_t flow = 0; flow < crossings.size(); ++flow) {
    crossed_.assign(crossings[flow].begin(), crossings[flow].end());
    if (!std::ranges::is_sorted(crossed_, {}, &Crossing::kind)) std::ranges::stable_sort(crossed_, {}, &Crossing::kind);
    for (std::size_t i = 0; i < crossed_.size(); ++i) {
      if (i == 0 || crossed_[i].kind != crossed_[i - 1].kind) ++visit;
      std::uint32_t& part = part_of[crossed_[i].bundle];
      if (parts[part].visit != visit) {
        if (empty.empty()) {
          empty.push_back(static_cast<std::uint32_t>(parts.size()));
          parts.emplace_back();
        }
        parts[part].visit = visit;
        parts[part].moved_to = empty.back();
        parts[empty.back()] = {};
        empty.pop_back();
      }
      const std::uint32_t to = parts[part].moved_to;
      if (--parts[part].links == 0) empty.push_back(part);
      ++parts[to].links;
      part = to;
    }
  }
  constexpr std::uint32_t kNone = 0xffffffffU;
  std::vector<std::uint32_t> number(parts.size(), kNone), row;
  for (std::uint32_t& part : part_of) {
    if (number[part] == kNone) {
      number[part] = static_cast<std::uint32_t>(bundles.size());
      row.assign(parts[part].links, 0);
      bundles.add(row);
    }
    part = number[part];
  }
  std::ranges::fill(number, 0);
  for (std::uint32_t l = 0; l < links.size(); ++l) bundles[part_of[l]][number[part_of[l]]++] = l;
  crossings.keep_if([&](Crossing& c) {
    const std::uint32_t link = std::exchange(c.bundle, part_of[c.bundle]);
    return bundles[c.bundle].front() == link;
  });
}

std::uint64_t FoldGraph::attributes(std::size_t used) const {
  const Link& l = link(used);
  const auto [kind, fresh] = hash_of_kind_.try_emplace(&l.kind.text());
  if (fresh) kind->second = std::hash<std::string>{}(l.kind);
  return hash_numbers({bits(l.capacity.value), changes(used), kind->second});
}

std::vector<std::uint32_t> FoldGraph::link_classes(const Partition& partition) const {
  constexpr std::uint32_t kNone = 0xffffffffU;
  // Classes of links by class of bundles and attributes, before they are numbered.
  std::unordered_map<std::uint64_t, std::uint32_t> class_of_key;
  std::vector<std::uint32_t> of_link(links.size()), number;
  for (std::size_t b = 0; b < bundles.size(); ++b)
    for (const std::uint32_t l : bundles[b]) {
      const std::uint64_t key = hash_numbers({partition.class_of[bundle_element(b)], attributes(l)});
      of_link[l] = class_of_key.try_emplace(key, static_cast<std::uint32_t>(class_of_key.size())).first->second;
    }
  number.assign(class_of_key.size(), kNone);
  std::uint32_t next = 0;
  for (std::uint32_t& c : of_link) {
    if (number[c] == kNone) number[c] = next++;
    c = number[c];
  }
  return of_link;
}

ColouredGraph FoldGraph::coloured_graph() const {
  ColouredGraph graph;
  graph.colours.reserve(bundle_element(bundles.size()));
  const auto colour = [&graph](ElementKind kind, std::uint64_t hash) {
    graph.colours.push_back(hash_numbers({static_cast<std::uint64_t>(kind), hash}));
  };
  for (std::size_t a = 0; a < texts.size(); ++a) {
    std::uint64_t hash = hash_numbers({texts[a], equivalence_class[a], joins[a].size()});
    for (const SlotRoute& slot : slots[a]) {
      const RouteKind& kind = route_kinds[slot.kind];
      hash = hash_numbers({hash, slot.first, slot.reverse, bits(kind.latency.count), bits(kind.chunk.value), kind.legs,
                           kind.leg_costs});
    }
    colour(ElementKind::actor, hash);
  }
  for (const FoldGroup& g : groups)
    colour(ElementKind::group, hash_numbers({g.members.size(), bits(g.latency.count),
                                             g.flow ? 1U + (g.flow->by_engines ? 1U : 0U) + (g.slow ? 2U : 0U) : 0U}));
  for (std::size_t b = 0; b < bundles.size(); ++b) {
    std::uint64_t sum = 0;  // the order of a bundle's links does not count
    for (const std::uint32_t l : bundles[b]) sum += mix_bits(attributes(l));
    colour(ElementKind::link, bundles[b].size() == 1 ? attributes(bundles[b].front()) : sum);
  }
  const auto each_edge = [this](auto visit) {
    for (std::size_t a = 0; a < texts.size(); ++a) {
      const auto me = static_cast<Element>(a);
      // A peer receives this actor's edge under the slot that leads from the peer to this actor.
      for (std::size_t s = 0; s < slots[a].size(); ++s)
        if (const SlotRoute& slot = slots[a][s]; slot.first == s && slot.reverse != kNoSlot)
          visit(me, Edge{element(slot.peer), {kSlotLabel + slot.reverse}});
      for (std::size_t m = 0; m < joins[a].size(); ++m) {
        const Element group = group_element(joins[a][m].group);
        const std::uint32_t members =
            static_cast<std::uint32_t>(symmetry_.size()) / groups[joins[a][m].group].orbit_size;
        visit(me, Edge{group, {kMeetingLabel + static_cast<std::uint32_t>(m), 1, members}});
        visit(group, Edge{me, {kMemberLabel + static_cast<std::uint32_t>(m)}});
      }
    }
    for (Element flow = 0; flow < crossings.size(); ++flow)
      for (const Crossing& c : crossings[flow]) {
        const auto& [segment, weight, count] = crossing_kinds[c.kind];
        const std::uint32_t label = flow < texts.size() ? kFlowLabel + segment : kGroupLinkLabel;
        visit(flow, Edge{bundle_element(c.bundle), {label, weight, crossings_of_link(flow, c)}});
        visit(bundle_element(c.bundle), Edge{flow, {label, 1, count}});
      }
  };
  graph.store_edges(each_edge);
  return graph;
}

}  // namespace trainyard::folding
