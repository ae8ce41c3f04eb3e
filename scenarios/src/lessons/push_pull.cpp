#include "scenarios/src/lessons/push_pull.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <ranges>
#include <sstream>

#include "models/reading/shipped_files.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/index.hpp"
#include "sim/observers/values.hpp"
#include "sim/ops.hpp"
#include "sim/process/output.hpp"
#include "sim/program.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

constexpr double kScriptFlops = 1e12;  // FLOP/s of a device of star_cluster
constexpr BytesPerSecond kScriptLink{1e9};
constexpr Tag kPullRequest = 1, kPullAnswer = 2;
constexpr std::uint16_t kAddPush = 1;  // the call by which the server adds a push
constexpr std::size_t kMostScriptCommands = 2000, kMostScriptKeys = 64;

// Numbers of buffers. A worker has a buffer for each command. The server has two for each worker: one for the push that
// arrives, one for the answer to a pull.
constexpr std::uint16_t kArrivalBuffers = 0, kAnswerBuffers = 100;

using CommandKind = PushPullCommand::Verb;

/// Cuts a line into words, without its comment.
std::vector<std::string> cut_into_words(const std::string& line) {
  std::istringstream in(line.substr(0, line.find('#')));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

double script_amount(const std::string& word, const Place& place) {
  double value = 0;
  try {
    value = parse_number(word);
  } catch (const UserError& e) {
    fail(place, e.what());
  }
  if (std::abs(value) > 1e12) fail(place, fmt::format("{}: at most 1e12 expected", word));
  return value;
}

int script_worker(const std::vector<std::string>& words, const Place& place) {
  const bool is_worker = words.size() > 2 && words[0] == "worker" && words[1].size() > 1 && words[1].back() == ':';
  const std::string number = is_worker ? words[1].substr(0, words[1].size() - 1) : "";
  if (number.empty() || number.size() > 2 || number.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(number) >= kMostScriptWorkers)
    fail(place, fmt::format("expected \"worker N: push KEY VALUE\", \"worker N: pull KEY\" or \"worker N: compute "
                            "TIME\", with N from 0 to {}",
                            kMostScriptWorkers - 1));
  return std::stoi(number);
}

/// Reads a value from the vector in which it travels: the value, then the number of pushes by each worker.
KeyValue key_value_of(const Eigen::VectorXd& vector) {
  KeyValue value{vector[0], {}};
  for (Eigen::Index i = 1; i < vector.size(); ++i) value.pushes.push_back(static_cast<int>(vector[i]));
  return value;
}

/// The keys of the server, and the pulls that it has not answered yet.
class KeyStore {
 public:
  KeyStore(const PushPullScript& script, const PushPullQuestion& question)
      : script_(script), question_(question), keys_(script.keys.size()) {
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      keys_[key].all = keys_[key].complete = nothing();
      for (int worker = 0; worker < script.workers; ++worker)
        if (script.pushes(worker, key) > 0) keys_[key].pushers.push_back(worker);
    }
    pulls_.resize(static_cast<std::size_t>(script.workers), std::vector<int>(keys_.size()));
  }

  struct WaitingPull {
    std::size_t command = 0;
    int rounds = 0;  // number of rounds that it awaits
  };
  std::vector<WaitingPull> waiting;

  Eigen::VectorXd nothing() const { return Eigen::VectorXd::Zero(1 + script_.workers); }
  const Eigen::VectorXd& all(std::size_t key) const { return keys_[key].all; }

  void add(std::size_t number, const Eigen::VectorXd& pushed) {
    const PushPullCommand& command = script_.commands[number];
    Key& key = keys_[command.key];
    key.all += pushed;
    const auto round = position(pushes(command.worker, command.key));  // number of this push's round, from 1
    if (key.rounds.size() < round) key.rounds.resize(round, nothing());
    key.rounds[round - 1] += pushed;
    while (key.done < whole_rounds(command.key)) key.complete += key.rounds[static_cast<std::size_t>(key.done++)];
  }
  void ask(std::size_t number) {
    const PushPullCommand& command = script_.commands[number];
    const int pulls = ++pulls_[static_cast<std::size_t>(command.worker)][command.key];
    const int pushed = pushes(command.worker, command.key);
    waiting.push_back({number, script_.pushes(command.worker, command.key) > 0 ? pushed : pulls});
  }
  bool may_answer(const WaitingPull& pull) const {
    const std::size_t key = script_.commands[pull.command].key;
    const int lag = question_.consistency == Consistency::stale ? question_.staleness : 0;
    return question_.consistency == Consistency::asynchronous || whole_rounds(key) >= pull.rounds - lag;
  }
  const Eigen::VectorXd& value_for(const WaitingPull& pull) const {
    const Key& key = keys_[script_.commands[pull.command].key];
    return question_.consistency == Consistency::synchronous ? key.complete : key.all;
  }
  bool is_partial(const WaitingPull& pull) const {
    return whole_rounds(script_.commands[pull.command].key) < pull.rounds;
  }
  const std::vector<int>& pushers(std::size_t key) const { return keys_[key].pushers; }
  /// Returns the number of a worker's pushes that the server has added.
  int pushes(int worker, std::size_t key) const { return static_cast<int>(keys_[key].all[1 + worker]); }

 private:
  struct Key {
    Eigen::VectorXd all, complete;  // the sum of all pushes, and of the pushes of whole rounds
    std::vector<Eigen::VectorXd> rounds;
    std::vector<int> pushers;
    int done = 0;  // number of rounds in `complete`
  };
  const PushPullScript& script_;
  const PushPullQuestion& question_;
  std::vector<Key> keys_;
  std::vector<std::vector<int>> pulls_;  // indexed by worker and key

  /// Returns the number of pushes by the worker that has pushed the key least.
  int whole_rounds(std::size_t key) const {
    const auto pushed = keys_[key].pushers | std::views::transform([&](int worker) { return pushes(worker, key); });
    return pushed.empty() ? 0 : std::ranges::min(pushed);
  }
};

