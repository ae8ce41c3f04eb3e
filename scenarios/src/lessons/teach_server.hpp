#pragma once
#include <map>
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/running/server_cell.hpp"

namespace trainyard {

/// An interval in which a worker or server is busy. Times are in slots, the unit of the user's numbers.
struct ServerSpan {
  enum class Kind : std::uint8_t { compute, push, pull, apply };
  Kind kind = Kind::compute;
  int worker = 0;  ///< apply: the worker whose push is applied, −1 for the sum of all; else the worker itself
  double begin = 0, end = 0;
};

/// The parameters of the lesson. Times are in slots; the simulator treats a slot as a second. `push`: time of one
/// worker's push of a whole gradient on an idle network; the pull of the answer takes as long.
struct ServerQuestion {
  int workers = 4, servers = 1, keys = 1, steps = 4, staleness = 0, backups = 0;
  Consistency consistency = Consistency::synchronous;
  double compute = 4, push = 1, apply = 0.25;
  std::vector<double> slower;  ///< slowdown factor of each worker
};

/// The simulated workers and servers over time.
struct ServerLesson {
  ServerQuestion question;
  double end = 0;
  std::vector<std::vector<ServerSpan>> actors;  ///< intervals of each worker, then of each server
  /// Number of updates by staleness, in the steady state (ServerBoard).
  std::map<std::uint32_t, std::uint64_t> staleness;
  double steps_per_slot = 0;  ///< steps of all workers per slot, in the steady state
};
/// Throws UserError if there are more servers than keys.
ServerLesson teach_server(const ServerQuestion&);
LessonView lesson_view(const ServerLesson&);

}  // namespace trainyard
