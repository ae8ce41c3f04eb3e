// Skipping identical rounds: observers see the same sums as when each round is simulated.
#include <random>

#include "sim/folding/operation_count.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/path_sums.hpp"
#include "sim/observers/traffic.hpp"
#include "tests/support.hpp"

namespace sim_test_rounds {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr Stream kOut = 0, kIn = 1, kSum = 2, kBeside = 3;

/// Yields, for each part, the operations of its first and of its second round, and then `rounds` more rounds, which
/// continue the stride between the two.
class RoundsProgram : public CoroutineProgram {
 public:
  struct Part {
    std::vector<Op> first, second;
    std::uint32_t rounds = 0;
  };
  RoundsProgram(std::vector<Part> parts, std::vector<Actor> slots, bool at_once)
      : CoroutineProgram(std::move(slots), 4), parts_(std::move(parts)), at_once_(at_once) {}

 protected:
  Ops run() override {
    for (const Part& part : parts_) {
      for (const Op& op : part.first) co_yield op;
      for (const Op& op : part.second) co_yield op;
      if (part.rounds == 0) continue;
      Repeat repeat(part.rounds);
      for (std::size_t i = 0; i < part.second.size(); ++i) {
        Repeat::RoundOp each{part.second[i], stride_between(part.first[i], part.second[i])};
        advance(each.first, each.stride);
        repeat.add(each);
      }
      if (at_once_) {
        co_yield repeat;
      } else {
        for (const Op* op = repeat.take(); op; op = repeat.take()) {
          const Op one = *op;
          co_yield one;
        }
      }
    }
  }

 private:
  std::vector<Part> parts_;
  bool at_once_;
};

/// Number of skipped rounds.
class RoundCount : public Observer, private RoundSums {
 public:
  Interest interest() const override { return {.rounds = true}; }
  RoundSums* round_sums() override { return this; }
  bool end_round(std::span<const OpId>) override { return true; }
  void repeat_round(double times) override { count += times; }
  double count = 0;
};

/// A ring of actors whose links differ, with work in each round, work beside the rounds, and work that waits for the
/// middle of them.
struct RoundsCase {
  explicit RoundsCase(unsigned seed) : random(seed) {
    actors = 2 + number(5);
    rounds = static_cast<std::uint32_t>(60 + number(400));
    const bool alike = number(2) == 0, shared = number(2) == 0;
    const double rate = real(1e8, 1e9), latency = real(1e-6, 1e-4);
    const LinkId spine = machine.link(BytesPerSecond{rate * 0.6 * actors}, "spine");
    for (Actor a = 0; a < actors; ++a) {
      const double slower = alike ? 1 : 1 - 0.1 * number(5);
      const LinkId own = machine.link(BytesPerSecond{rate * slower}, "own");
      std::vector<LinkUse> links{{own}};
      if (shared) links.push_back({spine, number(1) == 0 ? 1.0 : 0.5});
      machine.connect(a, (a + 1) % actors, links, to_picoseconds(Seconds{alike ? latency : latency * (1 + number(3))}));
      machine.port_links[a] = {own};
    }
    if (number(1) == 0)
      machine.interference = [](Actor, Kind kind, KindSet active) {
        const bool work = (active & bit(Kind::compute)) != 0, messages = (active & bit(Kind::send)) != 0;
        if (kind == Kind::send || kind == Kind::recv) return work ? 0.8 : 1.0;
        return messages ? 0.9 : 1.0;
      };
    const Mode mode = number(3) == 0 ? Mode::put : Mode::rendezvous;
    const double bytes = real(0, 1e6), sum = number(1) == 0 ? real(1e-5, 1e-3) : 0;
    for (Actor a = 0; a < actors; ++a) programs.push_back(program(mode, bytes, sum));
  }

  std::mt19937 random;
  int actors = 0;
  std::uint32_t rounds = 0;
  TableMachine machine;
  std::vector<std::vector<RoundsProgram::Part>> programs;

  double real(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); }
  int number(int most) { return std::uniform_int_distribution<int>(0, most)(random); }

