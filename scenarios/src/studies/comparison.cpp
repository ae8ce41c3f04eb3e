#include "scenarios/src/studies/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/energy/energy.hpp"
#include "models/energy/prices.hpp"
#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

std::map<std::string, double> parts_of_step(const Result& r) {
  if (r.post_training) {
    const std::vector<std::pair<std::string, double>> parts = parts_of_loop(*r.post_training);
    return {parts.begin(), parts.end()};
  }
  if (r.generation) {
    const auto& parts = r.generation->engines.parts;
    return {{"prompts", parts.prefill.value}, {"products", parts.products.value},
            {"cache", parts.cache.value},     {"exchanges", parts.exchanges.value},
            {"host", parts.host.value},       {"calls of tools", parts.calls.value}};
  }
  const Result::Breakdown& b = r.breakdown;
  std::map<std::string, double> parts{{"compute", b.compute.value}, {"compression", b.compression.value},
                                      {"bubble", b.bubble.value},   {"optimizer", b.optimizer.value},
                                      {"input", b.input.value},     {"framework", b.framework.value},
                                      {"other", b.other.value}};
  for (const auto& [group, seconds] : b.exposed_communication) parts["exposed " + group] = seconds;
  return parts;
}

/// Returns true if both are steps, both loops, or both engines that answer prompts.
bool is_same_kind(const Result& a, const Result& b) {
  return a.post_training.has_value() == b.post_training.has_value() &&
         a.generation.has_value() == b.generation.has_value();
}

/// Returns the figures of a machine that make it faster if they grow.
std::vector<double> rates_of(const ClusterSpec& cluster) {
  const NodeType& node = cluster.node;
  const Gpu& gpu = node.gpu;
  std::vector<double> rates{gpu.memory_bandwidth.value,
                            gpu.memory_capacity.value,
                            gpu.nvlink.value,
                            gpu.pcie.value,
                            gpu.chip_links.count * gpu.chip_links.rate.value,
                            static_cast<double>(gpu.sms),
                            gpu.l2.value,
                            node.hca_rate.value,
                            static_cast<double>(node.hcas),
                            node.hca_efficiency,
                            node.pcie_rate.value,
                            node.nvlink_rate.value,
                            node.gpu_speed,
                            -static_cast<double>(node.nvlink_latency.count),
                            -static_cast<double>(node.hca_latency.count),
                            -static_cast<double>(node.pcie_latency.count),
                            -static_cast<double>(cluster.switch_latency.count)};
  for (const FlopsPerSecond peak : gpu.peak) rates.push_back(peak.value);
  return rates;
}

/// Returns Comparison::faster_machine of one scenario. The cluster must be all that differs, and its chips must be of one
/// architecture, so that the same kernels run on both.
int faster_machine(const Scenario& first, const Scenario& other) {
  const ClusterSpec &a = first.cluster, &b = other.cluster;
  const auto without_cluster = [](Node document) {
    std::erase_if(document.fields, [](const auto& field) { return field.first == "cluster" || field.first == "name"; });
    return yaml_text(document);
  };
  const bool is_alike = without_cluster(first.document) == without_cluster(other.document) && a.nodes == b.nodes &&
                        a.node.gpus == b.node.gpus && a.others.empty() && b.others.empty() &&
                        a.node.gpu.architecture == b.node.gpu.architecture && a.node.gpu.kind == b.node.gpu.kind &&
                        a.node.interconnect == b.node.interconnect && first.software.name == other.software.name;
  if (!is_alike) return 0;
  const std::vector<double> rates = rates_of(a), other_rates = rates_of(b);
  bool faster = false, slower = false;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    faster = faster || other_rates[i] > rates[i];
    slower = slower || other_rates[i] < rates[i];
  }
  return faster == slower ? 0 : faster ? 1 : -1;
}

/// The costs of a million tokens of one scenario.
struct TokenCosts {
  const Scenario& scenario;
  const Result& result;
  std::int64_t index = 0;

