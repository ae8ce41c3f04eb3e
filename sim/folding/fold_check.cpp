#include "sim/folding/fold_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace trainyard::folding {
namespace {

/// What a class of flows takes of a link, or who takes part in a group: sorted, so that equal multisets are equal lists.
using Parts = std::vector<std::tuple<std::uint32_t, std::uint32_t, double>>;

/// Weights of the same class and stretch in one: sums of weights decide how fast a link fills.
void sum_up(Parts& parts) {
  if (parts.size() < 2) return;
  std::sort(parts.begin(), parts.end());
  auto last = parts.begin();
  for (auto part = last + 1; part != parts.end(); ++part)
    if (std::get<0>(*last) == std::get<0>(*part) && std::get<1>(*last) == std::get<1>(*part))
      std::get<2>(*last) += std::get<2>(*part);
    else
      *++last = *part;
  parts.erase(last + 1, parts.end());
}

/// Sums of the same weights in another order differ in their last digits.
bool equal(const Parts& a, const Parts& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const double difference = std::abs(std::get<2>(x) - std::get<2>(y));
    return std::get<0>(x) == std::get<0>(y) && std::get<1>(x) == std::get<1>(y) &&
           difference <= 1e-12 * std::abs(std::get<2>(x));
  });
}

class Check {
 public:
  Check(const FoldGraph& graph, const Partition& partition) : graph_(graph), of_(partition.class_of) {
    first_.assign(partition.classes, static_cast<Element>(of_.size()));
    for (Element e = 0; e < of_.size(); ++e) first_[of_[e]] = std::min(first_[of_[e]], e);
  }

  std::string run() {
    for (std::size_t a = 0; a < graph_.outlines.size(); ++a)
      if (const std::size_t f = first_[of_[a]]; f != a)
        if (const char* what = actor_differs(a, f))
          return fmt::format("actors {} and {} are in one class, but their {} differ", f, a, what);
    for (std::size_t g = 0; g < graph_.groups.size(); ++g)
      if (const std::size_t f = first_[of_[graph_.group_element(g)]] - graph_.group_element(0); f != g)
        if (const char* what = group_differs(graph_.groups[g], graph_.groups[f]))
          return fmt::format("groups {} and {} are in one class, but their {} differ", f, g, what);
    return links_differ();
  }

 private:
  const FoldGraph& graph_;
  const std::vector<std::uint32_t>& of_;  // class by element
  std::vector<Element> first_;            // by class

  std::uint32_t class_of_link(LinkId used) const { return of_[graph_.link_element(static_cast<std::size_t>(used))]; }

  Parts links_of(const std::vector<Crossing>& crossings) const {
    Parts parts;
    for (const Crossing& c : crossings) parts.emplace_back(class_of_link(c.link), c.stretch, c.weight);
    std::sort(parts.begin(), parts.end());
    return parts;
  }

  const char* actor_differs(std::size_t a, std::size_t f) const {
    if (graph_.outlines[a].text != graph_.outlines[f].text) return "programs";
    if (graph_.likeness[a] != graph_.likeness[f]) return "hardware";
    if (graph_.ways[a] != graph_.ways[f]) return "ways to peers";
    for (std::size_t s = 0; s < graph_.ways[a].size(); ++s)
      if (peer_class(graph_.ways[a][s]) != peer_class(graph_.ways[f][s])) return "peers";
    if (graph_.group_of[a].size() != graph_.group_of[f].size()) return "numbers of groups";
    for (std::size_t m = 0; m < graph_.group_of[a].size(); ++m)
      if (of_[graph_.group_element(graph_.group_of[a][m])] != of_[graph_.group_element(graph_.group_of[f][m])])
        return "groups";
    return same_links(graph_.crossings[a], graph_.crossings[f]) ? nullptr : "links";
  }

  bool same_links(const std::vector<Crossing>& a, const std::vector<Crossing>& b) const {
    const auto same = [this](const Crossing& x, const Crossing& y) {
      return class_of_link(x.link) == class_of_link(y.link) && x.stretch == y.stretch && x.weight == y.weight;
    };
    // Nearly always in the same order too.
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same) || equal(links_of(a), links_of(b));
  }

  std::uint32_t peer_class(const SlotWay& way) const {
    return way.peer < graph_.actors() ? of_[static_cast<std::size_t>(way.peer)] : ~static_cast<std::uint32_t>(way.peer);
  }

  Parts members_of(const FoldGroup& group) const {
    Parts parts;
    for (const auto& [actor, meeting] : group.members)
      parts.emplace_back(of_[static_cast<std::size_t>(actor)], meeting, 1);
    sum_up(parts);
    return parts;
  }

  const char* group_differs(const FoldGroup& a, const FoldGroup& f) const {
    if ((a.flow == nullptr) != (f.flow == nullptr) || a.latency.count != f.latency.count) return "flows";
    if (a.flow && a.flow->by_engines != f.flow->by_engines) return "kinds of flow";
    if (!equal(members_of(a), members_of(f))) return "members";
    return same_links(a.crossings, f.crossings) ? nullptr : "links";
  }

  std::string links_differ() const {
    const auto each_flow = [this](auto visit) {
      for (std::size_t a = 0; a < graph_.crossings.size(); ++a)
        for (const Crossing& c : graph_.crossings[a])
          visit(static_cast<std::size_t>(c.link), of_[a], c.stretch, c.weight);
      for (std::size_t g = 0; g < graph_.groups.size(); ++g)
        for (const Crossing& c : graph_.groups[g].crossings)
          visit(static_cast<std::size_t>(c.link), of_[graph_.group_element(g)], 0U, c.weight);
    };
    // Counted first, so that what is taken of a link lies together.
    std::vector<std::size_t> begin(graph_.links.size() + 1, 0);
    each_flow([&](std::size_t link, auto...) { ++begin[link + 1]; });
    for (std::size_t l = 0; l < graph_.links.size(); ++l) begin[l + 1] += begin[l];
    Parts taken(begin.back());
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    each_flow([&](std::size_t link, auto... part) { taken[next[link]++] = {part...}; });
    Parts its;  // of one link
    const auto take = [&](std::size_t l) {
      const auto at = [&](std::size_t place) { return taken.begin() + static_cast<std::ptrdiff_t>(place); };
      its.assign(at(begin[l]), at(begin[l + 1]));
      sum_up(its);
    };
    std::unordered_map<std::size_t, Parts> of_first;  // of each class
    for (std::size_t l = 0; l < graph_.links.size(); ++l) {
      const std::size_t f = first_[of_[graph_.link_element(l)]] - graph_.link_element(0);
      take(l);
      if (f == l) of_first[l] = its;
      const bool same = graph_.link(l).capacity.value == graph_.link(f).capacity.value &&
                        graph_.changes[l] == graph_.changes[f] && (f == l || equal(its, of_first[f]));
      if (!same)
        return fmt::format("links {} and {} are in one class, but their rates or loads differ", graph_.link(f).name,
                           graph_.link(l).name);
    }
    return "";
  }
};

}  // namespace

std::string broken_condition(const FoldGraph& graph, const Partition& partition) {
  return Check(graph, partition).run();
}

}  // namespace trainyard::folding
