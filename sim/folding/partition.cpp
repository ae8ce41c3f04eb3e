#include "sim/folding/partition.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>

#include "sim/hashing.hpp"

namespace trainyard::folding {
namespace {

/// A sum of hashes, which is equal for equal multisets in any order.
struct Received {
  std::uint64_t low = 0, high = 0;  // both are 0 only without edges
  bool has_edges() const { return (low | high) != 0; }
  void add(const Received& edge) {
    low += edge.low;
    high += edge.high;
  }
  auto operator<=>(const Received&) const = default;
};

/// Returns the sum of hashes of the edges that one of a kind stands for.
Received hashed(const EdgeKind& kind) {
  const std::uint64_t hash = mix_bits(mix_bits(kind.label) ^ std::bit_cast<std::uint64_t>(kind.weight));
  return {hash * kind.count, mix_bits(hash ^ kGoldenGamma) * kind.count};
}

class Refinement {
 public:
  Refinement(const ColouredGraph& graph, Element counted, std::size_t most)
      : graph_(graph),
        counted_(counted),
        most_(most),
        order_(graph.colours.size()),
        place_(order_.size()),
        class_of_(order_.size()),
        received_(order_.size()) {
    for (const EdgeKind& kind : graph.kinds) hashed_kinds_.push_back(hashed(kind));
    colour_classes();
  }

  Partition run() {
    while (!waiting_.empty() && counted_classes_ <= most_) {
      const std::uint32_t splitter = waiting_.front();
      waiting_.pop_front();
      waits_[splitter] = 0;
      split_by(splitter);
    }
    return numbered();
  }

 private:
  // Prefetch distance in elements: they are scattered, and waiting for memory takes most of the time.
  static constexpr std::size_t kAhead = 8;
  struct Class {
    std::size_t begin = 0, end = 0, marked = 0;  // range in order_, marked elements first
  };
  const ColouredGraph& graph_;
  const Element counted_;             // elements below it are counted
  const std::size_t most_;            // most classes of counted elements
  std::size_t counted_classes_ = 0;   // number of classes of counted elements
  std::vector<Element> order_;        // elements, sorted by class
  std::vector<std::uint32_t> place_;  // index in order_
  std::vector<std::uint32_t> class_of_;
  std::vector<Class> classes_;
  std::vector<char> waits_;
  std::deque<std::uint32_t> waiting_;
  std::vector<Received> received_;      // edges received from the present splitter, by element
  std::vector<Received> hashed_kinds_;  // indexed by kind of edge
  std::vector<Element> listeners_;
  std::vector<std::pair<Received, Element>> sorted_;  // scratch memory of split
  std::vector<std::uint32_t> touched_;                // touched classes
  std::vector<Split> splits_;

  void colour_classes() {
    for (Element e = 0; e < order_.size(); ++e) order_[e] = e;
    std::ranges::sort(order_, [this](Element a, Element b) {
      return graph_.colours[a] != graph_.colours[b] ? graph_.colours[a] < graph_.colours[b] : a < b;
    });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (i == 0 || graph_.colours[order_[i]] != graph_.colours[order_[i - 1]]) {
        add_class(i);
        counted_classes_ += order_[i] < counted_ ? 1 : 0;
      }
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
    for (const Element e : listeners_) received_[e] = {};
  }

  void tell(Element from) {
    for (std::size_t i = graph_.first[from]; i < graph_.first[from + 1]; ++i) {
      const ColouredGraph::StoredEdge& edge = graph_.edges[i];
      if (i + kAhead < graph_.edges.size()) __builtin_prefetch(&received_[graph_.edges[i + kAhead].to]);
      Received& received = received_[edge.to];
      if (!received.has_edges()) listeners_.push_back(edge.to);
      received.add(hashed_kinds_[edge.kind]);
    }
  }

  /// Moves the element to the front of its class.
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
    const Class old_class = classes_[c];
    classes_[c].marked = 0;
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(old_class.begin);
    const auto marked_end = begin + static_cast<std::ptrdiff_t>(old_class.marked);
    const Received& first = received_[*begin];
    const bool equal = std::all_of(begin, marked_end, [&](Element e) { return received_[e] == first; });
    if (equal && old_class.begin + old_class.marked == old_class.end) return;
    if (!equal) {  // a copy beside the elements: the original is in cold memory
      sorted_.clear();
      for (auto e = begin; e != marked_end; ++e) sorted_.emplace_back(received_[*e], *e);
      std::ranges::sort(sorted_);
      std::transform(sorted_.begin(), sorted_.end(), begin, [](const auto& entry) { return entry.second; });
    }
    // Runs of equal elements, and last the elements that received nothing.
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    std::size_t from = old_class.begin;
    for (std::size_t i = old_class.begin; i < old_class.begin + old_class.marked; ++i) {
      place_[order_[i]] = static_cast<std::uint32_t>(i);
      const bool last = i + 1 == old_class.begin + old_class.marked || received_[order_[i + 1]] != received_[order_[i]];
      if (!last) continue;
      parts.emplace_back(from, i + 1);
      from = i + 1;
    }
    if (from < old_class.end) parts.emplace_back(from, old_class.end);
    divide(c, parts, by);
  }

  /// The largest part keeps the number of the class and need not wait: its edges follow from those of the whole class
  /// and of the other parts.
  void divide(std::uint32_t c, const std::vector<std::pair<std::size_t, std::size_t>>& parts, Element by) {
    const auto largest = std::ranges::max_element(
        parts, [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
    classes_[c] = {largest->first, largest->second, 0};
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      if (part == largest) continue;
      const auto fresh = static_cast<std::uint32_t>(classes_.size());
      add_class(part->first);
      counted_classes_ += order_[part->first] < counted_ ? 1 : 0;
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
    result.complete = counted_classes_ <= most_;
    return result;
  }
};

}  // namespace

Partition refine(const ColouredGraph& graph, Element counted, std::size_t most) {
  return Refinement(graph, counted, most).run();
}

}  // namespace trainyard::folding
