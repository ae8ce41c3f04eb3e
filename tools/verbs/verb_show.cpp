#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/energy/energy.hpp"
#include "models/fitted/measured_family.hpp"
#include "models/fitted/nccl_model.hpp"
#include "models/generation/engine.hpp"
#include "models/generation/rl_stack.hpp"
#include "models/hardware/attention_kernel.hpp"
#include "models/hardware/node_parts.hpp"
#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "models/software/expert_dispatcher.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "tools/reports/entry_yaml.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/show_network.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// One view of a scenario or an entry: a text for the screen, and the same as JSON.
struct View {
  std::string text;
  ordered_json json;
};

/// A change of memory: "+1.50 GiB" for an allocation, "-1.50 GiB" for a release, "" for none.
std::string signed_size(double bytes) {
  if (bytes == 0) return "";
  return (bytes > 0 ? "+" : "-") + show(Bytes{std::abs(bytes)});
}

View schedule_view(const Scenario& s, int rank, bool all) {
  if (rank < 0 || rank >= s.ranks())
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", rank, s.ranks() - 1));
  constexpr std::size_t screenful = 60;
  const Schedule lines = schedule(plan(s), rank, all ? std::numeric_limits<std::size_t>::max() : screenful);
  TextTable table{">op", "stream", "kind", ">FLOPs", ">bytes", ">memory", "after", "what"};
  for (const ScheduleLine& line : lines.lines) {
    std::string what = line.what;
    if (line.peer >= 0) what += fmt::format(" {} rank {}", line.kind == "send" ? "to" : "from", line.peer);
    table.rows.push_back({fmt::format("{}", line.number), line.stream, line.kind,
                          line.flops > 0 ? fmt::format("{:.4g}", line.flops) : "",
                          line.bytes > 0 ? show(Bytes{line.bytes}) : "", signed_size(line.memory), line.after, what});
  }
  std::string text = fmt::format("{}: the {} operations of rank {}\n{}", s.name, lines.operations, rank, table.text());
  if (lines.operations > lines.lines.size())
    text += fmt::format("… {} more operations (--all shows them)\n", lines.operations - lines.lines.size());
  return {text, to_json(lines)};
}

/// The devices of a group as ranges on each node: "node0/gpu0-7", "node0/gpu0 node1/gpu0".
std::string devices_in_words(const std::vector<const MeshRank*>& group) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < group.size();) {
    std::size_t end = i + 1;
    while (end < group.size() && group[end]->node == group[i]->node && group[end]->rank == group[end - 1]->rank + 1)
      ++end;
    const std::string& last = group[end - 1]->device;
    words.push_back(group[i]->device + (end > i + 1 ? "-" + last.substr(last.find("/gpu") + 4) : ""));
    i = end;
  }
  return fmt::format("{}", fmt::join(words, " "));
}

/// Draws the mesh: a row for each pipeline stage, a column for each replica, in each cell the devices of tensor ranks.
std::string mesh_drawing(const Scenario& s, const std::vector<MeshRank>& ranks, bool all) {
  const Mesh& mesh = s.plan.mesh;
  const int replicas = mesh.widest(Axis::data) * mesh.context, shown = all ? replicas : std::min(replicas, 8);
  TextTable table{">stage"};
  for (int r = 0; r < shown; ++r)
    table.add_column(mesh.context > 1 ? fmt::format("data {} context {}", r / mesh.context, r % mesh.context)
                                      : fmt::format("data {}", r),
                     false);
  for (int stage = 0; stage < mesh.pipeline; ++stage) {
    std::vector<std::string> row{fmt::format("{}", stage)};
    for (int r = 0; r < std::min(shown, mesh.size(Axis::data, stage) * mesh.context); ++r) {
      std::vector<const MeshRank*> group;
      for (int t = 0; t < mesh.size(Axis::tensor, stage); ++t)
        group.push_back(&ranks[mesh.rank({t, r % mesh.context, r / mesh.context, stage})]);
      row.push_back(devices_in_words(group));
    }
    table.rows.push_back(row);
  }
  return table.text() +
         (shown < replicas ? fmt::format("… {} more replicas (--all shows them)\n", replicas - shown) : "");
}

