#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/link_name.hpp"
#include "sim/op.hpp"

namespace trainyard {

using LinkId = std::int32_t;
/// Set of the kinds of operations that are active on one actor at one time, one bit each.
using KindSet = std::uint8_t;
constexpr KindSet bit(Kind kind) { return static_cast<KindSet>(1U << static_cast<unsigned>(kind)); }
/// The bit of messages on slow routes (Route::slow) in a set of active kinds, from the end of their latency on. Messages on
/// other routes, and joins, count as sends and receives as soon as they begin.
constexpr KindSet kSlowMessages = bit(Kind::join);

/// One direction of a cable, lane group or bus. The flows on it share its rate max–min fair.
struct Link {
  LinkName name;
  Label kind;  ///< "NVLink", "PCIe", "HCA", …: what-ifs and the critical path group links by kind
  BytesPerSecond capacity;
};

/// A flow takes `weight` times its rate from `link`. The weight is above 1 if one flow stands for several, and below 1
/// if the flow is striped over several links.
struct LinkUse {
  LinkId link = 0;
  double weight = 1;
};

/// Adds a weight to the use of a link. Appends the use if the list has none of that link.
void add_use(std::vector<LinkUse>&, LinkId, double weight = 1);

/// The part of a route between two buffers. A message, or a chunk of it, arrives completely before the next leg sends
/// it.
struct Leg {
  std::span<const LinkUse> links;
  Picoseconds latency;
  double seconds_per_byte = 0;  ///< on the slowest link of the leg, undisturbed
};

/// The links and the latency of a path. The machine owns the links and keeps them as long as it lives.
struct Route {
  std::span<const LinkUse> links;  ///< links of all legs
  Picoseconds latency;             ///< sum over all legs
  bool reachable = true;
  /// The legs, at least two, if buffers on the route (host memory) store and forward; otherwise empty. A message of at
  /// most `chunk` bytes passes one leg after the other. A larger one runs over all legs at once, each leg one chunk
  /// behind the previous one.
  std::span<const Leg> legs = {};
  Bytes chunk = {};
  const char* name = "";  ///< usual name of such a path ("PIX", "NET"), for traces
  /// With adaptive routing: the routes among which a message chooses the least loaded when it starts. Null: this one.
  const std::vector<Route>* alternatives = nullptr;
  /// With flowlets: the bytes after which a message chooses again among the alternatives. 0: it keeps its route.
  Bytes flowlet = {};
  bool slow = false;  ///< it slows work at its ends only while bytes move: see kSlowMessages

  bool store_and_forward(Bytes size) const { return legs.size() > 1 && size <= chunk; }
  /// Time to fill the pipeline of legs, for a message that runs over all of them at once: the time of one chunk on
  /// every leg except the slowest.
  Seconds fill_time() const;
};

/// Cost of one operation. A host launches the operations of an actor one after the other, ahead of their execution. An
/// operation takes `duration`, and ends no earlier than `launched` after the host has begun to launch it. The launch
/// occupies the host for `host`.
struct Cost {
  Seconds duration;
  Seconds launched = {};    ///< 0: the launch does not delay the end
  Seconds host = {};        ///< time until the host launches the next operation
  bool host_waits = false;  ///< the host launches the operation only after everything that it depends on has ended
  Seconds tail = {};        ///< time at the end of `launched` for which the host has launched all that is executed
};

struct GroupFlow;

/// Route and link owners of a group's flow, if they are known in advance (GroupFlow::known_group).
struct KnownGroup {
  Route route;  ///< the routes of all edges, merged
  /// Actors whose own links carry only the messages of that actor and the flows of its groups.
  std::vector<Actor> owners;
};

/// Describes how operations that run on one actor at the same time slow each other.
class Contention {
 public:
  virtual ~Contention() = default;
  /// Speed of an operation of `kind` on `actor`, relative to running alone, while the kinds in `active` (including
  /// `kind`) run there. Greater than 0.
  virtual double speed(Actor, Kind kind, KindSet active) const = 0;
  /// The links that only this actor's messages use. speed(actor, send, …) slows them.
  virtual std::span<const LinkId> ports(Actor) const = 0;
};

/// Prices work and finds routes. The duration of work comes from here, that of a message from the sharing of links.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::span<const Link> links() const = 0;
  /// Cost of a compute, local or delay operation that runs undisturbed.
  virtual Cost price(const Work&, Actor) const = 0;
  /// Finds the route between two actors. If there is none, `reachable` is false: the executor reports the pair as an
  /// error, or waits if a failed link may come back.
  virtual Route route(Actor from, Actor to, PathClass) const = 0;
  /// Calls a function with the route between two actors, whose links and legs need not live longer. The function must
  /// not request another route. A machine that stores routes need not store this one.
  virtual void visit_route(Actor from, Actor to, PathClass path_class,
                           const std::function<void(const Route&)>& visit) const {
    visit(route(from, to, path_class));
  }

  /// Returns null if operations that run at the same time do not slow each other.
  virtual const Contention* contention() const { return nullptr; }
  /// Equivalence class of an actor: all work takes the same time on actors with equal numbers, alone and beside other
  /// work. By default, each actor is a class of its own.
  virtual std::uint64_t equivalence_class(Actor actor) const { return static_cast<std::uint64_t>(actor); }

  /// Takes note of a link that failed or came back: later routes avoid it or use it again.
  virtual void link_state(LinkId, bool /*up*/) {}

  /// A possible reason for a missing path, "file:line:column: without …, ". It precedes the error that reports the
  /// missing path.
  virtual std::string cause_of_cut(Actor /*from*/, Actor /*to*/) const { return {}; }

  virtual std::string actor_name(Actor actor) const { return "rank " + std::to_string(actor); }
};

/// The routes of all edges of a group, merged. The weight of a link grows with every edge that crosses it.
struct GroupRoute {
  std::vector<LinkUse> links;
  Picoseconds latency;  ///< latency of the longest route if copy engines move the flow, otherwise 0
  bool reachable = true;
  bool slow = false;  ///< a route is slow
};
GroupRoute route_of_group(const Machine&, const GroupFlow&);

/// The load of links by messages: the weights of those under way.
using LinkLoads = std::vector<double>;
/// Returns the route on which a further message would find the least load on its busiest link, relative to the links'
/// capacities; among equals the one with the least load on all its links; among these the first. `loads` is indexed by
/// link; links beyond its end have no load. `choices` must not be empty.
const Route& least_loaded(std::span<const Route> choices, const LinkLoads& loads, std::span<const Link>);
/// Adds a message, or removes it with the factor −1.
void add_load(LinkLoads&, std::span<const LinkUse>, double factor = 1);

}  // namespace trainyard