Op compute_op(double slots) {
  Op op{.kind = Kind::compute};
  op.work.flops = Flops{slots * kScriptFlops};
  op.work.precision = static_cast<std::uint8_t>(Precision::fp32);
  return op;
}

/// The server: a dynamic program. It knows which command a request executes, because the requests of a worker arrive in
/// order.
class KeyServer : public CoroutineProgram {
 public:
  KeyServer(const PushPullScript& script, const PushPullQuestion& question, KeyStore& store, Values& values,
            std::vector<PushPullAnswer>& answers)
      : CoroutineProgram(consecutive_numbers(Actor{0}, script.workers), 1 + 2 * script.workers, true),
        script_(script),
        question_(question),
        store_(store),
        values_(values),
        answers_(answers),
        requests_(static_cast<std::size_t>(script.workers)) {
    for (std::size_t i = 0; i < script.commands.size(); ++i)
      if (const PushPullCommand& c = script.commands[i]; c.verb != CommandKind::compute)
        requests_[static_cast<std::size_t>(c.worker)].push_back(i);
  }
  bool daemon() const override { return true; }

 protected:
  Ops run() override {
    for (int worker = 0; worker < script_.workers; ++worker) receive(worker);
    while (true) {
      for (std::size_t i = 0; i < pending_.size(); ++i) co_yield pending_[i];
      pending_.clear();
      const Event event = co_await next_event;
      if (event.kind == Kind::recv) {
        std::deque<std::size_t>& of_worker = requests_[static_cast<std::size_t>(event.peer)];
        jobs_.push_back(of_worker.front());
        of_worker.pop_front();
        if (script_.commands[jobs_.back()].verb == CommandKind::pull) receive(static_cast<int>(event.peer));
      } else if (event.kind == Kind::compute) {
        receive(script_.commands[jobs_.front()].worker);  // its buffer is free now
        jobs_.pop_front();
        is_busy_ = false;
      }
      work();
    }
  }

 private:
  const PushPullScript& script_;
  const PushPullQuestion& question_;
  KeyStore& store_;
  Values& values_;
  std::vector<PushPullAnswer>& answers_;
  std::vector<std::deque<std::size_t>> requests_;  // indexed by worker: commands that have not arrived
  std::deque<std::size_t> jobs_;                   // if busy, the first of them is under way
  std::vector<Op> pending_;
  bool is_busy_ = false;

