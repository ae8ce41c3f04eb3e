#include "topologies/background.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topologies/device_graph.hpp"

namespace trainyard {
namespace {

constexpr double kMostShare = 0.999;
constexpr Seconds kLeastPeriod{1e-5};  // shorter bursts only cost time: links share them as their mean

const std::vector<std::string>& names_of_links() {
  static const std::vector<std::string> names{"all", "adapters", "uplinks", "spines"};
  return names;
}

std::vector<BackgroundTraffic::Part> read_profile(const std::vector<Node>& list) {
  std::vector<BackgroundTraffic::Part> profile;
  for (const Node& item : list) {
    Fields fields(item, "cluster.background.profile");
    BackgroundTraffic::Part part;
    part.from =
        fields.seconds({"from", "Time at which this share begins, for example 5 ms. Default: 0 s."}, Seconds{0});
    part.share = fields.number({"share", "Share of the rate of each link that is taken from then on, for example 0.8."},
                               0, kMostShare);
    if (profile.empty() && part.from.value > 0) profile.push_back({});
    if (!profile.empty() && part.from <= profile.back().from)
      fail(fields.place_of("from"),
           fmt::format("cluster.background.profile: from: {} does not come after {}; expected ascending times",
                       show(part.from), show(profile.back().from)));
    profile.push_back(part);
    fields.finish();
  }
  return profile;
}

BackgroundTraffic read_one(const Node& node) {
  Fields fields(node, "cluster.background");
  BackgroundTraffic traffic;
  traffic.place = node.place;
  traffic.links = fields.one_of<BackgroundTraffic::Links>(
      {"links",
       "Links that background traffic uses: all (cables between nodes), adapters (cables of adapters), uplinks (cables "
       "between switches) or spines (cables to the top level of switches). Default: all."},
      names_of_links(), BackgroundTraffic::Links::all);
  const std::vector<Node>* profile = fields.list(
      {"profile",
       "Shares that change with time, for example [{share: 0.2}, {from: 5 ms, share: 0.8}]. Default: one share."});
  traffic.period = fields.seconds(
      {"period", "Time after which bursts or a profile begin anew, for example 10 ms. Default: they do not."},
      Seconds{0});
  if (fields.has("period") && traffic.period < kLeastPeriod)
    fields.refuse("period", fmt::format("{}; expected at least {}", show(traffic.period), show(kLeastPeriod)));
  if (profile) {
    if (fields.has("share") || fields.has("duty"))
      fields.refuse("profile", "it states the shares; leave `share` and `duty` out");
    traffic.profile = read_profile(*profile);
    if (traffic.profile.empty()) fields.refuse("profile", "no part; expected at least one");
    if (traffic.period.value > 0 && traffic.profile.back().from >= traffic.period)
      fields.refuse("profile", fmt::format("its last part begins at {}, but the period is {}",
                                           show(traffic.profile.back().from), show(traffic.period)));
  } else {
    const double share = fields.number(
        {"share", "Share of the rate of each link that background traffic takes, 0 to 0.999, for example 0.5."}, 0,
        kMostShare);
    traffic.profile = {{Seconds{0}, share}};
    constexpr double kLeastDuty = 0.001;
    const double duty = fields.number(
        {"duty",
         "Share of each period in which bursts of background traffic flow, for example 0.25. Default: they always do."},
        kLeastDuty, 1 - kLeastDuty, 1.0);
    if (fields.has("duty") != (traffic.period.value > 0))
      fields.refuse(fields.has("duty") ? "duty" : "period", "bursts have a `period` and a `duty`; expected both");
    if (fields.has("duty")) traffic.profile.push_back({traffic.period * duty, 0});
  }
  if (!traffic.varies()) traffic.period = {};
  fields.finish();
  return traffic;
}

/// Chooses links of a graph by the kinds of devices at their ends.
class LinkChoice {
 public:
  explicit LinkChoice(const DeviceGraph& graph) : graph_(graph) {}

