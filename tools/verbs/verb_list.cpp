#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>

#include "models/fitted/nccl_model.hpp"
#include "models/hardware/attention_kernel.hpp"
#include "models/networks/network_entry.hpp"
#include "models/reading/shipped_files.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/studies/batch_error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/values/learning/task_choice.hpp"
#include "tools/reports/listing.hpp"
#include "tools/reports/show_network.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// Parameters: in millions, from ten thousand of them in billions.
ListCell parameter_count(double n) {
  const bool billions = n >= 1e10;
  return {fmt::format("{:.4g} {}", n * (billions ? 1e-9 : 1e-6), billions ? 'B' : 'M'), std::int64_t{std::llround(n)}};
}
ListCell list_percent(double share) {
  return share > 0 ? ListCell{fmt::format("{:.1f} %", share * 100), share} : ListCell{"-", nullptr};
}

std::vector<ListRow> stacks(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("stack")) {
    const SoftwareStack stack = read_stack(catalog.resolve("stack", Node::of_text(name)));
    rows.push_back({list_word(name), list_quantity(stack.bucket), list_word(stack.description)});
  }
  return rows;
}

std::vector<ListRow> nccls(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("nccl")) {
    const NcclModel model = read_nccl_model(catalog.resolve("nccl", Node::of_text(name)));
    rows.push_back({list_word(name), list_word(model.gpu), list_word(model.version), list_quantity(model.link),
                    list_percent(model.median_error), list_percent(model.p90_error)});
  }
  return rows;
}

std::vector<ListRow> nccl_networks(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("nccl-network")) {
    const NcclNetwork network = read_nccl_network(catalog.resolve("nccl-network", Node::of_text(name)));
    rows.push_back({list_word(name), list_number(network.systems), list_percent(network.share_ring),
                    list_percent(network.share_tree), list_percent(network.share_pairs),
                    list_percent(network.median_error), list_percent(network.p90_error)});
  }
  return rows;
}

std::vector<ListRow> dispatchers(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("dispatcher")) {
    const Node reference = Node::of_text(name);
    const ExpertDispatcher dispatcher = read_expert_dispatcher(catalog, reference);
    const Node entry = catalog.resolve("dispatcher", reference);
    const Node* description = entry.find("description");
    rows.push_back({list_word(name), list_percent(dispatcher.hca_share), list_percent(dispatcher.nvlink_share),
                    list_word(description ? description->scalar : "")});
  }
  return rows;
}

std::vector<ListRow> batch_errors(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("batch-error")) {
    const std::string network = catalog.resolve("batch-error", Node::of_text(name)).find("network")->scalar;
    const BatchErrorCurve curve = *batch_error_curve(catalog, network);
    rows.push_back({list_word(name), list_word(network), list_number(std::llround(curve.flat_up_to)),
                    list_word(fmt::format("{:.2f} %", curve.flat))});
  }
  return rows;
}

std::vector<ListRow> attentions(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("attention")) {
    const AttentionKernel kernel = read_attention_kernel(catalog.resolve("attention", Node::of_text(name)));
    std::vector<std::string> rates;
    for (const auto& [architecture, rate] : kernel.of_architecture)
      rates.push_back(fmt::format("{} {:.3g} / {:.3g}", architecture, rate.forward, rate.backward));
    rows.push_back(
        {list_word(name), list_word(fmt::format("{}", fmt::join(rates, ", "))), list_word(kernel.description)});
  }
  return rows;
}

std::vector<ListRow> networks(const Catalog& catalog) {
  std::vector<ListRow> rows;
  for (const std::string& name : catalog.names("network")) {
    const NetworkEntry entry = read_network_entry(catalog.resolve("network", Node::of_text(name)));
    const Network network = make_network(entry, 1, sample_tokens(entry), Precision::fp32);
    const TransformerConfig* c = entry.transformer();
    const auto size = [](std::int64_t v) { return v > 0 ? list_number(v) : ListCell{"-", nullptr}; };
    rows.push_back(
        {list_word(name),
         parameter_count(network.parameters()),
         parameter_count(network.active_parameters()),
         list_word(entry.type),
         c ? list_number(c->num_hidden_layers) : list_number(static_cast<std::int64_t>(network.layers.size())),
         size(c ? c->hidden_size : 0),
         size(c ? c->vocab_size : 0),
         list_word(sample_text(entry)),
         {show_flops(network.forward_flops()), network.forward_flops().value}});
  }
  return rows;
}

std::vector<ListRow> list_collectives(const Catalog&) {
  std::vector<ListRow> rows;
  for (int i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    for (const std::string& name : collectives(operation).names())
      rows.push_back({list_word(name_of(operation)), list_word(name)});
  }
  return rows;
}

std::vector<ListRow> list_pipelines(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::string& name : pipeline_schedules().names())
    rows.push_back({list_word(name), list_word(pipeline_schedules().find(name, {}).description)});
  return rows;
}

