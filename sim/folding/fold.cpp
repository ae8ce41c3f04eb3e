#include "sim/folding/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/error.hpp"
#include "sim/folding/fold_check.hpp"
#include "sim/folding/quotient.hpp"
#include "sim/index.hpp"

namespace trainyard {

using folding::Element;
using folding::FoldGraph;
using folding::Split;

namespace {

/// What tells apart actors of one program by themselves.
std::string attribute_that_differs(const FoldGraph& graph, std::size_t a, std::size_t b) {
  if (graph.likeness[a] != graph.likeness[b]) return "another speed";
  if (graph.group_of[a].size() != graph.group_of[b].size()) return "other groups";
  for (std::size_t s = 0; s < std::min(graph.ways[a].size(), graph.ways[b].size()); ++s)
    if (!(graph.ways[a][s] == graph.ways[b][s]))
      return fmt::format("another {} to the peer in slot {}",
                         graph.ways[a][s].latency != graph.ways[b][s].latency ? "latency" : "way", s);
  return "other ways to its peers";
}

std::vector<std::string> reasons_of(const Machine& machine, const FoldGraph& graph,
                                    const std::vector<std::uint64_t>& colours, const std::vector<Split>& splits) {
  constexpr std::size_t kMost = 1000;
  const auto name = [&](Element e) {
    if (e < graph.group_element(0)) return machine.actor_name(static_cast<Actor>(e));
    if (e >= graph.link_element(0)) return graph.link(e - graph.link_element(0)).name;
    return "the group of " + machine.actor_name(graph.groups[e - graph.group_element(0)].members.front().first);
  };
  const auto tells = [&](Element e) {
    return e < graph.group_element(0) ? "exchanges with" : e < graph.link_element(0) ? "meets in" : "uses";
  };
  std::vector<std::string> reasons, first_of_programs;
  std::map<std::uint64_t, std::size_t> programs, known;
  for (std::size_t a = 0; a < graph.outlines.size() && reasons.size() < kMost; ++a) {
    const auto [first, fresh] = programs.try_emplace(graph.outlines[a].text, a);
    if (fresh) first_of_programs.push_back(name(static_cast<Element>(a)));
    if (!known.try_emplace(colours[a], a).second || fresh) continue;
    const std::string reason =
        fmt::format("{} is unlike {}: it has {}", name(static_cast<Element>(a)),
                    name(static_cast<Element>(first->second)), attribute_that_differs(graph, a, first->second));
    // What somebody may have asked for stands first.
    const bool asked = graph.likeness[a] != graph.likeness[first->second];
    reasons.insert(asked ? reasons.begin() : reasons.end(), reason);
  }
  if (programs.size() > 1) {
    constexpr std::size_t kShown = 4;
    const std::size_t shown = std::min(kShown, first_of_programs.size());
    std::string text = fmt::format("{} programs, first of ", programs.size());
    for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + first_of_programs[i];
    reasons.insert(reasons.begin(), text + (shown < programs.size() ? ", …" : ""));
  }
  for (const Split& split : splits)
    if (split.one < graph.outlines.size() && reasons.size() < kMost)
      reasons.push_back(fmt::format("{} is unlike {}: one of them {} {}, or more often", name(split.other),
                                    name(split.one), tells(split.by), name(split.by)));
  return reasons;
}

}  // namespace

Fold::Fold(const Machine& machine, const ProgramSource& source, std::span<const LinkChange> changes) {
  const FoldGraph graph(machine, source, changes);
  class_of_.resize(static_cast<std::size_t>(graph.actors()));
  refusal_ = graph.refusal();
  if (!refusal_.empty()) return;
  const folding::ColouredGraph coloured = graph.coloured();
  const folding::Partition partition = folding::refine(coloured);
  if (const std::string broken = folding::broken_condition(graph, partition); !broken.empty())
    throw InternalError("a fold that is none: " + broken);
  const folding::Classes classes(graph, partition);
  for (Actor a = 0; a < graph.actors(); ++a) class_of_[position(a)] = classes.of_actor(a);
  members_ = classes.members;
  class_of_link_.assign(graph.used_number.size(), -1);
  for (std::size_t l = 0; l < graph.links.size(); ++l) {
    const LinkId c = classes.of_link(l);
    if (position(c) == links_.size()) links_.push_back({graph.links[l], 0});
    links_[position(c)].links += 1;
    class_of_link_[position(graph.links[l])] = c;
  }
  quotient_ = std::make_unique<folding::Quotient>(machine, classes);
  ports_.resize(members_.size());
  const Contention* contention = machine.contention();
  for (Actor c = 0; c < this->classes() && contention; ++c)
    for (const LinkId port : contention->ports(representative(c))) ports_[position(c)].push_back(class_of_link(port));
  reasons_ = reasons_of(machine, graph, coloured.colours, partition.splits);
}

Fold::~Fold() = default;

Multiplicity Fold::multiplicity() const {
  Multiplicity counts;
  for (Actor c = 0; c < classes(); ++c) counts.actors.push_back(size(c));
  for (const LinkClass& of : links_) counts.links.push_back(of.links);
  return counts;
}

std::vector<LinkChange> Fold::changes(std::span<const LinkChange> of_links) const {
  std::vector<LinkChange> list;
  for (const LinkChange& change : of_links) {
    const LinkId c = class_of_link(change.link);
    if (c >= 0 && links_[position(c)].link == change.link) list.push_back({change.at, c, change.capacity});
  }
  return list;
}

Programs Fold::programs(const ProgramSource& source) const {
  Programs programs;
  for (Actor c = 0; c < classes(); ++c)
    programs.push_back(folding::folded_program(source.program(representative(c)), quotient_->view(c)));
  return programs;
}

const Route& Fold::route(Actor from, Actor to) const {
  const Route* found = quotient_->route(from, to);
  if (!found) throw InternalError(fmt::format("a folded message from {} to {}, which no slot names", from, to));
  return *found;
}

const KnownGroup* Fold::known_group(const GroupFlow& flow) const { return quotient_->known_group(flow); }

bool Fold::meets_itself(Actor of_class, Tag group) const {
  const auto& meetings = quotient_->view(of_class).meetings;
  const auto at = meetings.find(group);
  return at != meetings.end() && at->second.classes == 1;
}

}  // namespace trainyard