  bool contains(BackgroundTraffic::Links links, LinkId wire) const {
    if (scope_of(graph_.kind(wire)) != LinkScope::fabric || !graph_.is_up(wire)) return false;
    const DeviceGraph::End end = graph_.ends(wire & ~1);  // fabrics connect the lower device of a wire first
    const bool between_switches = is_switch(end.from) && is_switch(end.to);
    switch (links) {
      case BackgroundTraffic::Links::all:
        return true;
      case BackgroundTraffic::Links::adapters:
        return kind(end.from) == DeviceKind::hca || kind(end.to) == DeviceKind::hca;
      case BackgroundTraffic::Links::uplinks:
        return between_switches;
      case BackgroundTraffic::Links::spines:
        return between_switches && !leads_up(end.to);
    }
    return false;
  }

 private:
  const DeviceGraph& graph_;

  DeviceKind kind(DeviceId id) const { return graph_.devices()[static_cast<std::size_t>(id)].kind; }
  bool is_switch(DeviceId id) const { return kind(id) == DeviceKind::network_switch; }
  bool leads_up(DeviceId from) const {
    const std::vector<LinkId> wires = graph_.links_from(from);
    return std::ranges::any_of(wires, [this](LinkId wire) { return wire % 2 == 0 && is_switch(graph_.ends(wire).to); });
  }
};

}  // namespace

std::string BackgroundTraffic::text() const {
  const std::string where = links == Links::all ? "" : " on " + names_of_links()[static_cast<std::size_t>(links)];
  const auto by_share = [](const Part& a, const Part& b) { return a.share < b.share; };
  const double most = std::ranges::max_element(profile, by_share)->share;
  return fmt::format("{}{:.3g} % background traffic{}", varies() ? "up to " : "", most * 100, where);
}

std::vector<BackgroundTraffic> read_background(Fields& cluster, int nodes) {
  std::vector<BackgroundTraffic> all;
  const Node* node = cluster.child_unless_null(
      {"background",
       "Traffic of others on the cables between the nodes, which takes a share of their rate: a map or a list of maps, "
       "for example {links: uplinks, share: 0.5}. Default: none."});
  if (!node) return all;
  if (nodes == 1) cluster.refuse("background", "one node has no cables to others; expected several nodes");
  if (node->kind != Node::Kind::list) return {read_one(*node)};
  for (const Node& item : node->items) all.push_back(read_one(item));
  return all;
}

std::vector<LinkChange> background_changes(std::span<const BackgroundTraffic> all, const DeviceGraph& graph) {
  std::vector<LinkChange> changes;
  if (all.empty()) return changes;
  const LinkChoice choice(graph);
  std::map<LinkId, const BackgroundTraffic*> taken;
  for (const BackgroundTraffic& traffic : all) {
    const std::size_t before = changes.size();
    for (LinkId wire = 0; wire < static_cast<LinkId>(graph.wires().size()); ++wire) {
      if (!choice.contains(traffic.links, wire)) continue;
      const LinkId shared = graph.medium(wire), link = shared >= 0 ? shared : wire;
      const auto [other, fresh] = taken.try_emplace(link, &traffic);
      const std::string& name = graph.links()[static_cast<std::size_t>(link)].name;
      if (!fresh && other->second != &traffic)
        fail(traffic.place,
             fmt::format(
                 "cluster.background: {} has two kinds of background traffic; expected links that no other entry has",
                 name));
      if (!fresh) continue;  // both directions use one medium
      const BytesPerSecond rate = graph.links()[static_cast<std::size_t>(link)].capacity;
      for (const BackgroundTraffic::Part& part : traffic.profile)
        changes.push_back({part.from, link, rate * (1 - part.share), traffic.period});
    }
    if (changes.size() == before)
      fail(traffic.place, fmt::format("cluster.background: links: the fabric has no {}",
                                      traffic.links == BackgroundTraffic::Links::adapters ? "cables of adapters"
                                      : traffic.links == BackgroundTraffic::Links::all    ? "cables"
                                                                                          : "cables between switches"));
  }
  return changes;
}

}  // namespace trainyard
