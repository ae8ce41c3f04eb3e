#pragma once
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/machine.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The machine of a paper's figure: a FLOP takes a second on every actor, and each connected pair of actors has a link
/// of its own in each direction. A message of kBytesPerSecond bytes takes a second on it.
class IdealMachine : public Machine {
 public:
  static constexpr double kBytesPerSecond = 1e9;

  /// `actor`: the word for an actor, which precedes its number.
  explicit IdealMachine(std::string actor) : actor_(std::move(actor)) {}
  /// Adds a link from `from` to `to`, unless it exists. Call it before the simulation is created.
  void connect(Actor from, Actor to);

  std::span<const Link> links() const override { return links_; }
  Cost price(const Work& work, Actor) const override { return {Seconds{work.flops.value}}; }
  Route route(Actor from, Actor to, PathClass) const override;
  std::uint64_t equivalence_class(Actor) const override { return 0; }
  std::string actor_name(Actor actor) const override { return actor_ + " " + std::to_string(actor); }

 private:
  std::string actor_;
  std::vector<Link> links_;
  std::map<std::pair<Actor, Actor>, LinkUse> uses_;
};

/// `gpus` devices with one full-duplex link each to an unlimited switch: the machine of a lecture.
ClusterSpec star_cluster(int gpus, BytesPerSecond link, Picoseconds hop_latency = {});

}  // namespace trainyard