View mesh_view(const Scenario& s, bool all) {
  const std::vector<MeshRank> ranks = mesh(s);
  const Mesh& m = s.plan.mesh;
  constexpr std::size_t screenful = 64;
  const std::size_t shown = all ? ranks.size() : std::min(screenful, ranks.size());
  std::string text = fmt::format("{}: {} in a mesh of {}, on {} of {} ({})\n", s.name,
                                 counted_noun(static_cast<std::int64_t>(ranks.size()), "rank"), s.plan.mesh_in_words(),
                                 ranks.size(), counted_noun(s.cluster.gpus(), "GPU"), s.cluster.node.gpu.name);
  if (s.plan.splits_model()) text += mesh_drawing(s, ranks, all) + "\n";
  TextTable table{">rank"};
  std::vector<std::function<int(const MeshRank&)>> columns;
  const auto column = [&](int size, const char* name, std::function<int(const MeshRank&)> value) {
    if (size == 1) return;
    table.add_column(name);
    columns.push_back(std::move(value));
  };
  column(m.widest(Axis::tensor), "tensor", [](const MeshRank& r) { return r.coordinates.tensor; });
  column(m.context, "context", [](const MeshRank& r) { return r.coordinates.context; });
  column(m.expert, "expert", [](const MeshRank& r) { return r.expert; });
  column(std::max(1, m.expert_tensor), "expert-tensor", [](const MeshRank& r) { return r.expert_tensor; });
  column(m.widest(Axis::data), "data parallel", [](const MeshRank& r) { return r.coordinates.data; });
  column(m.pipeline, "pipeline", [](const MeshRank& r) { return r.coordinates.pipeline; });
  table.add_column("device", false);
  for (std::size_t i = 0; i < shown; ++i) {
    std::vector<std::string> row{fmt::format("{}", ranks[i].rank)};
    for (const auto& value : columns) row.push_back(fmt::format("{}", value(ranks[i])));
    row.push_back(ranks[i].device);
    table.rows.push_back(row);
  }
  text += table.text();
  if (shown < ranks.size()) text += fmt::format("… {} more ranks (--all shows them)\n", ranks.size() - shown);
  return {text, to_json(ranks)};
}

View folding_view(const Scenario& s, bool all) {
  const FoldView view = fold_view(s);
  if (!view.unfolded_reason.empty())
    return {fmt::format("{}: {} simulated: {}\n", s.name,
                        view.ranks == 1 ? "its one rank is" : fmt::format("each of {} ranks is", view.ranks),
                        view.unfolded_reason),
            to_json(view)};
  constexpr std::size_t screenful = 64;
  std::string text = fmt::format(
      "{}: {} in {}; {} of links\n", s.name, counted_noun(view.ranks, "rank"),
      counted_noun(static_cast<std::int64_t>(view.classes.size()), "equivalence class", "equivalence classes"),
      counted_noun(view.links, "class", "classes"));
  TextTable table{">rank", ">stands for", "device", "ranks"};
  const std::size_t shown = all ? view.classes.size() : std::min(screenful, view.classes.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const FoldView::Class& c = view.classes[i];
    table.rows.push_back({fmt::format("{}", c.rank), fmt::format("{}", c.size), c.device, c.members});
  }
  text += table.text();
  if (shown < view.classes.size())
    text += fmt::format("… {} more classes (--all shows them)\n", view.classes.size() - shown);
  const std::size_t reasons = all ? view.reasons.size() : std::min<std::size_t>(10, view.reasons.size());
  if (reasons > 0) text += "differences between the classes:\n";
  for (std::size_t i = 0; i < reasons; ++i) text += "  " + view.reasons[i] + "\n";
  if (reasons < view.reasons.size())
    text += fmt::format("  … {} more (--all shows them)\n", view.reasons.size() - reasons);
  return {text, to_json(view)};
}

