#include "scenarios/src/studies/packet_study.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "sim/process/parallel.hpp"
#include "sim/program.hpp"
#include "sim/transports/packet_network.hpp"

namespace trainyard {

Result simulate_by_packets(const Scenario& s, const Plan& plan, SimulateOptions options) {
  require_packets(s);
  SimulateOptions by_flows{.critical_path = false};
  by_flows.transport = TransportKind::flow;
  const Result flows = simulate(s, plan, by_flows);
  packet_cost(flows).announce();
  options.transport = TransportKind::packets;
  Result result = simulate_training(s, plan, options);
  result.flow_step_time = flows.step_time;
  return result;
}

namespace {

/// Hosts around one switch. The cable of host i has the links 2i (out) and 2i + 1 (in).
class TcpStar : public Machine {
 public:
  TcpStar(int hosts, BytesPerSecond rate, const std::vector<Picoseconds>& latencies, Bytes port_buffer) {
    network_.port_buffer = port_buffer;
    network_.hosts = hosts;
    network_.routers = 1;
    for (int host = 0; host < hosts; ++host) {
      const Picoseconds latency = latencies[static_cast<std::size_t>(host) % latencies.size()];
      network_.cables.push_back({host, hosts, rate, latency});
      network_.directions.push_back({host, hosts, latency});
      network_.directions.push_back({hosts, host, latency});
      links_.push_back({fmt::format("host {} -> switch", host), "HCA", rate});
      links_.push_back({fmt::format("switch -> host {}", host), "HCA", rate});
    }
    for (LinkId from = 0; from < hosts; ++from)
      for (LinkId to = 0; to < hosts; ++to) uses_.push_back({LinkUse{2 * from, 1}, LinkUse{2 * to + 1, 1}});
  }
  const PacketNetwork& network() const { return network_; }

  std::span<const Link> links() const override { return links_; }
  Cost price(const Work&, Actor) const override { return {}; }
  Route route(Actor from, Actor to, PathClass) const override {
    Route route;
    route.links = uses_[static_cast<std::size_t>(from * network_.hosts + to)];
    for (const LinkUse& use : route.links) route.latency += network_.find(use.link)->latency;
    return route;
  }

 private:
  PacketNetwork network_;
  std::vector<Link> links_;
  std::vector<std::vector<LinkUse>> uses_;  // links of each pair of hosts
};

/// Records the arrival of each message by its tag.
class StarArrivals : public Observer {
 public:
  explicit StarArrivals(std::size_t messages) : times(messages) {}
  void finished(const OpRun& run) override {
    if (run.op->kind == Kind::recv) times[run.op->message.tag] = run.ended.value;
  }
  std::vector<double> times;
};

struct TimedPair {
  double packets = 0, flows = 0;
};

struct RunnableCase {
  PacketCase description;
  std::function<TimedPair()> run;
};

/// Messages on a star of 10 Gbit/s. Measures the arrival of the last one, or with `measures_first` of the first.
struct StarCase {
  std::vector<StarMessage> messages;
  std::vector<Picoseconds> latencies;
  Bytes port_buffer;
  bool measures_first = false;

