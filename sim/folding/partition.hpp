#pragma once
#include <cstdint>
#include <vector>

namespace trainyard::folding {

using Element = std::uint32_t;

/// What an element tells others about itself. Elements are alike only if they are told the same by each class.
struct Edge {
  Element to = 0;
  std::uint32_t label = 0;
  double weight = 1;
};

/// Elements with colours, and labelled, weighted edges between them.
struct ColouredGraph {
  std::vector<std::uint64_t> colours;  ///< by element
  std::vector<std::size_t> first;      ///< by element, and one past the last: into `edges`
  std::vector<Edge> edges;
};

/// Why a class was split: elements `one` and `other`, alike until then, are told different things by the class that
/// `by` was in.
struct Split {
  Element one = 0, other = 0, by = 0;
};

struct Partition {
  std::vector<std::uint32_t> class_of;  ///< by element; numbered in the order of their lowest elements
  std::uint32_t classes = 0;
  std::vector<Split> splits;  ///< in the order in which they were made
};

/// The coarsest partition finer than the colours in which all elements of a class have, from each class, equal edges (as
/// a multiset of labels and weights). A worklist with all parts but the largest (Hopcroft 1971; Cardon & Crochemore 1982):
/// O(m log n). Edges are compared by hashes of 128 bits: check the result.
Partition refine(const ColouredGraph&);

}  // namespace trainyard::folding
