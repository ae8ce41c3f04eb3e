#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/observer.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// A value that a pull returns or a push brings, and the number of pushes by each worker that it contains.
struct KeyValue {
  double value = 0;
  std::vector<int> pushes;
  KeyValue& operator+=(const KeyValue&);
};

/// A line of a script: `worker 0: push w 3`, `worker 0: pull w` or `worker 0: compute 2`.
struct PushPullCommand {
  enum class Verb : std::uint8_t { push, pull, compute };
  Verb verb = Verb::push;
  int worker = 0;
  std::size_t key = 0;  ///< number in PushPullScript::keys
  double amount = 0;    ///< the value that is pushed, or the slots to compute
  Place place;
};

struct PushPullScript {
  std::string name;  ///< the name of the file
  std::vector<PushPullCommand> commands;
  std::vector<std::string> keys;  ///< in the order of their first use
  int workers = 1;

  /// Number of times that a worker pushes a key.
  int pushes(int worker, std::size_t key) const;
};
constexpr int kMostScriptWorkers = 16;
/// Throws UserError with the place.
PushPullScript read_push_pull(std::string_view text, const std::string& name);
PushPullScript read_push_pull_file(const std::string& file);

/// Settings of a key-value server (one actor), which serves the workers of a script. The server handles requests in the
/// order of their arrival. A push adds its value to the key. A pull of an asynchronous server gets the key's value at
/// once. For other servers, pushes form rounds: a round has one push of every worker that pushes the key. A pull awaits
/// the round of the worker's own last push (for a worker that only pulls: as many rounds as it has pulled). A pull of a
/// synchronous server waits until that round is whole, and gets whole rounds only. A pull of a stale server waits while
/// the slowest worker is more than `staleness` rounds behind that round, and gets the key's value.
struct PushPullQuestion {
  Consistency consistency = Consistency::synchronous;
  int staleness = 0;
  double push = 1, apply = 0.25;  ///< s; `push`: time to send a push or an answer, `apply`: time to add a push
};
struct PushPullAnswer {
  double request_time = 0, time = 0;  ///< `time`: end of the answer
  KeyValue value;
  bool is_partial = false;  ///< a push of the awaited rounds is missing
};
struct PushPullRun {
  double end = 0;
  std::vector<PushPullAnswer> answers;  ///< indexed by command; empty for commands that are no pulls
  struct Addition {
    double time = 0;
    std::size_t command = 0;
    KeyValue value;  ///< the sum of the key's pushes so far, including unfinished rounds
  };
  std::vector<Addition> additions;  ///< pushes in the order in which the server has added them
};
/// Throws UserError at a pull that waits for ever.
PushPullRun run_push_pull(const PushPullScript&, const PushPullQuestion&, Observer&);

}  // namespace trainyard
