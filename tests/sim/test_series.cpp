// Series: observers see the same sums for consecutive operations as one series and as single operations.
#include <deque>
#include <random>

#include "sim/folding/operation_count.hpp"
#include "sim/machine.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/path_sums.hpp"
#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"

namespace sim_test_series {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr int kActors = 3;
constexpr Stream kKernels = 0, kSends = 1, kReceives = 2, kMarks = 3, kBeside = 4;
constexpr GroupId kWork = 0, kMeet = 1, kMessage = 2;

/// A machine on which each actor sends to itself over a link that only it uses.
class LoneMachine : public TableMachine {
 public:
  /// Tells the flow of a group its route and the owners of its links.
  void know(GroupFlow& group) {
    const GroupRoute& found = found_.emplace_back(route_of_group(*this, group));
    KnownGroup& known_group = known_groups_.emplace_back(KnownGroup{{}, {0, 1, 2}});
    known_group.route = {found.links, found.latency, found.reachable};
    group.known_group = &known_group;
  }
  Cost price(const Work& work, Actor) const override {
    const Seconds alone{work.flops.value};
    return {alone, Seconds{launch} + alone, Seconds{launch}};
  }
  double launch = 0;  ///< seconds that the host takes to launch a kernel

 private:
  std::deque<GroupRoute> found_;
  std::deque<KnownGroup> known_groups_;
};

class SeriesProgram : public ListProgram {
 public:
  SeriesProgram(std::vector<Op> ops, std::vector<Series> series, const GroupFlow& flow)
      : ListProgram(std::move(ops), {0, 1, 2}, 5), series_(std::move(series)), flows_{&flow} {}
  std::span<const GroupFlow* const> group_flows() const override { return flows_; }
  const Series& series(Tag number) const override { return series_.at(number); }

 private:
  std::vector<Series> series_;
  std::vector<const GroupFlow*> flows_;
};

/// The operations of one actor in two versions: with series, and with the parts instead of the series.
struct ActorOps {
  std::vector<Op> whole, single;
  std::vector<Series> series;
  std::uint32_t kernels_whole = 0, kernels_single = 0, beside_single = 0;

  void kernel(Op op) {
    whole.push_back(op);
    single.push_back(op);
    ++kernels_whole;
    ++kernels_single;
  }
  void add_series(Series s) {
    series.push_back(std::move(s));
    run_series(series.size() - 1);
  }
  void run_series(std::size_t number) {
    Op op;
    op.kind = Kind::series;
    op.message.tag = number;
    whole.push_back(op);
    ++kernels_whole;
    for (const Series::Part& part : series.at(number).parts) {
      if (part.beside) {
        single.push_back(after(part.op, kKernels, kernels_single));
        ++beside_single;
      } else {
        single.push_back(part.waits ? after(part.op, kBeside, beside_single) : part.op);
        ++kernels_single;
      }
    }
  }
  void beside(Op op) {
    whole.push_back(op);
    single.push_back(op);
  }
  /// Appends an operation that waits for the kernels so far.
  void after_kernels(Op op) {
    whole.push_back(after(op, kKernels, kernels_whole));
    single.push_back(after(op, kKernels, kernels_single));
  }
};

struct Case {
  explicit Case(unsigned seed) : random(seed) {
    for (ActorOps& w : actors)
      for (int i = 0; i < 4; ++i) w.add_series(random_series());
    for (int i = 0; i < 12; ++i) add_message();
    for (ActorOps& w : actors) {
      w.add_series(random_series());
      for (int i = 0; i < 3; ++i) repeat_series(w);
      Op last = compute(real(0, 1));
      w.kernel(last);
    }
  }

  std::mt19937 random;
  std::array<ActorOps, kActors> actors;

  double real(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); }
  int number(int most) { return std::uniform_int_distribution<int>(0, most)(random); }

