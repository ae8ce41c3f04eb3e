#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/network_entry.hpp"
#include "models/node.hpp"
#include "models/stack.hpp"
#include "models/training_memory.hpp"
#include "sim/output.hpp"
#include "strategies/collective.hpp"
#include "tools/arguments.hpp"
#include "tools/show_network.hpp"
#include "tools/table.hpp"
#include "tools/verbs.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// One column: its head on the screen, its key in JSON.
struct Column {
  const char* head;
  const char* key;
  bool right = false;
};
/// One field of an entry, for people and for programs.
struct Cell {
  std::string text;
  ordered_json value;
};
using Row = std::vector<Cell>;

Cell word(const std::string& text) { return {text, text}; }
Cell number(std::int64_t v) { return {fmt::format("{}", v), v}; }
/// Parameters: in millions, from ten thousand of them in billions.
Cell parameter_count(double n) {
  const bool billions = n >= 1e10;
  return {fmt::format("{:.4g} {}", n * (billions ? 1e-9 : 1e-6), billions ? 'B' : 'M'), std::llround(n)};
}
template <class Quantity>
Cell quantity(Quantity q) {
  return q.value > 0 ? Cell{show(q), q.value} : Cell{"-", nullptr};
}

Node name_of_entry(const std::string& name) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.scalar = name;
  return node;
}

std::vector<Row> gpus(const Catalog& catalog) {
  std::vector<Row> rows;
  for (const std::string& name : catalog.names("gpu")) {
    const Gpu gpu = read_gpu(catalog.resolve("gpu", name_of_entry(name)));
    const auto peak = [&gpu](Precision p) { return quantity(gpu.peak[static_cast<std::size_t>(p)]); };
    rows.push_back({word(name), peak(Precision::bf16), peak(Precision::fp16), peak(Precision::fp32),
                    quantity(gpu.memory_capacity), quantity(gpu.memory_bandwidth), quantity(gpu.nvlink),
                    quantity(gpu.pcie), quantity(gpu.power.busy)});
  }
  return rows;
}

std::vector<Row> nodes(const Catalog& catalog) {
  std::vector<Row> rows;
  for (const std::string& name : catalog.names("node")) {
    const NodeType node = read_node(catalog.resolve("node", name_of_entry(name)), catalog);
    const Cell rate = node.hcas == 0
                          ? Cell{"-", nullptr}
                          : Cell{fmt::format("{:.4g} Gbit/s", node.hca_rate.value * 8e-9), node.hca_rate.value};
    rows.push_back({word(name), number(node.gpus), word(node.gpu.name), word(node.interconnect), number(node.hcas),
                    rate, quantity(node.pcie_rate)});
  }
  return rows;
}

std::vector<Row> stacks(const Catalog& catalog) {
  std::vector<Row> rows;
  for (const std::string& name : catalog.names("stack")) {
    const SoftwareStack stack = read_stack(catalog.resolve("stack", name_of_entry(name)));
    rows.push_back({word(name), quantity(stack.bucket), word(stack.description)});
  }
  return rows;
}

std::vector<Row> networks(const Catalog& catalog) {
  std::vector<Row> rows;
  for (const std::string& name : catalog.names("network")) {
    const NetworkEntry entry = read_network_entry(catalog.resolve("network", name_of_entry(name)));
    const Network network = make_network(entry, 1, sample_tokens(entry), Precision::fp32);
    const TransformerConfig* c = entry.transformer();
    const auto size = [](std::int64_t v) { return v > 0 ? number(v) : Cell{"-", nullptr}; };
    rows.push_back({word(name),
                    parameter_count(network.parameters()),
                    parameter_count(network.active_parameters()),
                    word(entry.type),
                    c ? number(c->num_hidden_layers) : number(static_cast<std::int64_t>(network.layers.size())),
                    size(c ? c->hidden_size : 0),
                    size(c ? c->vocab_size : 0),
                    word(sample_text(entry)),
                    {show_flops(network.forward_flops()), network.forward_flops().value}});
  }
  return rows;
}

std::vector<Row> fabrics(const Catalog& catalog) {
  std::vector<Row> rows;
  for (const std::string& name : catalog.names("fabric")) {
    ClusterSpec spec;
    read_fabric(spec, catalog.resolve("fabric", name_of_entry(name)));
    std::vector<std::string> levels;
    for (const FabricLevel& level : spec.shape.levels)
      levels.push_back(fmt::format("{} at {}:1", level.down, level.oversubscription));
    if (spec.shape.rails) levels.emplace_back("rails");
    rows.push_back({word(name), word(spec.fabric), quantity(spec.switch_latency.seconds()),
                    word(fmt::format("{}", fmt::join(levels, ", ")))});
  }
  return rows;
}

std::vector<Row> list_collectives(const Catalog&) {
  std::vector<Row> rows;
  for (const Operation operation : {Operation::all_reduce})
    for (const std::string& name : collectives(operation).names())
      rows.push_back({word(name_of(operation)), word(name)});
  return rows;
}

std::vector<Row> interconnects(const Catalog&) {
  std::vector<Row> rows;
  for (const std::string& name : node_builders().names()) rows.push_back({word(name)});
  return rows;
}

