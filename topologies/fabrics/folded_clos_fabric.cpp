#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "topologies/fabrics/clos_shape.hpp"
#include "topologies/fabrics/tree_router.hpp"

namespace trainyard {
namespace {

/// `levels: [{down: 32, oversubscription: 2}, …]` from the hosts up, `rails`, `routing: spray | ecmp` and its `seed`.
void read_folded_clos(ClusterSpec& spec, Fields& fields) {
  const Node& levels = fields.required_child("levels");
  if (levels.kind != Node::Kind::list || levels.items.empty() || levels.items.size() > 4)
    fail(levels.place,
         fields.what() + ": levels: expected a list of one to four levels, such as [{down: 32, oversubscription: 2}]");
  for (const Node& item : levels.items) {
    Fields level(item, fields.what() + ": level");
    FabricLevel l;
    l.down = static_cast<int>(std::min<std::int64_t>(level.integer("down", 1), 1 << 20));
    l.oversubscription = level.number("oversubscription", 1e-3, 1e6, 1.0);
    level.finish();
    spec.shape.levels.push_back(l);
  }
  spec.shape.rails = fields.boolean("rails", false);
  spec.shape.hashed = fields.choice("routing", {"spray", "ecmp"}, "spray") == "ecmp";
  spec.shape.seed = static_cast<std::uint64_t>(fields.integer("seed", 0, 1));
}

/// Switches, and wires between them, that stand for many in the graph of a spraying fabric; devices of nodes are in it.
bool in_spraying_fabric(const ClusterSpec& spec, const TakenOut& out) {
  return !spec.shape.hashed && out.name.find('/') == std::string::npos;
}

/// How many of the uplinks of a group are there, of all that it was built with: both switches and the wire.
class TakenUplinks {
 public:
  TakenUplinks(const ClosShape& shape, const ClusterSpec& spec) : shape_(shape) {
    for (const TakenOut& out : spec.taken_out)
      if (in_spraying_fabric(spec, out)) out_.insert(out.name);
    if (none()) return;
    const std::vector<std::string> names = shape.names();
    std::set<std::string> wires;
    for (int level = 0; level + 1 < shape.levels(); ++level)
      for (int group = 0; group < shape.groups(level); ++group)
        for (const auto& [from, to] : uplinks(level, group)) wires.insert({from + " - " + to, to + " - " + from});
    for (const TakenOut& out : spec.taken_out) {
      if (!in_spraying_fabric(spec, out)) continue;
      const std::size_t dash = out.name.find(" - ");
      require(names, out.name.substr(0, dash), out.place);
      if (dash == std::string::npos) continue;
      require(names, out.name.substr(dash + 3), out.place);
      if (!wires.contains(out.name))
        fail(out.place, fmt::format("cluster.taken_out: \"{}\": no wire joins them", out.name));
    }
  }
  bool none() const { return out_.empty(); }

  double share(int level, int group) const {
    const auto all = uplinks(level, group);
    const auto left = std::count_if(all.begin(), all.end(), [this](const auto& wire) {
      const auto& [from, to] = wire;
      return !out_.contains(from) && !out_.contains(to) && !out_.contains(from + " - " + to) &&
             !out_.contains(to + " - " + from);
    });
    return static_cast<double>(left) / static_cast<double>(all.size());
  }
  bool has_leaf(int group) const { return !out_.contains(shape_.name(0, group, 0)); }

 private:
  const ClosShape& shape_;
  std::set<std::string> out_;

  /// Both ends of each.
  std::vector<std::pair<std::string, std::string>> uplinks(int level, int group) const {
    std::vector<std::pair<std::string, std::string>> all;
    const int ports = static_cast<int>(shape_.uplinks(level)), above = group / shape_.down(level + 1);
    for (int p = 0; p < shape_.planes(level); ++p)
      for (int j = 0; j < ports; ++j)
        all.emplace_back(shape_.name(level, group, p), shape_.name(level + 1, above, p * ports + j));
    return all;
  }
  static void require(const std::vector<std::string>& names, const std::string& name, const Place& place) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail(place, fmt::format("cluster.taken_out: unknown device \"{}\"{}", name, hint(name, names)));
  }
};

/// A folded Clos (Clos 1953; Leiserson 1985: fat tree) with ideal spraying: every message spreads evenly over all
/// uplinks that lead its way, so the uplinks of a switch, or of a group of equal ones, carry the same load each, and
/// one wire of their summed rate stands for them exactly. Where switches or uplinks are taken out, it has the rate of
/// those that are left: exact for the load that a group sends in all, while two groups that miss different planes could
/// use only the planes that both have. `levels[0]` are the leaves with their HCAs, `levels[1]` the pods with their
/// leaves, and so on; one stage joins all groups of the last level.
void build_folded_clos(DeviceGraph& graph, const ClusterSpec& spec) {
  require_ports(spec);
  if (spec.shape.hashed) return build_hashed_clos(graph, spec);
  static constexpr const char* kGroups[] = {"leaf", "pod", "zone", "hall"};
  std::vector<DeviceId> below = hcas_in_order(graph, spec.shape);
  const bool taken = std::any_of(spec.taken_out.begin(), spec.taken_out.end(),
                                 [&spec](const TakenOut& out) { return in_spraying_fabric(spec, out); });
  const ClosShape shape(spec.shape.levels, static_cast<int>(below.size()), taken, spec.shape.place);
  const TakenUplinks gone(shape, spec);
  BytesPerSecond rate = fabric_link_rate(spec);
  for (int l = 0; l < shape.levels(); ++l) {
    const bool top = l + 1 == shape.levels();
    std::vector<DeviceId> groups;
    for (int g = 0; g < shape.groups(l); ++g) {
      const bool joins_all = shape.uplinks(l) == 0;
      const std::string name = joins_all ? (l == 1 ? "spines" : "core") : fmt::format("{}{}", kGroups[l], g);
      groups.push_back(graph.add({name, DeviceKind::network_switch, -1, g}));
    }
    for (std::size_t i = 0; i < below.size(); ++i) {
      const auto group = static_cast<int>(i) / shape.down(l);
      const DeviceId above = groups[static_cast<std::size_t>(group)];
      if (l == 0) {
        if (below[i] >= 0 && gone.has_leaf(group))
          graph.connect(below[i], above, hca_wire(spec, graph.devices()[static_cast<std::size_t>(below[i])].node));
        continue;
      }
      const double share = gone.none() ? 1 : gone.share(l - 1, static_cast<int>(i));
      if (share > 0) graph.connect(below[i], above, {"uplink", rate * share, spec.switch_latency});
    }
    // What a full group could send up, whether or not its last ports are used.
    if (!top)
      rate = rate * spec.shape.levels[static_cast<std::size_t>(l)].down /
             spec.shape.levels[static_cast<std::size_t>(l)].oversubscription;
    below = std::move(groups);
  }
  graph.set_router(tree_router(graph));
}

const RegisterBuilder<FabricBuilder> registered_folded_clos{
    fabric_builders(), "folded-clos", {build_folded_clos, read_folded_clos, in_spraying_fabric}};

}  // namespace
}  // namespace trainyard