  Op part() {
    Op op = compute(real(0.1, 1));
    op.group = kWork;
    const int what = number(5);
    if (what == 0) op.kind = Kind::local;
    if (what == 1) op = message(Kind::mark, 0);
    if (what >= 4) {
      op = message(Kind::join, number(3) == 0 ? 0 : real(1e7, 6e8));
      op.message.rate_cap = number(1) == 0 ? BytesPerSecond{0.5e9} : BytesPerSecond{};
      op.message.extra_latency = to_picoseconds(Seconds{number(1) * real(0, 0.1)});
      op.group = kMeet;
    }
    // An operation that takes no time is reported after the operation that begins beside it at the same instant: it
    // gets no memory.
    if (op.kind == Kind::mark || (op.kind == Kind::join && op.message.bytes.value == 0)) return op;
    if (number(2) == 0) op.memory.change = real(-10, 10);
    if (number(2) == 0) op.memory.high_water = real(0, 20);
    op.set_memory_class(static_cast<std::uint8_t>(number(2)));
    return op;
  }
  Series random_series() {
    Series s;
    bool beside = false;
    for (int parts = 1 + number(8); parts > 0; --parts) {
      Series::Part next{part()};
      const bool joins = next.op.kind == Kind::join;
      next.waits = beside && (joins || number(2) == 0);
      next.beside = joins && !next.waits && number(2) > 0;
      beside = next.beside || (beside && !next.waits);
      if (next.beside) {
        next.op.stream = kBeside;
        next.op.memory = {};
      }
      s.parts.push_back(next);
    }
    if (beside) s.parts.push_back({message(Kind::mark, 0), false, true});
    return s;
  }
  /// An earlier series of the actor, as itself or under other names.
  void repeat_series(ActorOps& w) {
    const auto earlier = position(number(static_cast<int>(w.series.size()) - 1));
    if (number(1) == 0) return w.run_series(earlier);
    Series renamed = w.series[earlier];
    for (Series::Part& next : renamed.parts) next.op.name += 1;
    w.add_series(std::move(renamed));
  }
  /// A message from one actor to another after the sender's work so far. The receiver may wait for it. Series follow.
  void add_message() {
    const int from = number(kActors - 1), to = (from + 1 + number(kActors - 2)) % kActors;
    const Tag tag = static_cast<Tag>(++messages_);
    Op out =
        send(real(1e6, 1e9), static_cast<std::uint16_t>(to), tag, kSends, number(1) == 0 ? Mode::eager : Mode::put);
    out.group = kMessage;
    actors[position(from)].after_kernels(out);
    Op in = recv(static_cast<std::uint16_t>(from), tag, kReceives);
    in.group = kMessage;
    actors[position(to)].beside(in);
    Op held_message = message(Kind::mark, 0, 0, 0, kMarks);
    held_message.memory.change = real(0, 30);
    actors[position(to)].after_kernels(held_message);
    for (const int actor : {from, to})
      if (number(2) > 0) actors[position(actor)].add_series(random_series());
  }

 private:
  int messages_ = 0;
};

/// Counts the intervals of several operations, and does not interrupt them.
class StretchCount : public Observer {
 public:
  Interest interest() const override { return {.stretches = true}; }
  void finished(const OpRun& run) override {
    count += run.interval && run.interval->last > run.interval->times->first + 1 ? 1 : 0;
  }
  int count = 0;
};

LoneMachine machine_of(double slow_ports) {
  LoneMachine machine;
  for (Actor a = 0; a < kActors; ++a) {
    const LinkId own = machine.link(kRate, "own"), out = machine.link(kRate, "out");
    machine.connect(a, a, {{own}});
    for (Actor b = 0; b < kActors; ++b)
      if (a != b) machine.connect(a, b, {{out}, {own, 0.25}}, to_picoseconds(Seconds{0.01}));  // its own sends
    machine.port_links[a] = {own, out};
  }
  machine.interference = [slow_ports](Actor, Kind kind, KindSet active) {
    const bool work = (active & (bit(Kind::compute) | bit(Kind::local))) != 0;
    const bool messages = (active & (bit(Kind::send) | bit(Kind::recv))) != 0;
    if (kind == Kind::send || kind == Kind::recv) return work ? slow_ports : 1.0;
    return messages ? 0.9 : 1.0;
  };
  return machine;
}

enum class Version { single, parts, stretches };