  void receive(int worker) {
    if (requests_[static_cast<std::size_t>(worker)].empty()) return;
    Op op{.stream = static_cast<Stream>(1 + worker), .kind = Kind::recv};
    op.address(static_cast<std::size_t>(worker), kPullRequest);
    op.write_to({static_cast<std::uint16_t>(kArrivalBuffers + worker), 0, 1});
    pending_.push_back(op);
  }
  void work() {
    while (!is_busy_ && !jobs_.empty()) {
      const std::size_t job = jobs_.front();
      if (script_.commands[job].verb == CommandKind::pull) {
        jobs_.pop_front();
        store_.ask(job);
        continue;
      }
      is_busy_ = true;
      Op op = compute_op(question_.apply);
      op.effect.action = Action::call;
      op.effect.call = kAddPush;
      op.effect.read.chunk = static_cast<std::uint16_t>(script_.commands[job].worker);  // for observers
      op.message.tag = job;
      pending_.push_back(op);
    }
    std::erase_if(store_.waiting, [this](const KeyStore::WaitingPull& pull) {
      const bool is_ready = store_.may_answer(pull);
      if (is_ready) answer(pull);
      return is_ready;
    });
  }
  void answer(const KeyStore::WaitingPull& pull) {
    const int worker = script_.commands[pull.command].worker;
    answers_[pull.command].is_partial = store_.is_partial(pull);
    const auto buffer = static_cast<std::uint16_t>(kAnswerBuffers + worker);
    values_.buffer(script_.workers, buffer) = store_.value_for(pull);
    Op op{.stream = static_cast<Stream>(1 + script_.workers + worker), .kind = Kind::send};
    op.address(static_cast<std::size_t>(worker), kPullAnswer, Mode::put);
    op.message.bytes = kScriptLink * Seconds{question_.push};
    op.effect.read = {buffer, 0, 1};
    pending_.push_back(op);
  }
};

std::unique_ptr<Program> worker_program(const PushPullScript& script, const PushPullQuestion& question, int worker,
                                        Values& values) {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const PushPullCommand& command = script.commands[i];
    if (command.worker != worker) continue;
    if (command.verb == CommandKind::compute) {
      ops.push_back(compute_op(command.amount));
      continue;
    }
    const auto buffer = static_cast<std::uint16_t>(i);
    Eigen::VectorXd& sent = values.buffer(worker, buffer);
    sent = Eigen::VectorXd::Zero(1 + script.workers);
    Op op{.kind = Kind::send};
    op.address(0, kPullRequest, Mode::put);
    op.effect.read = {buffer, 0, 1};
    if (command.verb == CommandKind::push) {
      sent[0] = command.amount;
      sent[1 + worker] = 1;
      op.message.bytes = kScriptLink * Seconds{question.push};
    }
    ops.push_back(op);
    if (command.verb == CommandKind::push) continue;
    Op answer{.kind = Kind::recv};
    answer.address(0, kPullAnswer);
    answer.write_to({buffer, 0, 1});
    ops.push_back(answer);
  }
  return std::make_unique<ListProgram>(std::move(ops), std::vector<Actor>{script.workers});
}

/// Records when workers request pulls and receive the answers.
class PullTimes : public Observer {
 public:
  explicit PullTimes(std::vector<PushPullAnswer>& answers) : answers_(answers) {}
  void posted(const OpRun& run) override {
    if (run.op->kind == Kind::recv && run.op->message.tag == kPullAnswer)
      answers_[run.op->effect.write.buffer].request_time = run.posted.value;
  }
  void finished(const OpRun& run) override {
    if (run.op->kind == Kind::recv && run.op->message.tag == kPullAnswer)
      answers_[run.op->effect.write.buffer].time = run.ended.value;
  }

 private:
  std::vector<PushPullAnswer>& answers_;
};

[[noreturn]] void refuse_waiting(const PushPullScript& script, const KeyStore& store) {
  const KeyStore::WaitingPull& pull = store.waiting.front();
  const PushPullCommand& command = script.commands[pull.command];
  std::string why = "no worker pushes it";
  for (const int worker : store.pushers(command.key))
    if (store.pushes(worker, command.key) < pull.rounds)
      why = fmt::format("it needs {} of each worker, and worker {} pushes {}",
                        counted_noun(pull.rounds, "push", "pushes"), worker,
                        counted_noun(script.pushes(worker, command.key), "time"));
  fail(command.place,
       fmt::format("worker {} waits for {} for ever: {}; expected --consistency asynchronous, or more pushes",
                   command.worker, script.keys[command.key], why));
}

}  // namespace

