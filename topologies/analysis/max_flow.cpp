#include "topologies/analysis/max_flow.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <cstdint>

namespace trainyard {

int MaxFlow::add_arc(int from, int to, double capacity) {
  arcs_.push_back({from, to, capacity, 0});
  return static_cast<int>(arcs_.size()) - 1;
}

double MaxFlow::run(int source, int sink) {
  // Integers leave no rounding residue: the algorithm takes every residue as a capacity.
  using Units = std::int64_t;
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::bidirectionalS>;
  using Edge = Traits::edge_descriptor;
  using Vertex = boost::property<
      boost::vertex_color_t, boost::default_color_type,
      boost::property<boost::vertex_distance_t, int, boost::property<boost::vertex_predecessor_t, Edge>>>;
  using Capacities = boost::property<
      boost::edge_capacity_t, Units,
      boost::property<boost::edge_residual_capacity_t, Units, boost::property<boost::edge_reverse_t, Edge>>>;
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Vertex, Capacities>;

  double sum = 0;
  for (const Arc& arc : arcs_) sum += arc.capacity;
  if (sum == 0) return 0;
  const double units = std::exp2(61 - std::ceil(std::log2(sum)));  // a power of two rounds no rate of whole bytes
  Graph graph(static_cast<std::size_t>(vertices_));
  const auto capacity = get(boost::edge_capacity, graph);
  const auto residual = get(boost::edge_residual_capacity, graph);
  const auto reverse = get(boost::edge_reverse, graph);
  std::vector<Edge> edges;
  for (const Arc& arc : arcs_) {
    const Edge forth = add_edge(arc.from, arc.to, graph).first, back = add_edge(arc.to, arc.from, graph).first;
    capacity[forth] = std::llround(arc.capacity * units);
    reverse[forth] = back;
    reverse[back] = forth;
    edges.push_back(forth);
  }
  const Units total = boost::boykov_kolmogorov_max_flow(graph, source, sink);
  for (std::size_t i = 0; i < arcs_.size(); ++i)
    arcs_[i].flow = static_cast<double>(capacity[edges[i]] - residual[edges[i]]) / units;
  return static_cast<double>(total) / units;
}

}  // namespace trainyard
