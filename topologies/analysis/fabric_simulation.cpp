#include "topologies/analysis/fabric_simulation.hpp"

#include <map>

#include "sim/error.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/program.hpp"
#include "topologies/analysis/fabric_tree.hpp"

namespace trainyard {
namespace {

/// A machine for pairs: actor i sends pair i's message, and actor i + pairs receives it. It has only the links of the
/// paths, one for each direction, and the media that they share.
class PairMachine : public Machine {
 public:
  PairMachine(const DeviceGraph& graph, std::span<const std::vector<LinkId>> paths) {
    std::map<LinkId, LinkId> ours;
    for (const std::vector<LinkId>& path : paths) {
      std::vector<LinkUse>& uses = paths_.emplace_back();
      for (const LinkId link : graph.with_media(path)) {
        const auto [place, fresh] = ours.try_emplace(link, static_cast<LinkId>(links_.size()));
        if (fresh) links_.push_back(graph.links()[link]);
        add_use(uses, place->second);
      }
    }
  }
  std::span<const Link> links() const override { return links_; }
  Cost price(const Work&, Actor) const override { return {}; }
  Route route(Actor from, Actor, PathClass) const override {
    Route route;
    route.links = paths_[static_cast<std::size_t>(from) % paths_.size()];
    return route;
  }

 private:
  std::vector<Link> links_;
  std::vector<std::vector<LinkUse>> paths_;  // indexed by pair
};

std::unique_ptr<Program> one_message(Kind kind, Bytes bytes, Actor peer) {
  Op op;
  op.kind = kind;
  op.message.bytes = bytes;
  return std::make_unique<ListProgram>(std::vector<Op>{op}, std::vector<Actor>{peer});
}

double time_of_pairs(const DeviceGraph& graph, std::span<const std::vector<LinkId>> paths, Bytes bytes) {
  PairMachine machine(graph, paths);
  Programs programs;
  const auto count = static_cast<Actor>(paths.size());
  for (Actor a = 0; a < count; ++a) programs.push_back(one_message(Kind::send, bytes, a + count));
  for (Actor a = 0; a < count; ++a) programs.push_back(one_message(Kind::recv, Bytes{}, a));
  return run_programs(machine, std::move(programs)).end.value;
}

}  // namespace

double simulated_slowdown(DeviceGraph& graph, const std::vector<HcaPair>& pairs) {
  std::vector<std::vector<LinkId>> paths;
  for (const HcaPair& pair : pairs) {
    const auto path = graph.path(pair.from, pair.to, PathClass::fabric);
    const auto name = [&graph](DeviceId d) { return graph.devices()[d].name; };
    if (!path) throw UserError("no links of the fabric lead from " + name(pair.from) + " to " + name(pair.to));
    paths.push_back(*path);
  }
  // Bytes of one second alone: far above the clock's resolution.
  const Bytes bytes{rate_alone(FabricView(graph), paths.at(0))};
  return time_of_pairs(graph, paths, bytes) / time_of_pairs(graph, std::span(paths).first(1), bytes);
}

}  // namespace trainyard
