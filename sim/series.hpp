#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/machine.hpp"
#include "sim/op.hpp"

namespace trainyard {

/// Work, marks and joins of one actor, with nothing of others to wait for: one operation of Kind::series, which stands for
/// its parts. Each begins when the one before it has ended, but for a join that goes on beside those after it, on a stream
/// of its own. The series ends when all have.
struct Series {
  struct Part {
    Op op;                ///< of joins: `steps` 1, since nobody else meets there
    bool beside = false;  ///< a join without memory: the next parts do not wait for it
    bool waits = false;   ///< for the join beside it
  };
  std::vector<Part> parts;
};

/// When the parts of a series, from one of them on, begin and end on one actor while nothing else runs there.
struct SeriesTimes {
  const Series* series = nullptr;
  std::size_t first = 0;
  struct PartTimes {
    double begin = 0, end = 0;  ///< s after the first began
    int cause = -1;             ///< the part whose end let it begin; −1: what the first one followed
    Picoseconds latency;        ///< of a join
    LinkId limiting = -1;       ///< of a join, its rate
  };
  std::vector<PartTimes> parts;  ///< by part; those before the first are empty
  int last = -1;                 ///< the part that ends last
  double length = 0;
  /// Until something begins or ends.
  struct Phase {
    double begin = 0;
    std::size_t next = 0;        ///< parts before it have begun
    int main = -1, beside = -1;  ///< parts that go on; −1: none
    double left = 0,
           speed = 1;    ///< of the main part, if it is work: seconds without disturbance at the beginning, speed
    double latency = 0;  ///< s, left of a join's
    double bytes = 0, rate = 0;  ///< left of a join's
    GroupId group = 0;           ///< under which the time is booked
  };
  std::vector<Phase> phases;  ///< the last one: the end
  struct Share {
    GroupId group = 0;
    std::vector<double> before;  ///< seconds before each phase
  };
  std::vector<Share> shares;
  /// Joins of one group over one route.
  struct Moved {
    const GroupFlow* group = nullptr;
    const Route* route = nullptr;
    std::vector<double> bytes, joins;  ///< that have ended before each phase
  };
  std::vector<Moved> moved;

  std::size_t phase_at(double since) const {
    const auto next = std::upper_bound(phases.begin(), phases.end() - 1, since,
                                       [](double time, const Phase& phase) { return time < phase.begin; });
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, next - phases.begin()) - 1);
  }
};

/// Parts of a series that an actor does while nothing else runs there: one event stands for all of them.
struct SeriesStretch {
  const SeriesTimes* times = nullptr;
  double began = 0;      ///< s
  std::size_t last = 0;  ///< parts before it have ended; where the stretch was interrupted,
  int open = -1;         ///< but for this one, which goes on by itself

  const Op& part(std::size_t number) const { return times->series->parts[number].op; }
  double begin(std::size_t number) const { return began + times->parts[number].begin; }
  double end(std::size_t number) const { return began + times->parts[number].end; }
  /// Has it ended by then?
  template <class Visit>
  void for_each_part(Visit visit) const {
    for (std::size_t i = times->first; i < last; ++i)
      if (static_cast<int>(i) != open) visit(i);
  }
  /// Seconds booked under a group up to then.
  double spent(const SeriesTimes::Share& share, double now) const {
    const double since = std::clamp(now - began, 0.0, times->length);
    const std::size_t phase = times->phase_at(since);
    const bool own = times->phases[phase].group == share.group;
    return share.before[phase] + (own ? since - times->phases[phase].begin : 0);
  }
};

}  // namespace trainyard
