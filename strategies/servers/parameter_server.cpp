// A parameter server: a dynamic program. It deals with pushes in the order of their coming, one at a time, and answers
// each with the weights of its key as soon as its worker may go on.
#include <algorithm>
#include <deque>
#include <numeric>

#include "sim/list_program.hpp"
#include "strategies/servers/server_step.hpp"

namespace trainyard {
namespace {

std::vector<Actor> workers_of(const ServerPlan& plan) {
  std::vector<Actor> workers(static_cast<std::size_t>(plan.workers()));
  std::iota(workers.begin(), workers.end(), 0);
  if (plan.backup_workers > 0) workers.push_back(plan.workers() + plan.servers);  // the chief
  return workers;
}

class ParameterServer : public CentralStep {
 public:
  ParameterServer(int number, const ServerPlan& plan, const PassTables& tables, const CentralWords& words,
                  ServerBoard& board)
      : CentralStep(plan.base, tables, words, workers_of(plan), server_streams_of(plan), true),
        servers_(plan),
        board_(board),
        receives_(std::min(plan.workers(), kServerReceives)),
        workers_(static_cast<std::size_t>(plan.workers())),
        sending_to_(static_cast<std::size_t>(streams())),
        arrival_on_(static_cast<std::size_t>(streams())) {
    for (std::size_t k = 0; k < plan.keys(); ++k)
      if (plan.server_of[k] == number) {
        Key& key = keys_.emplace_back();
        key.number = k;
        key.pulled.resize(workers_.size());
        key.pushes.resize(workers_.size());
        key.slowest_workers = workers_.size();
        share_ += plan.share_of(k);
      }
    for (int way = std::min(plan.workers(), kServerSends); way-- > 0;)
      free_ways_.push_back(static_cast<Stream>(1 + receives_ + way));
    expected_ = workers_.size() * static_cast<std::uint64_t>(step_.steps) * keys_.size();
  }
  /// It cannot know whose pushes will come. With backups the chief says when the run is over; without order it is when
  /// the workers have ended.
  bool daemon() const override { return backups() || servers_.consistency == Consistency::asynchronous; }

 protected:
  Ops run() override {
    StaticMemory held = plan_.memory;
    for (MemoryPart& part : held.parts) part.bytes = part.bytes * share_;
    co_yield hold(held);
    for (std::size_t k = keys_.size(); k-- > 0;)
      for (std::size_t w = 0; w < workers_.size(); ++w) answer(w, k);
    send_ready();
    for (int way = 0; way < receives_; ++way) receive_on(static_cast<Stream>(1 + way));
    while (!over()) {
      for (std::size_t i = 0; i < given_.size(); ++i) co_yield given_[i];
      given_.clear();
      const Event event = co_await next_event;
      now_ = event.now;
      if (event.kind == Kind::recv)
        arrived(event.stream, static_cast<std::size_t>(event.peer));
      else if (event.kind == Kind::send)
        sent(event.stream);
      else if (busy_)
        finished();
    }
  }

 private:
  struct Key {
    std::size_t number = 0;  // in the plan
    std::uint32_t version = 0;
    std::vector<std::uint32_t> pulled;  // by worker: the version that it was given last
    std::vector<std::uint32_t> pushes;  // by worker: those that were applied
    std::uint32_t slowest = 0;          // the least of these
    std::size_t slowest_workers = 0;    // that have no more
    int taken = 0, added = 0;           // gradients of a synchronous step
    std::vector<std::size_t> waiting;   // workers whose push is not answered yet
  };
  struct Job {
    ServerCall what;
    std::size_t worker, key;  // key: of this server's
    std::uint16_t buffer;
  };
  struct Worker {
    std::uint64_t pushes = 0;
    std::deque<std::size_t> answers;  // keys to be sent, in order
    bool sending = false;
  };
  const ServerPlan& servers_;
  ServerBoard& board_;
  int receives_;
  std::vector<Worker> workers_;
  std::vector<std::size_t> sending_to_;    // by stream: the worker
  std::vector<std::uint16_t> arrival_on_;  // by stream: the buffer
  std::vector<Key> keys_;
  double share_ = 0;       // of all elements
  std::vector<Op> given_;  // to be yielded
  std::deque<Job> jobs_;   // the first of them is under way where busy
  bool busy_ = false;
  std::vector<Stream> free_ways_;  // to send on
  std::deque<std::size_t> ready_;  // workers that have answers and are being sent none
  std::uint64_t expected_ = 0, posted_ = 0, sent_ = 0;
  Seconds now_;

