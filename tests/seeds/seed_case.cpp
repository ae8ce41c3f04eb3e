#include "tests/seeds/seed_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "sim/process/parallel.hpp"
#include "sim/program.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

json scalar(const Node& node) {
  if (!node.quoted) {
    if (node.scalar == "true") return true;
    if (node.scalar == "false") return false;
    try {
      return parse_number(node.scalar);
    } catch (const UserError&) {
      return node.scalar;
    }
  }
  return node.scalar;
}

/// Writes nested maps under joined names: {a: {b: 1}} becomes "a b": 1.
void flatten(const Node& node, const std::string& name, SeedFigures& into) {
  for (const auto& [key, value] : node.fields) {
    const std::string full = name.empty() ? key : name + " " + key;
    if (value.kind == Node::Kind::map)
      flatten(value, full, into);
    else
      into[full] = scalar(value);
  }
}

bool agrees(const json& expected, const json& got, double tolerance) {
  if (!expected.is_number() || !got.is_number()) return expected == got;
  const double e = expected.get<double>(), g = got.get<double>();
  return std::abs(g - e) <= tolerance * std::abs(e);
}

}  // namespace

Registry<SeedExperiment>& seed_experiments() {
  static Registry<SeedExperiment> registry{"seed case"};
  return registry;
}

namespace {

struct SeedCase {
  SeedOutcome outcome;
  const Node* inputs = nullptr;
  SeedExperiment experiment = nullptr;
};

SeedCase read_case(const Node& node) {
  Fields fields(node, "case");
  SeedCase seed_case;
  seed_case.outcome.id = fields.text("id");
  seed_case.outcome.title = fields.text("title");
  seed_case.outcome.note = fields.text("note", "");
  seed_case.outcome.tolerance = fields.number("tolerance", 0, 1);
  if (const Node* tolerances = fields.child("tolerances"))
    for (const auto& [name, value] : tolerances->fields)
      seed_case.outcome.tolerances[name] = parse_number(value.scalar);
  seed_case.inputs = &fields.required_child("inputs");
  flatten(fields.required_child("expected"), "", seed_case.outcome.expected);
  fields.finish();
  const std::vector<std::string> names = seed_experiments().names();
  if (std::find(names.begin(), names.end(), seed_case.outcome.id) != names.end())
    seed_case.experiment = seed_experiments().find(seed_case.outcome.id, node.place);
  return seed_case;
}

std::vector<std::string> unknown_ids(const std::vector<std::string>& ids, const std::vector<std::string>& known_ids) {
  std::vector<std::string> wrong;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(wrong), [&known_ids](const std::string& id) {
    return std::find(known_ids.begin(), known_ids.end(), id) == known_ids.end();
  });
  return wrong;
}

/// Returns the figures of one experiment, or the error that ended it.
std::string figures_of(const SeedCase& seed_case) {
  if (!seed_case.experiment) return "{}";
  try {
    return json(seed_case.experiment(*seed_case.inputs)).dump();
  } catch (const std::exception& e) {
    return json{{"error", e.what()}}.dump();
  }
}

void judge(SeedOutcome& o) {
  const bool pass = std::all_of(o.expected.begin(), o.expected.end(), [&o](const auto& figure) {
    const auto found = o.got.find(figure.first);
    const auto own_tolerance = o.tolerances.find(figure.first.substr(0, figure.first.find(' ')));
    return found != o.got.end() && agrees(figure.second, found->second,
                                          own_tolerance == o.tolerances.end() ? o.tolerance : own_tolerance->second);
  });
  o.state = pass ? SeedState::pass : SeedState::fail;
}

}  // namespace

