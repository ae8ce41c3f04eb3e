#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>

#include "models/fitted/nccl_model.hpp"
#include "models/generation/engine.hpp"
#include "models/generation/rl_stack.hpp"
#include "models/hardware/attention_kernel.hpp"
#include "models/networks/network_entry.hpp"
#include "models/reading/shipped_files.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/framework_modes.hpp"
#include "scenarios/src/studies/batch_study.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/values/learning/task_choice.hpp"
#include "tools/reports/listing.hpp"
#include "tools/reports/show_network.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// A number of parameters, in millions; in billions from 10 billion on.
ListCell parameter_count(double n) {
  const bool billions = n >= 1e10;
  return {fmt::format("{:.4g} {}", n * (billions ? 1e-9 : 1e-6), billions ? 'B' : 'M'), std::int64_t{std::llround(n)}};
}
ListCell list_percent(double share) {
  return share > 0 ? ListCell{fmt::format("{:.1f} %", share * 100), share} : ListCell{"-", nullptr};
}

/// The listing of a registry. Each entry has its name in the first column, and in `columns` the cells that `row` makes
/// of it.
template <class T, class Row>
Listing registry_listing(const char* name, Registry<T>& (*registry)(), const char* what,
                         std::vector<ListColumn> columns, Row row) {
  columns.insert(columns.begin(), {"name", "name"});
  return {name, what, std::move(columns), [registry, row](const Catalog&) {
            std::vector<ListRow> rows;
            for (const std::string& entry : registry().names()) {
              rows.push_back({entry});
              for (ListCell& cell : row(registry().find(entry, {}))) rows.back().push_back(cell);
            }
            return rows;
          }};
}

/// The text of the comment in the file's first line; "" if that line is no comment.
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

ListRow network_row(const Node& reference, const Catalog&) {
  const NetworkEntry entry = read_network_entry(reference);
  const Network network = make_network(entry, 1, sample_tokens(entry), Precision::fp32);
  const TransformerConfig* c = entry.transformer();
  return {parameter_count(network.parameters()),
          parameter_count(network.active_parameters()),
          entry.type,
          c ? c->num_hidden_layers : static_cast<std::int64_t>(network.layers.size()),
          list_stated(c ? c->hidden_size : 0),
          list_stated(c ? c->vocab_size : 0),
          sample_text(entry),
          {show_flops(network.forward_flops()), network.forward_flops().value}};
}

ListRow attention_row(const Node& entry, const Catalog&) {
  const AttentionKernel kernel = read_attention_kernel(entry);
  std::vector<std::string> rates;
  for (const auto* chips : {&kernel.by_architecture, &kernel.by_gpu})
    for (const auto& [chip, rate] : *chips)
      rates.push_back(fmt::format("{} {:.3g} / {:.3g}", chip, rate.forward, rate.backward));
  return {fmt::format("{}", fmt::join(rates, ", ")), kernel.description};
}

ListRow dispatcher_row(const Node& entry, const Catalog& catalog) {
  const ExpertDispatcher dispatcher = read_expert_dispatcher(catalog, *entry.find("name"));
  const Node* description = entry.find("description");
  return {list_percent(dispatcher.hca_share), list_percent(dispatcher.nvlink_share),
          fmt::format("{} x {}", dispatcher.sms, show(dispatcher.rate_per_sm)), description ? description->scalar : ""};
}

ListRow batch_error_row(const Node& entry, const Catalog& catalog) {
  const std::string network = entry.find("network")->scalar;
  const BatchErrorCurve curve = *batch_error_curve(catalog, network);
  return {network, std::lround(curve.flat_up_to), fmt::format("{:.2f} %", curve.flat)};
}

std::vector<ListRow> collective_rows(const Catalog&) {
  std::vector<ListRow> rows;
  for (int i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    for (const std::string& name : collectives(operation).names()) rows.push_back({name_of(operation), name});
  }
  return rows;
}