  bool backups() const { return servers_.backup_workers > 0; }
  bool synchronous() const { return servers_.consistency == Consistency::synchronous; }
  int takes() const { return servers_.workers() - servers_.backup_workers; }
  /// Every push has been answered, and the answers have arrived.
  bool over() const { return !backups() && sent_ == expected_ + workers_.size() * keys_.size(); }

  void give(const Op& op) { given_.push_back(out_.give(op)); }

  void receive_on(Stream stream) {
    if (!backups() && posted_ == expected_) return;
    arrival_on_[stream] = static_cast<std::uint16_t>(kArrivals + posted_++ % kArrivalBuffers);
    Op op;
    op.kind = Kind::recv;
    op.stream = stream;
    op.message.slot = kAnyPeer;
    op.message.tag = kPushTag;
    op.group = words_.gradients;
    op.name = words_.collect;
    if (step_.values) {
      op.effect.action = Action::copy;
      op.effect.write = {arrival_on_[stream], 0, 1};
    }
    give(op);
  }

  /// A worker's pushes come in the order of its keys.
  void arrived(Stream stream, std::size_t w) {
    const std::uint64_t number = workers_[w].pushes++;
    const std::size_t k = number % keys_.size();
    const auto step = static_cast<std::uint32_t>(number / keys_.size());
    ServerCall what = ServerCall::apply;
    if (backups() && !board_.takes(static_cast<int>(w), step))
      what = ServerCall::drop;
    else if (synchronous())
      what = keys_[k].taken++ == 0 ? ServerCall::first : ServerCall::add;
    jobs_.push_back({what, w, k, arrival_on_[stream]});
    receive_on(stream);
    start_job();
  }

  void start_job() {
    if (busy_ || jobs_.empty()) return;
    busy_ = true;
    const Job& job = jobs_.front();
    const std::size_t k = keys_[job.key].number;
    Op op;
    op.stream = compute;
    op.group = words_.compute;
    op.name = words_.add;
    op.effect.action = Action::call;
    op.effect.call = static_cast<std::uint16_t>(job.what);
    op.effect.read = {job.buffer, static_cast<std::uint16_t>(job.worker), 0};
    op.effect.write = {static_cast<std::uint16_t>(k), 0, 0};
    const bool updates = job.what == ServerCall::update || job.what == ServerCall::apply;
    if (updates) {
      op.group = words_.optimizer;
      op.name = words_.update;
    }
    if (updates || job.what == ServerCall::add) op.kind = Kind::local;
    if (updates && !servers_.mixes()) {
      op.work = stage_.optimizer;
      op.work.flops = op.work.flops * servers_.share_of(k);
      op.work.bytes = op.work.bytes * servers_.share_of(k);
    } else if (op.kind == Kind::local) {
      op.work = updates ? servers_.mixing : plan_.addition;
      op.work.bytes = op.work.bytes * servers_.key(k).elements;
    }
    give(op);
  }

  void finished() {
    const Job job = jobs_.front();
    jobs_.pop_front();
    busy_ = false;
    Key& key = keys_[job.key];
    switch (job.what) {
      case ServerCall::update:
        update(job.key);
        break;
      case ServerCall::apply:
        apply(job);
        break;
      case ServerCall::drop:
        board_.dropped(static_cast<int>(job.worker), now_);
        if (key.version > key.pulled[job.worker])
          answer(job.worker, job.key);
        else
          key.waiting.push_back(job.worker);
        break;
      default:
        board_.applied(static_cast<int>(job.worker), 0, now_);
        key.waiting.push_back(job.worker);
        if (++key.added == takes()) jobs_.push_front({ServerCall::update, 0, job.key, 0});
    }
    start_job();
    send_ready();
  }

  void update(std::size_t k) {
    Key& key = keys_[k];
    ++key.version;
    key.taken = key.added = 0;
    board_.updated(now_);
    for (const std::size_t w : key.waiting) answer(w, k);
    key.waiting.clear();
    const auto steps = static_cast<std::uint32_t>(step_.steps);
    if (backups() && std::all_of(keys_.begin(), keys_.end(), [&](const Key& each) { return each.version == steps; }))
      tell_chief();
  }

