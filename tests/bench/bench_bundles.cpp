// The speed of the flow solver with thousands of flows on few routes, as asynchronous parameter servers make them. Each
// worker keeps `each` flows to each of two servers. When a flow ends, another one starts after a latency.
#include <benchmark/benchmark.h>

#include <queue>
#include <random>

#include "sim/transports/flow_net.hpp"

using namespace trainyard;

namespace {

void flows_to_servers(benchmark::State& state) {
  const int workers = static_cast<int>(state.range(0)), flows_per_server = static_cast<int>(state.range(1));
  std::vector<Link> links;
  for (int l = 0; l < workers + 2; ++l) links.push_back({"link", "HCA", BytesPerSecond{1.25e9}});
  std::vector<std::vector<LinkUse>> routes;
  for (int w = 0; w < workers; ++w)
    for (int s = 0; s < 2; ++s) routes.push_back({{w, 1}, {workers + s, 1}});
  FlowNet net(links);
  std::mt19937 random(1);
  const auto start = [&](FlowToken token, double now) {
    net.add(routes[token / static_cast<FlowToken>(flows_per_server)],
            Bytes{1e5 + static_cast<double>(random() % 1000000)}, {}, token, now);
  };
  std::priority_queue<std::pair<double, FlowToken>, std::vector<std::pair<double, FlowToken>>, std::greater<>> waiting;
  double now = 0;
  for (FlowToken token = 0; token < routes.size() * static_cast<std::size_t>(flows_per_server); ++token)
    start(token, 0);
  std::vector<FlowToken> done;
  for (auto _ : state) {
    const double end = net.next(now);
    now = waiting.empty() ? end : std::min(end, waiting.top().first);
    done.clear();
    net.collect(now + 1e-12, now, done);
    for (const FlowToken token : done) waiting.emplace(now + 11e-6, token);
    for (; !waiting.empty() && waiting.top().first <= now + 1e-12; waiting.pop()) start(waiting.top().second, now);
  }
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

}  // namespace

BENCHMARK(flows_to_servers)
    ->ArgNames({"workers", "each"})
    ->Args({20, 4})
    ->Args({80, 4})
    ->Args({100, 10})
    ->Args({100, 40});