std::vector<ListRow> strategy_rows(const Catalog&) {
  std::vector<ListRow> rows;
  for (const FrameworkMode& mode : framework_modes()) {
    const std::string zero = mode.least_zero_stage == mode.most_zero_stage
                                 ? fmt::format("{}", mode.zero_stage)
                                 : fmt::format("{} to {}", mode.least_zero_stage, mode.most_zero_stage);
    rows.push_back({mode.name, mode.mechanism, zero, fmt::format("{}", fmt::join(mode.schedules, " ")),
                    mode.stack.empty() ? "plain" : mode.stack, mode.description});
  }
  return rows;
}

std::vector<ListRow> optimizer_rows(const Catalog&) {
  constexpr double kSide = 4096;
  // The bytes that a parameter of a tensor of in x out elements keeps and moves in bf16.
  const auto bytes = [](const Optimizer& optimizer, double in, double out) {
    Layer layer;
    layer.name = "block";
    layer.parameters = {{.name = "weight", .elements = in * out, .in = in, .out = out}};
    HeldElements held = held_elements({&layer}, {}, {});
    Work work = optimizer_work(held.optimizer, Precision::bf16, optimizer);
    add_matrix_updates(work, held, {&layer}, {}, {}, optimizer, Precision::bf16);
    return std::pair{model_states(held, Precision::bf16, optimizer).optimizer / (in * out), work.bytes / (in * out)};
  };
  std::vector<ListRow> rows;
  for (const Optimizer& optimizer : optimizers()) {
    const auto [kept, moved] = bytes(optimizer, 1, kSide);
    const auto [kept_in_matrix, moved_in_matrix] = bytes(optimizer, kSide, kSide);
    rows.push_back({optimizer.name, optimizer.states, kept, moved, kept_in_matrix, moved_in_matrix});
  }
  return rows;
}

std::vector<ListRow> scenario_rows(const Catalog&) {
  std::vector<ListRow> rows;
  for (const std::filesystem::path& file : shipped_yaml_files("scenarios"))
    rows.push_back({"scenarios/" + file.filename().string(), first_comment(file)});
  return rows;
}

const auto description_of = [](const auto& kind) -> ListRow { return {kind.description}; };