std::vector<SeedOutcome> run_seed_cases(const std::filesystem::path& file, const std::vector<std::string>& ids) {
  const Node document = read_document(file);
  Fields root(document, file.filename().string());
  const Node& rows = root.required_child("cases");
  root.finish();
  std::vector<SeedCase> cases;
  std::vector<std::string> known_ids;
  for (const Node& row : rows.items) {
    SeedCase seed_case = read_case(row);
    known_ids.push_back(seed_case.outcome.id);
    if (ids.empty() || std::find(ids.begin(), ids.end(), seed_case.outcome.id) != ids.end())
      cases.push_back(std::move(seed_case));
  }
  for (const std::string& id : unknown_ids(ids, known_ids))
    throw UserError(fmt::format("unknown seed case \"{}\"{}", id, hint(id, known_ids)));
  if (ids.empty())
    for (const std::string& id : unknown_ids(seed_experiments().names(), known_ids))
      throw UserError(fmt::format("{}: no row of the seed case \"{}\"", file.string(), id));

  const std::vector<std::string> texts =
      all_in_parallel(cases.size(), processors(), [&cases](std::size_t i) { return figures_of(cases[i]); });
  std::vector<SeedOutcome> outcomes;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SeedOutcome& o = outcomes.emplace_back(std::move(cases[i].outcome));
    if (!cases[i].experiment) continue;
    o.got = parse_json(texts[i]).get<SeedFigures>();
    judge(o);
  }
  return outcomes;
}

Place seed_place() {
  Place place;
  place.file = std::make_shared<const std::string>("seed case");
  return place;
}

ClusterSpec ideal_gpu(const std::string& name) {
  ClusterSpec spec = star_cluster(1, BytesPerSecond{1e9});
  spec.node.gpu = read_gpu(Catalog().resolve("gpu", Node::scalar_node(name)));
  spec.node.gpu.kernel_launch = Seconds{0};
  spec.node.gpu.efficiency.fill({});
  spec.node.gpu.nvlink = BytesPerSecond{1e9};  // the star needs links, although nothing is sent
  return spec;
}

double work_seconds(const ClusterSpec& cluster, const std::vector<Work>& kernels) {
  std::vector<Op> ops;
  for (const Work& work : kernels) {
    Op& op = ops.emplace_back();
    op.work = work;
    op.kind = work.flops.value > 0 ? Kind::compute : Kind::local;
  }
  ClusterMachine machine(cluster, SoftwareStack{});
  Simulation simulation(machine);
  simulation.add(0, std::make_unique<ListProgram>(std::move(ops)));
  return simulation.run().end.value;
}

Work flops_work(Flops flops, Precision precision) {
  Work work;
  work.flops = flops;
  work.precision = static_cast<std::uint8_t>(precision);
  return work;
}

std::vector<std::string> words_of(const Node& inputs, std::string_view key) {
  const Node* node = inputs.find(key);
  if (!node) fail(inputs.place, fmt::format("inputs: missing key \"{}\"", key));
  if (node->kind == Node::Kind::scalar) return {node->scalar};
  std::vector<std::string> words;
  for (const Node& item : node->items) words.push_back(item.scalar);
  return words;
}

double number_of(const Node& inputs, std::string_view key) {
  Fields fields(inputs, "inputs");
  return fields.number(key, -1e300, 1e300);
}

std::vector<double> numbers_of(const Node& inputs, std::string_view key) {
  const Node* node = inputs.find(key);
  if (!node || node->kind != Node::Kind::list)
    fail(node ? node->place : inputs.place, fmt::format("inputs.{}: expected a list of numbers", key));
  std::vector<double> numbers;
  for (const Node& item : node->items) numbers.push_back(parse_number(item.scalar));
  return numbers;
}

std::vector<std::vector<double>> contributor_values(int ranks) {
  std::vector<std::vector<double>> values(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int chunk = 0; chunk < ranks; ++chunk)
      values[static_cast<std::size_t>(rank)].push_back(std::ldexp(1.0, chunk * ranks + rank));
  return values;
}

std::string contributors(double value, int ranks) {
  std::string text;
  const auto bits = static_cast<std::uint64_t>(value);
  for (int chunk = 0; chunk < ranks; ++chunk)
    for (int rank = 0; rank < ranks; ++rank)
      if (bits >> (chunk * ranks + rank) & 1U)
        text += fmt::format("{}{}{}", text.empty() ? "" : "+", static_cast<char>('a' + chunk), rank);
  return text;
}

}  // namespace trainyard
