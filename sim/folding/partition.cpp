#include "sim/folding/partition.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

#include "sim/hashing.hpp"

namespace trainyard::folding {
namespace {

/// A sum of hashes: the same for equal multisets, whatever their order.
struct Told {
  std::uint64_t low = 0, high = 0;
  bool anything = false;
  void add(std::uint32_t label, double weight) {
    const std::uint64_t hash = mixed(mixed(label) ^ std::bit_cast<std::uint64_t>(weight));
    low += hash;
    high += mixed(hash ^ kGoldenGamma);
  }
  auto operator<=>(const Told&) const = default;
};

class Refinement {
 public:
  explicit Refinement(const ColouredGraph& graph)
      : graph_(graph),
        order_(graph.colours.size()),
        place_(order_.size()),
        class_of_(order_.size()),
        told_(order_.size()) {
    colour_classes();
  }

  Partition run() {
    while (!waiting_.empty()) {
      const std::uint32_t splitter = waiting_.front();
      waiting_.pop_front();
      waits_[splitter] = 0;
      split_by(splitter);
    }
    return numbered();
  }

 private:
  static constexpr std::size_t kAhead = 8;  // elements lie anywhere: most of the time is waiting for memory
  struct Class {
    std::size_t begin = 0, end = 0, marked = 0;  // in order_; the marked ones first
  };
  const ColouredGraph& graph_;
  std::vector<Element> order_;        // by class
  std::vector<std::uint32_t> place_;  // in order_
  std::vector<std::uint32_t> class_of_;
  std::vector<Class> classes_;
  std::vector<char> waits_;
  std::deque<std::uint32_t> waiting_;
  std::vector<Told> told_;  // by the splitter that is at work
  std::vector<Element> listeners_;
  std::vector<std::pair<Told, Element>> sorted_;  // scratch of split
  std::vector<std::uint32_t> touched_;            // classes
  std::vector<Split> splits_;

  void colour_classes() {
    for (Element e = 0; e < order_.size(); ++e) order_[e] = e;
    std::sort(order_.begin(), order_.end(), [this](Element a, Element b) {
      return graph_.colours[a] != graph_.colours[b] ? graph_.colours[a] < graph_.colours[b] : a < b;
    });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (i == 0 || graph_.colours[order_[i]] != graph_.colours[order_[i - 1]]) add_class(i);
      classes_.back().end = i + 1;
      class_of_[order_[i]] = static_cast<std::uint32_t>(classes_.size() - 1);
      place_[order_[i]] = static_cast<std::uint32_t>(i);
    }
    for (std::uint32_t c = 0; c < classes_.size(); ++c) wait(c);
  }

  void add_class(std::size_t begin) {
    classes_.push_back({begin, begin, 0});
    waits_.push_back(0);
  }
  void wait(std::uint32_t c) {
    if (waits_[c]) return;
    waits_[c] = 1;
    waiting_.push_back(c);
  }

  void split_by(std::uint32_t splitter) {
    const Element by = order_[classes_[splitter].begin];
    listeners_.clear();
    for (std::size_t i = classes_[splitter].begin; i < classes_[splitter].end; ++i) tell(order_[i]);
    touched_.clear();
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (i + kAhead < listeners_.size()) {
        __builtin_prefetch(&class_of_[listeners_[i + kAhead]]);
        __builtin_prefetch(&place_[listeners_[i + kAhead]]);
      }
      mark(listeners_[i]);
    }
    for (const std::uint32_t c : touched_) split(c, by);
    for (const Element e : listeners_) told_[e] = {};
  }

  void tell(Element from) {
    for (std::size_t i = graph_.first[from]; i < graph_.first[from + 1]; ++i) {
      const Edge& edge = graph_.edges[i];
      if (i + kAhead < graph_.edges.size()) __builtin_prefetch(&told_[graph_.edges[i + kAhead].to]);
      Told& told = told_[edge.to];
      if (!told.anything) listeners_.push_back(edge.to);
      told.anything = true;
      told.add(edge.label, edge.weight);
    }
  }

  /// Moves it to the front of its class.
  void mark(Element e) {
    Class& c = classes_[class_of_[e]];
    if (c.marked == 0) touched_.push_back(class_of_[e]);
    const auto to = static_cast<std::uint32_t>(c.begin + c.marked++);
    const std::uint32_t from = place_[e];
    std::swap(order_[to], order_[from]);
    place_[order_[from]] = from;
    place_[e] = to;
  }

  void split(std::uint32_t c, Element by) {
    const Class whole = classes_[c];
    classes_[c].marked = 0;
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(whole.begin);
    const auto marked_end = begin + static_cast<std::ptrdiff_t>(whole.marked);
    const Told& first = told_[*begin];
    const bool equal = std::all_of(begin, marked_end, [&](Element e) { return told_[e] == first; });
    if (equal && whole.begin + whole.marked == whole.end) return;
    if (!equal) {  // what they were told lies beside them: in its own place it is cold memory
      sorted_.clear();
      for (auto e = begin; e != marked_end; ++e) sorted_.emplace_back(told_[*e], *e);
      std::sort(sorted_.begin(), sorted_.end());
      std::transform(sorted_.begin(), sorted_.end(), begin, [](const auto& of) { return of.second; });
    }
    // Runs of equal ones, and last those that were told nothing.
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    std::size_t from = whole.begin;
    for (std::size_t i = whole.begin; i < whole.begin + whole.marked; ++i) {
      place_[order_[i]] = static_cast<std::uint32_t>(i);
      const bool last = i + 1 == whole.begin + whole.marked || told_[order_[i + 1]] != told_[order_[i]];
      if (!last) continue;
      parts.emplace_back(from, i + 1);
      from = i + 1;
    }
    if (from < whole.end) parts.emplace_back(from, whole.end);
    divide(c, parts, by);
  }

  /// The largest part keeps the class. Where that does not wait, what it tells is known from what the others tell.
  void divide(std::uint32_t c, const std::vector<std::pair<std::size_t, std::size_t>>& parts, Element by) {
    const auto largest = std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
      return a.second - a.first < b.second - b.first;
    });
    classes_[c] = {largest->first, largest->second, 0};
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      if (part == largest) continue;
      const auto fresh = static_cast<std::uint32_t>(classes_.size());
      add_class(part->first);
      classes_.back().end = part->second;
      for (std::size_t i = part->first; i < part->second; ++i) class_of_[order_[i]] = fresh;
      splits_.push_back({order_[largest->first], order_[part->first], by});
      wait(fresh);
    }
  }

  Partition numbered() {
    Partition result;
    constexpr std::uint32_t kNone = 0xffffffffU;
    std::vector<std::uint32_t> number(classes_.size(), kNone);
    result.class_of.resize(class_of_.size());
    for (Element e = 0; e < class_of_.size(); ++e) {
      std::uint32_t& n = number[class_of_[e]];
      if (n == kNone) n = result.classes++;
      result.class_of[e] = n;
    }
    result.splits = std::move(splits_);
    return result;
  }
};

}  // namespace

Partition refine(const ColouredGraph& graph) { return Refinement(graph).run(); }

}  // namespace trainyard::folding