  const Money& money() const { return *result.money; }
  const Ownership& owned() const { return *money().ownership; }
  /// Returns the cost of electricity in a million tokens of the owned cluster.
  double owned_electricity() const {
    return owned().per_million * (owned().yearly.at("electricity") + owned().yearly.at("cooling")) / owned().year();
  }
  /// Returns the cost of electricity in a million tokens of the rented cluster.
  double rented_electricity() const {
    const double time = result.whole_time().value;
    const double joules = time > 0 ? result.training_energy() : result.energy ? result.energy->step() : 0;
    return money().per_million * scenario.prices.kwh / kJoulesOfKwh * joules /
           (time > 0 ? money().training : money().step);
  }
  /// Returns the rent of a GPU for an hour, the mean of all types. 0: they have no rent.
  double gpu_hour() const {
    double rents = 0, gpus = 0;
    const ClusterSpec cluster = scenario.post_training ? loop_machine(scenario) : scenario.cluster;
    for (const auto& [type, nodes] : cluster.counted_types()) {
      gpus += nodes * type->gpus;
      rents += nodes * type->gpus * scenario.prices.gpu_hour(type->name, type->gpu.name, type->gpus);
    }
    return rents / gpus;
  }
};

/// Adds the prices of one scenario at which a million tokens cost as much as in the other one.
void add_break_evens(const TokenCosts& own, const TokenCosts& other, std::vector<Comparison::BreakEven>& all) {
  if (own.money().ownership && other.money().ownership && own.owned().bought_nodes > 0) {
    const Ownership& o = own.owned();
    const double year = o.year() * other.owned().per_million / o.per_million;
    all.push_back({"node", own.index, o.purchase_prices.at("nodes") / o.bought_nodes, o.node_price_of_year(year)});
    all.push_back({"purchase", own.index, o.price(), o.price_of_year(year)});
  }
  if (const double rent = own.gpu_hour(); rent > 0 && other.gpu_hour() > 0) {
    const double electricity = own.rented_electricity();
    const double equal = rent * (other.money().per_million - electricity) / (own.money().per_million - electricity);
    all.push_back({"gpu_hour", own.index, rent, equal > 0 ? std::optional(equal) : std::nullopt});
  }
}

/// Lists the break-evens of two scenarios; none if their costs are not of the same unit.
std::vector<Comparison::BreakEven> break_evens_of(const TokenCosts& a, const TokenCosts& b) {
  std::vector<Comparison::BreakEven> all;
  if (!a.result.money || !b.result.money || a.money().of_tokens != b.money().of_tokens ||
      a.money().currency != b.money().currency)
    return all;
  add_break_evens(a, b, all);
  add_break_evens(b, a, all);
  if (!a.money().ownership || !b.money().ownership) return all;
  const double kwh = a.scenario.prices.purchase.kwh;
  if (kwh <= 0 || kwh != b.scenario.prices.purchase.kwh) return all;
  const double more_power = (a.owned_electricity() - b.owned_electricity()) / kwh,
               less = b.owned().per_million - a.owned().per_million;
  const double equal = more_power == 0 ? 0 : kwh + less / more_power;
  all.push_back({"kwh", {}, kwh, equal > 0 ? std::optional(equal) : std::nullopt});
  return all;
}

/// A scenario beside the first one.
struct ScenarioChange {
  std::vector<std::pair<std::string, double>> parts;
  std::optional<double> step, slower;
  std::vector<Comparison::BreakEven> break_evens;
};

std::vector<ScenarioChange> changes_of(const Comparison& c) {
  std::vector<ScenarioChange> changes;
  for (std::size_t i = 1; i < c.results.size(); ++i)
    changes.push_back(
        {changed_parts(c.results.front(), c.results[i]), c.change_of_step(i), c.slower(i), c.break_evens[i]});
  return changes;
}

JsonFields<ScenarioChange> change_fields() {
  using C = ScenarioChange;
  using B = Comparison::BreakEven;
  return JsonFields<C>()
      .value("breakdown_s", "s", &C::parts,
             "parts of the step that differ, as differences from the first scenario; of loops: of the loop's step; of "
             "engines that answer prompts: of the slowest engine's time")
      .value(
          "step_time_share", "share", &C::step,
          "increase of the step time, as a share of the first scenario's step time; of loops: of the loop's step; of "
          "engines that answer prompts: of the time until the last answer")
      .when(&C::step, "unless only one of the two has post_training, or generation")
      .value("slower_probability", "share", &C::slower,
             "probability that it is in truth slower than the first; errors that both share cancel, and a machine of "
             "faster parts is not slower")
      .when(&C::slower, "if both have an interval, and no post_training or generation")
      .list("break_evens", &C::break_evens,
            JsonFields<B>()
                .value("price", "", &B::price,
                       "node: of a bought node; purchase: of the whole cluster; gpu_hour: rent of a GPU on demand, the "
                       "mean of all types; kwh: of a kWh at the site of an owned cluster")
                .value("scenario", "", &B::scenario, "the scenario that pays it, from 0; null: both pay it, as for kwh")
                .value("value", "money", &B::value, "the price now")
                .value("equal", "money", &B::equal, "the price at which both cost as much; null: there is none"),
            "prices at which a million tokens (or samples) cost as much as in the first scenario; each is changed by "
            "itself")
      .when(&C::break_evens, "if both have prices");
}

