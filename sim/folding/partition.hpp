#pragma once
#include <cstdint>
#include <vector>

namespace trainyard::folding {

using Element = std::uint32_t;

/// Tells the element `to` something about the element from which the edge leads. Elements are equivalent only if they
/// receive equal edges from each class.
struct Edge {
  Element to = 0;
  std::uint32_t label = 0;
  double weight = 1;
};

/// Coloured elements, and labelled, weighted edges between them.
struct ColouredGraph {
  std::vector<std::uint64_t> colours;  ///< indexed by element
  std::vector<std::size_t> first;      ///< indexed by element, and one past the last: index of its first edge
  std::vector<Edge> edges;
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
