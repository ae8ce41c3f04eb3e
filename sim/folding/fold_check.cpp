#include "sim/folding/fold_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace trainyard::folding {
namespace {

/// The weights with which a class of flows uses a link, or the members of a group. Sorted, so that equal multisets are
/// equal lists.
using Parts = std::vector<std::tuple<std::uint32_t, std::uint32_t, double>>;

/// Adds up the weights of the same class and segment: the sum decides how fast a link fills.
void sum_up(Parts& parts) {
  if (parts.size() < 2) return;
  std::ranges::sort(parts);
  auto last = parts.begin();
  for (auto part = last + 1; part != parts.end(); ++part)
    if (std::get<0>(*last) == std::get<0>(*part) && std::get<1>(*last) == std::get<1>(*part))
      std::get<2>(*last) += std::get<2>(*part);
    else
      *++last = *part;
  parts.erase(last + 1, parts.end());
}

/// Compares with a tolerance: sums of the same weights in another order differ in their last digits.
bool equal(const Parts& a, const Parts& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const double difference = std::abs(std::get<2>(x) - std::get<2>(y));
    return std::get<0>(x) == std::get<0>(y) && std::get<1>(x) == std::get<1>(y) &&
           difference <= 1e-12 * std::abs(std::get<2>(x));
  });
}

class Check {
 public:
  Check(const FoldGraph& graph, const Partition& partition) : graph_(graph), class_of_(partition.class_of) {
    first_.assign(partition.classes, static_cast<Element>(class_of_.size()));
    for (Element e = 0; e < class_of_.size(); ++e) first_[class_of_[e]] = std::min(first_[class_of_[e]], e);
  }

  std::string run() {
    for (std::size_t a = 0; a < graph_.texts.size(); ++a)
      if (const std::size_t f = first_[class_of_[a]]; f != a)
        if (const char* what = actor_differs(a, f))
          return fmt::format("actors {} and {} are in one class, but their {} differ", f, a, what);
    for (std::size_t g = 0; g < graph_.groups.size(); ++g)
      if (const std::size_t f = first_[class_of_[graph_.group_element(g)]] - graph_.group_element(0); f != g)
        if (const char* what = group_differs(g, f))
          return fmt::format("groups {} and {} are in one class, but their {} differ", f, g, what);
    return links_differ();
  }

 private:
  const FoldGraph& graph_;
  const std::vector<std::uint32_t>& class_of_;  // class, by element
  std::vector<Element> first_;                  // first element, by class

  std::uint32_t class_of_bundle(std::uint32_t bundle) const { return class_of_[graph_.bundle_element(bundle)]; }

  Parts links_of(std::span<const Crossing> crossings) const {
    Parts parts;
    for (const Crossing& c : crossings) {
      const auto& [segment, weight, count] = graph_.crossing_kinds[c.kind];
      parts.insert(parts.end(), count, {class_of_bundle(c.bundle), segment, weight});
    }
    std::ranges::sort(parts);
    return parts;
  }

  const char* actor_differs(std::size_t a, std::size_t f) const {
    if (graph_.texts[a] != graph_.texts[f]) return "programs";
    if (graph_.equivalence_class[a] != graph_.equivalence_class[f]) return "hardware";
    if (!std::ranges::equal(graph_.slots[a], graph_.slots[f], &SlotRoute::is_like)) return "routes to peers";
    const auto peer_class = [this](const SlotRoute& slot) {
      return slot.peer < graph_.actors() ? class_of_[graph_.element(slot.peer)]
                                         : ~static_cast<std::uint32_t>(slot.peer);
    };
    const auto group_class = [this](const GroupJoin& join) { return class_of_[graph_.group_element(join.group)]; };
    if (!std::ranges::equal(graph_.slots[a], graph_.slots[f], {}, peer_class, peer_class)) return "peers";
    if (graph_.joins[a].size() != graph_.joins[f].size()) return "numbers of groups";
    if (!std::ranges::equal(graph_.joins[a], graph_.joins[f], {}, group_class, group_class)) return "groups";
    return same_links(graph_.crossings[a], graph_.crossings[f]) ? nullptr : "links";
  }