  std::vector<RoundsProgram::Part> program(Mode mode, double bytes, double sum) {
    const bool works = sum > 0;
    std::vector<RoundsProgram::Part> parts;
    std::vector<Op> before;
    for (int i = number(2); i > 0; --i) before.push_back(grouped(compute(real(0, 0.02), kBeside), 0));
    if (number(2) == 0)  // waits for the middle of the rounds
      before.push_back(grouped(after(compute(real(0, 0.02), kBeside), kIn, rounds / 2), 0));
    parts.push_back({std::move(before), {}, 0});
    Op out = grouped(send(bytes, 0, 7, kOut, mode), 1), in = grouped(recv(1, 7, kIn), 1);
    Op first = out;
    first.message.extra_latency = to_picoseconds(Seconds{real(0, 1e-3)});  // the actors do not begin at the same time
    parts.push_back({{first, in}, {}, 0});
    const auto round = [&](std::uint32_t number) -> std::vector<Op> {
      return {after(out, works ? kSum : kIn, number), in};
    };
    parts.push_back({round(1), round(2), rounds});
    if (works) {
      const auto add = [&](std::uint32_t number) {
        Op op = grouped(after(compute(sum, kSum), kIn, number), 0);
        op.memory.high_water = 100;
        return op;
      };
      parts.push_back({{add(1)}, {}, 0});
      parts.push_back({{add(2)}, {add(3)}, rounds});
    }
    parts.push_back({{grouped(after(compute(1e-3, kBeside), kIn, rounds + 3), 0)}, {}, 0});
    return parts;
  }
  static Op grouped(Op op, GroupId group) {
    op.group = group;
    return op;
  }
};

/// Runs the case and returns all results of the observers as one list of numbers. The first is the number of skipped
/// rounds.
json observed(RoundsCase& c, bool at_once) {
  Names names;
  names.group("work", Role::work);
  names.group("ring", Role::collective);
  Simulation simulation(c.machine);
  for (Actor a = 0; a < c.actors; ++a)
    simulation.add(a, std::make_unique<RoundsProgram>(
                          c.programs[position(a)],
                          std::vector<Actor>{(a + 1) % c.actors, (a + c.actors - 1) % c.actors}, at_once));
  Breakdown breakdown(names);
  MemoryUse memory;
  Traffic traffic(c.machine.links());
  const PathSums::Naming naming;
  PathSums path(c.machine.links(), naming);
  OperationCount count(std::vector<double>(position(c.actors), 2.0));
  RoundCount rounds;
  for (Observer* o : std::initializer_list<Observer*>{&breakdown, &memory, &traffic, &path, &count, &rounds})
    simulation.observe(*o);
  const SimulationResult result = simulation.run();
  json all = json::array({rounds.count, result.end.value, result.operations, result.transfers, result.unmatched,
                          count.count(), traffic.messages(), traffic.total().value});
  for (Actor a = 0; a < c.actors; ++a) {
    const BreakdownParts parts = breakdown.parts(a);
    for (const auto& [group, seconds] : parts.work) all.push_back(seconds.value);
    for (const auto& [group, seconds] : parts.exposed) all.push_back(seconds.value);
    for (const double number : {parts.total.value, parts.bubble.value, parts.other.value, memory.peak(a).value,
                                memory.final_bytes(a).value, traffic.sent(a).value, traffic.received(a).value})
      all.push_back(number);
  }
  for (LinkId link = 0; link < static_cast<LinkId>(c.machine.links().size()); ++link)
    all.push_back(traffic.on_link(link).value);
  const auto sums = path.by_resource();
  for (const char* resource : {"compute", "own", "spine", "latency", kOwnLimit}) {
    const auto at = sums.find(resource);
    all.push_back(at == sums.end() ? 0 : at->second);
  }
  return all;
}

}  // namespace

TEST_CASE("skipping identical rounds does not change any result", "[sim][rounds]") {
  double at_once = 0;
  int cases = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    RoundsCase at_once_case(seed), one_by_one_case(seed);
    const json got = observed(at_once_case, true), wanted = observed(one_by_one_case, false);
    CHECK(wanted[0] == 0);
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 1; i < wanted.size(); ++i) {
      CAPTURE(i);
      CHECK(got[i].get<double>() == Approx(wanted[i].get<double>()).epsilon(1e-9).margin(1e-12));
    }
    at_once += got[0].get<double>();
    cases += got[0] > 0 ? 1 : 0;
  }
  CHECK(cases > 60);
  CHECK(at_once > 5000);
}

TEST_CASE("a reader that does not take all rounds at once gets their operations one by one", "[sim][rounds]") {
  const Op out = send(10, 0, 7, kOut), in = recv(1, 7, kIn);
  RoundsProgram program({{{after(out, kIn, 1), in}, {after(out, kIn, 2), in}, 3}}, {0, 1}, true);
  std::vector<std::uint32_t> waits;
  OpReader reader(program);
  for (Op op; reader.next(op) == Pull::op;) waits.push_back(op.kind == Kind::send ? op.deps[0].count : 0);
  CHECK(waits == std::vector<std::uint32_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0});
}

}  // namespace sim_test_rounds
