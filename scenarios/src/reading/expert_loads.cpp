#include "scenarios/src/reading/expert_loads.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "models/fitted/measured_table.hpp"
#include "sim/hashing.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostExperts = 1 << 16;

/// Returns the load that a text states. No value: the text is no number, or a negative one.
std::optional<double> find_load(const std::string& text) {
  const std::optional<double> load = find_number(text);
  return load && *load >= 0 ? load : std::nullopt;
}

void require_positive_sum(const std::vector<double>& values, const Place& place, const std::string& what) {
  if (std::accumulate(values.begin(), values.end(), 0.0) <= 0)
    fail(place, what + ": all loads are 0; expected one above 0");
}

std::vector<double> values_of(const std::vector<Node>& list, const Place& place) {
  std::vector<double> values;
  for (const Node& item : list) {
    const std::optional<double> load = find_load(item.scalar);
    if (!load)
      fail(item.place, fmt::format("plan.expert_parallel.load: \"{}\"; expected a number, 0 or more, for each expert",
                                   item.scalar));
    values.push_back(*load);
  }
  require_positive_sum(values, place, "plan.expert_parallel.load");
  return values;
}

/// Reads tokens by expert from a table. Rows of one expert, for example of several steps, are added.
std::vector<double> values_of_file(const std::string& name, const Place& place) {
  MeasuredTable table(file_named(name, place, "plan.expert_parallel.load.file"), {"expert", "tokens"});
  std::map<std::int64_t, double> tokens;
  while (table.next()) {
    const std::int64_t expert = find_integer(table.text("expert")).value_or(-1);
    if (expert < 0 || expert >= kMostExperts)
      table.refuse(fmt::format("expert: \"{}\"; expected a whole number from 0 on", table.text("expert")), "expert");
    const std::optional<double> load = find_load(table.text("tokens"));
    if (!load)
      table.refuse(fmt::format("tokens: \"{}\"; expected a number, 0 or more", table.text("tokens")), "tokens");
    tokens[expert] += *load;
  }
  std::vector<double> values;
  for (const auto& [expert, load] : tokens) {
    if (expert != static_cast<std::int64_t>(values.size()))
      fail(
          place,
          fmt::format(
              "plan.expert_parallel.load.file: {} has no row of expert {}; expected one, with 0 tokens if it gets none",
              table.name(), values.size()));
    values.push_back(load);
  }
  require_positive_sum(values, place, "plan.expert_parallel.load.file: " + table.name());
  return values;
}

/// Returns a standard normal number for an expert.
double normal_of_expert(std::uint64_t seed, std::uint64_t expert) {
  return normal_number(uniform_number(hash_numbers({seed, expert, 0})),
                       uniform_number(hash_numbers({seed, expert, 1})));
}

}  // namespace

ExpertLoads read_expert_loads(Fields& expert_parallel) {
  const Node* node = expert_parallel.child_unless_null({"load",
                                                        "Tokens of experts relative to each other, for example {kind: "
                                                        "zipf, exponent: 1.2}. Default: that of the key imbalance."});
  ExpertLoads loads;
  loads.place = expert_parallel.place_of("load");
  Node map;
  if (node && node->kind == Node::Kind::list) {
    map = Node::empty_map(node->place);
    map.fields.emplace_back("values", *node);
  } else {
    map = long_form(node, "kind", loads.place);
  }
  constexpr double most_exponent = 10, most_sigma = 5;
  Fields fields(map, "plan.expert_parallel.load");
  loads.kind =
      fields.one_of<ExpertLoads::Kind>({"kind",
                                        "Distribution of tokens over experts: even, zipf (the i-th most popular expert "
                                        "gets i^-exponent) or lognormal. Each rank has the load of its experts."},
                                       {"even", "zipf", "lognormal"}, ExpertLoads::Kind::even);
  loads.exponent = fields.number({"exponent", "Exponent of zipf, 0 to 10, for example 1.2."}, 0, most_exponent, 1);
  loads.sigma = fields.number({"sigma", "Standard deviation of the logarithm with lognormal, 0 to 5, for example 0.8."},
                              0, most_sigma, 0.5);
  loads.seed =
      fields.integer<std::uint64_t>({"seed", "Seed that decides which experts are popular, for example 2."}, 0, 1);
  fields.require_condition("exponent", loads.kind == ExpertLoads::Kind::zipf, "with kind zipf");
  fields.require_condition("sigma", loads.kind == ExpertLoads::Kind::lognormal, "with kind lognormal");
  fields.require_condition("seed", loads.kind != ExpertLoads::Kind::even, "with kind zipf or lognormal");
  const std::vector<Node>* values = fields.list(
      {"values",
       "Tokens of each expert, or of each rank of the expert axis, relative to each other, for example [3, 1, 1, 1]."});
  const bool has_file = fields.has({"file",
                                    "Table (CSV), for example load.csv, with the columns expert (0, 1, …) and tokens, "
                                    "such as a measured histogram. Rows of one expert are added."});
  if ((values ? 1 : 0) + (has_file ? 1 : 0) + (loads.kind != ExpertLoads::Kind::even ? 1 : 0) > 1)
    fail(loads.place, "plan.expert_parallel.load: kind, values and file exclude each other; expected one of them");
  if (values) loads.values = values_of(*values, loads.place);
  if (has_file) loads.values = values_of_file(fields.text("file"), fields.place_of("file"));
  fields.finish();
  return loads;
}

std::vector<double> loads_of(const ExpertLoads& loads, std::int64_t experts) {
  if (!loads.values.empty() || loads.kind == ExpertLoads::Kind::even) return loads.values;
  std::vector<double> values(static_cast<std::size_t>(experts), 0);
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, loads.seed, 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    values[order[i]] = loads.kind == ExpertLoads::Kind::zipf ? std::pow(static_cast<double>(i + 1), -loads.exponent)
                                                             : std::exp(loads.sigma * normal_of_expert(loads.seed, i));
  return values;
}

}  // namespace trainyard
