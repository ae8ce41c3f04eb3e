#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/lessons/push_pull.hpp"
#include "scenarios/src/running/server_cell.hpp"

namespace trainyard {

/// An interval in which a worker or server is busy. Times are in slots, the unit of the user's numbers.
struct ServerSpan {
  enum class Kind : std::uint8_t { compute, push, pull, apply };
  Kind kind = Kind::compute;
  int worker = 0;  ///< the worker; for apply, the worker whose push is applied, or −1 for the sum of all pushes
  double begin = 0, end = 0;
};

/// The parameters of the lesson. Times are in slots; the simulator treats a slot as a second. `push`: time of one
/// worker's push of a whole gradient on an idle network; the pull of the answer takes as long.
struct ServerQuestion {
  int workers = 4, servers = 1, keys = 1, steps = 4, staleness = 0, backups = 0;
  Consistency consistency = Consistency::synchronous;
  double compute = 4, push = 1, apply = 0.25;
  std::vector<double> slower;  ///< slowdown factor of each worker
  /// The value that each worker pushes to every key in every step. A worker w without a value here pushes w + 1.
  std::vector<double> values;
  double push_value(int worker) const;
};

/// A push that a server has added to a key, or a pull and the value that it has returned.
struct ServerValue {
  bool is_pull = false;
  int worker = 0;  ///< the worker that has pushed, or pulls
  std::string key;
  double request_time = 0, time = 0;  ///< `request_time`: for a pull, when the worker began to wait for the answer
  double push_value = 0;              ///< the value that was pushed
  KeyValue content;                   ///< the key's sum at the server after a push, or the value that a pull returns
  bool is_partial = false;            ///< for a pull: its value lacks a push for which a synchronous server would wait
};

/// The simulated workers and servers over time.
struct ServerLesson {
  ServerQuestion question;
  double end = 0;
  std::vector<std::vector<ServerSpan>> actors;  ///< intervals of each worker, then of each server
  /// Number of updates by staleness, in the steady state (ServerBoard).
  std::map<std::uint32_t, std::uint64_t> staleness;
  double steps_per_slot = 0;                  ///< steps of all workers per slot, in the steady state
  std::vector<ServerValue> values = {};       ///< in the order of time
  std::optional<PushPullScript> script = {};  ///< No value: workers train step by step
  std::size_t pulls(bool partial_only) const;
};
/// Throws UserError if there are more servers than keys.
ServerLesson teach_server(const ServerQuestion&);
/// Simulates workers that execute a script, and one server. Uses only consistency, staleness, push and apply of the
/// question.
ServerLesson teach_push_pull(const ServerQuestion&, const PushPullScript&);
LessonView lesson_view(const ServerLesson&);

}  // namespace trainyard
