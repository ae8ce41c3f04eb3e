#include "sim/folding/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "sim/error.hpp"
#include "sim/folding/fold_check.hpp"
#include "sim/folding/folded_system.hpp"
#include "sim/index.hpp"
#include "sim/process/job.hpp"

namespace trainyard {

using folding::Element;
using folding::FoldGraph;
using folding::SlotRoute;
using folding::Split;

namespace {

/// The program of a representative. Its peers are classes, and its groups are classes of groups.
class FoldedProgram : public Program {
 public:
  FoldedProgram(std::unique_ptr<Program> original, folding::ClassView view)
      : original_(std::move(original)), view_(std::move(view)) {
    if (original_->dynamic() || original_->daemon()) throw InternalError("a dynamic program stands for itself only");
  }

  Pull next(const Op*& op, const Repeat*& rounds) override {
    const Pull pull = original_->next(op, rounds);
    if (pull == Pull::op && op->kind == Kind::join) op = &folded_join(*op);
    return pull;
  }
  std::span<const Actor> slots() const override { return view_.peers; }
  Endpoints endpoints(std::uint16_t slot, bool sending) const override {
    return (sending ? view_.sending : view_.receiving)[slot];
  }
  std::span<const GroupFlow* const> group_flows() const override { return view_.group_flows; }
  const Series& series(Tag number) const override { return original_->series(number); }
  int streams() const override { return original_->streams(); }
  std::uint64_t driving() const override { return original_->driving(); }

 private:
  std::unique_ptr<Program> original_;
  folding::ClassView view_;
  Op join_;  // the join that was returned last

