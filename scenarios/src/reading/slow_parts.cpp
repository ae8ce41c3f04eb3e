#include "scenarios/src/reading/slow_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

constexpr double kMostFactor = 1e6;

std::vector<const Node*> maps_of(const Node& node) {
  if (node.kind != Node::Kind::list) return {&node};
  std::vector<const Node*> maps;
  for (const Node& item : node.items) maps.push_back(&item);
  return maps;
}

int rank_of(const Node& item, int ranks) {
  const std::int64_t rank = find_integer(item.scalar).value_or(-1);
  if (rank < 0 || rank >= ranks)
    fail(item.place,
         fmt::format("faults.stragglers: \"{}\" is no rank; the plan has ranks 0 to {}", item.scalar, ranks - 1));
  return static_cast<int>(rank);
}

std::vector<double> factors_of(const std::vector<Node>& list, int ranks) {
  std::vector<double> factors;
  for (const Node& item : list) {
    const double factor = find_number(item.scalar).value_or(0);
    if (!(factor > 0) || factor > kMostFactor)
      fail(item.place, fmt::format("faults.stragglers.factors: \"{}\"; a factor above 0 expected", item.scalar));
    factors.push_back(factor);
  }
  if (static_cast<int>(factors.size()) > ranks)
    fail(list.front().place,
         fmt::format("faults.stragglers.factors: {} factors for {} ranks; one for each of the first ranks",
                     factors.size(), ranks));
  return factors;
}

Straggler read_straggler(const Node& node, int ranks) {
  Fields fields(node, "faults.stragglers");
  Straggler s;
  s.kind = fields.one_of<StragglerKind>(
      {"kind", "Pattern of the slowness: constant, uniform, lognormal, exponential-tail, one-slow or periodic."},
      straggler_names());
  s.seed = fields.integer<std::uint64_t>({"seed", "Seed of the random slowdowns, for example 2."}, 0, 1);
  s.slow.assign(static_cast<std::size_t>(ranks), true);
  if (const std::vector<Node>* only = fields.list({"ranks", "Slow ranks, for example [0, 3]. Default: all."})) {
    s.slow.assign(static_cast<std::size_t>(ranks), false);
    for (const Node& item : *only) s.slow[rank_of(item, ranks)] = true;
  }
  const auto factor = [&fields] {
    constexpr double least = 1e-6;
    return fields.number({"factor",
                          "Factor on the time of kernels of the slow ranks and on that of their hosts' launches, for "
                          "example 1.5."},
                         least, kMostFactor);
  };
  switch (s.kind) {
    case StragglerKind::constant:
      if (const std::vector<Node>* factors = fields.list({"factors",
                                                          "Factor on the compute time of each of the first ranks, for "
                                                          "example [1, 1, 1.5]. Default: each takes `factor`."}))
        s.factors = factors_of(*factors, ranks);
      else
        s.factor = factor();
      break;
    case StragglerKind::uniform:
      s.spread = fields.number({"spread",
                                "Largest deviation of the compute time from its mean in the uniform distribution, as a "
                                "share, for example 0.1."},
                               0, 1);
      break;
    case StragglerKind::lognormal:
      s.sigma = fields.number(
          {"sigma", "Standard deviation of the logarithm in the lognormal distribution, 0 to 5, for example 0.2."}, 0,
          5);
      break;
    case StragglerKind::exponential_tail:
      s.mean = fields.number(
          {"mean", "Mean of the exponentially distributed delay, as a share of the compute time, for example 0.2."}, 0,
          kMostFactor);
      break;
    case StragglerKind::one_slow:
      s.factor = factor();
      s.slow.assign(static_cast<std::size_t>(ranks), false);
      s.slow[rank_of(
          fields.required_child({"rank", "Number of the only slow rank, for example 3. Required with kind one-slow."}),
          ranks)] = true;
      break;
    case StragglerKind::periodic: {
      constexpr std::int64_t most_steps = 1 << 20;
      s.factor = factor();
      s.period = fields.integer_within<std::uint32_t>(
          {"period", "Number of steps after which periodic slowness repeats, for example 10."}, 1, most_steps);
      s.busy = fields.integer_within<std::uint32_t>(
          {"busy", "Number of steps of a period in which the ranks are slow, for example 3."}, 0, most_steps);
      if (s.busy > s.period) fields.refuse("busy", fmt::format("{} of every {} steps", s.busy, s.period));
      break;
    }
  }
  const bool draws = s.kind == StragglerKind::uniform || s.kind == StragglerKind::lognormal ||
                     s.kind == StragglerKind::exponential_tail;
  fields.require_condition("seed", draws, "with kind uniform, lognormal or exponential-tail");
  fields.finish();
  return s;
}

