// The executor against a bare loop over the same SimGrid calls: a ring of 64 ranks, message by message.
#include <benchmark/benchmark.h>

#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>

#include "tests/bench/ring.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

namespace s4u = simgrid::s4u;
// In the bare loop each rank has one link up and one link down. A rank sends its next message when its previous message
// has left and the previous message of its neighbour has arrived.

class BareZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit BareZone(const std::string& name) : NetZoneImpl(name) {}
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> path;

 protected:
  void get_local_route(const simgrid::kernel::routing::NetPoint*, const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* into, double*) override {
    into->link_list_ = path;
  }
};

struct BareRing {
  int ranks = 0, steps = 0;
  BareZone* zone = nullptr;
  s4u::Host *from = nullptr, *to = nullptr;
  std::vector<s4u::Link*> up, down;
  bool cached = false;  // link implementations are looked up once, which saves a dynamic_cast per link and message
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> up_impl, down_impl;
  std::vector<s4u::CommPtr> comms;
  std::vector<int> sent, received, begun, ended;

  void start(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto next = static_cast<std::size_t>((rank + 1) % ranks);
    if (cached)
      zone->path = {up_impl[r], down_impl[next]};
    else
      zone->path = {up[r]->get_impl(), down[next]->get_impl()};
    comms[r] = s4u::Comm::sendto_init(from, to);
    comms[r]->set_payload_size(1 << 20);
    comms[r]->set_data(reinterpret_cast<void*>(static_cast<std::intptr_t>(rank) + 1));
    comms[r]->start();
    ++begun[r];
  }
  void advance(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (begun[r] < steps && sent[r] == begun[r] && received[r] >= begun[r]) start(rank);
  }
};

class BareModel : public simgrid::kernel::resource::Model {
 public:
  explicit BareModel(BareRing& ring) : Model("bare"), ring_(ring) {}
  double next_occurring_event(double) override { return !started_ || !ring_.ended.empty() ? 0 : -1; }
  void update_actions_state(double, double) override {
    if (!started_) {
      started_ = true;
      for (int r = 0; r < ring_.ranks; ++r) ring_.start(r);
      return;
    }
    const std::vector<int> ended = std::exchange(ring_.ended, {});
    for (const int r : ended) {
      ++ring_.sent[static_cast<std::size_t>(r)];
      ++ring_.received[static_cast<std::size_t>((r + 1) % ring_.ranks)];
    }
    for (const int r : ended) {
      ring_.advance(r);
      ring_.advance((r + 1) % ring_.ranks);
    }
  }

 private:
  BareRing& ring_;
  bool started_ = false;
};

double bare_ring(int ranks, int steps, bool equal, bool cached) {
  static const char* arguments[] = {"bare",
                                    "--log=root.thres:error",
                                    "--cfg=network/model:CM02",
                                    "--cfg=network/TCP-gamma:0",
                                    "--cfg=network/crosstraffic:0",
                                    "--cfg=network/weight-S:0",
                                    "--cfg=network/optim:Lazy",
                                    "--cfg=surf/precision:1e-12",
                                    "--cfg=maxmin/precision:1e-9",
                                    nullptr};
  int count = static_cast<int>(std::size(arguments)) - 1;
  s4u::Engine engine(&count, const_cast<char**>(arguments));
  BareRing ring;
  ring.ranks = ranks;
  ring.steps = steps;
  ring.zone = new BareZone("ring");
  ring.from = ring.zone->create_host("from", {1.0})->seal();
  ring.to = ring.zone->create_host("to", {1.0})->seal();
  const std::vector<double> rates = link_rates(ranks, equal);
  for (int r = 0; r < ranks; ++r) {
    ring.up.push_back(ring.zone->create_link("up" + std::to_string(r), {rates[static_cast<std::size_t>(r)]})->seal());
    ring.down.push_back(ring.zone->create_link("down" + std::to_string(r), {1e9})->seal());
  }
  ring.cached = cached;
  for (const s4u::Link* link : ring.up) ring.up_impl.push_back(link->get_impl());
  for (const s4u::Link* link : ring.down) ring.down_impl.push_back(link->get_impl());
  ring.zone->get_iface()->seal();
  const auto n = static_cast<std::size_t>(ranks);
  ring.comms.resize(n);
  ring.sent.assign(n, 0);
  ring.received.assign(n, 0);
  ring.begun.assign(n, 0);
  s4u::Activity::on_completion_cb([&ring](const s4u::Activity& activity) {
    ring.ended.push_back(
        static_cast<int>(reinterpret_cast<std::intptr_t>(static_cast<const s4u::Comm&>(activity).get_data<void>())) -
        1);
  });
  engine.add_model(std::make_shared<BareModel>(ring));
  const auto begin = Clock::now();
  engine.run();
  return seconds_since(begin);
}

Ring ring_of(const benchmark::State& state) {
  return {static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 1, state.range(2) == 1};
}

void executor(benchmark::State& state) {
  const Ring ring = ring_of(state);
  RingRun run;
  double transfers = 0;
  for (auto _ : state) {
    run = run_ring(ring, TransportKind::native);
    state.SetIterationTime(run.seconds);
    transfers += ring.transfers();
  }
  state.counters["transfers/s"] = benchmark::Counter(transfers, benchmark::Counter::kIsRate);
  state.counters["simulated_s"] = run.simulated;
  state.counters["resident_MiB"] = run.mib;
}

/// Runs the executor and the bare loop in turn, and reports both speeds and their ratio.
void ratio(benchmark::State& state) {
  const Ring ring = ring_of(state);
  double ours = 0, bare = 0, cached = 0, transfers = 0;
  for (auto _ : state) {
    const auto time_bare = [&](bool look_up_once) {
      return bare_ring(ring.ranks, ring.steps, ring.lockstep, look_up_once);
    };
    const double a = run_ring(ring, TransportKind::native).seconds, b = time_bare(false);
    ours += a;
    bare += b;
    cached += time_bare(true);
    transfers += ring.transfers();
    state.SetIterationTime(a + b);
  }
  state.counters["executor_transfers/s"] = transfers / ours;
  state.counters["bare_transfers/s"] = transfers / bare;
  state.counters["executor_over_bare"] = bare / ours;
  state.counters["executor_over_bare_cached"] = cached / ours;
}

/// Runs both transports under the executor in turn, and reports both speeds and their ratio.
void flow_over_native(benchmark::State& state) {
  const Ring ring = ring_of(state);
  double flow = 0, native = 0, transfers = 0;
  for (auto _ : state) {
    flow += run_ring(ring, TransportKind::flow).seconds;
    native += run_ring(ring, TransportKind::native).seconds;
    transfers += ring.transfers();
    state.SetIterationTime(flow);
  }
  state.counters["flow_transfers/s"] = transfers / flow;
  state.counters["native_transfers/s"] = transfers / native;
  state.counters["flow_over_native"] = native / flow;
}

}  // namespace

BENCHMARK(ratio)
    ->ArgNames({"ranks", "steps", "lockstep"})
    ->Args({64, 2000, 1})
    ->Args({64, 2000, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);
BENCHMARK(flow_over_native)
    ->ArgNames({"ranks", "steps", "lockstep"})
    ->Args({64, 2000, 1})
    ->Args({64, 2000, 0})
    ->Args({1024, 100, 1})
    ->Args({1024, 100, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);
// The resident size must not grow with the number of operations.
BENCHMARK(executor)
    ->ArgNames({"ranks", "steps", "lockstep"})
    ->Args({64, 500, 1})
    ->Args({64, 5000, 1})
    ->Args({64, 20000, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