std::vector<ListRow> list_strategies(const Catalog&) {
  std::vector<ListRow> rows;
  for (const FrameworkMode& mode : framework_modes()) {
    const std::string zero = mode.least_zero_stage == mode.most_zero_stage
                                 ? fmt::format("{}", mode.zero_stage)
                                 : fmt::format("{} to {}", mode.least_zero_stage, mode.most_zero_stage);
    rows.push_back({list_word(mode.name), list_word(mode.mechanism), list_word(zero),
                    list_word(fmt::format("{}", fmt::join(mode.schedules, " "))),
                    list_word(mode.stack.empty() ? "plain" : mode.stack), list_word(mode.description)});
  }
  return rows;
}

std::vector<ListRow> list_mechanisms(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::string& name : mechanisms().names()) {
    const MechanismKind& kind = mechanisms().find(name, {});
    rows.push_back({list_word(name),
                    list_word(fmt::format("{}", fmt::join(std::views::transform(kind.keys, &Key::name), " "))),
                    list_word(kind.description)});
  }
  return rows;
}

std::vector<ListRow> list_compressors(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::string& name : compressors().names()) {
    const CompressorKind& kind = compressors().find(name, {});
    rows.push_back({list_word(name), list_word(kind.exchange), list_word(fmt::format("{}", fmt::join(kind.keys, " "))),
                    list_word(kind.description)});
  }
  return rows;
}

std::vector<ListRow> interconnects(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::string& name : node_builders().names()) rows.push_back({list_word(name)});
  return rows;
}

std::vector<ListRow> list_tasks(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::string& name : learning_tasks().names())
    rows.push_back({list_word(name), list_word(learning_tasks().find(name, {}).description)});
  return rows;
}

std::vector<ListRow> list_optimizers(const Catalog&) {
  std::vector<ListRow> rows;
  for (const Optimizer& optimizer : optimizers()) {
    const Bytes state = optimizer_state_size(optimizer, Precision::bf16);
    const Bytes traffic = optimizer_traffic(optimizer, Precision::bf16);
    rows.push_back(
        {list_word(optimizer.name), list_number(optimizer.states), list_quantity(state), list_quantity(traffic)});
  }
  return rows;
}

/// What the file's first line, a comment, says.
std::string first_comment(const std::filesystem::path& file) {
  check_input(file);
  std::FILE* in = std::fopen(file.c_str(), "r");
  if (!in) return "";
  char line[240] = "";
  if (!std::fgets(line, sizeof line, in)) line[0] = 0;
  std::fclose(in);
  std::string text = line;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text.starts_with("# ") ? text.substr(2) : "";
}

std::vector<ListRow> scenarios(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::filesystem::path& file : shipped_yaml_files("scenarios"))
    rows.push_back({list_word("scenarios/" + file.filename().string()), list_word(first_comment(file))});
  return rows;
}

const std::vector<Listing>& listings() {
  static const std::vector<Listing> all = [] {
    std::vector<Listing> together = hardware_listings();
    const std::vector<Listing> others{
        {"networks",
         "model; forward FLOPs of one sample, a multiply-add is two",
         {{"name", "name"},
          {"parameters", "parameters", true},
          {"active a token", "active_parameters", true},
          {"type", "model_type"},
          {"layers", "num_hidden_layers", true},
          {"hidden", "hidden_size", true},
          {"vocabulary", "vocab_size", true},
          {"sample", "sample", true},
          {"forward", "forward_FLOPs", true}},
         networks},
        {"stacks", "software", {{"name", "name"}, {"bucket", "bucket_bytes", true}, {"what", "description"}}, stacks},
        {"attentions",
         "attention_kernel of a stack; shares of the peak, forward / backward",
         {{"name", "name"}, {"of the peak", "rates"}, {"what", "description"}},
         attentions},
        {"nccls",
         "fitted models of NCCL; errors on held-out rows",
         {{"name", "name"},
          {"gpu", "gpu"},
          {"NCCL", "nccl_version"},
          {"link", "link_Bps", true},
          {"median error", "median_abs_error", true},
          {"p90", "p90_abs_error", true}},
         nccls},
        {"nccl-networks",
         "cluster.hca.nccl_network: NCCL over a kind of network; shares of its rate, errors of systems left out",
         {{"name", "name"},
          {"systems", "systems", true},
          {"rings", "ring_share", true},
          {"trees", "tree_share", true},
          {"pairs", "pair_share", true},
          {"median error", "median_abs_error", true},
          {"p90", "p90_abs_error", true}},
         nccl_networks},
        {"dispatchers",
         "plan.expert_parallel.dispatcher, beside all-to-all; shares of the links' rates",
         {{"name", "name"}, {"HCAs", "hca_share", true}, {"NVLink", "nvlink_share", true}, {"what", "description"}},
         dispatchers},
        {"batch-errors",
         "explain --batch: published validation errors by batch",
         {{"name", "name"},
          {"network", "network"},
          {"flat up to", "flat_up_to_samples", true},
          {"error there", "flat_error"}},
         batch_errors},
        {"collectives",
         "plan.data_parallel.all_reduce",
         {{"operation", "operation"}, {"name", "name"}},
         list_collectives},
        {"pipelines",
         "schedules: orders of work on a stage",
         {{"name", "name"}, {"what", "description"}},
         list_pipelines},
        {"mechanisms",
         "plan.data_parallel.mechanism: how replicas come to common parameters",
         {{"name", "name"}, {"keys of its own", "keys"}, {"what", "description"}},
         list_mechanisms},
        {"tasks", "learn.task: what a small training learns", {{"name", "name"}, {"what", "description"}}, list_tasks},
        {"compressors",
         "plan.data_parallel.compression: what replicas exchange in place of gradients",
         {{"name", "name"}, {"exchanged by", "exchange"}, {"keys", "keys"}, {"what", "description"}},
         list_compressors},
        {"strategies",
         "plan.strategy: what frameworks call it",
         {{"name", "name"},
          {"gradients meet by", "mechanism"},
          {"ZeRO", "zero_stages"},
          {"pipelines", "pipeline_schedules"},
          {"software", "software"},
          {"what", "description"}},
         list_strategies},
        {"interconnects", "interconnect of a node", {{"name", "name"}}, interconnects},
        {"optimizers",
         "plan.optimizer; bytes a parameter beside a 16-bit parameter and gradient",
         {{"name", "name"},
          {"states", "states", true},
          {"kept", "kept_bytes_per_parameter", true},
          {"read and written", "traffic_bytes_per_parameter", true}},
         list_optimizers},
        {"scenarios", "ready to run, of this installation", {{"file", "file"}, {"what", "what"}}, scenarios},
    };
    together.insert(together.end(), others.begin(), others.end());
    return together;
  }();
  return all;
}