LinkFault read_link(const Node& node) {
  Fields fields(node, "faults.links");
  LinkFault fault;
  fault.from_place = fields.place_of("from");
  fault.place = fields.place_of("link");
  fault.link = fields.text({"link",
                            "Name of a link, or of both directions of a wire, for example node0/hca0 - leaf0 "
                            "(trainyard show FILE --machine)."});
  fault.factor = fields.number(
      {"factor", "Factor on the rate of the link, 0 to 1, for example 0.5. 0: the link fails until the time `to`."}, 0,
      1);
  fault.from = fields.seconds(
      {"from", "Time at which the lower rate begins, from the start of the run, for example 1 s."}, Seconds{0});
  fault.to =
      fields.seconds({"to", "Time at which the link has its rate again, for example 2 s. Default: never."}, Seconds{0});
  if (fields.has("to") && fault.to <= fault.from)
    fields.refuse("to", fmt::format("{}, but it begins at {}", show(fault.to), show(fault.from)));
  if (!fields.has("to") && fault.factor == 0)
    fields.refuse("factor", "0 without an end is a failed link; expected `to`, the time at which it works again");
  fields.finish();
  return fault;
}

/// Returns the links of a name: both directions of a wire for "A - B", else the link of that name.
std::vector<std::string> directions_of(const std::string& name) {
  const std::size_t dash = name.find(" - ");
  if (dash == std::string::npos) return {name};
  const std::string a = name.substr(0, dash), b = name.substr(dash + 3);
  return {a + " -> " + b, b + " -> " + a};
}

}  // namespace

void require_begun(const SlowParts& slow, Seconds end) {
  for (const LinkFault& fault : slow.links)
    if (fault.from >= end)
      fail(
          fault.from_place,
          fmt::format(
              "faults.links.from: {}, but the steps that are simulated are over at {}; set plan.steps for more of them",
              show(fault.from), show(end)));
}

SlowParts read_slow_parts(Fields& faults, int ranks) {
  SlowParts slow;
  if (const Node* stragglers = faults.child({"stragglers",
                                             "Slow ranks: one map or a list of maps, for example {kind: constant, "
                                             "factor: 1.5, ranks: [3]}. Default: none."});
      stragglers && faults.has("stragglers"))
    for (const Node* node : maps_of(*stragglers)) slow.stragglers.push_back(read_straggler(*node, ranks));
  if (const Node* links = faults.child({"links",
                                        "Links with a lower rate for a time, for example [{link: node0/hca0 - leaf0, "
                                        "factor: 0.5, from: 1 s, to: 2 s}]. Default: none."});
      links && faults.has("links"))
    for (const Node* node : maps_of(*links)) slow.links.push_back(read_link(*node));
  return slow;
}

std::vector<LinkChange> link_changes(const SlowParts& slow, std::span<const Link> links) {
  std::vector<LinkChange> changes;
  std::vector<std::string> names;  // listed only if they are needed: there may be millions
  if (!slow.links.empty())
    for (const Link& link : links) names.push_back(link.name);
  for (const LinkFault& fault : slow.links)
    for (const std::string& name : directions_of(fault.link)) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        fail(fault.place,
             fmt::format("faults.links.link: unknown link \"{}\"{}", name,
                         nearest(name, names) ? hint(name, names)
                                              : fmt::format("; known: {} and others (`show --machine` prints examples)",
                                                            names.front())));
      const auto id = static_cast<LinkId>(found - names.begin());
      const BytesPerSecond rate = links[id].capacity;
      changes.push_back({fault.from, id, rate * fault.factor});
      if (fault.to.value > 0) changes.push_back({fault.to, id, rate});
    }
  return changes;
}

}  // namespace trainyard
