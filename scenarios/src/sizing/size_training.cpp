#include "scenarios/src/sizing/size_training.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/energy/price_names.hpp"
#include "scenarios/src/sizing/size_nodes.hpp"
#include "scenarios/src/studies/answer.hpp"

namespace trainyard {
namespace {
/// The MFU that the first guess of a number of nodes assumes. Large runs reach this value (validate published).
constexpr double kFirstMfu = 0.4;
constexpr double kTrainingHour = 3600;
}  // namespace

SizeQuestion::SizeQuestion(const Node& document, const std::string& name, const SizeOptions& options)
    : document_(document), name_(name), options_(options) {
  const Node* plan = document_.find("plan");
  const Node* training = plan ? plan->find("training") : nullptr;
  if (!training && options_.tokens_per_parameter <= 0)
    fail(document_.place, "size: the length of the training is needed; expected plan.training or --tokens");
  if (const Node* site = document_.find("site"); site && site->kind != Node::Kind::null)
    site_ = read_site(catalog_.resolve("site", *site));
  if (const Node* prices = document_.find("prices"); prices && prices->kind != Node::Kind::null) take_prices(*prices);
  if (options_.budget > 0 && !prices_.is_given())
    throw UserError(
        "--budget needs prices: --prices FILE, or prices in the scenario (scenarios/prices-example.yml shows how)");
  if (options_.purchase && !prices_.purchase.has_prices())
    throw UserError("--purchase needs prices.purchase: --prices FILE (scenarios/prices-example.yml shows how)");
}

void SizeQuestion::take_prices(const Node& prices) {
  const Node entry = catalog_.resolve("price", prices);
  prices_ = read_prices(entry, site_.kwh);
  check_price_names(entry, catalog_, names_in_section(&document_));
}

std::string SizeQuestion::model_of(const SizeCase& size_case) const {
  const Node* model = document_.find("model");
  return !size_case.model.empty() ? size_case.model : model && !model->scalar.empty() ? model->scalar : name_;
}

ClusterName SizeQuestion::name_of(const SizeCase& size_case) const {
  ClusterName name{model_of(size_case), size_case.node.name};
  if (size_case.beside) name.beside = size_case.beside->node.name;
  if (size_case.beside) name.beside_nodes = size_case.beside->nodes;
  return name;
}

std::optional<SizeCase> SizeQuestion::case_of(const ClusterName& cluster, const std::vector<SizeCase>& cases) const {
  const auto found = std::ranges::find_if(cases, [&](const SizeCase& size_case) {
    return size_case.node.name == cluster.node && model_of(size_case) == cluster.model;
  });
  if (found == cases.end()) return std::nullopt;
  SizeCase size_case = *found;
  size_case.beside.reset();
  if (!cluster.beside.empty())
    size_case.beside = {read_node(catalog_.resolve("node", Node::scalar_node(cluster.beside)), catalog_),
                        cluster.beside_nodes};
  return size_case;
}

std::vector<SizeCase> SizeQuestion::all_cases(const std::vector<SizeCase>& cases,
                                              const std::vector<SizeRow>& rows) const {
  std::vector<SizeCase> all = cases;
  for (const SizeRow& row : rows) {
    const auto is_case = [&](const SizeCase& size_case) { return name_of(size_case).has_types_of(row); };
    if (row.beside.empty() || std::ranges::any_of(all, is_case)) continue;
    if (std::optional<SizeCase> size_case = case_of(row, cases)) all.push_back(std::move(*size_case));
  }
  return all;
}

Node SizeQuestion::scenario(const SizeCase& size_case, int nodes, bool searched) const {
  return sized_scenario(document_, size_case.model, size_case.node, nodes, searched,
                        size_case.beside ? &*size_case.beside : nullptr, &prices_.purchase);
}

SizeRow SizeQuestion::empty_row(const SizeCase& size_case, int nodes) const {
  SizeRow row;
  row.model = model_of(size_case);
  row.node = size_case.node.name;
  row.nodes = nodes;
  row.gpus = size_case.gpus(nodes);
  if (size_case.beside) {
    row.beside = size_case.beside->node.name;
    row.beside_nodes = size_case.beside->nodes;
  }
  take_racks(size_case, row);
  return row;
}

void SizeQuestion::take_racks(const SizeCase& size_case, SizeRow& row) const try {
  const std::optional<RackRoom> room = rack_room(site_, size_case.node, catalog_);
  if (!room || room->nodes == 0) return;
  row.nodes_of_rack = room->nodes;
  row.rack_limit = room->limit;
  row.racks = racks_of(site_, size_case.node, row.nodes, catalog_);
  if (size_case.beside) row.racks += racks_of(site_, size_case.beside->node, row.beside_nodes, catalog_);
} catch (const UserError&) {  // the limit of the site says why
  row.racks = 0;
}

SizeRow SizeQuestion::refused_row(const SizeCase& size_case, int nodes, const SiteLimit& limit) const {
  SizeRow row = empty_row(size_case, nodes);
  row.error = fmt::format("the site has room for {} nodes (site.{}){}", limit.nodes, limit.limit,
                          limit.shortage.empty() ? "" : ": " + limit.shortage);
  row.refused = true;
  return row;
}

std::optional<Site> SizeQuestion::site_for(const NodeType& node) const {
  std::optional<Site> room = site_;
  if (!options_.purchase) return room;
  for (const auto& [name, count] : prices_.purchase.owned_nodes)
    if (room && name != node.name && count > 0)
      room =
          site_beside(*room, {read_node(catalog_.resolve("node", Node::scalar_node(name)), catalog_), count}, catalog_);
  return room;
}

double SizeQuestion::days_left(const SizeCase& size_case, int nodes) const {
  constexpr double least = 1e-8;
  const NodeType& type = size_case.node;
  const double wait =
      options_.purchase ? prices_.purchase.delivery(type.name, type.gpu.name, nodes).value / kSecondsOfDay : 0;
  // Nodes that come after the deadline are in time by no purchase. Those that a rent would need are looked for.
  return wait < options_.days ? std::max(least, options_.days - wait) : options_.days;
}

double SizeQuestion::rough_hours(const SizeCase& size_case) {
  const Scenario s = read_scenario(scenario(size_case, 1, false), name_);
  training_tokens_ = tokens_of(s);
  const double peak = size_case.node.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value;
  return s.network.model_flops_per_token().value * training_tokens_ / (peak * kFirstMfu * kTrainingHour);
}

double SizeQuestion::steps_of(const Scenario& s) const {
  return training_tokens_ /
         (static_cast<double>(s.global_batch_size) * static_cast<double>(s.network.tokens_per_sample));
}

double SizeQuestion::tokens_of(const Scenario& s) const {
  if (options_.tokens_per_parameter > 0) return options_.tokens_per_parameter * s.network.parameters();
  return s.training.steps * static_cast<double>(s.global_batch_size) * static_cast<double>(s.network.tokens_per_sample);
}

PlanOutcome SizeQuestion::take_training(Node document, std::int64_t own_batch, SizeRow& row) const {
  const Scenario step = read_scenario(document, name_);
  if (options_.tokens_per_parameter > 0) {
    Node training = Node::empty_map(document.place);
    training.fields.emplace_back("tokens",
                                 Node::scalar_node(fmt::format("{:.0f}", tokens_of(step)), Place::named("size")));
    set_field(document, "plan.training", std::move(training));
  } else {
    set_field(document, "plan.training", *document_.find("plan")->find("training"));
    if (row.batch != own_batch) keep_samples(*document.find("plan")->find("training"), own_batch, row.batch);
  }
  if (const Node* faults = document_.find("faults")) document.fields.emplace_back("faults", *faults);
  if (Node* faults = document.find("faults"); faults && is_tpu(step.cluster.node)) set_checkpoint_times(*faults, step);
  return take_answer(std::move(document), row);
}

PlanOutcome SizeQuestion::take_answer(Node document, SizeRow& row) const {
  const Scenario s = read_scenario(document, name_);
  const double tokens_per_step =
      static_cast<double>(s.global_batch_size) * static_cast<double>(s.network.tokens_per_sample);
  const Result r = answer(s).result;
  const PlanOutcome outcome = outcome_of(s, r);
  row.document = std::move(document);
  row.peak = outcome.peak;
  row.memory_interval = outcome.memory_interval;
  row.risk = outcome.risk;
  row.parameters = s.network.parameters();
  row.steps = r.training_steps;
  row.tokens = r.training_steps * tokens_per_step;
  row.step_time = r.step_time.value;
  row.doubt = outcome.doubt;
  if (const std::string why = no_doubt_reason(s); options_.confidence > 0 && !why.empty())
    throw UserError("--confidence: the step has no interval: " + why);
  row.time = r.whole_time().value;
  row.mfu = r.mfu;
  row.goodput = r.failures ? r.failures->goodput : 1;
  row.gpu_hours = row.time / kTrainingHour * row.gpus;
  row.energy = r.training_energy();
  row.money = r.money ? r.money->training : 0;
  if (r.money) row.ownership = r.money->ownership;
  if (r.money) row.rents = r.money->rents;
  return outcome;
}

}  // namespace trainyard
