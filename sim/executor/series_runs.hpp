#pragma once
#include <bit>
#include <deque>
#include <unordered_map>
#include <vector>

#include "sim/executor/joins.hpp"
#include "sim/hashing.hpp"
#include "sim/series.hpp"

namespace trainyard::execution {

/// Times the parts of a series from `first` on, on an otherwise idle actor. Returns false if flows of others
/// may disturb them.
bool time_series(SeriesTimes&, const Series&, std::size_t first, Actor, const Machine&, const Joins&, Transfers&);

/// Runs the parts of a series (Kind::series) one by one while something else runs on its actor. Otherwise runs all
/// remaining parts as one interval, with one event. Anything that begins on the actor interrupts the interval: its
/// present parts then continue on their own.
///
/// Only its own actor may disturb an interval. That holds for work, and for joins over links on which no other actor has
/// flows (KnownGroup::owners).
class SeriesRuns : private Parts {
 public:
  SeriesRuns(const Parts& parts, Joins& joins) : Parts(parts), joins_(joins) {}

  /// Call it if no observer needs single parts and the conditions at the beginning of an interval do not change.
  void allow_intervals() { allowed_ = true; }
  void begin(StreamState&);
  /// Ends an interval.
  void end(StreamState&);
  /// Begins the next parts of series, once it is known what else runs on their actors. Returns false if there were
  /// none.
  bool settle();

 private:
  struct CachedTimes {
    SeriesTimes times;
    bool lone = true;  // no flows of other actors disturb it
  };
  struct Running {
    const Series* series = nullptr;
    Op series_op;
    StreamId main, side;   // no `side`: no join runs beside
    std::size_t next = 0;  // index of the next part
    bool main_runs = false;
    SeriesInterval interval;
  };
  Joins& joins_;
  bool allowed_ = false;
  IndexedVector<Running, Actor> running_;
  std::vector<StreamId> waiting_;   // streams that wait for their next part
  std::vector<Actor> interrupted_;  // actors on which something may have begun
  struct Key {
    Actor actor = 0;
    const Series* series = nullptr;
    std::size_t first = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return mix_bits(std::bit_cast<std::uintptr_t>(key.series) ^ mix_bits(position(key.actor) << 32 | key.first));
    }
  };
  std::unordered_map<Key, const CachedTimes*, KeyHash> cached_times_;
  std::deque<CachedTimes> times_;  // referred to by `cached_times_`
  IndexedVector<std::vector<const CachedTimes*>, Actor> times_of_actor_;

  /// Times of the series from part `first` on.
  const CachedTimes& cached_times(Actor, const Series&, std::size_t first);
  void part_ended(StreamId);
  void go_on(Running&);
  StreamState& stream_of(ActorState&, Running&, const Series::Part&);
  void begin_part(ActorState&, StreamState&);
  void begin_interval(ActorState&, Running&, const SeriesTimes&);
  void interrupt(Actor);
  void report(const StreamState&, const SeriesInterval&, std::size_t phase);
};

}  // namespace trainyard::execution
