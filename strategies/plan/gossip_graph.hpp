#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// Decentralised SGD (Lian et al. 2017): the ranks that average parameters with each other after each step, and their
/// weights. In a fixed graph, neighbours are always the same. Random pairs differ in each round; they are drawn from
/// the seed and the number of the round alone. Weights are Metropolis' (Xiao & Boyd 2004): 1 / (1 + the larger degree
/// of the two), for example a third each on a ring; a rank itself has the rest. They are symmetric, so the mean over
/// all ranks is preserved.
class Gossip {
 public:
  using Edges = std::vector<std::pair<int, int>>;
  static Gossip ring(int ranks);
  /// A torus as close to a square as the number of ranks allows.
  static Gossip torus(int ranks);
  /// Neighbours are 1, 2, 4, … ranks away, in both directions, up to half of the ranks (after Assran et al. 2019, who
  /// use one direction and one distance at a time).
  static Gossip exponential(int ranks);
  static Gossip pairs(int ranks, std::uint64_t seed);
  /// Throws UserError for an edge to an unknown rank or to itself, and for an edge that is listed twice.
  static Gossip of_edges(int ranks, const Edges&);

  int ranks() const { return ranks_; }
  const std::string& name() const { return name_; }
  bool is_random() const { return drawn_; }  ///< true for random pairs
  /// Returns the neighbours in ascending order.
  std::vector<int> neighbours(int rank, std::int64_t round) const;
  /// Returns all ranks that may be a neighbour in some round.
  std::vector<int> all_neighbours(int rank) const;
  int most_neighbours() const;  ///< largest number of neighbours of a rank in a round
  double weight(int rank, int neighbour, std::int64_t round) const;
  /// Returns the ranks that cannot be reached from rank 0 along edges.
  std::vector<int> cut_off() const;

 private:
  int ranks_ = 1;
  std::string name_;
  bool drawn_ = false;
  std::uint64_t seed_ = 1;
  std::vector<std::vector<int>> fixed_;                        // neighbours by rank
  mutable std::map<std::int64_t, std::vector<int>> partners_;  // partners in recent rounds; −1: no partner

  static Gossip with_edges(const char* name, int ranks, const Edges&);
  const std::vector<int>& partners(std::int64_t round) const;
  std::size_t degree(int rank, std::int64_t round) const { return neighbours(rank, round).size(); }
};

}  // namespace trainyard
