#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace trainyard::folding {

using Element = std::uint32_t;

/// Tells the element `to` something about the element from which the edge leads. Elements are equivalent only if they
/// receive equal edges from each class.
struct EdgeKind {
  std::uint32_t label = 0;
  double weight = 1;
  std::uint32_t count = 1;  ///< number of such edges that the edge stands for
  bool operator==(const EdgeKind&) const = default;
};
struct Edge {
  Element to = 0;
  EdgeKind kind;
};

/// Numbers the kinds of edges. There may be millions of edges, but their kinds are few: an edge is stored as the number
/// of its kind.
class EdgeKinds {
 public:
  std::uint32_t number(const EdgeKind& kind) {
    if (last_ < kinds_.size() && kinds_[last_] == kind) return last_;  // consecutive edges are often of one kind
    std::vector<std::uint32_t>& candidates = of_label_[kind.label];
    for (const std::uint32_t candidate : candidates)
      if (kinds_[candidate] == kind) return last_ = candidate;
    last_ = static_cast<std::uint32_t>(kinds_.size());
    kinds_.push_back(kind);
    candidates.push_back(last_);
    return last_;
  }
  const EdgeKind& operator[](std::uint32_t number) const { return kinds_[number]; }
  auto begin() const { return kinds_.begin(); }
  auto end() const { return kinds_.end(); }

 private:
  std::vector<EdgeKind> kinds_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> of_label_;
  std::uint32_t last_ = 0;
};

/// Coloured elements, and labelled, weighted edges between them.
struct ColouredGraph {
  struct StoredEdge {
    Element to = 0;
    std::uint32_t kind = 0;  ///< index into `kinds`
  };
  std::vector<std::uint64_t> colours;  ///< indexed by element
  std::vector<std::uint32_t> first;    ///< indexed by element, and one past the last: index of its first edge
  std::vector<StoredEdge> edges;
  EdgeKinds kinds;

  /// Stores the edges of all elements. `each_edge` calls a function with every element and edge. It runs twice: edges
  /// are counted first, so that those of one element lie together.
  template <class EachEdge>
  void store_edges(const EachEdge& each_edge) {
    first.assign(colours.size() + 1, 0);
    each_edge([this](Element from, const Edge&) { ++first[from + 1]; });
    for (std::size_t e = 0; e < colours.size(); ++e) first[e + 1] += first[e];
    edges.resize(first.back());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    each_edge([&](Element from, const Edge& edge) { edges[next[from]++] = {edge.to, kinds.number(edge.kind)}; });
  }
};

/// The reason for splitting a class: elements `first` and `second`, equivalent until then, receive different edges
/// from the class that contained `splitter`.
struct Split {
  Element first = 0, second = 0, splitter = 0;
};

struct Partition {
  std::vector<std::uint32_t> class_of;  ///< each element's class, numbered in the order of lowest elements
  std::uint32_t classes = 0;
  std::vector<Split> splits;  ///< in the order of splitting
  bool complete = true;       ///< false: refinement stopped, and further splits may be missing
};

/// The coarsest partition, finer than the colours, in which all elements of a class receive equal edges from each class
/// (as a multiset of labels and weights). Uses a worklist with all parts but the largest (Hopcroft 1971; Cardon &
/// Crochemore 1982): O(m log n). Edges are compared by 128-bit hashes; therefore check the result.
/// Stops as soon as the elements below `counted` have more than `most` classes.
Partition refine(const ColouredGraph&, Element counted = 0, std::size_t most = 0);

}  // namespace trainyard::folding