  bool same_links(std::span<const Crossing> a, std::span<const Crossing> b) const {
    const auto same = [this](const Crossing& x, const Crossing& y) {
      return class_of_bundle(x.bundle) == class_of_bundle(y.bundle) && x.kind == y.kind;
    };
    // Nearly always they are in the same order too.
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same) || equal(links_of(a), links_of(b));
  }

  Parts members_of(const FoldGroup& group) const {
    Parts parts;
    for (const auto& [actor, join] : group.members) parts.emplace_back(class_of_[graph_.element(actor)], join, 1);
    sum_up(parts);
    return parts;
  }

  const char* group_differs(std::size_t group, std::size_t first) const {
    const FoldGroup &a = graph_.groups[group], &f = graph_.groups[first];
    if ((a.flow == nullptr) != (f.flow == nullptr) || a.latency.count != f.latency.count) return "flows";
    if (a.flow && a.flow->by_engines != f.flow->by_engines) return "kinds of flow";
    if (!equal(members_of(a), members_of(f))) return "members";
    const auto crossings = [this](std::size_t g) { return graph_.crossings[graph_.group_element(g)]; };
    return same_links(crossings(group), crossings(first)) ? nullptr : "links";
  }

  /// Capacities of a bundle's links, and changes of these, sorted.
  std::vector<std::pair<double, std::uint64_t>> attributes_of(std::size_t bundle) const {
    std::vector<std::pair<double, std::uint64_t>> all;
    for (const std::uint32_t l : graph_.bundles[bundle])
      all.emplace_back(graph_.link(l).capacity.value, graph_.changes(l));
    std::ranges::sort(all);
    return all;
  }

  bool same_attributes(std::size_t a, std::size_t b) const {
    const std::span<const std::uint32_t> of_a = graph_.bundles[a], of_b = graph_.bundles[b];
    if (of_a.size() != 1 || of_b.size() != 1) return attributes_of(a) == attributes_of(b);
    const std::uint32_t one = of_a.front(), other = of_b.front();
    return graph_.link(one).capacity.value == graph_.link(other).capacity.value &&
           graph_.changes(one) == graph_.changes(other);
  }

  std::string links_differ() const {
    const auto each_crossing = [this](auto visit) {
      for (Element flow = 0; flow < graph_.crossings.size(); ++flow)
        for (const Crossing& c : graph_.crossings[flow]) visit(flow, c);
    };
    // Counts first, so that the uses of each link lie together.
    std::vector<std::uint32_t> begin(graph_.bundles.size() + 1, 0);
    each_crossing([&](Element, const Crossing& c) { ++begin[c.bundle + 1]; });
    for (std::size_t b = 0; b < graph_.bundles.size(); ++b) begin[b + 1] += begin[b];
    Parts uses(begin.back());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    each_crossing([&](Element flow, const Crossing& c) {
      const auto& [segment, weight, count] = graph_.crossing_kinds[c.kind];
      uses[next[c.bundle]++] = {class_of_[flow], segment, weight * graph_.crossings_of_link(flow, c)};
    });
    Parts bundle_uses;  // uses of one bundle
    const auto take = [&](std::size_t b) {
      bundle_uses.assign(uses.begin() + begin[b], uses.begin() + begin[b + 1]);
      sum_up(bundle_uses);
    };
    std::unordered_map<std::size_t, Parts> first_uses;  // uses of the first bundle of each class
    for (std::size_t b = 0; b < graph_.bundles.size(); ++b) {
      const std::size_t f = first_[class_of_bundle(static_cast<std::uint32_t>(b))] - graph_.bundle_element(0);
      take(b);
      if (f == b)
        first_uses[b] = bundle_uses;
      else if (!same_attributes(b, f) || !equal(bundle_uses, first_uses[f]))
        return fmt::format("links {} and {} are in one class, but their rates or loads differ",
                           graph_.first_link(f).name, graph_.first_link(b).name);
    }
    return "";
  }
};

}  // namespace

std::string broken_condition(const FoldGraph& graph, const Partition& partition) {
  return Check(graph, partition).run();
}

}  // namespace trainyard::folding
