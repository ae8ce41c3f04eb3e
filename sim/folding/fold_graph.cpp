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
  const auto pairs = static_cast<double>(slots.elements());
  if (pairs > kMostSlots) refusal_ = fmt::format("{:.3g} pairs of them exchange messages", pairs);
  if (refusal_.empty()) compare_peers(most_classes);
  if (too_many_classes_) return;
  for (Actor a = 0; a < actors() && refusal_.empty(); ++a) take_slot_routes(a);
  if (!refusal_.empty()) return;
  find_reverse_slots();
  for (FoldGroup& group : groups) take_group(group);
  take_changes(link_changes);
  bundle_links();
}

void FoldGraph::take_outlines(const ProgramSource& source) {
  std::unordered_map<Tag, std::uint32_t> group_index;
  std::vector<std::uint32_t> group_numbers;
  for (Actor a = 0; a < source.actors(); ++a) {
    const ActorOutline outline = source.outline(a);
    texts.push_back(outline.text);
    slots.add(outline.slots);
    meetings.add(outline.meetings);
    equivalence_class.push_back(machine_.equivalence_class(a));
    group_numbers.clear();
    for (std::size_t i = 0; i < outline.meetings.size(); ++i) {
      const ActorOutline::Meeting& meeting = outline.meetings[i];
      const auto [found, fresh] = group_index.try_emplace(meeting.group, static_cast<std::uint32_t>(groups.size()));
      if (fresh) groups.push_back({meeting.group, meeting.flow, {}, {}, {}});
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
        if (const Actor peer = slots[a][s]; peer >= 0 && peer < actors())
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
  into.push_back({static_cast<std::uint32_t>(number), segment, weight});
}

void FoldGraph::take_slot_routes(Actor actor) {
  const std::span<const Actor> peers = slots[static_cast<std::size_t>(actor)];
  routes_of_actor_.clear();
  crossed_.clear();
  for (std::size_t s = 0; s < peers.size(); ++s) {
    const auto first = static_cast<std::uint16_t>(std::find(peers.begin(), peers.end(), peers[s]) - peers.begin());
    if (first < s) {
      SlotRoute same = routes_of_actor_[first];
      same.first = first;
      routes_of_actor_.push_back(same);
      continue;
    }
    machine_.visit_route(actor, peers[s], PathClass::automatic, [&](const Route& route) {
      if (!route.reachable || route.legs.size() >= kLegsOfSlot || s >= kNoSlot)
        refusal_ = fmt::format("{} does not reach {}", machine_.actor_name(actor), machine_.actor_name(peers[s]));
      else if (route.alternatives)
        refusal_ = "the network chooses the path of each message by the load";
      else
        take_route(route, {peers[s], first, kNoSlot, route.latency.count, route.chunk,
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
      const std::span<const Actor> back = slots[static_cast<std::size_t>(slot_route.peer)];
      const auto found = std::find(back.begin(), back.end(), static_cast<Actor>(a));
      if (found != back.end()) slot_route.reverse = static_cast<std::uint16_t>(found - back.begin());
    }
}

void FoldGraph::take_group(FoldGroup& group) {
  if (!group.flow) return;
  const GroupRoute route = route_of_group(machine_, *group.flow, balance_);
  if (!route.reachable) refusal_ = "members of a group do not reach each other";
  group.latency = route.latency;
  group.crossings.reserve(route.links.size());
  for (const LinkUse& u : route.links) use(group.crossings, u.link, 0, u.weight);
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

namespace {

/// A sum of hashes, which is equal for equal multisets of flows in any order.
struct FlowSum {
  std::uint64_t low = 0, high = 0;
  void add(Element flow, const Crossing& crossing) {
    const std::uint64_t hash = hash_numbers({flow, crossing.segment, bits(crossing.weight)});
    low += hash;
    high += mix_bits(hash ^ kGoldenGamma);
  }
  bool operator==(const FlowSum&) const = default;
};

}  // namespace

/// Until here, each used link is a bundle of its own. Flows keep one crossing of each bundle, that of its first link.
void FoldGraph::bundle_links() {
  constexpr std::uint32_t kNone = 0xffffffffU;
  std::vector<FlowSum> sums(links.size());
  for (std::size_t a = 0; a < crossings.size(); ++a)
    for (const Crossing& c : crossings[a]) sums[c.bundle].add(static_cast<Element>(a), c);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const Crossing& c : groups[g].crossings) sums[c.bundle].add(group_element(g), c);
  // A table of the first links, with open addresses, at most half full.
  std::vector<std::uint32_t> table(std::bit_ceil(2 * links.size() + 1), kNone), first(links.size());
  for (std::uint32_t l = 0; l < links.size(); ++l) {
    std::size_t place = sums[l].low & (table.size() - 1);
    while (table[place] != kNone && sums[table[place]] != sums[l]) place = (place + 1) & (table.size() - 1);
    if (table[place] == kNone) table[place] = l;
    first[l] = table[place];
  }
  table = {};
  sums = {};
  std::vector<std::uint32_t> number(links.size(), kNone), size;  // indexed by first link, and by bundle
  for (std::size_t l = 0; l < links.size(); ++l) {
    std::uint32_t& n = number[first[l]];
    if (n == kNone) {
      n = static_cast<std::uint32_t>(size.size());
      size.push_back(0);
    }
    size[n] += 1;
  }
  std::vector<std::uint32_t> row;
  for (const std::uint32_t links_of_bundle : size) {
    row.resize(links_of_bundle);
    bundles.add(row);
  }
  std::fill(size.begin(), size.end(), 0);
  for (std::uint32_t l = 0; l < links.size(); ++l) {
    const std::uint32_t b = number[first[l]];
    bundles[b][size[b]++] = l;
  }
  const auto keep = [&first, &number](Crossing& c) {
    const bool is_first = first[c.bundle] == c.bundle;
    c.bundle = number[first[c.bundle]];
    return is_first;
  };
  crossings.keep_if(keep);
  for (FoldGroup& group : groups) {
    std::erase_if(group.crossings, [&keep](Crossing& c) { return !keep(c); });
    group.crossings.shrink_to_fit();
  }
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
    std::uint64_t hash = hash_numbers({texts[a], equivalence_class[a], group_of[a].size()});
    for (const SlotRoute& w : slot_routes[a])
      hash = hash_numbers({hash, w.first, w.reverse, bits(w.latency), bits(w.chunk.value), w.legs, w.leg_costs});
    colour(ElementKind::actor, hash);
  }
  for (const FoldGroup& g : groups)
    colour(ElementKind::group,
           hash_numbers({g.members.size(), bits(g.latency.count), g.flow ? 1U + (g.flow->by_engines ? 1U : 0U) : 0U}));
  for (std::size_t b = 0; b < bundles.size(); ++b) {
    std::uint64_t sum = 0;  // the order of a bundle's links does not count
    for (const std::uint32_t l : bundles[b]) sum += mix_bits(attributes(l));
    colour(ElementKind::link, bundles[b].size() == 1 ? attributes(bundles[b].front()) : sum);
  }
  const auto each_edge = [this](auto visit) {
    for (std::size_t a = 0; a < texts.size(); ++a) {
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
        visit(me, Edge{bundle_element(c.bundle), kFlowLabel + c.segment, c.weight});
        visit(bundle_element(c.bundle), Edge{me, kFlowLabel + c.segment, 1});
      }
    }
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const Crossing& c : groups[g].crossings) {
        visit(group_element(g), Edge{bundle_element(c.bundle), kGroupLinkLabel, c.weight});
        visit(bundle_element(c.bundle), Edge{group_element(g), kGroupLinkLabel, 1});
      }
  };
  graph.store_edges(each_edge);
  return graph;
}

}  // namespace trainyard::folding