/// Runs the case and returns all results of the observers as one list of numbers. The first is the number of intervals.
json observed(const Case& c, Version version, double launch = 0) {
  LoneMachine machine = machine_of(0.8);
  machine.launch = launch;
  Names names;
  names.group("work", Role::work);
  names.group("meet", Role::collective);
  names.group("message", Role::point_to_point);
  std::array<GroupFlow, kActors> flows;
  for (Actor a = 0; a < kActors; ++a) {
    flows[position(a)].edges = {{a, a, 1}};
    machine.know(flows[position(a)]);
  }
  Simulation simulation(machine);
  for (Actor a = 0; a < kActors; ++a) {
    const ActorOps& w = c.actors[position(a)];
    simulation.add(a, std::make_unique<SeriesProgram>(version == Version::single ? w.single : w.whole, w.series,
                                                      flows[position(a)]));
  }
  Breakdown breakdown(names);
  MemoryUse memory;
  Traffic traffic(machine.links());
  const PathSums::Naming naming;
  PathSums path(machine.links(), naming);
  OperationCount count({1, 2, 3});
  StretchCount stretches;
  Ends ends;
  for (Observer* o : std::initializer_list<Observer*>{&breakdown, &memory, &traffic, &path, &count, &stretches})
    simulation.observe(*o);
  if (version == Version::parts) simulation.observe(ends);  // it asks for every operation, so series run part by part
  json all = json::array({stretches.count, simulation.run().end.value, count.count(), traffic.messages()});
  all[0] = stretches.count;
  for (Actor a = 0; a < kActors; ++a) {
    const BreakdownParts parts = breakdown.parts(a);
    for (const auto& [group, seconds] : parts.work) all.push_back(seconds.value);
    for (const auto& [group, seconds] : parts.exposed) all.push_back(seconds.value);
    for (const double s : {parts.total.value, parts.bubble.value, parts.other.value, memory.peak(a).value,
                           memory.final_bytes(a).value, traffic.sent(a).value, traffic.received(a).value})
      all.push_back(s);
    for (const double bytes : memory.parts_at_peak(a)) all.push_back(bytes);
  }
  for (LinkId link = 0; link < static_cast<LinkId>(machine.links().size()); ++link)
    all.push_back(traffic.on_link(link).value);
  for (GroupId group = 0; group < names.groups().size(); ++group) all.push_back(traffic.of_group(group).value);
  for (const char* resource : {"compute", "memory", "own", "out", "latency", kOwnLimit}) {
    const auto sums = path.by_resource();
    const auto at = sums.find(resource);
    all.push_back(at == sums.end() ? 0 : at->second);
  }
  return all;
}

void check_equal(const json& got, const json& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].get<double>() == Approx(wanted[i].get<double>()).epsilon(1e-9).margin(1e-7));
  }
}

}  // namespace

TEST_CASE("a series equals its parts, whatever interrupts it", "[sim][series]") {
  int stretches = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Case c(seed);
    const json single = observed(c, Version::single), parts = observed(c, Version::parts),
               whole = observed(c, Version::stretches);
    CHECK(parts[0] == 0);
    check_equal(parts, single);
    check_equal(whole, single);
    stretches += whole[0].get<int>();
  }
  CHECK(stretches > 200);
}

TEST_CASE("a series equals its parts with a host that runs ahead, and with one that does not", "[sim][series][host]") {
  int stretches = 0;
  // Seconds, summed over all cases. A single case may become shorter, because work no longer coincides with an exchange.
  double launched = 0, at_once = 0;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    const double launch = seed % 3 == 0 ? 0.6 : 0.3;  // kernels take 0.1 to 1 s
    CAPTURE(seed);
    const Case c(seed);
    const json single = observed(c, Version::single, launch);
    check_equal(observed(c, Version::parts, launch), single);
    const json whole = observed(c, Version::stretches, launch);
    check_equal(whole, single);
    launched += single[1].get<double>();
    at_once += observed(c, Version::single)[1].get<double>();
    stretches += whole[0].get<int>();
  }
  CHECK(launched > at_once);
  CHECK(stretches > 20);
}

TEST_CASE("a program without series may not yield one", "[sim][series]") {
  Op op;
  op.kind = Kind::series;
  TableMachine machine;
  CHECK_THROWS_AS(run_programs(machine, programs(ListProgram({op}))), InternalError);
  CHECK_THROWS_WITH(run_programs(machine, programs(ListProgram({op}))),
                    Catch::Contains("a program without series yields one"));
}

}  // namespace sim_test_series
