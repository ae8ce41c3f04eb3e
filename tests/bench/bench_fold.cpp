// The speed of folding. First, equivalence classes are refined for a ring of equal ranks, and for a ring with one slow
// rank, which is the worst case. Second, a step is simulated with random slow-downs, drawn for each rank or shared.
#include <benchmark/benchmark.h>

#include "scenarios/src/running/simulate.hpp"
#include "sim/folding/partition.hpp"

using namespace trainyard::folding;

namespace {

ColouredGraph ring(Element ranks, bool one_is_slow) {
  ColouredGraph graph;
  graph.colours.assign(ranks, 0);
  if (one_is_slow) graph.colours[ranks / 3] = 1;
  graph.store_edges([ranks](auto visit) {
    for (Element rank = 0; rank < ranks; ++rank) {
      visit(rank, Edge{(rank + 1) % ranks, {0}});
      visit(rank, Edge{(rank + ranks - 1) % ranks, {1}});
    }
  });
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

/// Simulates a step of GPT-3 with lognormal slow-downs; each replica has 64 GPUs.
void drawn_step(benchmark::State& state) {
  using namespace trainyard;
  const auto replicas = state.range(0);
  const Scenario s = read_scenario(std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/gpt3-175b-1024xa100.yaml",
                                   {{"plan.data_parallel.size", std::to_string(replicas)},
                                    {"cluster.nodes", std::to_string(8 * replicas)},
                                    {"plan.global_batch_size", std::to_string(96 * replicas)},
                                    {"faults", "{stragglers: {kind: lognormal, sigma: 0.1}}"},
                                    {"plan.steps", "1"}});
  const Plan laid_out = plan(s);
  SimulateOptions options;
  options.critical_path = false;
  options.draws = state.range(1) != 0 ? DrawSharing::sharing : DrawSharing::each_rank;
  for (auto _ : state) state.counters["step_s"] = simulate(s, laid_out, options).step_time.value;
}
BENCHMARK(drawn_step)
    ->ArgNames({"replicas", "shared"})
    ->Args({1, 0})
    ->Args({1, 1})
    ->Args({4, 0})
    ->Args({4, 1})
    ->Args({16, 1})
    ->Args({256, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
