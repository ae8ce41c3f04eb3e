#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "sim/executor/interference.hpp"
#include "sim/executor/joins.hpp"
#include "sim/executor/streams.hpp"
#include "sim/executor/transfers.hpp"
#include "sim/series.hpp"

namespace trainyard::execution {

/// Does the parts of a series (Kind::series) one by one while something else runs on its actor, and else all that are left
/// as one stretch, with one event. What begins there meanwhile interrupts the stretch: its present parts go on by themselves.
///
/// Nothing but its own actor may disturb a stretch: that holds for work, and for joins over links on which nobody else
/// has flows (KnownGroup::owners).
class SeriesRuns {
 public:
  SeriesRuns(Context& context, ActorTable& table, Interference& interference, Streams& streams, Transfers& transfers,
             Joins& joins)
      : context_(context),
        table_(table),
        interference_(interference),
        streams_(streams),
        transfers_(transfers),
        joins_(joins) {}

  /// Nobody asks for single parts, and what a stretch finds as it begins stays so.
  void allow_stretches() { allowed_ = true; }
  void begin(StreamState&);
  /// The stretch is over.
  void end(StreamState&);
  /// The next parts of series, once it is known what else runs on their actors. False: there were none.
  bool settle();

 private:
  struct Known {
    SeriesTimes times;
    bool lone = true;  // nobody else's flows disturb it
  };
  struct Running {
    const Series* series = nullptr;
    Op whole;
    StreamId main, side;   // none: no join goes on beside
    std::size_t next = 0;  // part
    bool main_runs = false;
    SeriesStretch stretch;
  };
  Context& context_;
  ActorTable& table_;
  Interference& interference_;
  Streams& streams_;
  Transfers& transfers_;
  Joins& joins_;
  bool allowed_ = false;
  IndexedVector<Running, Actor> running_;
  std::vector<StreamId> waiting_;   // for their next part
  std::vector<Actor> interrupted_;  // maybe: something began
  std::map<std::tuple<Actor, const Series*, std::size_t>, Known> known_;

  /// From a part on.
  const Known& known(Actor, const Series&, std::size_t first);
  bool alone(const ActorState&) const;
  void part_ended(StreamId);
  void go_on(Running&);
  StreamState& stream_of(ActorState&, Running&, const Series::Part&);
  void begin_part(ActorState&, StreamState&);
  void begin_stretch(ActorState&, Running&, const SeriesTimes&);
  void interrupt(Actor);
  void report(const StreamState&, const SeriesStretch&, std::size_t phase);
};

}  // namespace trainyard::execution
