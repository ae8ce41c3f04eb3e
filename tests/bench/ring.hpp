// The load of the executor's benchmarks: a ring of ranks, message by message.
#pragma once
#include <sys/resource.h>

#include <chrono>
#include <random>

#include "sim/executor/simulation.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/ops.hpp"

namespace trainyard::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
/// Returns the processor time of this process, in seconds. Other load on the machine changes it less than wall-clock
/// time.
inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}
/// Returns the peak resident size of this process so far, in MiB.
inline double resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Returns the rates of the up-links in bytes per second: all 1e9, or random ones in [0.7, 1]e9, so that no two
/// messages end together.
inline std::vector<double> link_rates(int ranks, bool equal) {
  std::mt19937 random(7);
  std::vector<double> rates;
  for (int r = 0; r < ranks; ++r)
    rates.push_back(equal ? 1e9 : 1e9 * (0.7 + 0.3 * static_cast<double>(random()) / 4294967296.0));
  return rates;
}

class RingMachine : public Machine {
 public:
  RingMachine(int ranks, bool equal) : ranks_(ranks) {
    for (const double rate : link_rates(ranks, equal)) {
      links_.push_back({"up", "link", BytesPerSecond{rate}});
      links_.push_back({"down", "link", BytesPerSecond{1e9}});
    }
    for (int r = 0; r < ranks; ++r) paths_.push_back({{2 * r, 1}, {2 * ((r + 1) % ranks) + 1, 1}});
  }
  std::span<const Link> links() const override { return links_; }
  Cost price(const Work&, Actor) const override { return {}; }
  Route route(Actor from, Actor, PathClass) const override { return {paths_[static_cast<std::size_t>(from)], {}}; }

 private:
  int ranks_;
  std::vector<Link> links_;
  std::vector<std::vector<LinkUse>> paths_;
};

/// In each step, sends one message in `pieces` pieces, one by one. The next step forwards a piece that has arrived.
class RingRank : public CoroutineProgram {
 public:
  RingRank(int rank, int ranks, int steps, int pieces)
      : CoroutineProgram({(rank + 1) % ranks, (rank + ranks - 1) % ranks}, 2), steps_(steps), pieces_(pieces) {}

 protected:
  Ops run() override {
    Op out, in;
    out.kind = Kind::send;
    out.message.bytes = Bytes{1 << 20};
    in.kind = Kind::recv;
    in.stream = 1;
    in.message.slot = 1;
    std::uint32_t sent = 0;
    for (int step = 0; step < steps_; ++step)
      for (int piece = 0; piece < pieces_; ++piece, ++sent) {
        const auto pieces = static_cast<std::uint32_t>(pieces_);
        out.deps[0] = {step == 0 ? 0 : sent - pieces + 1, 1};
        co_yield out;
        co_yield in;
      }
  }

 private:
  int steps_, pieces_;
};

struct Ring {
  int ranks = 0, steps = 0, pieces = 1;
  bool lockstep = true;
  double transfers() const { return static_cast<double>(ranks) * steps * pieces; }
};

struct RingRun {
  double seconds = 0, cpu = 0, simulated = 0, mib = 0;
};

/// Runs the ring with one observer. The time includes programs and matching. The memory is the peak of the whole
/// process, earlier benchmarks included.
inline RingRun run_ring(const Ring& ring, TransportKind kind) {
  RingMachine machine(ring.ranks, ring.lockstep);
  Simulation simulation(machine, kind);
  for (int r = 0; r < ring.ranks; ++r)
    simulation.add(r, std::make_unique<RingRank>(r, ring.ranks, ring.steps, ring.pieces));
  Traffic traffic(machine.links());
  simulation.observe(traffic);
  const auto begin = Clock::now();
  const double cpu_begin = cpu_seconds();
  const double end = simulation.run().end.value;
  return {seconds_since(begin), cpu_seconds() - cpu_begin, end, resident_mib()};
}

}  // namespace trainyard::bench
