#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/hardware/node.hpp"
#include "scenarios/planning/node_rings.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// Links to make rings of, and where they are from.
struct RingInput {
  std::string name;
  LinkGraph graph;
  BytesPerSecond link_rate;  ///< per direction; 0: not known
};

int ring_number(const Node& node, const std::string& what, std::int64_t least, std::int64_t most) {
  std::int64_t v = least - 1;
  try {
    v = parse_integer(node.scalar);
  } catch (const UserError&) {
    fail(node.place, fmt::format("{}: \"{}\" is no whole number", what, node.scalar));
  }
  if (v < least || v > most) fail(node.place, fmt::format("{}: {}, expected {} to {}", what, v, least, most));
  return static_cast<int>(v);
}

/// `[[0, 3, 2], [0, 1]]`: from, to, number of links (default 1).
std::vector<LinkBundle> link_list(const Node& list) {
  if (list.kind != Node::Kind::list || list.items.empty())
    fail(list.place, "links: expected a list of [device, device, number of links]");
  std::vector<LinkBundle> bundles;
  for (const Node& item : list.items) {
    const bool scalars =
        std::all_of(item.items.begin(), item.items.end(), [](const Node& n) { return n.kind == Node::Kind::scalar; });
    if (item.kind != Node::Kind::list || item.items.size() < 2 || item.items.size() > 3 || !scalars)
      fail(item.place, "links: expected [device, device, number of links]");
    LinkBundle bundle;
    bundle.a = ring_number(item.items[0], "links: device", 0, kMostRingDevices - 1);
    bundle.b = ring_number(item.items[1], "links: device", 0, kMostRingDevices - 1);
    if (bundle.a == bundle.b) fail(item.place, fmt::format("links: device {} linked to itself", bundle.a));
    if (item.items.size() == 3)
      bundle.links = ring_number(item.items[2], "links: number of links", 1, kMostLinksOfPair);
    bundles.push_back(bundle);
  }
  return bundles;
}

RingInput links_of_file(const std::string& file, const Node& document) {
  Fields fields(document, file);
  RingInput input;
  input.name = fields.text("name", file);
  input.graph.bundles = link_list(fields.required_child("links"));
  for (const LinkBundle& bundle : input.graph.bundles)
    input.graph.devices = std::max({input.graph.devices, bundle.a + 1, bundle.b + 1});
  const std::int64_t devices = fields.integer("devices", 2, input.graph.devices);
  if (devices < input.graph.devices || devices > kMostRingDevices)
    fail(fields.place_of("devices"),
         fmt::format("{}.devices: {}, expected {} to {}", file, devices, input.graph.devices, kMostRingDevices));
  input.graph.devices = static_cast<int>(devices);
  input.link_rate = fields.bandwidth("link_rate", BytesPerSecond{});
  fields.finish();
  return input;
}

RingInput links_of_node(const Node& reference) {
  const Catalog catalog;
  const NodeType node = read_node(catalog.resolve("node", reference), catalog);
  if (node.nvlink_mesh.empty())
    fail(reference.place, fmt::format("node {} has no point-to-point links to make rings of: its interconnect is {}",
                                      node.name, node.interconnect));
  return {node.name, nvlink_graph(node), node.nvlink_rate};
}

/// A file with `links`, or with a node; or the name of a node in the catalog.
RingInput read_ring_input(const std::string& what) {
  const std::string suffix = std::filesystem::path(what).extension().string();
  if (suffix == ".yaml" || suffix == ".yml" || suffix == ".json" || std::filesystem::exists(what)) {
    const Node document = read_document(what);
    const bool node = document.find("base") || document.find("interconnect");
    return node && !document.find("links") ? links_of_node(document) : links_of_file(what, document);
  }
  Node name;
  name.kind = Node::Kind::scalar;
  name.scalar = what;
  name.place.file = std::make_shared<const std::string>("trainyard topo rings");
  return links_of_node(name);
}

std::string rings_text(const RingInput& input, const RingDecomposition& found) {
  std::string text = fmt::format("{}: {} devices, {} links", input.name, input.graph.devices, input.graph.links());
  if (input.link_rate.value > 0) text += fmt::format(" of {} each way", show(input.link_rate));
  text += "\n";
  if (found.rings.empty()) return text + found.none + "\n";
  TextTable table{{"ring", "links", "each way", "order"}, {true, true, true}, {}};
  for (std::size_t i = 0; i < found.rings.size(); ++i) {
    const Ring& ring = found.rings[i];
    table.rows.push_back({fmt::format("{}", i + 1), fmt::format("{}", ring.weight),
                          input.link_rate.value > 0 ? show(input.link_rate * ring.weight) : "-",
                          fmt::format("{} {}", fmt::join(ring.order, " "), ring.order.front())});
  }
  text += table.text("  ");
  text += fmt::format("together {} link{} wide", found.weight, found.weight == 1 ? "" : "s");
  if (input.link_rate.value > 0) text += fmt::format(", {} each way", show(input.link_rate * found.weight));
  text += found.unused_links > 0 ? fmt::format("; {} of the links unused", found.unused_links) : "; all links used";
  if (found.weight == found.bound) return text + "; no set of rings is wider\n";
  return text + fmt::format("; the search was cut short: up to {} may be possible\n", found.bound);
}

ordered_json rings_json(const RingInput& input, const RingDecomposition& found) {
  ordered_json rings = ordered_json::array();
  for (const Ring& ring : found.rings) {
    rings.push_back({{"order", ring.order}, {"weight", ring.weight}});
    if (input.link_rate.value > 0) rings.back()["bandwidth_Bps"] = (input.link_rate * ring.weight).value;
  }
  ordered_json out{{"name", input.name},
                   {"devices", input.graph.devices},
                   {"links", input.graph.links()},
                   {"rings", rings},
                   {"weight", found.weight},
                   {"bound", found.bound},
                   {"unused_links", found.unused_links},
                   {"complete", found.complete}};
  if (!found.none.empty()) out["none"] = found.none;
  return out;
}

int topo_rings(const std::vector<std::string>& words) {
  Arguments arguments("topo rings",
                      "Rings through all GPUs that share no link, by bandwidth: what a collective can use of an NVLink "
                      "mesh. GPUs are numbered from 0, as nvidia-smi does.",
                      "topo rings dgx-1v");
  std::string what, json;
  arguments.positional("FILE|NODE", what,
                       "YAML with links: [[GPU, GPU, number of links], ...] and link_rate; or a node of the catalog");
  arguments.output("--json", json, "write it as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const RingInput input = read_ring_input(what);
  const RingDecomposition found = decompose_rings(input.graph);
  if (!json.empty()) write_atomically(json, rings_json(input, found).dump(2) + "\n");
  if (json != "-") write_atomically("-", rings_text(input, found));
  return kGood;
}

const RegisterTopoVerb registered_topo_rings{"rings", "edge-disjoint Hamiltonian rings of an NVLink mesh", topo_rings};

}  // namespace
}  // namespace trainyard