View machine_text(const Scenario& s) {
  const MachineView view = machine_view(s);
  std::vector<std::string> devices;
  for (const auto& [kind, count] : view.devices) devices.push_back(fmt::format("{} {}", count, kind));
  std::string text = fmt::format("{}: {}\ndevices  {}\n\n", s.name, describe(s.cluster), fmt::join(devices, ", "));
  TextTable table{"link", ">count", ">rate", ">latency", "from", "to", "example"};
  for (const LinkClass& c : view.links)
    table.rows.push_back(
        {c.kind, fmt::format("{}", c.count), show(c.rate), latency_text(c.latency), c.from, c.to, c.example});
  text += table.text();
  for (const RouteView& r : view.routes) {
    text += fmt::format("\n{}: rank {} to rank {}\n  {}\n  at most {} ({}), latency {}", r.what, r.from, r.to,
                        fmt::join(r.hops, " → "), show(r.rate), r.bottleneck_kind, latency_text(r.latency));
    text += r.software.count > 0 ? fmt::format(", of which software {}\n", latency_text(r.software)) : "\n";
  }
  if (uses_pxn(s))
    text +=
        "  NCCL sends messages to another rail by NVLink to the GPU on that rail first (PXN; nccl_pxn: false turns it "
        "off)\n";
  return {text, to_json(view)};
}

ordered_json sources_json(const Sources& sources) {
  ordered_json out = ordered_json::array();
  for (const FigureSource& s : sources)
    out.push_back({{"figure", s.figure}, {"value", s.value}, {"source", s.source}, {"unverified", s.unverified}});
  return out;
}

/// Every figure of an entry with its source. Reads the entry as a scenario does. Throws UserError if it is faulty.
Sources read_entry(const std::string& kind, const Node& entry, const Catalog& catalog) {
  if (kind == "gpu") return read_gpu(entry).sources;
  if (kind == "node") return read_node(entry, catalog).sources;
  if (kind == "cpu") return read_cpu(entry).sources;
  if (kind == "storage") return read_storage(entry).sources;
  if (kind == "hca") return read_hca(entry).sources;
  if (kind == "switch") return read_network_switch(entry).sources;
  if (kind == "stack") return read_stack(entry).sources;
  if (kind == "nccl") return read_nccl_model(entry).sources;
  if (kind == "site") return read_site(entry).sources;
  if (kind == "nccl-network") return read_nccl_network(entry).sources;
  if (kind == "dispatcher") return read_expert_dispatcher(catalog, entry).sources;
  if (kind == "engine") return read_engine(entry).sources;
  if (kind == "rl-stack") return read_rl_stack(entry).sources;
  if (kind == "weight-transfer") return read_weight_transfer(entry).sources;
  if (kind == "attention" || kind == "batch-error") {
    if (kind == "attention") read_attention_kernel(entry);
    return figure_sources(entry, fmt::format("{} {}", kind, entry.find("name")->scalar));
  }
  if (kind == "fabric") {
    ClusterSpec spec;
    read_fabric(spec, entry, catalog);
    return spec.fabric_sources;
  }
  throw InternalError("no such kind of entry");
}

