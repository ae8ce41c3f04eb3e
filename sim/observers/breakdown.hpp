#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/index.hpp"
#include "sim/names.hpp"
#include "sim/observers/growth.hpp"

namespace trainyard {

/// Breakdown of one actor's time. The parts sum to `total`.
struct BreakdownParts {
  Seconds total;
  std::map<std::string, Seconds> work;     ///< indexed by group
  std::map<std::string, Seconds> exposed;  ///< communication not covered by work, by group
  Seconds host_wait;                       ///< work that its host launches late: the wait for the launch
  Seconds bubble;  ///< waiting for a message that a peer must still produce, or for others to begin a collective
  Seconds other;   ///< idle
  /// The part of `bubble` in which collectives wait for actors that have not begun theirs, by group.
  std::map<std::string, Seconds> joining;
  Seconds all_joining() const;
};

/// Books each instant of each actor under the first category that applies: work (groups in the order of `names`), work
/// that waits for its host, communication, bubble, prefetch, other. Work counts as waiting before it counts as running.
/// Memory: a few numbers per actor, independent of the number of operations.
class Breakdown : public NumberSums<Breakdown> {
 public:
  Interest interest() const override { return {.transfers = false, .stretches = true, .rounds = true}; }
  explicit Breakdown(const Names& names) : names_(names) {}
  explicit Breakdown(Names&&) = delete;  // the names are looked up later
  /// Returns the breakdown of the actor that ended last (the lowest one, if several did).
  BreakdownParts parts() const { return parts(last()); }
  BreakdownParts parts(Actor) const;
  /// The sums booked so far as plain numbers, which the caller can store. The differences of two such lists are the
  /// parts of an interval.
  std::vector<double> booked(Actor) const;
  BreakdownParts parts_between(const std::vector<double>& from, const std::vector<double>& to) const;
  /// End of the actor's last operation; 0 if it had none.
  Seconds end(Actor) const;
  /// The actor that ended last among the first `actors` actors.
  Actor last(std::size_t actors = ~std::size_t{0}) const;

  void posted(const OpRun&) override;
  void started(const OpRun&) override;
  void finished(const OpRun&) override;

 private:
  friend NumberSums<Breakdown>;
  static constexpr std::size_t kGroups = 32;
  struct State {
    double since = 0, end = 0;
    double host_until = 0;                         // time until which the work that began last waits for its host
    const SeriesInterval* interval = nullptr;      // under way
    std::uint32_t runs = 0, waits = 0, joins = 0;  // groups whose number below is not 0, one bit each
    std::uint16_t running[kGroups] = {};           // work and messages under way, by group
    std::uint16_t waiting[kGroups] = {};           // messages whose other half is missing, by group
    std::uint16_t joining[kGroups] = {};           // collectives that other actors have not begun, by group
    double booked[kGroups] = {}, joined[kGroups] = {};
    double host_wait = 0, bubble = 0, other = 0;
  };
  /// The groups of each role, one bit each.
  struct Roles {
    std::size_t groups = 0;  // known so far
    std::uint32_t work = 0, collective = 0, prefetch = 0;
  };
  const Names& names_;
  IndexedVector<State, Actor> actors_;
  Roles roles_;

  double rounding_scale() const {
    double latest = 0;
    for (const State& s : actors_) latest = std::max(latest, s.since);
    return latest;
  }
  template <class Visit>
  void each_number(Visit visit) {
    for (State& s : actors_) {
      for (double* number : {&s.since, &s.end, &s.host_wait, &s.host_until, &s.bubble, &s.other}) visit(*number);
      for (double& booked : s.booked) visit(booked);
      for (double& joined : s.joined) visit(joined);
    }
  }

  void find_roles();
  void change_waiting(State&, const Op&, int by);
  static void change(std::uint16_t (&numbers)[kGroups], std::uint32_t& bits, GroupId group, int by);
  State& state_at(Actor, Seconds now);
  void book(State&, double until);
  void book_interval(State&, double until);
  void book_span(State&, double span);
  bool waits_for_host(const State&) const;
};

}  // namespace trainyard
