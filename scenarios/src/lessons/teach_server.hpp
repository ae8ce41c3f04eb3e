#pragma once
#include <map>
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/running/server_cell.hpp"

namespace trainyard {

/// What a worker or server did, from when to when; times in slots, whatever the user counts in.
struct ServerSpan {
  enum class What : std::uint8_t { compute, push, pull, apply };
  What what = What::compute;
  int worker = 0;  ///< whose push is applied; the worker itself otherwise, −1: a sum of all
  double begin = 0, end = 0;
};

/// What is asked for; a slot is a second to the simulator. push: of a whole gradient from one worker alone, and so long
/// its answer.
struct ServerQuestion {
  int workers = 4, servers = 1, keys = 1, steps = 4, staleness = 0, backups = 0;
  Consistency consistency = Consistency::synchronous;
  double compute = 4, push = 1, apply = 0.25;
  std::vector<double> slower;  ///< by worker
};

/// Workers and servers over time, as simulated.
struct ServerLesson {
  ServerQuestion asked;
  double end = 0;
  std::vector<std::vector<ServerSpan>> actors;       ///< workers, then servers
  std::map<std::uint32_t, std::uint64_t> staleness;  ///< in the steady part (ServerBoard)
  double steps_per_slot = 0;                         ///< of all workers, in the steady part
};
/// Throws UserError for more servers than keys.
ServerLesson teach_server(const ServerQuestion&);
LessonView lesson_view(const ServerLesson&);

}  // namespace trainyard
