#include "sim/folding/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "sim/error.hpp"
#include "sim/folding/fold_check.hpp"
#include "sim/folding/folded_program.hpp"

namespace trainyard {

using folding::ClassView;
using folding::Crossing;
using folding::Element;
using folding::FoldGraph;
using folding::FoldGroup;
using folding::SlotWay;

namespace {

std::uint64_t key_of(Actor from, Actor to) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32 | static_cast<std::uint32_t>(to);
}

/// Consumption of links by class: few of them, in their order.
using Uses = std::map<LinkId, double>;

std::vector<LinkUse> list_of(const Uses& uses) {
  std::vector<LinkUse> list;
  for (const auto& [link, weight] : uses) list.push_back({link, weight});
  return list;
}

/// What tells apart actors that name no peers yet.
std::string attribute_that_differs(const FoldGraph& graph, std::size_t a, std::size_t b) {
  if (graph.outlines[a].text != graph.outlines[b].text) return "another program";
  if (graph.likeness[a] != graph.likeness[b]) return "other hardware";
  if (graph.group_of[a].size() != graph.group_of[b].size()) return "other groups";
  for (std::size_t s = 0; s < std::min(graph.ways[a].size(), graph.ways[b].size()); ++s)
    if (!(graph.ways[a][s] == graph.ways[b][s]))
      return graph.ways[a][s].latency != graph.ways[b][s].latency ? fmt::format("another latency to the peer in slot {}", s)
                                                                  : fmt::format("another way to the peer in slot {}", s);
  return "other ways to its peers";
}

}  // namespace

/// What is simulated: everything is kept for representatives only, and the graph goes once it is made.
struct Fold::Quotient {
  std::unordered_map<std::uint64_t, Route> routes;
  std::deque<std::vector<LinkUse>> links;
  std::deque<std::vector<Leg>> legs;
  std::deque<GroupFlow> flows;
  std::unordered_map<const GroupFlow*, Route> group_routes;
  std::vector<ClassView> views;  // by class

  const Machine& machine;
  const FoldGraph& graph;
  const folding::Partition& partition;
  std::uint32_t first_group, first_link;  // numbers of classes
  std::vector<char> represents;           // by used link: is it the first of its class?

  Quotient(const Machine& m, const FoldGraph& g, const folding::Partition& p, std::uint32_t group_class,
           std::uint32_t link_class)
      : machine(m), graph(g), partition(p), first_group(group_class), first_link(link_class), represents(g.links.size(), 0) {
    std::uint32_t next = first_link;
    for (std::size_t l = 0; l < represents.size(); ++l)
      if (partition.class_of[graph.link_element(l)] == next) {
        represents[l] = 1;
        ++next;
      }
  }
  LinkId link_class_of(LinkId used) const {
    return static_cast<LinkId>(partition.class_of[graph.link_element(static_cast<std::size_t>(used))] - first_link);
  }
  std::span<const LinkUse> keep(const Uses& uses) { return links.emplace_back(list_of(uses)); }

  /// Consumption on the links that represent classes, by class of flows and stretch.
  using ByStretch = std::map<std::pair<std::uint32_t, std::uint32_t>, Uses>;
  ByStretch consumption_of_messages() const {
    ByStretch all;
    for (std::size_t a = 0; a < graph.crossings.size(); ++a)
      for (const Crossing& c : graph.crossings[a])
        if (represents[static_cast<std::size_t>(c.link)] && c.stretch != folding::kPort)
          all[{partition.class_of[a], c.stretch}][link_class_of(c.link)] += c.weight;
    return all;
  }

  void add_routes(const Fold& fold) {
    const ByStretch consumption = consumption_of_messages();
    const auto uses_of = [&consumption](Actor c, std::size_t slot, std::size_t leg) {
      const auto at = consumption.find(
          {static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(slot) * folding::kLegsOfSlot + static_cast<std::uint32_t>(leg)});
      return at == consumption.end() ? Uses{} : at->second;
    };
    for (Actor c = 0; c < fold.classes(); ++c) {
      const Actor rep = fold.representative(c);
      const std::vector<SlotWay>& ways = graph.ways[static_cast<std::size_t>(rep)];
      for (std::size_t s = 0; s < ways.size(); ++s) {
        if (ways[s].first != s) continue;
        Route route = machine.route(rep, ways[s].peer, PathClass::automatic);
        if (route.legs.empty()) {
          route.links = keep(uses_of(c, s, 0));
        } else {
          std::vector<Leg>& own = legs.emplace_back(route.legs.begin(), route.legs.end());
          Uses whole;
          for (std::size_t l = 0; l < own.size(); ++l) {
            const Uses of_leg = uses_of(c, s, l);
            for (const auto& [link, weight] : of_leg) whole[link] += weight;
            own[l].links = keep(of_leg);
          }
          route.links = keep(whole);
          route.legs = own;
        }
        routes.emplace(key_of(rep, ways[s].peer), route);
      }
    }
  }