  TimedPair operator()() const { return {arrival(TransportKind::packets), arrival(TransportKind::flow)}; }
  double arrival(TransportKind transport) const {
    constexpr BytesPerSecond kTenGigabit{1.25e9};
    const std::vector<Seconds> times = star_arrivals(messages, kTenGigabit, latencies, transport, port_buffer);
    return (measures_first ? *std::ranges::min_element(times) : *std::ranges::max_element(times)).value;
  }
};

std::vector<StarMessage> incast_of(int senders, double bytes) {
  std::vector<StarMessage> messages;
  for (int from = 1; from <= senders; ++from) messages.push_back({from, 0, Bytes{bytes}});
  return messages;
}

TimedPair packet_step_of(const Scenario& s) {
  const Result r = simulate_by_packets(s, plan(s), {.critical_path = false});
  return {r.step_time.value, r.flow_step_time->value};
}

constexpr const char* kEthernetServers = R"(cluster:
  nodes: 5
  node: {base: pcie-1, gpu: {type: t4}, cpu: xeon-e5-2698-v4, hca: {type: ethernet-10g, count: 1}}
  fabric: ethernet
model: mnist-cnn
plan:
  global_batch_size: 256
  micro_batch_size: 64
  precision: fp32
  optimizer: momentum
  steps: 1
  data_parallel: {mechanism: parameter-server, servers: {count: 1, place: dedicated, on: cpu}}
software: plain
)";

TimedPair packet_ring_of(int nodes, double bytes) {
  const Scenario s = read_scenario_text(kEthernetServers, "a ring on Ethernet",
                                        {{"cluster.nodes", std::to_string(nodes)},
                                         {"plan.data_parallel", "{all_reduce: ring}"},
                                         {"plan.global_batch_size", std::to_string(64 * nodes)}});
  CollectiveRunOptions o;
  o.ranks = nodes;
  o.options.size = Bytes{bytes};
  o.software = s.software;
  TimedPair pair;
  pair.flows = run_collective(s.cluster, o).time;
  o.transport = TransportKind::packets;
  pair.packets = run_collective(s.cluster, o).time;
  return pair;
}

std::vector<RunnableCase> all_packet_cases() {
  const std::vector<Picoseconds> short_latencies{to_picoseconds(Seconds{5e-6})},
      medium_latencies{to_picoseconds(Seconds{25e-6})};
  // Host 0 receives. Its round-trip times to hosts 1 and 2 are 20 and 400 us.
  const std::vector<Picoseconds> unequal_latencies{to_picoseconds(Seconds{5e-6}), to_picoseconds(Seconds{5e-6}),
                                                   to_picoseconds(Seconds{195e-6})};
  std::vector<RunnableCase> cases;
  const auto add = [&cases](const char* name, const char* what, const char* shows, std::function<TimedPair()> run) {
    RunnableCase& added = cases.emplace_back();
    added.description.name = name;
    added.description.what = what;
    added.description.shows = shows;
    added.run = std::move(run);
  };
  add("one flow", "10 MB over 10 Gbit/s, 20 us of round trip", "a long flow fills its path: a handshake and slow start",
      StarCase{incast_of(1, 1e7), short_latencies, {}});
  add("100 kB", "100 kB over 10 Gbit/s, 100 us of round trip",
      "slow start: ten segments at first, twice as many each round trip; max-min has the whole rate at once",
      StarCase{incast_of(1, 1e5), medium_latencies, {}});
  add("10 kB", "10 kB over 10 Gbit/s, 100 us of round trip", "a round trip of handshake, one until it is acknowledged",
      StarCase{incast_of(1, 1e4), medium_latencies, {}});
  add("shared", "4 x 4 MB into one host, 20 us of round trip", "long flows share evenly: max-min is right",
      StarCase{incast_of(4, 4e6), short_latencies, {}});
  add("incast, short", "32 x 100 kB into one host", "the port's queue keeps its link busy: max-min is right",
      StarCase{incast_of(32, 1e5), short_latencies, {}});
  add("incast, long", "16 x 2 MB into one host", "the same, whatever is lost and sent again",
      StarCase{incast_of(16, 2e6), short_latencies, {}});
  add("incast, lossy", "32 x 100 kB into one host, ports of 256 KiB",
      "collapse: whoever loses the end of a window waits for a timeout of 200 ms; max-min knows no loss",
      StarCase{incast_of(32, 1e5), short_latencies, Bytes{262144}});
  add("near first", "2 x 10 MB into one host, 20 and 400 us of round trip: the first",
      "the near one's window grows sooner; max-min gives both a half",
      StarCase{{{1, 0, Bytes{1e7}}, {2, 0, Bytes{1e7}}}, unequal_latencies, {}, true});
  add("ring", "all-reduce of 4 MB on 8 hosts of 10 Gbit/s Ethernet",
      "14 rounds of 500 kB: each starts slowly, none is in another's way", [] { return packet_ring_of(8, 4e6); });
  add("server", "a step of a CNN on 4 workers and a parameter server, 10 Gbit/s Ethernet",
      "all push to one port and pull from it: incast of 4.8 MB",
      [] { return packet_step_of(read_scenario_text(kEthernetServers, "servers on Ethernet")); });
  add("Horovod", "a step of scenarios/horovod-mnist-2xt4.yaml, 5.22 Gbit/s", "a ring of two: 2.4 MB each way, twice",
      [] { return packet_step_of(read_scenario(shipped_file("scenarios/horovod-mnist-2xt4.yaml"))); });
  return cases;
}

}  // namespace

std::vector<Seconds> star_arrivals(const std::vector<StarMessage>& messages, BytesPerSecond rate,
                                   const std::vector<Picoseconds>& latencies, TransportKind transport,
                                   Bytes port_buffer) {
  int hosts = 0;
  for (const StarMessage& message : messages) hosts = std::max({hosts, message.from + 1, message.to + 1});
  TcpStar star(hosts, rate, latencies, port_buffer);
  Programs programs;
  // Each message has a stream, so that all leave at the same time.
  for (Actor actor = 0; actor < hosts; ++actor) {
    std::vector<Op> ops;
    std::vector<Actor> everyone;
    for (Actor peer = 0; peer < hosts; ++peer) everyone.push_back(peer);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const StarMessage& message = messages[i];
      if (message.from != actor && message.to != actor) continue;
      Op& op = ops.emplace_back();
      const bool sends = message.from == actor;
      op.kind = sends ? Kind::send : Kind::recv;
      op.stream = static_cast<Stream>(ops.size() - 1);
      op.message.bytes = message.bytes;
      op.message.slot = static_cast<std::uint16_t>(sends ? message.to : message.from);
      op.message.tag = static_cast<Tag>(i);
    }
    const int streams = std::max(1, static_cast<int>(ops.size()));
    programs.push_back(std::make_unique<ListProgram>(std::move(ops), std::move(everyone), streams));
  }
  StarArrivals arrivals(messages.size());
  run_programs(star, std::move(programs),
               {.observers = {&arrivals},
                .transport = transport,
                .packets = transport == TransportKind::packets ? &star.network() : nullptr});
  std::vector<Seconds> seconds;
  for (const double time : arrivals.times) seconds.push_back(Seconds{time});
  return seconds;
}

std::vector<PacketCase> packet_cases(const std::function<void(std::size_t, std::size_t)>& done) {
  const std::vector<RunnableCase> cases = all_packet_cases();
  std::size_t ended_cases = 0;
  const std::vector<TimedPair> pairs = all_in_parallel(
      cases.size(), processors(), [&](std::size_t i) { return cases[i].run(); },
      [&](std::size_t, const TimedPair&) { done(++ended_cases, cases.size()); });
  std::vector<PacketCase> results;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    PacketCase& result = results.emplace_back(cases[i].description);
    result.packets = pairs[i].packets;
    result.flows = pairs[i].flows;
  }
  return results;
}

}  // namespace trainyard