/// The figures of a network with their sources. A transformer's figures are the fields of its config, those of a network
/// that is written as operators its sizes. The layers of this and of a CNN or MLP share one source.
Sources network_sources(const NetworkEntry& entry, const Node& node) {
  const std::string what = "network " + entry.name;
  Sources sources;
  const bool is_listed = entry.transformer() && entry.transformer()->lists;
  const Node* sizes = is_listed ? node.find("sizes") : nullptr;
  if (sizes) sources = figure_sources(*sizes, what);
  if (entry.transformer() && !is_listed) sources = figure_sources(node, what);
  // The network of a file without a source comes from that file.
  const Node* layers = is_listed ? node.find("layers") : nullptr;
  const std::string file = layers && layers->place.file ? "given in " + *layers->place.file : "";
  const std::string all = entry.source.empty() ? file : entry.source;
  for (FigureSource& s : sources)
    if (s.source.empty() || (!file.empty() && s.source.starts_with(file + ":"))) s.source = all;
  if (!entry.transformer() || is_listed) sources.push_back({what + ": layers", entry.type, all, false});
  const Network network = make_network(entry, 1, sample_tokens(entry), Precision::fp32);
  sources.push_back(
      {what + ": parameters", fmt::format("{:.0f}", network.parameters()), "counted, tied tensors once", false});
  if (network.active_parameters() < network.parameters())
    sources.push_back({what + ": active parameters", fmt::format("{:.0f}", network.active_parameters()),
                       "counted, those that a token meets on average", false});
  return sources;
}

/// A table of the figures, with numbered sources below it.
std::string entry_text(const std::string& kind, const std::string& name, const Node& entry, const Sources& sources) {
  std::string text = fmt::format("{} {}", kind, name);
  for (const char* key : {"architecture", "description", "interconnect", "model_type"})
    if (const Node* node = entry.find(key)) text += fmt::format(" · {}", node->scalar);
  text += "\n";
  std::vector<std::string> texts;
  for (const FigureSource& s : sources)
    if (std::ranges::find(texts, s.source) == texts.end()) texts.push_back(s.source);
  TextTable table{"figure", ">value", "", "source"};
  const std::string prefix = fmt::format("{} {}: ", kind, name);
  for (const FigureSource& s : sources) {
    const auto index = std::ranges::find(texts, s.source) - texts.begin();
    const std::string value =
        s.range.empty() ? s.value : fmt::format("{} ({} to {})", s.value, s.range.front(), s.range.back());
    table.rows.push_back({s.figure.starts_with(prefix) ? s.figure.substr(prefix.size()) : s.figure, value,
                          s.unverified ? "unverified" : "", fmt::format("[{}]", index + 1)});
  }
  text += table.text("  ");
  for (std::size_t i = 0; i < texts.size(); ++i)
    text += fmt::format("[{}] {}\n", i + 1, texts[i].empty() ? "no source" : texts[i]);
  return text;
}

const std::vector<std::string>& entry_kinds() {
  static const std::vector<std::string> kinds{"gpu",          "cpu",      "storage",        "hca",        "node",
                                              "network",      "switch",   "fabric",         "stack",      "nccl",
                                              "nccl-network", "site",     "attention",      "dispatcher", "batch-error",
                                              "engine",       "rl-stack", "weight-transfer"};
  return kinds;
}

/// Completes the beginning of a name if only one entry begins so; otherwise returns it unchanged.
std::string complete_name(const Catalog& catalog, const std::string& kind, const std::string& begin) {
  std::vector<std::string> all;
  for (const std::string& name : catalog.names(kind)) {
    if (same_name(name, begin)) return name;
    if (name.size() > begin.size() && same_name(name.substr(0, begin.size()), begin)) all.push_back(name);
  }
  return all.size() == 1 && !begin.empty() ? all.front() : begin;
}

/// The entry whose name begins so, with overrides. Throws UserError if `begin` is empty.
Node entry_reference(const Catalog& catalog, const std::string& kind, const std::string& begin,
                     const Overrides& overrides) {
  Node reference = Node::scalar_node(complete_name(catalog, kind, begin), Place::named("trainyard show"));
  if (begin.empty()) fail(reference.place, fmt::format("which {}{}", kind, hint("", catalog.names(kind))));
  for (const auto& [path, value] : overrides) set_field(reference, path, value);
  return reference;
}

