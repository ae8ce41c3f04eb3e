#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// Who averages parameters with whom after each step, and with which weights (decentralised SGD: Lian et al. 2017). Of a
/// fixed graph always the same neighbours; of random pairs others in each round, drawn from the seed and the number of
/// the round alone. Weights are Metropolis': 1 over one more than the larger of both degrees (Xiao & Boyd 2004), on a
/// ring a third each; what is left is a rank's own. They are symmetric, so that the mean stays.
class Gossip {
 public:
  using Edges = std::vector<std::pair<int, int>>;
  static Gossip ring(int ranks);
  /// As near to a square as the count allows, closed to rings both ways.
  static Gossip torus(int ranks);
  /// Those 1, 2, 4, … ranks away, both ways, up to half of them (of Assran et al. 2019, who take one way in turn).
  static Gossip exponential(int ranks);
  static Gossip pairs(int ranks, std::uint64_t seed);
  /// Throws UserError for an edge to no rank or to itself, and for one that is there twice.
  static Gossip of_edges(int ranks, const Edges&);

  int ranks() const { return ranks_; }
  const std::string& name() const { return name_; }
  bool drawn() const { return drawn_; }  ///< random pairs
  /// In ascending order.
  std::vector<int> neighbours(int rank, std::int64_t round) const;
  /// Whoever may be a neighbour in some round.
  std::vector<int> all_neighbours(int rank) const;
  int most_neighbours() const;  ///< of any rank in a round
  double weight(int rank, int neighbour, std::int64_t round) const;
  /// Ranks that none of rank 0's messages ever reach, whoever passes them on.
  std::vector<int> cut_off() const;

 private:
  int ranks_ = 1;
  std::string name_;
  bool drawn_ = false;
  std::uint64_t seed_ = 1;
  std::vector<std::vector<int>> fixed_;                        // by rank
  mutable std::map<std::int64_t, std::vector<int>> partners_;  // of the last rounds that were asked for; −1: none

  static Gossip joined(int ranks, const Edges&);
  const std::vector<int>& partners(std::int64_t round) const;
  std::size_t degree(int rank, std::int64_t round) const { return neighbours(rank, round).size(); }
};

}  // namespace trainyard
