// Building and routing of a large cluster: 16,384 GPUs on a three-level, rail-optimized fat tree.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "sim/hashing.hpp"
#include "tests/topologies/bare_hosts.hpp"
#include "topologies/analysis/fabric_check.hpp"
#include "topologies/analysis/fabric_simulation.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace {

using namespace trainyard;

ClusterSpec large_cluster(bool hashed_routes) {
  const Catalog catalog;
  ClusterSpec spec;
  spec.nodes = 2048;
  spec.place.file = std::make_shared<const std::string>("benchmark");
  spec.node = read_node(catalog.resolve("node", parse_document("dgx-h100", "benchmark")), catalog);
  const char* fabric = hashed_routes ? "{base: fat-tree, rails: true, routing: ecmp}" : "{base: fat-tree, rails: true}";
  read_fabric(spec, catalog.resolve("fabric", parse_document(fabric, "benchmark")));
  return spec;
}

/// Routes from every rank to the next one, as in a ring, and to three pseudo-random ones. Returns the number of links.
std::size_t route_all(const ClusterMachine& machine, int ranks) {
  std::size_t links = 0;
  for (Actor rank = 0; rank < ranks; ++rank) {
    links += machine.route(rank, (rank + 1) % ranks, PathClass::automatic).links.size();
    for (std::uint64_t i = 0; i < 3; ++i) {
      const std::uint64_t other =
          hash_numbers({i, static_cast<std::uint64_t>(rank)}) % static_cast<std::uint64_t>(ranks);
      links += machine.route(rank, static_cast<Actor>(other), PathClass::automatic).links.size();
    }
  }
  return links;
}

void build_and_route(benchmark::State& state, bool hashed_routes) {
  const ClusterSpec spec = large_cluster(hashed_routes);
  std::size_t links = 0;
  for (auto _ : state) {
    const ClusterMachine machine(spec, SoftwareStack{});
    links = route_all(machine, spec.gpus());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["routes"] = 4.0 * spec.gpus();
  state.counters["links_a_route"] = static_cast<double>(links) / (4.0 * spec.gpus());
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void build_alone(benchmark::State& state) {
  const ClusterSpec spec = large_cluster(false);
  for (auto _ : state) benchmark::DoNotOptimize(build_cluster(spec).links().size());
}
/// Checks an oversubscribed leaf-spine fabric and simulates its worst traffic pattern. Target: two seconds at most.
void check_leaf_spine(benchmark::State& state) {
  const ClusterSpec spec = test::bare_hosts(1024, test::clos_of({{32, 2}}));
  for (auto _ : state) {
    DeviceGraph graph = build_cluster(spec);
    const FabricCheck check = check_fabric(graph, spec.fabric->levels());
    benchmark::DoNotOptimize(simulated_slowdown(graph, check.counterexample->pairs));
  }
}
void route_sprayed(benchmark::State& state) { build_and_route(state, false); }
void route_hashed(benchmark::State& state) { build_and_route(state, true); }

}  // namespace

BENCHMARK(build_alone)->Name("16384_gpus_built")->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(check_leaf_spine)->Name("1024_hosts_checked")->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(route_sprayed)->Name("16384_gpus_sprayed")->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(route_hashed)->Name("16384_gpus_hashed")->Unit(benchmark::kMillisecond)->Iterations(3);
