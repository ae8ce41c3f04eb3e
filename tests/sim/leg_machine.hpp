#pragma once
#include <deque>

#include "sim/observers/timeline.hpp"
#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"

namespace trainyard::test {

inline constexpr Bytes kChunk{1e6};
inline constexpr std::int64_t kMicrosecond = 1000000;  // ps

/// A table machine that adds routes of several legs, which precede the table's own routes.
class LegMachine : public TableMachine {
 public:
  struct Part {
    std::vector<LinkUse> links;
    Picoseconds latency;
  };
  void connect_by_legs(Actor from, Actor to, std::vector<Part> parts) {
    LegWay& way = ways_.emplace_back();
    way.from = from;
    way.to = to;
    way.parts = std::move(parts);
    for (const Part& part : way.parts) {
      Leg leg{part.links, part.latency, 0};
      for (const LinkUse& use : part.links) {
        const double rate = links()[static_cast<std::size_t>(use.link)].capacity.value;
        leg.seconds_per_byte = std::max(leg.seconds_per_byte, use.weight / rate);
        add_use(way.all, use.link, use.weight);
      }
      way.legs.push_back(leg);
      way.latency += part.latency;
    }
  }
  Route route(Actor from, Actor to, PathClass path) const override {
    for (const LegWay& way : ways_) {
      bool usable = way.from == from && way.to == to;
      for (const LinkUse& use : way.all) usable = usable && !down_.contains(use.link);
      if (usable) return {way.all, way.latency, true, way.legs, kChunk, "by legs"};
    }
    Route direct = TableMachine::route(from, to, path);
    direct.name = "direct";
    return direct;
  }
  void link_state(LinkId link, bool up) override {
    TableMachine::link_state(link, up);
    if (up)
      down_.erase(link);
    else
      down_[link] = true;
  }

 private:
  struct LegWay {
    Actor from = 0, to = 0;
    std::vector<Part> parts;
    std::vector<LinkUse> all;
    std::vector<Leg> legs;
    Picoseconds latency;
  };
  std::deque<LegWay> ways_;
  std::map<LinkId, bool> down_;
};

/// A machine with actors 0 and 1. A route over a host buffer: leg "in" at 1 GB/s and 1 us, leg "out" at 2 GB/s and 2
/// us. If the test asks for it, also a direct route over "detour" at half a GB/s.
struct TwoLegs {
  LegMachine machine;
  LinkId in = machine.link(kRate, "in"), out = machine.link(kRate * 2, "out"), detour = -1;
  explicit TwoLegs(bool with_detour = false) {
    machine.connect_by_legs(0, 1, {{{{in, 1}}, {kMicrosecond}}, {{{out, 1}}, {2 * kMicrosecond}}});
    if (!with_detour) return;
    detour = machine.link(kRate * 0.5, "detour");
    machine.connect(0, 1, {{detour, 1}});
  }
};

/// Results of one run: its end, the length of its critical path, and the time of that path by resource.
struct Watched {
  double end = 0, path = 0;
  std::map<std::string, double> resources;
  std::vector<double> carried;  // bytes, by link
  double sent = 0;
};

inline Watched watched(const std::function<std::vector<std::unique_ptr<Program>>()>& programs_of,
                       const std::vector<std::pair<double, double>>& out_changes, bool detour) {
  TwoLegs two(detour);
  Timeline timeline;
  Traffic traffic(two.machine.links());
  std::vector<LinkChange> changes;
  for (const auto& [at, rate] : out_changes) changes.push_back({Seconds{at}, two.out, BytesPerSecond{rate}});
  const json ends = ends_of(two.machine, programs_of(), changes, {&timeline, &traffic});
  traffic.check(Seconds{ends[0]});
  double sum = 0;
  std::vector<double> carried;
  for (const PathStep& step : critical_path(timeline, two.machine.links())) sum += step.end - step.begin;
  for (std::size_t l = 0; l < two.machine.links().size(); ++l)
    carried.push_back(traffic.on_link(static_cast<LinkId>(l)).value);
  return {ends[0], sum, by_resource(critical_path(timeline, two.machine.links())), carried, traffic.sent(0).value};
}

/// Sends one message from 0 to 1. The receiver asks for it at a given time; the second leg changes its rate at others.
inline Watched one_message(double bytes, const std::vector<std::pair<double, double>>& out_changes = {},
                           bool detour = false, Mode mode = Mode::rendezvous, double receiver_at = 0) {
  return watched(
      [&] {
        return programs(ListProgram({send(bytes, 0, 0, 0, mode)}, {1}),
                        ListProgram({compute(receiver_at), recv()}, {0}));
      },
      out_changes, detour);
}

inline auto near_all(std::vector<double> v) { return Catch::Matchers::Approx(v).epsilon(1e-9); }

}  // namespace trainyard::test