const std::vector<Listing>& listings() {
  static const std::vector<Listing> all = [] {
    std::vector<Listing> together = hardware_listings();
    const std::vector<Listing> others{
        catalog_listing("networks", "network", "model; forward FLOPs of one sample, a multiply-add is two",
                        {{"parameters", "parameters", true},
                         {"active a token", "active_parameters", true},
                         {"type", "model_type"},
                         {"layers", "num_hidden_layers", true},
                         {"hidden", "hidden_size", true},
                         {"vocabulary", "vocab_size", true},
                         {"sample", "sample", true},
                         {"forward", "forward_FLOPs", true}},
                        network_row),
        catalog_listing("stacks", "stack", "software", {{"bucket", "bucket_bytes", true}, {"what", "description"}},
                        [](const Node& entry, const Catalog&) -> ListRow {
                          const SoftwareStack stack = read_stack(entry);
                          return {stack.bucket, stack.description};
                        }),
        catalog_listing("attentions", "attention",
                        "attention_kernel of a stack; shares of the peak, forward / backward",
                        {{"of the peak", "rates"}, {"what", "description"}}, attention_row),
        catalog_listing("nccls", "nccl", "fitted models of NCCL; errors on held-out rows",
                        {{"gpu", "gpu"},
                         {"NCCL", "nccl_version"},
                         {"link", "link_Bps", true},
                         {"median error", "median_abs_error", true},
                         {"p90", "p90_abs_error", true}},
                        [](const Node& entry, const Catalog&) -> ListRow {
                          const NcclModel model = read_nccl_model(entry);
                          return {model.gpu, model.version, model.link, list_percent(model.median_error),
                                  list_percent(model.p90_error)};
                        }),
        catalog_listing(
            "nccl-networks", "nccl-network",
            "cluster.hca.nccl_network: NCCL over a kind of network; shares of its rate, errors of systems left out",
            {{"systems", "systems", true},
             {"rings", "ring_share", true},
             {"trees", "tree_share", true},
             {"pairs", "pair_share", true},
             {"median error", "median_abs_error", true},
             {"p90", "p90_abs_error", true}},
            [](const Node& entry, const Catalog&) -> ListRow {
              const NcclNetwork network = read_nccl_network(entry);
              return {network.systems,
                      list_percent(network.share_ring),
                      list_percent(network.share_tree),
                      list_percent(network.share_pairs),
                      list_percent(network.median_error),
                      list_percent(network.p90_error)};
            }),
        catalog_listing(
            "dispatchers", "dispatcher",
            "plan.expert_parallel.dispatcher, beside all-to-all; shares of the links' rates, and the rate of its SMs",
            {{"HCAs", "hca_share", true}, {"NVLink", "nvlink_share", true}, {"SMs", "sms"}, {"what", "description"}},
            dispatcher_row),
        catalog_listing("engines", "engine",
                        "post_training.generation.engine: host time of a decode step and for each running sequence, "
                        "and further time "
                        "of a sequence of a network with experts",
                        {{"release", "release"},
                         {"a step", "host_step_s", true},
                         {"a sequence", "host_sequence_s", true},
                         {"with experts", "expert_sequence_s", true}},
                        [](const Node& entry, const Catalog&) -> ListRow {
                          const Engine engine = read_engine(entry);
                          return {engine.release, engine.host_step, engine.host_sequence, engine.expert_sequence};
                        }),
        catalog_listing("rl-stacks", "rl-stack",
                        "post_training.stack: time of a sample besides the parts of a step, and of a colocated step",
                        {{"a sample", "loop_sample_s", true}, {"reload", "reload_s", true}},
                        [](const Node& entry, const Catalog&) -> ListRow {
                          const RlStack stack = read_rl_stack(entry);
                          return {stack.loop_sample, stack.reload};
                        }),
        catalog_listing(
            "weight-transfers", "weight-transfer",
            "post_training.weights: rate at which a policy comes to the engines, start, host time of a tensor",
            {{"rate", "rate_Bps", true}, {"start", "start_s", true}, {"a tensor", "tensor_s", true}},
            [](const Node& entry, const Catalog&) -> ListRow {
              const WeightTransfer transfer = read_weight_transfer(entry);
              return {transfer.rate, transfer.start, transfer.tensor};
            }),
        catalog_listing(
            "batch-errors", "batch-error", "explain --batch: published validation errors by batch",
            {{"network", "network"}, {"flat up to", "flat_up_to_samples", true}, {"error there", "flat_error"}},
            batch_error_row),
        {"collectives",
         "plan.data_parallel.all_reduce",
         {{"operation", "operation"}, {"name", "name"}},
         collective_rows},
        registry_listing(
            "pipelines", pipeline_schedules,
            "schedules; p: stages, m: micro-batches, v: chunks; F, B, W: forward, input- and weight-gradient pass",
            {{"bubble of a step", "bubble"}, {"activations", "activations"}, {"what", "description"}},
            [](const PipelineSchedule& schedule) -> ListRow {
              return {schedule.bubble, schedule.activations, schedule.description};
            }),
        registry_listing("mechanisms", mechanisms,
                         "plan.data_parallel.mechanism: how replicas come to common parameters",
                         {{"keys of its own", "keys"}, {"what", "description"}},
                         [](const MechanismKind& kind) -> ListRow {
                           return {fmt::format("{}", fmt::join(std::views::transform(kind.keys, &Key::name), " ")),
                                   kind.description};
                         }),
        registry_listing("tasks", learning_tasks, "learn.task: what a small training learns", {{"what", "description"}},
                         description_of),
        registry_listing("compressors", compressors,
                         "plan.data_parallel.compression: what replicas exchange in place of gradients",
                         {{"exchanged by", "exchange"}, {"keys", "keys"}, {"what", "description"}},
                         [](const CompressorKind& kind) -> ListRow {
                           return {kind.exchange, fmt::format("{}", fmt::join(kind.keys, " ")), kind.description};
                         }),
        {"strategies",
         "plan.strategy: the names that frameworks use",
         {{"name", "name"},
          {"gradients meet by", "mechanism"},
          {"ZeRO", "zero_stages"},
          {"pipelines", "pipeline_schedules"},
          {"software", "software"},
          {"what", "description"}},
         strategy_rows},
        registry_listing("interconnects", node_builders, "interconnect of a node", {},
                         [](const NodeBuilder&) { return ListRow(); }),
        {"optimizers",
         "plan.optimizer; bytes a parameter beside 16-bit parameter and gradient; matrix: 4,096 x 4,096",
         {{"name", "name"},
          {"states", "states", true},
          {"kept", "kept_bytes_per_parameter", true},
          {"read and written", "traffic_bytes_per_parameter", true},
          {"in a matrix: kept", "kept_bytes_in_matrix", true},
          {"read and written", "traffic_bytes_in_matrix", true}},
         optimizer_rows},
        {"scenarios", "ready to run, of this installation", {{"file", "file"}, {"what", "what"}}, scenario_rows},
    };
    together.insert(together.end(), others.begin(), others.end());
    return together;
  }();
  return all;
}

