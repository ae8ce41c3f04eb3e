#include "strategies/plan/gossip_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/error.hpp"
#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {

Gossip Gossip::of_edges(int ranks, const Edges& edges) {
  std::set<std::pair<int, int>> seen;
  for (const auto& [a, b] : edges)
    if (!seen.insert(std::minmax({a, b})).second)
      throw UserError(fmt::format("edge {} - {} is listed twice; an edge goes both ways", a, b));
  return with_edges("edges", ranks, edges);
}

Gossip Gossip::with_edges(const char* name, int ranks, const Edges& edges) {
  Gossip gossip;
  gossip.ranks_ = ranks;
  gossip.name_ = name;
  gossip.fixed_.resize(static_cast<std::size_t>(ranks));
  for (const auto& [a, b] : edges) {
    if (a < 0 || b < 0 || a >= ranks || b >= ranks)
      throw UserError(fmt::format("edge {} - {}, but there are ranks 0 to {}", a, b, ranks - 1));
    if (a == b) throw UserError(fmt::format("an edge from rank {} to itself", a));
    gossip.fixed_[a].push_back(b);
    gossip.fixed_[b].push_back(a);
  }
  for (std::vector<int>& neighbours : gossip.fixed_) {
    std::ranges::sort(neighbours);
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
  }
  return gossip;
}

Gossip Gossip::ring(int ranks) {
  Edges edges;
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) edges.emplace_back(rank, (rank + 1) % ranks);
  return with_edges("ring", ranks, edges);
}

Gossip Gossip::torus(int ranks) {
  int rows = static_cast<int>(std::sqrt(ranks));
  while (ranks % rows != 0) --rows;
  const int columns = ranks / rows;
  Edges edges;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const int rank = row * columns + column;
      if (columns > 1) edges.emplace_back(rank, row * columns + (column + 1) % columns);
      if (rows > 1) edges.emplace_back(rank, (row + 1) % rows * columns + column);
    }
  return with_edges("torus", ranks, edges);
}

Gossip Gossip::exponential(int ranks) {
  Edges edges;
  for (int rank = 0; rank < ranks; ++rank)
    for (int distance = 1; 2 * distance <= ranks; distance *= 2) edges.emplace_back(rank, (rank + distance) % ranks);
  return with_edges("exponential", ranks, edges);
}

Gossip Gossip::pairs(int ranks, std::uint64_t seed) {
  Gossip gossip;
  gossip.ranks_ = ranks;
  gossip.name_ = "pairs";
  gossip.drawn_ = true;
  gossip.seed_ = seed;
  return gossip;
}

/// Pairs the ranks in a random order, two by two. If their number is odd, the last one has no partner.
const std::vector<int>& Gossip::partners(std::int64_t round) const {
  constexpr std::size_t most_kept = 64;
  const auto [entry, fresh] = partners_.try_emplace(round);
  if (!fresh) return entry->second;
  std::vector<int> order = consecutive_numbers(0, ranks_);
  shuffle(order, seed_, static_cast<std::uint64_t>(round));
  entry->second.assign(order.size(), -1);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    entry->second[order[i]] = order[i + 1];
    entry->second[order[i + 1]] = order[i];
  }
  if (partners_.size() > most_kept) partners_.erase(entry == partners_.begin() ? std::next(entry) : partners_.begin());
  return entry->second;
}

std::vector<int> Gossip::neighbours(int rank, std::int64_t round) const {
  if (!drawn_) return fixed_[rank];
  const int partner = partners(round)[rank];
  return partner < 0 ? std::vector<int>{} : std::vector<int>{partner};
}

std::vector<int> Gossip::all_neighbours(int rank) const {
  if (!drawn_) return fixed_[rank];
  std::vector<int> all = consecutive_numbers(0, ranks_);
  all.erase(all.begin() + rank);
  return all;
}

int Gossip::most_neighbours() const {
  std::size_t most = drawn_ && ranks_ > 1 ? 1 : 0;
  for (const std::vector<int>& neighbours : fixed_) most = std::max(most, neighbours.size());
  return static_cast<int>(most);
}

double Gossip::weight(int rank, int neighbour, std::int64_t round) const {
  return 1.0 / static_cast<double>(1 + std::max(degree(rank, round), degree(neighbour, round)));
}

std::vector<int> Gossip::cut_off() const {
  std::vector<char> reached(static_cast<std::size_t>(ranks_), drawn_ ? 1 : 0);
  std::vector<int> open{0};
  reached.front() = 1;
  while (!open.empty() && !drawn_) {
    const int rank = open.back();
    open.pop_back();
    for (const int neighbour : fixed_[rank])
      if (char& seen = reached[neighbour]; seen == 0) {
        seen = 1;
        open.push_back(neighbour);
      }
  }
  std::vector<int> rest;
  for (int rank = 0; rank < ranks_; ++rank)
    if (reached[rank] == 0) rest.push_back(rank);
  return rest;
}

}  // namespace trainyard
