#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "sim/machine.hpp"
#include "sim/op.hpp"

namespace trainyard {

/// Work, marks and joins of one actor that wait for no other actor. Together they are one operation of Kind::series.
/// Each part begins when the previous one has ended, except that a join `beside` runs next to the parts after it, on a
/// stream of its own. The series ends when all parts have ended.
struct Series {
  struct Part {
    Op op;                ///< a join has `steps` 1, because no other actor takes part
    bool beside = false;  ///< a join without memory that the next parts do not wait for
    bool waits = false;   ///< waits for the join beside it
  };
  std::vector<Part> parts;
};

/// Begin and end of the parts of a series, from part `first` on, on one actor while nothing else runs there.
struct SeriesTimes {
  const Series* series = nullptr;
  std::size_t first = 0;
  struct PartTimes {
    double begin = 0, end = 0;  ///< s after the first part began
    int cause = -1;             ///< the part whose end allowed this one to begin; −1: the cause of the first part
    Picoseconds latency;        ///< for a join
    LinkId limiting = -1;       ///< link that sets the rate of a join
    double host = 0;            ///< s that the host takes to launch the part
  };
  std::vector<PartTimes> parts;  ///< indexed by part; empty before `first`
  int last = -1;                 ///< the part that ends last
  double length = 0;             ///< s
  /// Time in s by which the host must be ahead so that no part waits for it.
  double lead = -std::numeric_limits<double>::infinity();
  /// Time in s that the host takes to launch the parts from `first` up to, but without, `end`.
  double host_until(std::size_t end) const {
    double sum = 0;
    for (std::size_t part = first; part < end; ++part) sum += parts[part].host;
    return sum;
  }
  /// An interval in which no part begins or ends.
  struct Phase {
    double begin = 0;            ///< s after the first part began
    std::size_t next = 0;        ///< first part that has not begun
    int main = -1, beside = -1;  ///< parts under way; −1: none
    double left = 0,
           speed = 1;            ///< main part, if it is work: undisturbed seconds left at the beginning, and its speed
    double latency = 0;          ///< s, latency left of the join
    double bytes = 0, rate = 0;  ///< bytes left of the join, and its rate in bytes/s
    GroupId group = 0;           ///< group under which the time is booked
  };
  std::vector<Phase> phases;  ///< the last one is the end of the series
  struct Share {
    GroupId group = 0;
    std::vector<double> before;  ///< s booked under the group before each phase
  };
  std::vector<Share> shares;
  /// Sums over the joins of one group over one route, for one group of the breakdown.
  struct MovedBytes {
    const GroupFlow* group = nullptr;
    GroupId joins_of = 0;  ///< group of the breakdown (see Names)
    const Route* route = nullptr;
    std::vector<double> bytes, joins;  ///< bytes moved and joins ended before each phase
  };
  std::vector<MovedBytes> moved;

  /// Index of the phase that runs `since` seconds after the first part began.
  std::size_t phase_at(double since) const {
    const auto next = std::upper_bound(phases.begin(), phases.end() - 1, since,
                                       [](double time, const Phase& phase) { return time < phase.begin; });
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, next - phases.begin()) - 1);
  }
};

/// An interval in which an actor runs parts of a series and nothing else: one event stands for all of them.
struct SeriesInterval {
  const SeriesTimes* times = nullptr;
  double began = 0;      ///< s, in the time of the run
  std::size_t last = 0;  ///< parts before this one have ended, except `open`
  int open = -1;         ///< part that continues on its own after an interruption; −1: none

  /// Returns true if all parts have ended.
  bool is_whole() const { return open < 0 && last == times->parts.size(); }
  const Op& part(std::size_t number) const { return times->series->parts[number].op; }
  double begin(std::size_t number) const { return began + times->parts[number].begin; }
  double end(std::size_t number) const { return began + times->parts[number].end; }
  /// Calls visit(part) for the parts that have ended.
  template <class Visit>
  void for_each_part(Visit visit) const {
    for (std::size_t i = times->first; i < last; ++i)
      if (static_cast<int>(i) != open) visit(i);
  }
  /// Seconds booked under a group before `now`.
  double spent(const SeriesTimes::Share& share, double now) const {
    const double since = std::clamp(now - began, 0.0, times->length);
    const std::size_t phase = times->phase_at(since);
    const bool is_running = times->phases[phase].group == share.group;
    return share.before[phase] + (is_running ? since - times->phases[phase].begin : 0);
  }
};

}  // namespace trainyard