const Listing& find_listing(const std::string& word) {
  std::vector<std::string> names;
  // Scenarios call networks models.
  const std::string kind = word == "models" || word == "model" ? "networks" : word;
  for (const Listing& listing : listings()) {
    names.emplace_back(listing.name);
    if (same_name(kind, names.back()) || same_name(kind + "s", names.back())) return listing;
  }
  throw UserError(fmt::format("trainyard list: unknown kind \"{}\"{}", word, hint(word, names)));
}

std::string listing_text(const Listing& listing, const std::vector<ListRow>& rows) {
  TextTable table;
  for (const ListColumn& column : listing.columns) table.add_column(column.head, column.right);
  for (const ListRow& row : rows) {
    auto& cells = table.rows.emplace_back();
    for (const ListCell& cell : row) cells.push_back(cell.text);
  }
  constexpr std::size_t most = 120;  // columns
  return fmt::format("{} ({})\n{}", listing.name, listing.what, table.text("  ", most));
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
  Arguments arguments(
      "list",
      "Lists the names that scenarios can use: hardware, networks, software and algorithms, with their main figures.",
      "list gpus");
  std::string kind, json;
  std::vector<std::string> kinds, more;
  for (const auto& [name, what] : listed_kinds()) kinds.push_back(name == "networks" ? name + " (or models)" : name);
  arguments.positional("KIND", kind, fmt::format("{}", fmt::join(kinds, ", ")), false);
  arguments.positionals("MORE", more, "further kinds");
  arguments.output("--json", json, "write the list as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  std::vector<const Listing*> chosen;
  if (!kind.empty()) more.insert(more.begin(), kind);
  for (const std::string& word : more)
    if (const Listing* listing = &find_listing(word); std::ranges::find(chosen, listing) == chosen.end())
      chosen.push_back(listing);
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
  write_json(json, out);
  if (json != "-") write_atomically("-", text);
  return kGood;
}

const RegisterVerb registered_list{"list", VerbGroup::prepare,
                                   "list the names that scenarios can use, with their main figures", list};

/// A row for each kind, and one for each column. Only the values of the entries tell a number from a text.
std::vector<FieldRow> listing_json_rows() {
  const Catalog catalog;
  std::vector<FieldRow> rows;
  for (const Listing& listing : listings()) {
    const std::vector<ListRow> entries = listing.rows(catalog);
    const std::string when = fmt::format("with {} or no KIND", listing.name);
    rows.push_back({listing.name, "list", fmt::format("{}: {}", listing.name, listing.what), when});
    for (std::size_t i = 0; i < listing.columns.size(); ++i) {
      const bool is_number = std::ranges::any_of(entries, [i](const ListRow& row) {
        return std::holds_alternative<double>(row[i].value) || std::holds_alternative<std::int64_t>(row[i].value);
      });
      rows.push_back({fmt::format("{}[].{}", listing.name, listing.columns[i].key), is_number ? "number" : "text",
                      fmt::format("column \"{}\" of the list", listing.columns[i].head), when});
    }
  }
  return rows;
}

const RegisterJsonReference list_json_reference{
    "list", "entries by kind; a number is in the unit that its key names, and null if it is not stated",
    listing_json_rows};

}  // namespace

std::vector<std::pair<std::string, std::string>> listed_kinds() {
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const Listing& listing : listings()) kinds.emplace_back(listing.name, listing.what);
  return kinds;
}

}  // namespace trainyard