KeyValue& KeyValue::operator+=(const KeyValue& other) {
  value += other.value;
  for (std::size_t worker = 0; worker < pushes.size(); ++worker) pushes[worker] += other.pushes[worker];
  return *this;
}

int PushPullScript::pushes(int worker, std::size_t key) const {
  return static_cast<int>(std::ranges::count_if(commands, [&](const PushPullCommand& c) {
    return c.verb == CommandKind::push && c.worker == worker && c.key == key;
  }));
}

PushPullScript read_push_pull(std::string_view text, const std::string& name) {
  PushPullScript script{name, {}, {}, 0};
  const auto file = std::make_shared<const std::string>(name);
  std::istringstream in{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const Place place{file, ++number, 1};
    const std::vector<std::string> words = cut_into_words(line);
    if (words.empty()) continue;
    PushPullCommand command{.worker = script_worker(words, place), .place = place};
    const std::string& verb = words[2];
    const std::vector<std::string> verbs{"push", "pull", "compute"};
    const auto found = std::ranges::find(verbs, verb);
    if (found == verbs.end()) fail(place, fmt::format("\"{}\": unknown{}", verb, hint(verb, verbs)));
    command.verb = static_cast<CommandKind>(found - verbs.begin());
    const std::size_t wanted = command.verb == CommandKind::push ? 5 : 4;
    if (words.size() != wanted)
      fail(place, fmt::format("{}: {} expected", verb,
                              command.verb == CommandKind::push   ? "a key and a value"
                              : command.verb == CommandKind::pull ? "a key"
                                                                  : "a time in slots"));
    if (command.verb != CommandKind::pull) command.amount = script_amount(words.back(), place);
    if (command.verb == CommandKind::compute && command.amount < 0)
      fail(place, fmt::format("compute {}: 0 or more slots expected", words.back()));
    if (command.verb != CommandKind::compute) {
      const auto key = std::ranges::find(script.keys, words[3]);
      command.key = static_cast<std::size_t>(key - script.keys.begin());
      if (key == script.keys.end()) script.keys.push_back(words[3]);
    }
    script.workers = std::max(script.workers, command.worker + 1);
    script.commands.push_back(std::move(command));
    if (script.commands.size() > kMostScriptCommands || script.keys.size() > kMostScriptKeys)
      fail(place, fmt::format("at most {} commands and {} keys expected", kMostScriptCommands, kMostScriptKeys));
  }
  if (script.keys.empty())
    throw UserError(name + ": no push and no pull; expected lines such as \"worker 0: push w 3\"");
  return script;
}

PushPullScript read_push_pull_file(const std::string& file) {
  return read_push_pull(read_file(scenario_file(file)), file);
}

PushPullRun run_push_pull(const PushPullScript& script, const PushPullQuestion& question, Observer& observer) {
  PushPullRun run;
  run.answers.resize(script.commands.size());
  const int server = script.workers;
  Values values;
  KeyStore store(script, question);
  values.on_call(kAddPush, [&](Actor, const Op& op) {
    const auto number = static_cast<std::size_t>(op.message.tag);
    const PushPullCommand& command = script.commands[number];
    store.add(number, values.buffer(server, static_cast<std::uint16_t>(kArrivalBuffers + command.worker)));
    run.additions.push_back({values.now().value, number, key_value_of(store.all(command.key))});
  });
  ClusterMachine machine(star_cluster(script.workers + 1, kScriptLink), SoftwareStack{});
  Programs programs;
  for (int worker = 0; worker < script.workers; ++worker)
    programs.push_back(worker_program(script, question, worker, values));
  programs.push_back(std::make_unique<KeyServer>(script, question, store, values, run.answers));
  PullTimes times(run.answers);
  try {
    run.end = run_programs(machine, std::move(programs), {{&values, &times, &observer}}).end.value;
  } catch (const Deadlock&) {
    if (store.waiting.empty()) throw;
    refuse_waiting(script, store);
  }
  for (std::size_t i = 0; i < script.commands.size(); ++i)
    if (script.commands[i].verb == CommandKind::pull)
      run.answers[i].value = key_value_of(values.buffer(script.commands[i].worker, static_cast<std::uint16_t>(i)));
  return run;
}

}  // namespace trainyard