const RegisterJsonReference comparison_reference{"compare", "scenarios side by side", comparison_fields};

}  // namespace

Comparison compare_scenarios(const std::vector<Scenario>& scenarios) {
  Comparison comparison;
  std::map<std::string, Comparison::Difference> fields;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    for (const auto& [path, value] : flat_fields(scenarios[i].document)) {
      Comparison::Difference& field = fields[path];
      field.path = path;
      field.values.resize(scenarios.size());
      if (!value.empty()) field.values[i] = value;
    }
  }
  for (const auto& [path, field] : fields)
    if (std::ranges::any_of(field.values, [&](const auto& v) { return v != field.values.front(); }))
      comparison.differences.push_back(field);
  comparison.results = all_in_parallel(scenarios.size(), processors(),
                                       [&scenarios](std::size_t i) { return answer(scenarios[i]).result; });
  for (Result& result : comparison.results) result.wall_s = {};  // equal input has equal answers
  for (std::size_t i = 0; i < scenarios.size(); ++i)
    comparison.doubts.push_back(step_doubt(scenarios[i], comparison.results[i]));
  for (const Scenario& scenario : scenarios)
    comparison.faster_machine.push_back(faster_machine(scenarios.front(), scenario));
  for (std::size_t i = 0; i < scenarios.size(); ++i)
    comparison.break_evens.push_back(
        i == 0 ? std::vector<Comparison::BreakEven>()
               : break_evens_of({scenarios.front(), comparison.results.front(), 0},
                                {scenarios[i], comparison.results[i], static_cast<std::int64_t>(i)}));
  return comparison;
}

std::optional<double> Comparison::slower(std::size_t scenario) const {
  const StepDoubt &first = doubts.front(), &other = doubts[scenario];
  if (scenario == 0 || !first.exists() || !other.exists()) return std::nullopt;
  for (const Result* r : {&results.front(), &results[scenario]})
    if (r->post_training || r->generation) return std::nullopt;
  const double first_time = results.front().step_time.value, time = results[scenario].step_time.value;
  if (faster_machine[scenario] > 0 && time < first_time) return 0;
  if (faster_machine[scenario] < 0 && time > first_time) return 1;
  return probability_of_longer(first_time, first, time, other);
}

std::optional<double> Comparison::change_of_step(std::size_t scenario) const {
  const Result &first = results.front(), &other = results[scenario];
  if (scenario == 0 || !is_same_kind(first, other)) return std::nullopt;
  return relative_change(first.main_time().value, other.main_time().value);
}

std::vector<std::pair<std::string, double>> parts_of_loop(const PostTrainingResult& r) {
  std::vector<std::pair<std::string, double>> parts{
      {"generation", r.generation.value},  {"log-probabilities", r.log_probabilities.value},
      {"training", r.training.value},      {"weights to engines", r.weights.value},
      {"reload", r.reload.value},          {"loop", r.loop.value},
      {"fetch of answers", r.fetch.value}, {"critic", r.critic_wait().value}};
  parts.emplace_back("hidden", 0 - r.hidden.value);
  return parts;
}

std::vector<std::pair<std::string, double>> changed_parts(const Result& first, const Result& second) {
  if (!is_same_kind(first, second)) return {};
  std::map<std::string, double> parts = parts_of_step(second);
  for (const auto& [name, seconds] : parts_of_step(first)) parts[name] -= seconds;
  std::vector<std::pair<std::string, double>> changed(parts.begin(), parts.end());
  std::erase_if(changed, [&first](const auto& part) { return std::abs(part.second) < 5e-4 * first.main_time().value; });
  sort_stably(changed, [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  return changed;
}

const JsonFields<Comparison>& comparison_fields() {
  using C = Comparison;
  using D = Comparison::Difference;
  static const JsonFields<C> fields =
      JsonFields<C>()
          .list("scenarios", &C::results, result_fields(), "the answer to each scenario, as run gives it")
          .list("differences", &C::differences,
                JsonFields<D>()
                    .value("path", "", &D::path, "path of the field")
                    .value("values", "", &D::values,
                           "value in each scenario, as YAML; null: the scenario does not set it"),
                "fields whose values differ between the scenarios")
          .list("changes", changes_of, change_fields(),
                "changes of each scenario but the first, relative to the first");
  return fields;
}

}  // namespace trainyard