  void apply(const Job& job) {
    Key& key = keys_[job.key];
    board_.applied(static_cast<int>(job.worker), key.version - key.pulled[job.worker], now_);
    ++key.version;
    board_.updated(now_);
    if (key.pushes[job.worker]++ == key.slowest && --key.slowest_workers == 0) {
      key.slowest = *std::min_element(key.pushes.begin(), key.pushes.end());
      key.slowest_workers = static_cast<std::size_t>(std::count(key.pushes.begin(), key.pushes.end(), key.slowest));
    }
    key.waiting.push_back(job.worker);
    std::erase_if(key.waiting, [&](std::size_t w) {
      const bool on = may_go_on(key, w);
      if (on) answer(w, job.key);
      return on;
    });
  }

  bool may_go_on(const Key& key, std::size_t w) const {
    const std::uint32_t pushes = key.pushes[w];
    return servers_.consistency == Consistency::asynchronous || pushes == static_cast<std::uint32_t>(step_.steps) ||
           pushes - key.slowest <= static_cast<std::uint32_t>(servers_.staleness);
  }

  void answer(std::size_t w, std::size_t k) {
    workers_[w].answers.push_back(k);
    if (workers_[w].answers.size() == 1 && !workers_[w].sending) ready_.push_back(w);
  }

  /// Weights are those of the moment in which they leave.
  void send_ready() {
    while (!ready_.empty() && !free_ways_.empty()) {
      const std::size_t w = ready_.front(), k = workers_[w].answers.front();
      ready_.pop_front();
      workers_[w].answers.pop_front();
      workers_[w].sending = true;
      Key& key = keys_[k];
      key.pulled[w] = key.version;
      board_.given(static_cast<int>(w), key.version);
      Op op;
      op.kind = Kind::send;
      op.stream = free_ways_.back();
      free_ways_.pop_back();
      sending_to_[op.stream] = w;
      op.message.slot = static_cast<std::uint16_t>(w);
      op.message.tag = answer_tag(key.number);
      op.message.mode = Mode::put;
      if (backups() || !has_ended(key, w)) op.message.bytes = servers_.pull_bytes(key.number);
      op.group = words_.parameters;
      op.name = words_.give;
      if (step_.values) op.effect.read = {static_cast<std::uint16_t>(kParameters + key.number), 0, 1};
      give(op);
    }
  }

  /// Has the worker made its last step? Then the answer is that it has been applied.
  bool has_ended(const Key& key, std::size_t w) const {
    return (synchronous() ? key.version : key.pushes[w]) == static_cast<std::uint32_t>(step_.steps);
  }

  void sent(Stream stream) {
    if (stream >= sending_to_.size() || stream == chief_stream()) return;
    Worker& worker = workers_[sending_to_[stream]];
    free_ways_.push_back(stream);
    worker.sending = false;
    ++sent_;
    if (!worker.answers.empty()) ready_.push_back(sending_to_[stream]);
    send_ready();
  }

  Stream chief_stream() const { return static_cast<Stream>(streams() - (backups() ? 1 : 0)); }

  void tell_chief() {
    Op op;
    op.kind = Kind::send;
    op.stream = chief_stream();
    op.message.slot = static_cast<std::uint16_t>(servers_.workers());
    op.message.tag = kOverTag;
    op.message.mode = Mode::eager;
    op.group = words_.gradients;
    op.name = words_.over;
    give(op);
  }
};

std::unique_ptr<Program> chief(const ServerPlan& plan, const CentralWords& words) {
  std::vector<Op> ops;
  std::vector<Actor> servers;
  for (int server = 0; server < plan.servers; ++server) {
    servers.push_back(plan.workers() + server);
    Op& op = ops.emplace_back();
    op.kind = Kind::recv;
    op.message.slot = static_cast<std::uint16_t>(server);
    op.message.tag = kOverTag;
    op.group = words.gradients;
    op.name = words.over;
  }
  return std::make_unique<ListProgram>(std::move(ops), std::move(servers));
}

}  // namespace

int server_streams_of(const ServerPlan& plan) {
  return 1 + std::min(plan.workers(), kServerReceives) + std::min(plan.workers(), kServerSends) +
         (plan.backup_workers > 0 ? 1 : 0);
}

std::unique_ptr<Program> parameter_server(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                          const CentralWords& words, ServerBoard& board) {
  return std::make_unique<ParameterServer>(actor - plan.workers(), plan, tables, words, board);
}

std::unique_ptr<Program> server_program(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                        const CentralWords& words, ServerBoard& board) {
  if (actor < plan.workers()) return parameter_worker(actor, plan, tables, words);
  if (actor < plan.workers() + plan.servers) return parameter_server(actor, plan, tables, words, board);
  return chief(plan, words);
}

}  // namespace trainyard
