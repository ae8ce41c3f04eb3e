// The speed of the executor with the flow transport on one core, against targets; no folding, one observer. Rates and
// ratios use processor time, which other load on the machine changes little. The printed time is wall-clock time.
#include <benchmark/benchmark.h>

#include "tests/bench/ring.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

/// Measures transfers per second, and their ratio to the target: 6 million in lockstep, 1.5 million if every link has
/// its own rate.
void executor_flow(benchmark::State& state) {
  const Ring ring{static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 1, state.range(2) == 1};
  const double target = ring.lockstep ? 6e6 : 1.5e6;
  double transfers = 0, seconds = 0, mib = 0;
  for (auto _ : state) {
    const RingRun run = run_ring(ring, TransportKind::flow);
    state.SetIterationTime(run.seconds);
    transfers += ring.transfers();
    seconds += run.cpu;
    mib = run.mib;
  }
  state.counters["transfers/s"] = transfers / seconds;
  state.counters["target_transfers/s"] = target;
  state.counters["over_target"] = transfers / seconds / target;
  state.counters["resident_MiB"] = mib;
}

/// Measures time and memory of a complete ring all-reduce of 2 (n - 1) steps, and their ratios to the allowed values,
/// which must be below 1.
void all_reduce_flow(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const Ring ring{ranks, 2 * (ranks - 1), static_cast<int>(state.range(1)), true};
  const double allowed_s = static_cast<double>(state.range(2)) / 1000,
               allowed_mib = static_cast<double>(state.range(3));
  RingRun run;
  for (auto _ : state) {
    run = run_ring(ring, TransportKind::flow);
    state.SetIterationTime(run.seconds);
  }
  state.counters["transfers"] = ring.transfers();
  state.counters["transfers/s"] = ring.transfers() / run.cpu;
  state.counters["time_over_allowed"] = run.cpu / allowed_s;
  state.counters["resident_MiB"] = run.mib;
  state.counters["memory_over_allowed"] = run.mib / allowed_mib;
}

}  // namespace

BENCHMARK(executor_flow)
    ->ArgNames({"ranks", "steps", "lockstep"})
    ->Args({64, 20000, 1})
    ->Args({256, 5000, 1})
    ->Args({1024, 1200, 1})
    ->Args({4096, 300, 1})
    ->Args({64, 10000, 0})
    ->Args({256, 2500, 0})
    ->Args({1024, 600, 0})
    ->Args({4096, 150, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);
BENCHMARK(all_reduce_flow)
    ->ArgNames({"ranks", "pieces", "allowed_ms", "allowed_MiB"})
    ->Args({1024, 4, 1400, 100})
    ->Args({4096, 1, 6000, 150})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