  /// Sets the number of members that meet: one of each class.
  const Op& folded_join(const Op& join) {
    join_ = join;
    constexpr Tag kCount = (Tag{1} << kJoinBits) - 1;
    const auto match = view_.joins.find(join.message.tag >> kJoinBits);
    if (match == view_.joins.end())
      throw InternalError(fmt::format("a join of an unknown group, {}", join.message.tag));
    join_.message.tag = match->second.number << kJoinBits | (join.message.tag & kCount);
    join_.message.steps = match->second.classes;
    return join_;
  }
};

/// The attribute by which two actors with the same program differ.
std::string attribute_that_differs(const FoldGraph& graph, std::size_t a, std::size_t b) {
  if (graph.equivalence_class[a] != graph.equivalence_class[b]) return "another speed";
  if (graph.joins[a].size() != graph.joins[b].size()) return "other groups";
  for (std::size_t s = 0; s < std::min(graph.slots[a].size(), graph.slots[b].size()); ++s)
    if (const SlotRoute& x = graph.slots[a][s], &y = graph.slots[b][s]; !x.is_like(y))
      return fmt::format("another {} to the peer in slot {}",
                         graph.route_kinds[x.kind].latency != graph.route_kinds[y.kind].latency ? "latency" : "route",
                         s);
  return "other routes to its peers";
}

std::vector<std::string> reasons_of(const Machine& machine, const FoldGraph& graph,
                                    const std::vector<std::uint64_t>& colours, const std::vector<Split>& splits) {
  constexpr std::size_t kMost = 1000;
  const auto name = [&](Element e) {
    if (e < graph.group_element(0)) return machine.actor_name(graph.representative(e));
    if (e >= graph.bundle_element(0)) return graph.first_link(e - graph.bundle_element(0)).name.text();
    return "the group of " + machine.actor_name(graph.groups[e - graph.group_element(0)].members.front().first);
  };
  const auto tells = [&](Element e) {
    return e < graph.group_element(0) ? "exchanges with" : e < graph.bundle_element(0) ? "meets in" : "uses";
  };
  std::vector<std::string> reasons, first_of_programs;
  std::map<std::uint64_t, std::size_t> programs, known_colours;
  for (std::size_t a = 0; a < graph.texts.size() && reasons.size() < kMost; ++a) {
    const auto [first, fresh] = programs.try_emplace(graph.texts[a], a);
    if (fresh) first_of_programs.push_back(name(static_cast<Element>(a)));
    if (!known_colours.try_emplace(colours[a], a).second || fresh) continue;
    const std::string reason =
        fmt::format("{} differs from {}: it has {}", name(static_cast<Element>(a)),
                    name(static_cast<Element>(first->second)), attribute_that_differs(graph, a, first->second));
    // Differences that the user may have asked for come first.
    const bool is_requested = graph.equivalence_class[a] != graph.equivalence_class[first->second];
    reasons.insert(is_requested ? reasons.begin() : reasons.end(), reason);
  }
  if (programs.size() > 1) {
    constexpr std::size_t kShown = 4;
    const std::size_t shown = std::min(kShown, first_of_programs.size());
    std::string text =
        fmt::format("ranks have {} different lists of operations; the first ranks that have them: ", programs.size());
    for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + first_of_programs[i];
    reasons.insert(reasons.begin(), text + (shown < programs.size() ? ", …" : ""));
  }
  for (const Split& split : splits)
    if (split.first < graph.texts.size() && reasons.size() < kMost)
      reasons.push_back(fmt::format("{} differs from {}: only one of them {} {}, or does so more often",
                                    name(split.second), name(split.first), tells(split.splitter),
                                    name(split.splitter)));
  return reasons;
}

}  // namespace

Fold::Fold(const Machine& machine, const ProgramSource& source, std::span<const LinkChange> changes,
           Actor most_classes) {
  const FoldGraph graph(machine, source, changes, most_classes);
  class_of_.resize(static_cast<std::size_t>(graph.actors()));
  refusal_ = graph.refusal();
  if (!refusal_.empty()) return;
  end_if_interrupted();
  const auto stop = [&](const std::vector<std::uint64_t>& colours, const std::vector<Split>& splits) {
    reasons_ = reasons_of(machine, graph, colours, splits);
    exceeds_limit_ = true;
    refusal_ = graph.actors() == 1
                   ? "there is no other rank"
                   : fmt::format("more than {} of {} ranks differ from each other", most_classes, graph.actors());
    if (!reasons_.empty()) refusal_ += "; " + reasons_.front();
  };
  if (graph.too_many_classes()) {
    stop(graph.too_many_classes()->colours, graph.too_many_classes()->partition.splits);
    return;
  }
  std::vector<std::uint64_t> colours;
  folding::Partition partition;
  {
    folding::ColouredGraph coloured = graph.coloured_graph();
    partition = folding::refine(coloured, graph.group_element(0), position(most_classes));
    colours = std::move(coloured.colours);
  }  // frees the edges: the check needs as much memory
  end_if_interrupted();
  if (!partition.complete) {
    stop(colours, partition.splits);
    return;
  }
  if (const std::string broken = folding::broken_condition(graph, partition); !broken.empty())
    throw InternalError("a fold breaks a condition: " + broken);
  const folding::Classes classes(graph, partition);
  for (Actor a = 0; a < graph.actors(); ++a) class_of_[position(a)] = classes.actor_class(a);
  members_ = classes.members;
  class_of_link_.assign(graph.used_number.size(), -1);
  for (std::size_t l = 0; l < graph.links.size(); ++l) {
    const LinkId c = classes.link_class(l);
    if (position(c) == links_.size()) links_.push_back({graph.links[l], 0});
    links_[position(c)].links += graph.orbit_size(l);
  }
  for (std::size_t l = 0; l < class_of_link_.size(); ++l)
    if (const std::int32_t used = graph.used_number[l]; used >= 0)
      class_of_link_[l] = classes.link_class(position(used));
  folded_system_ = std::make_unique<folding::FoldedSystem>(machine, classes);
  ports_.resize(members_.size());
  const Contention* contention = machine.contention();
  for (Actor c = 0; c < this->classes() && contention; ++c)
    for (const LinkId port : contention->ports(representative(c))) ports_[position(c)].push_back(class_of_link(port));
  reasons_ = reasons_of(machine, graph, colours, partition.splits);
}

Fold::~Fold() = default;

Multiplicity Fold::multiplicity() const {
  Multiplicity counts;
  for (Actor c = 0; c < classes(); ++c) counts.actors.push_back(size(c));
  for (const LinkClass& link_class : links_) counts.links.push_back(link_class.links);
  return counts;
}

void Fold::keep(Actor actors, const Machine& own, const Machine& smaller) {
  class_of_.resize(position(actors));
  for (std::vector<Actor>& members : members_) {
    std::erase_if(members, [actors](Actor member) { return member >= actors; });
    if (members.empty()) throw InternalError("a class of a fold has no member left");
  }
  std::unordered_map<std::string, LinkId> class_of_name;
  for (std::size_t l = 0; l < class_of_link_.size(); ++l)
    if (class_of_link_[l] >= 0) class_of_name.emplace(own.links()[l].name, class_of_link_[l]);
  class_of_link_.assign(smaller.links().size(), -1);
  for (LinkClass& link_class : links_) link_class.links = 0;
  for (std::size_t l = 0; l < class_of_link_.size(); ++l) {
    const auto found = class_of_name.find(smaller.links()[l].name.text());
    if (found == class_of_name.end()) continue;
    class_of_link_[l] = found->second;
    LinkClass& link_class = links_[position(found->second)];
    if (link_class.links == 0) link_class.link = static_cast<LinkId>(l);
    link_class.links += 1;
  }
  if (std::ranges::any_of(links_, [](const LinkClass& link_class) { return link_class.links == 0; }))
    throw InternalError("a class of links of a fold has no link left");
}

std::vector<LinkChange> Fold::changes(std::span<const LinkChange> of_links) const {
  std::vector<LinkChange> list;
  for (const LinkChange& change : of_links) {
    const LinkId c = class_of_link(change.link);
    if (c >= 0 && links_[position(c)].link == change.link)
      list.push_back({change.time, c, change.capacity, change.period});
  }
  return list;
}

Programs Fold::programs(const ProgramSource& source) const {
  Programs programs;
  for (Actor c = 0; c < classes(); ++c)
    programs.push_back(std::make_unique<FoldedProgram>(source.program(representative(c)), folded_system_->view(c)));
  return programs;
}

const Route& Fold::route(Actor from, Actor to) const {
  const Route* found = folded_system_->route(from, to);
  if (!found) throw InternalError(fmt::format("a folded message from {} to {}, which no slot names", from, to));
  return *found;
}

bool Fold::meets_itself(Actor class_index, Tag group) const {
  const auto& joins = folded_system_->view(class_index).joins;
  const auto match = joins.find(group);
  return match != joins.end() && match->second.classes == 1;
}

}  // namespace trainyard
