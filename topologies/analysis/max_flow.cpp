#include "topologies/analysis/max_flow.hpp"

#include <algorithm>
#include <deque>
#include <limits>

namespace trainyard {

int MaxFlow::add_vertex() {
  arcs_of_.emplace_back();
  return static_cast<int>(arcs_of_.size()) - 1;
}

int MaxFlow::add_arc(int from, int to, double capacity) {
  const auto arc = static_cast<int>(arcs_.size());
  arcs_.push_back({to, capacity, 0});
  arcs_.push_back({from, 0, 0});
  arcs_of_[from].push_back(arc);
  arcs_of_[to].push_back(arc + 1);
  return arc;
}

void MaxFlow::set_capacity(int arc, double capacity) { arcs_[arc].capacity = capacity; }
double MaxFlow::flow(int arc) const { return arcs_[static_cast<std::size_t>(arc) + 1].left; }

bool MaxFlow::find_levels(int source, int sink) {
  level_.assign(arcs_of_.size(), -1);
  level_[source] = 0;
  std::deque<int> row{source};
  for (; !row.empty(); row.pop_front())
    for (const int a : arcs_of_[row.front()]) {
      const Arc& arc = arcs_[a];
      int& level = level_[arc.to];
      if (arc.left <= least_ || level >= 0) continue;
      level = level_[row.front()] + 1;
      row.push_back(arc.to);
    }
  return level_[sink] >= 0;
}

double MaxFlow::push(int at, int sink, double most) {
  if (at == sink) return most;
  const std::vector<int>& arcs = arcs_of_[at];
  double pushed = 0;
  for (std::size_t& i = next_[at]; i < arcs.size(); ++i) {
    Arc& arc = arcs_[arcs[i]];
    if (arc.left <= least_ || level_[arc.to] != level_[at] + 1) continue;
    const double got = push(arc.to, sink, std::min(most - pushed, arc.left));
    arc.left -= got;
    arcs_[arcs[i] ^ 1].left += got;
    pushed += got;
    if (most - pushed <= least_) return pushed;
  }
  return pushed;
}

double MaxFlow::run(int source, int sink) {
  double largest = 0;
  for (Arc& arc : arcs_) {
    arc.left = arc.capacity;
    largest = std::max(largest, arc.capacity);
  }
  least_ = largest * 1e-12;
  double total = 0;
  while (find_levels(source, sink)) {
    next_.assign(arcs_of_.size(), 0);
    total += push(source, sink, std::numeric_limits<double>::infinity());
  }
  return total;
}

}  // namespace trainyard