std::vector<Row> list_optimizers(const Catalog&) {
  std::vector<Row> rows;
  for (const Optimizer& optimizer : optimizers()) {
    const Bytes state = optimizer_state_size(optimizer, Precision::bf16);
    const Bytes traffic = optimizer_traffic(optimizer, Precision::bf16);
    rows.push_back({word(optimizer.name), number(optimizer.states), quantity(state), quantity(traffic)});
  }
  return rows;
}

/// What the file's first line, a comment, says.
std::string first_comment(const std::filesystem::path& file) {
  std::FILE* in = std::fopen(file.c_str(), "r");
  if (!in) return "";
  char line[240] = "";
  if (!std::fgets(line, sizeof line, in)) line[0] = 0;
  std::fclose(in);
  std::string text = line;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text.starts_with("# ") ? text.substr(2) : "";
}

std::vector<Row> scenarios(const Catalog&) {
  std::vector<Row> rows;
  std::error_code ignored;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios", ignored))
    if (file.path().extension() == ".yaml")
      rows.push_back({word("scenarios/" + file.path().filename().string()), word(first_comment(file.path()))});
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a[0].text < b[0].text; });
  return rows;
}

struct Listing {
  const char* name;  ///< plural
  const char* what;
  std::vector<Column> columns;
  std::vector<Row> (*rows)(const Catalog&);
};

const std::vector<Listing>& listings() {
  static const std::vector<Listing> all{
      {"gpus",
       "cluster.node.gpu.type; peaks dense, links per direction",
       {{"name", "name"},
        {"bf16", "peak_bf16_FLOPps", true},
        {"fp16", "peak_fp16_FLOPps", true},
        {"fp32", "peak_fp32_FLOPps", true},
        {"memory", "memory_bytes", true},
        {"bandwidth", "memory_Bps", true},
        {"NVLink", "nvlink_Bps", true},
        {"PCIe", "pcie_Bps", true},
        {"power", "power_W", true}},
       gpus},
      {"nodes",
       "cluster.node",
       {{"name", "name"},
        {"GPUs", "gpus", true},
        {"type", "gpu"},
        {"interconnect", "interconnect"},
        {"HCAs", "hcas", true},
        {"HCA rate", "hca_Bps", true},
        {"PCIe", "pcie_Bps", true}},
       nodes},
      {"fabrics",
       "cluster.fabric",
       {{"name", "name"},
        {"type", "type"},
        {"switch latency", "switch_latency_s", true},
        {"levels (down, oversubscription)", "levels"}},
       fabrics},
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
      {"collectives",
       "plan.data_parallel.all_reduce",
       {{"operation", "operation"}, {"name", "name"}},
       list_collectives},
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
  return all;
}

const Listing& find_listing(const std::string& word) {
  std::vector<std::string> names;
  for (const Listing& listing : listings()) {
    names.emplace_back(listing.name);
    if (same_name(word, names.back()) || same_name(word + "s", names.back())) return listing;
  }
  throw UserError(fmt::format("trainyard list: unknown kind \"{}\"{}", word, hint(word, names)));
}

std::string listing_text(const Listing& listing, const std::vector<Row>& rows) {
  TextTable table;
  for (const Column& column : listing.columns) {
    table.head.emplace_back(column.head);
    table.right.push_back(column.right);
  }
  for (const Row& row : rows) {
    auto& cells = table.rows.emplace_back();
    for (const Cell& cell : row) cells.push_back(cell.text);
  }
  return fmt::format("{} ({})\n{}", listing.name, listing.what, table.text("  "));
}

ordered_json listing_json(const Listing& listing, const std::vector<Row>& rows) {
  ordered_json out = ordered_json::array();
  for (const Row& row : rows) {
    ordered_json& entry = out.emplace_back(ordered_json::object());
    for (std::size_t i = 0; i < row.size(); ++i) entry[listing.columns[i].key] = row[i].value;
  }
  return out;
}

int list(const std::vector<std::string>& words) {
  Arguments arguments("list",
                      "What scenarios can name: hardware, networks, software, algorithms, with their main figures.",
                      "list gpus");
  std::string kind, json;
  arguments.positional(
      "KIND", kind, "gpus, nodes, fabrics, networks, stacks, collectives, interconnects, optimizers, scenarios", false);
  arguments.option("--json", json, "FILE", "write the list as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (!json.empty()) check_writable(json);
  std::vector<const Listing*> chosen;
  if (!kind.empty()) chosen.push_back(&find_listing(kind));
  if (kind.empty())
    for (const Listing& listing : listings()) chosen.push_back(&listing);

  const Catalog catalog;
  std::string text;
  ordered_json out = ordered_json::object();
  for (const Listing* listing : chosen) {
    const std::vector<Row> rows = listing->rows(catalog);
    if (!text.empty()) text += '\n';
    text += listing_text(*listing, rows);
    out[listing->name] = listing_json(*listing, rows);
  }
  if (!json.empty()) write_whole(json, out.dump(2) + "\n");
  if (json != "-") write_whole("-", text);
  return kGood;
}

const RegisterVerb registered_list{"list", "what scenarios can name, with the main figures", list};

}  // namespace
}  // namespace trainyard