const Listing& find_listing(const std::string& word) {
  std::vector<std::string> names;
  const std::string asked = word == "models" || word == "model" ? "networks" : word;  // a scenario's word for them
  for (const Listing& listing : listings()) {
    names.emplace_back(listing.name);
    if (same_name(asked, names.back()) || same_name(asked + "s", names.back())) return listing;
  }
  throw UserError(fmt::format("trainyard list: unknown kind \"{}\"{}", word, hint(word, names)));
}

std::string listing_text(const Listing& listing, const std::vector<ListRow>& rows) {
  TextTable table;
  for (const ListColumn& column : listing.columns) {
    table.head.emplace_back(column.head);
    table.right.push_back(column.right);
  }
  for (const ListRow& row : rows) {
    auto& cells = table.rows.emplace_back();
    for (const ListCell& cell : row) cells.push_back(cell.text);
  }
  return fmt::format("{} ({})\n{}", listing.name, listing.what, table.text("  "));
}

ordered_json listing_json(const Listing& listing, const std::vector<ListRow>& rows) {
  ordered_json out = ordered_json::array();
  for (const ListRow& row : rows) {
    ordered_json& entry = out.emplace_back(ordered_json::object());
    for (std::size_t i = 0; i < row.size(); ++i)
      std::visit([&entry, key = listing.columns[i].key](const auto& value) { entry[key] = value; }, row[i].value);
  }
  return out;
}

int list(const std::vector<std::string>& words) {
  Arguments arguments("list",
                      "What scenarios can name: hardware, networks, software, algorithms, with their main figures.",
                      "list gpus");
  std::string kind, json;
  std::vector<std::string> kinds;
  for (const auto& [name, what] : listed_kinds()) kinds.push_back(name == "networks" ? name + " (or models)" : name);
  arguments.positional("KIND", kind, fmt::format("{}", fmt::join(kinds, ", ")), false);
  arguments.output("--json", json, "write the list as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  std::vector<const Listing*> chosen;
  if (!kind.empty()) chosen.push_back(&find_listing(kind));
  if (kind.empty())
    for (const Listing& listing : listings()) chosen.push_back(&listing);

  const Catalog catalog;
  std::string text;
  ordered_json out = ordered_json::object();
  for (const Listing* listing : chosen) {
    const std::vector<ListRow> rows = listing->rows(catalog);
    if (!text.empty()) text += '\n';
    text += listing_text(*listing, rows);
    out[listing->name] = listing_json(*listing, rows);
  }
  if (!json.empty()) write_atomically(json, json_text(out, 2) + "\n");
  if (json != "-") write_atomically("-", text);
  return kGood;
}

const RegisterVerb registered_list{"list", "what scenarios can name, with the main figures", list};

}  // namespace

std::vector<std::pair<std::string, std::string>> listed_kinds() {
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const Listing& listing : listings()) kinds.emplace_back(listing.name, listing.what);
  return kinds;
}

}  // namespace trainyard