/// The entry, or the network of a scenario if `begin` is the file of one, with overrides of the entry or of the scenario.
Node shown_entry(const Catalog& catalog, const std::string& kind, const std::string& begin,
                 const Overrides& overrides) {
  if (kind == "network" && (begin.ends_with(".yaml") || begin.ends_with(".yml")) &&
      std::filesystem::is_regular_file(begin)) {
    Node scenario = read_scenario_document(begin);
    for (const auto& [path, value] : overrides) set_field(scenario, path, value);
    if (const Node* model = scenario.find("model")) return model_document(*model, catalog);
  }
  return catalog.resolve(kind, entry_reference(catalog, kind, begin, overrides));
}

View entry_view(const std::string& kind, const std::string& begin, const Overrides& overrides) {
  const Catalog catalog;
  const Node entry = shown_entry(catalog, kind, begin, overrides);
  const Node* name = entry.find("name");
  const std::string full_name = name ? name->scalar : std::filesystem::path(begin).stem().string();
  if (kind == "network") {
    const NetworkEntry network = read_network_entry(entry);
    const Sources sources = network_sources(network, entry);
    return {
        entry_text(kind, full_name, entry, sources) + "\n" + layers_text(network),
        {{"kind", kind}, {"name", full_name}, {"figures", sources_json(sources)}, {"layers", layers_json(network)}}};
  }
  const Sources sources = read_entry(kind, entry, catalog);
  std::string text = entry_text(kind, full_name, entry, sources);
  if (kind == "node" || kind == "gpu")
    text += fmt::format("as a file to edit: trainyard new {} my-{}.yaml --from {}\n", kind, kind, full_name);
  return {text, {{"kind", kind}, {"name", full_name}, {"figures", sources_json(sources)}}};
}

struct Choice {
  bool schedule = false, mesh = false, machine = false, fold = false, all = false, yaml = false;
  std::optional<int> rank;
};

/// A file to save and edit: a node or a GPU with all keys of its bases, or a scenario unchanged.
std::string editable_file(const std::string& kind, const std::string& name, const Overrides& overrides) {
  if (kind.empty()) {
    if (!overrides.empty()) return yaml_text(read_scenario(name, overrides).document);
    read_scenario(name);
    std::ifstream in(scenario_file(name), std::ios::binary);
    if (in) return {std::istreambuf_iterator<char>(in), {}};
    return yaml_text(read_scenario_document(name));  // the name is a row of a measured family
  }
  if (kind != "node" && kind != "gpu")
    throw UserError(fmt::format("trainyard show {}: --yaml is for nodes, GPUs and scenarios", kind));
  const Catalog catalog;
  return entry_yaml(kind, entry_reference(catalog, kind, name, overrides), catalog);
}

View scenario_view(const std::string& file, const Choice& choice, const Overrides& overrides) {
  const int views = choice.schedule + choice.mesh + choice.machine + choice.fold;
  const bool shows_rank = views == 0 && choice.rank;
  if (views != 1 && !shows_rank && !read_document(scenario_file(file)).fields.empty())
    throw UserError(
        "trainyard show: expected one of --schedule, --mesh, --machine, --fold, --rank N with a scenario (trainyard "
        "show --help)");
  const Scenario scenario = read_scenario(file, overrides);
  const auto in_device_words = [&scenario](View view) {
    view.text = in_words_of(device_noun(scenario.cluster), view.text);
    return view;
  };
  if (shows_rank) {
    const RankView view = rank_view(scenario, plan(scenario), *choice.rank);
    return in_device_words({rank_text(view), to_json(view)});
  }
  if (choice.schedule) return in_device_words(schedule_view(scenario, choice.rank.value_or(0), choice.all));
  if (choice.mesh) return in_device_words(mesh_view(scenario, choice.all));
  if (choice.fold) return in_device_words(folding_view(scenario, choice.all));
  return in_device_words(machine_text(scenario));
}

