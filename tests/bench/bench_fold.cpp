// Refining classes: of a ring of ranks, alone and with one unlike member, which is the worst case.
#include <benchmark/benchmark.h>

#include "sim/folding/partition.hpp"

using namespace trainyard::folding;

namespace {

ColouredGraph ring(Element ranks, bool one_is_slow) {
  ColouredGraph graph;
  graph.colours.assign(ranks, 0);
  if (one_is_slow) graph.colours[ranks / 3] = 1;
  for (Element rank = 0; rank < ranks; ++rank) {
    graph.first.push_back(graph.edges.size());
    graph.edges.push_back({(rank + 1) % ranks, 0, 1});
    graph.edges.push_back({(rank + ranks - 1) % ranks, 1, 1});
  }
  graph.first.push_back(graph.edges.size());
  return graph;
}

void refine_ring(benchmark::State& state) {
  const ColouredGraph graph = ring(static_cast<Element>(state.range(0)), state.range(1) != 0);
  for (auto _ : state) benchmark::DoNotOptimize(refine(graph).classes);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(refine_ring)
    ->ArgNames({"ranks", "slow"})
    ->Args({16384, 0})
    ->Args({16384, 1})
    ->Args({131072, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
