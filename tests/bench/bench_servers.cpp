// Asynchronous workers on one parameter server: 100 workers of 1,000 steps each shall take less than 2 s, and memory
// shall not grow with the number of steps.
#include <benchmark/benchmark.h>

#include "scenarios/src/running/server_cell.hpp"
#include "tests/bench/ring.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

void asynchronous_servers(benchmark::State& state) {
  ServerCell cell;
  cell.workers = static_cast<int>(state.range(0));
  cell.steps = static_cast<int>(state.range(1));
  cell.compute = Seconds{0.1};
  cell.gradient = Bytes{1e6};
  for (int worker = 0; worker < cell.workers; ++worker) cell.slower.push_back(1 + 0.003 * worker);
  cell.change = [](ServerPlan& plan) { plan.consistency = Consistency::asynchronous; };
  double cpu = 0, resident = 0;
  for (auto _ : state) {
    ServerCellRun cell_run(cell);
    const auto begin = Clock::now();
    const double cpu_begin = cpu_seconds();
    cell_run.run();
    const double seconds = seconds_since(begin);
    cpu = cpu_seconds() - cpu_begin;
    resident = resident_mib();
    state.SetIterationTime(seconds);
  }
  state.counters["cpu_s"] = cpu;
  state.counters["time_over_allowed"] = cpu / 2;
  state.counters["resident_MiB"] = resident;
}

}  // namespace

BENCHMARK(asynchronous_servers)
    ->ArgNames({"workers", "steps"})
    ->Args({100, 1000})
    ->Args({100, 4000})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