int show_verb(const std::vector<std::string>& words) {
  Arguments arguments(
      "show",
      "Shows what a scenario becomes before it runs, or an entry of the catalog with the source of each figure.",
      "show scenarios/gpt2-xl-ddp-dgx-a100.yaml --schedule --rank 3\n  trainyard show gpu a100-sxm4-80gb");
  std::string what, name, json;
  std::vector<std::string> sets;
  Choice choice;
  arguments.positional("SCENARIO|KIND", what, fmt::format("scenario file; or {}", fmt::join(entry_kinds(), ", ")));
  arguments.positional("NAME", name,
                       "entry of the catalog, after its kind (the beginning of its name is enough), or for a network "
                       "the file of a scenario",
                       false);
  arguments.flag("--schedule", choice.schedule, "show the operations of one rank, in order");
  arguments.option("--rank", choice.rank, "N",
                   "with --schedule: the rank whose operations are shown; alone: show its place, groups and peers, and "
                   "the links to them");
  arguments.flag("--mesh", choice.mesh, "show the ranks, their coordinates and devices");
  arguments.flag("--machine", choice.machine, "show devices, links and the paths of messages");
  arguments.flag("--fold", choice.fold,
                 "show which ranks are simulated for their equivalence classes, and what distinguishes the classes");
  arguments.flag("--yaml", choice.yaml,
                 "print a file to save and edit: a scenario unchanged; a node or gpu with all possible keys");
  arguments.flag("--all", choice.all, "show every operation, rank or class; the default is a screenful");
  arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field; may be repeated");
  arguments.output("--json", json, "write the view as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const Overrides overrides = parse_overrides(sets);
  const auto& kinds = entry_kinds();
  const std::string word = what == "model" ? "network" : what;  // scenarios call networks models
  const auto kind = std::ranges::find_if(
      kinds, [&](const std::string& k) { return word == k || word == k + "s" || word == k + "es"; });
  const bool views = choice.schedule || choice.mesh || choice.machine || choice.fold;
  if (choice.yaml && (views || choice.rank || !json.empty()))
    throw UserError("trainyard show: --yaml is a view of its own");
  if (kind == kinds.end() && !name.empty())
    throw UserError(fmt::format("trainyard show: \"{}\" is no kind of entry{}", what, hint(what, kinds)));
  if (kind != kinds.end() && (views || choice.rank))
    throw UserError(
        fmt::format("trainyard show {}: --schedule, --mesh, --machine, --fold and --rank are for scenarios", *kind));
  if (choice.yaml) {
    const bool entry = kind != kinds.end();
    write_atomically("-", editable_file(entry ? *kind : "", entry ? name : what, overrides));
    return kGood;
  }
  const View view = kind != kinds.end() ? entry_view(*kind, name, overrides) : scenario_view(what, choice, overrides);
  write_json(json, view.json);
  if (json != "-") write_atomically("-", view.text);
  return kGood;
}

const RegisterVerb registered_show{
    "show", VerbGroup::predict,
    "show the schedule, mesh, machine, folding or one rank of a scenario, or a catalog entry with its sources",
    show_verb};

std::vector<FieldRow> entry_json_rows() {
  return {{"kind", "text", "kind of the entry, such as gpu", ""},
          {"name", "text", "name of the entry", ""},
          {"figures", "list", "figures of the entry", ""},
          {"figures[].figure", "text", "kind, name and key of the figure", ""},
          {"figures[].value", "text", "value with its unit", ""},
          {"figures[].source", "text", "where the value comes from; empty: no source", ""},
          {"figures[].unverified", "true|false", "no source confirms the value", ""},
          {"layers", "list", "layers of a network", "of networks"},
          {"layers[].layer", "text", "name of the layer", "of networks"},
          {"layers[].output", "text", "shape of its output for one sample", "of networks"},
          {"layers[].parameters", "number", "number of its parameters", "of networks"},
          {"layers[].forward_FLOPs", "FLOP", "operations of its forward pass", "of networks"},
          {"layers[].kept_bytes", "bytes", "activations that it keeps for the backward pass, in fp32", "of networks"}};
}
const RegisterJsonReference shown_entry_json{"show", "an entry of the catalog with its sources", entry_json_rows};

}  // namespace
}  // namespace trainyard