  void add_groups(const Fold& fold) {
    std::vector<std::vector<std::size_t>> members(first_link - first_group);
    for (std::size_t g = 0; g < graph.groups.size(); ++g)
      members[partition.class_of[graph.group_element(g)] - first_group].push_back(g);
    for (const std::vector<std::size_t>& alike : members) {
      const FoldGroup& first = graph.groups[alike.front()];
      GroupFlow& flow = flows.emplace_back();
      flow.copies = static_cast<double>(alike.size());
      if (!first.flow) continue;
      flow.by_engines = first.flow->by_engines;
      std::map<Actor, GroupFlow::Share> shares;
      std::map<Actor, double> count;
      for (const auto& [actor, meeting] : first.members) count[fold.class_of(actor)] += 1;
      for (const GroupFlow::Edge& edge : first.flow->edges) {
        if (edge.from == edge.to) continue;
        flow.moved += edge.weight;
        if (edge.from < fold.actors()) shares[fold.class_of(edge.from)].sends += edge.weight;
        if (edge.to < fold.actors()) shares[fold.class_of(edge.to)].receives += edge.weight;
      }
      for (const auto& [actor, share] : shares)
        if (const auto at = count.find(actor); at != count.end())
          flow.shares.push_back({actor, share.sends / at->second, share.receives / at->second});
      Uses uses;
      for (const std::size_t g : alike)
        for (const Crossing& c : graph.groups[g].crossings)
          if (represents[static_cast<std::size_t>(c.link)]) uses[link_class_of(c.link)] += c.weight;
      Route route;
      route.latency = first.latency;
      route.links = keep(uses);
      group_routes.emplace(&flow, route);
    }
  }

  void add_views(const Fold& fold) {
    std::vector<std::uint32_t> member_classes(flows.size(), 0);
    for (std::size_t g = 0; g < graph.groups.size(); ++g) {
      std::uint32_t& classes = member_classes[partition.class_of[graph.group_element(g)] - first_group];
      if (classes > 0) continue;
      std::set<Actor> of;
      for (const auto& [actor, meeting] : graph.groups[g].members) of.insert(fold.class_of(actor));
      classes = static_cast<std::uint32_t>(of.size());
    }
    for (Actor c = 0; c < fold.classes(); ++c) {
      const Actor rep = fold.representative(c);
      const auto r = static_cast<std::size_t>(rep);
      ClassView& view = views.emplace_back();
      for (const SlotWay& way : graph.ways[r]) {
        const Actor peer_class = fold.class_of(way.peer);
        view.peers.push_back(peer_class);
        view.sending.push_back({rep, way.peer});
        const Actor sender = fold.representative(peer_class);
        if (way.reverse == folding::kNoSlot)
          view.receiving.push_back({way.peer, rep});
        else
          view.receiving.push_back({sender, graph.ways[static_cast<std::size_t>(sender)][way.reverse].peer});
      }
      const std::vector<ActorOutline::Meeting>& meetings = graph.outlines[r].meetings;
      for (std::size_t m = 0; m < meetings.size(); ++m) {
        const std::size_t of = partition.class_of[graph.group_element(graph.group_of[r][m])] - first_group;
        view.meetings[meetings[m].group] = {static_cast<Tag>(of), member_classes[of]};
        if (!meetings[m].flow) continue;
        if (view.group_flows.size() <= meetings[m].slot) view.group_flows.resize(meetings[m].slot + 1U, nullptr);
        view.group_flows[meetings[m].slot] = &flows[of];
      }
    }
  }
};

