#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/hardware/node.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "strategies/collectives/node_rings.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// The links to make rings of, and the name of the node or file that has them.
struct RingInput {
  std::string name;
  LinkGraph graph;
  BytesPerSecond link_rate;  ///< rate of a link per direction; 0: not known
};

/// Reads a list such as `[[0, 3, 2], [0, 1]]`: device, device, number of links between them (default 1).
std::vector<LinkBundle> link_list(const Node& list) {
  if (list.kind != Node::Kind::list || list.items.empty())
    fail(list.place, "links: expected a list of [device, device, number of links]");
  std::vector<LinkBundle> bundles;
  for (const Node& item : list.items) {
    const bool scalars = std::ranges::all_of(item.items, [](const Node& n) { return n.kind == Node::Kind::scalar; });
    if (item.kind != Node::Kind::list || item.items.size() < 2 || item.items.size() > 3 || !scalars)
      fail(item.place, "links: expected [device, device, number of links]");
    LinkBundle bundle;
    bundle.a = static_cast<int>(whole_number(item.items[0], "links: device", 0, kMostRingDevices - 1));
    bundle.b = static_cast<int>(whole_number(item.items[1], "links: device", 0, kMostRingDevices - 1));
    if (bundle.a == bundle.b) fail(item.place, fmt::format("links: device {} linked to itself", bundle.a));
    if (item.items.size() == 3)
      bundle.links = static_cast<int>(whole_number(item.items[2], "links: number of links", 1, kMostLinksOfPair));
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

/// Reads the links of a file with `links`, of a file with a node, or of a node of the catalog.
RingInput read_ring_input(const std::string& what) {
  const std::string suffix = std::filesystem::path(what).extension().string();
  if (suffix == ".yaml" || suffix == ".yml" || suffix == ".json" || std::filesystem::exists(what)) {
    const Node document = read_document(what);
    const bool node = document.find("base") || document.find("interconnect");
    return node && !document.find("links") ? links_of_node(document) : links_of_file(what, document);
  }
  return links_of_node(Node::scalar_node(what, Place::named("trainyard topo rings")));
}

std::string rings_text(const RingInput& input, const RingDecomposition& found) {
  std::string text = fmt::format("{}: {}, {}", input.name, counted_noun(input.graph.devices, "device"),
                                 counted_noun(input.graph.links(), "link"));
  if (input.link_rate.value > 0) text += fmt::format(" of {} each way", show(input.link_rate));
  text += "\n";
  if (found.rings.empty()) return text + found.none + "\n";
  TextTable table{">ring", ">links", ">each way", "order"};
  for (std::size_t i = 0; i < found.rings.size(); ++i) {
    const Ring& ring = found.rings[i];
    table.rows.push_back({fmt::format("{}", i + 1), fmt::format("{}", ring.weight),
                          input.link_rate.value > 0 ? show(input.link_rate * ring.weight) : "-",
                          fmt::format("{} {}", fmt::join(ring.order, " "), ring.order.front())});
  }
  text += table.text("  ");
  text += fmt::format("together {} wide", counted_noun(found.weight, "link"));
  if (input.link_rate.value > 0) text += fmt::format(", {} each way", show(input.link_rate * found.weight));
  text += found.unused_links > 0 ? fmt::format("; {} of the links unused", found.unused_links) : "; all links used";
  if (found.weight == found.bound) return text + "; no set of rings is wider\n";
  return text + fmt::format("; the search was cut short: up to {} may be possible\n", found.bound);
}

struct RingAnswer {
  RingInput input;
  RingDecomposition found;

  /// One ring of the answer.
  struct ShownRing {
    std::vector<int> order;
    int weight = 0;
    double bandwidth = 0;  ///< bytes/s each way; 0: not known
  };
  std::vector<ShownRing> rings() const {
    std::vector<ShownRing> shown;
    for (const Ring& ring : found.rings)
      shown.push_back({ring.order, ring.weight, (input.link_rate * ring.weight).value});
    return shown;
  }
};

JsonFields<RingAnswer> ring_fields() {
  using A = RingAnswer;
  using F = RingDecomposition;
  using R = A::ShownRing;
  const auto ring = JsonFields<R>()
                        .value("order", "", &R::order, "devices in the order of the ring")
                        .value("weight", "links", &R::weight, "number of parallel links between neighbours of the ring")
                        .value("bandwidth_Bps", "B/s", &R::bandwidth, "bandwidth of the ring, each way")
                        .when(&R::bandwidth, "if the rate of a link is known");
  return JsonFields<A>()
      .value(
          "name", "", [](const A& a) { return a.input.name; }, "name of the node or file")
      .value(
          "devices", "", [](const A& a) { return a.input.graph.devices; }, "number of devices")
      .value(
          "links", "", [](const A& a) { return a.input.graph.links(); }, "number of links between the devices")
      .list("rings", &A::rings, ring, "rings that share no link, the widest first")
      .inlined(&A::found,
               JsonFields<F>()
                   .value("weight", "links", &F::weight, "sum of the weights of all rings")
                   .value("bound", "links", &F::bound, "upper bound of the sum of weights of any set of rings")
                   .value("unused_links", "", &F::unused_links, "number of links in no ring")
                   .value("complete", "", &F::complete, "false: the search was cut short")
                   .value("none", "", &F::none, "why there is no ring")
                   .when(&F::none, "if there is no ring"));
}

const RegisterJsonReference topo_rings_json{"topo rings", "rings through all devices", ring_fields};

int topo_rings(const std::vector<std::string>& words) {
  Arguments arguments("topo rings",
                      "Finds rings through all devices that share no link, the widest first: the bandwidth of an "
                      "NVLink mesh that a collective can use. Devices are numbered from 0, as in nvidia-smi.",
                      "topo rings dgx-1v");
  std::string what, json;
  arguments.positional(
      "FILE|NODE", what,
      "YAML with links: [[device, device, number of links], ...] and link_rate; or a node of the catalog");
  arguments.output("--json", json, "write the rings as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const RingInput input = read_ring_input(what);
  const RingDecomposition found = decompose_rings(input.graph);
  write_json(json, ring_fields().json({input, found}));
  if (json != "-") write_atomically("-", rings_text(input, found));
  return kGood;
}

const RegisterTopoVerb registered_topo_rings{"rings", "find edge-disjoint Hamiltonian rings of an NVLink mesh",
                                             topo_rings};

}  // namespace
}  // namespace trainyard