Fold::Fold(const Machine& machine, const ProgramSource& source, std::span<const LinkChange> changes) {
  const FoldGraph graph(machine, source, changes);
  class_of_.resize(static_cast<std::size_t>(graph.actors()));
  refusal_ = graph.refusal();
  if (!refusal_.empty()) return;
  const folding::ColouredGraph coloured = graph.coloured();
  const folding::Partition partition = folding::refine(coloured);
  if (const std::string broken = folding::broken_condition(graph, partition); !broken.empty())
    throw InternalError("a fold that is none: " + broken);
  std::uint32_t first_group = 0;
  for (std::size_t a = 0; a < class_of_.size(); ++a) {
    class_of_[a] = static_cast<Actor>(partition.class_of[a]);
    first_group = std::max(first_group, partition.class_of[a] + 1);
  }
  members_.resize(first_group);
  for (std::size_t a = 0; a < class_of_.size(); ++a)
    members_[partition.class_of[a]].push_back(static_cast<Actor>(a));
  std::uint32_t first_link = first_group;
  for (std::size_t g = 0; g < graph.groups.size(); ++g)
    first_link = std::max(first_link, partition.class_of[graph.group_element(g)] + 1);
  class_of_link_.assign(graph.used_number.size(), -1);
  for (std::size_t l = 0; l < graph.links.size(); ++l) {
    const std::size_t c = partition.class_of[graph.link_element(l)] - first_link;
    if (c == links_.size()) links_.push_back({graph.links[l], 0});
    links_[c].links += 1;
    class_of_link_[static_cast<std::size_t>(graph.links[l])] = static_cast<LinkId>(c);
  }
  quotient_ = std::make_unique<Quotient>(machine, graph, partition, first_group, first_link);
  quotient_->add_routes(*this);
  quotient_->add_groups(*this);
  quotient_->add_views(*this);
  ports_.resize(members_.size());
  for (Actor c = 0; c < classes() && machine.interferes(); ++c)
    for (const LinkId port : machine.ports(representative(c)))
      ports_[static_cast<std::size_t>(c)].push_back(class_of_link(port));
  const auto name = [&](Element e) {
    if (e < graph.outlines.size()) return machine.actor_name(static_cast<Actor>(e));
    if (e < graph.link_element(0))
      return fmt::format("the group of {}",
                         machine.actor_name(graph.groups[e - graph.group_element(0)].members.front().first));
    return "link " + graph.link(e - graph.link_element(0)).name;
  };
  constexpr std::size_t kMostReasons = 1000;
  std::map<std::uint64_t, std::size_t> known;
  for (std::size_t a = 0; a < graph.outlines.size() && reasons_.size() < kMostReasons; ++a)
    if (known.try_emplace(coloured.colours[a], a).second && a > 0)
      reasons_.push_back(fmt::format("{} is unlike {}: {}", name(static_cast<Element>(a)), name(0),
                                     attribute_that_differs(graph, a, 0)));
  for (const folding::Split& split : partition.splits)
    if (split.one < graph.outlines.size() && reasons_.size() < kMostReasons)
      reasons_.push_back(fmt::format("{} is unlike {}: only one of them {} {}", name(split.other), name(split.one),
                                     split.by < graph.outlines.size()        ? "exchanges with"
                                     : split.by < graph.link_element(0) ? "meets in"
                                                                             : "uses",
                                     name(split.by)));
}

Fold::~Fold() = default;

std::vector<LinkChange> Fold::changes(std::span<const LinkChange> of_links) const {
  std::vector<LinkChange> list;
  for (const LinkChange& change : of_links) {
    const LinkId c = class_of_link(change.link);
    if (c >= 0 && links_[static_cast<std::size_t>(c)].link == change.link) list.push_back({change.at, c, change.capacity});
  }
  return list;
}

Programs Fold::programs(const ProgramSource& source) const {
  Programs programs;
  for (Actor c = 0; c < classes(); ++c)
    programs.push_back(folding::folded_program(source.program(representative(c)), quotient_->views[static_cast<std::size_t>(c)]));
  return programs;
}

const Route& Fold::route(Actor from, Actor to) const {
  const auto at = quotient_->routes.find(key_of(from, to));
  if (at == quotient_->routes.end())
    throw InternalError(fmt::format("a folded message from {} to {}, which no slot names", from, to));
  return at->second;
}

const Route* Fold::group_route(const GroupFlow& flow) const {
  const auto at = quotient_->group_routes.find(&flow);
  return at == quotient_->group_routes.end() ? nullptr : &at->second;
}

}  // namespace trainyard
