// A parameter server: a dynamic program. It deals with pushes in the order of their coming, one at a time, and answers
// each with the weights of its key as soon as its worker may go on (which ServerKeys says).
#include <algorithm>
#include <deque>
#include <numeric>

#include "sim/list_program.hpp"
#include "strategies/mechanisms/servers/server_keys.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"

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
        keys_(number, plan, board),
        receives_(std::min(plan.workers(), kServerReceives)),
        workers_(static_cast<std::size_t>(plan.workers())),
        sending_to_(static_cast<std::size_t>(streams())),
        arrival_on_(static_cast<std::size_t>(streams())) {
    for (int way = std::min(plan.workers(), kServerSends); way-- > 0;)
      free_ways_.push_back(static_cast<Stream>(1 + receives_ + way));
    expected_ = workers_.size() * static_cast<std::uint64_t>(step_.steps) * keys_.count();
  }
  /// It cannot know whose pushes will come. With backups the chief says when the run is over; without order it is when
  /// the workers have ended.
  bool daemon() const override { return backups() || servers_.consistency == Consistency::asynchronous; }

 protected:
  Ops run() override {
    StaticMemory held = plan_.memory;
    for (MemoryPart& part : held.parts) part.bytes = part.bytes * keys_.share();
    co_yield hold(held);
    for (std::size_t k = keys_.count(); k-- > 0;)
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
  struct Job {
    ServerCall what;
    std::size_t worker, key;  // key: of this server's
    std::uint16_t buffer;
  };
  struct Worker {
    std::deque<std::size_t> answers;  // keys to be sent, in order
    bool sending = false;
  };
  const ServerPlan& servers_;
  ServerKeys keys_;
  int receives_;
  std::vector<Worker> workers_;
  std::vector<std::size_t> sending_to_;    // by stream: the worker
  std::vector<std::uint16_t> arrival_on_;  // by stream: the buffer
  std::vector<Op> given_;                  // to be yielded
  std::deque<Job> jobs_;                   // the first of them is under way where busy
  bool busy_ = false;
  std::vector<Stream> free_ways_;  // to send on
  std::deque<std::size_t> ready_;  // workers that have answers and are being sent none
  std::uint64_t expected_ = 0, posted_ = 0, sent_ = 0;
  Seconds now_;

  bool backups() const { return servers_.backup_workers > 0; }
  /// Every push has been answered, and the answers have arrived.
  bool over() const { return !backups() && sent_ == expected_ + workers_.size() * keys_.count(); }

  void give(const Op& op) { given_.push_back(out_.emit(op)); }

  void receive_on(Stream stream) {
    if (!backups() && posted_ == expected_) return;
    arrival_on_[stream] =
        number_of({TrainingBuffer::Kind::arrivals, posted_++ % count_of(TrainingBuffer::Kind::arrivals)});
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

  void arrived(Stream stream, std::size_t worker) {
    const auto [key, what] = keys_.arrived(worker);
    jobs_.push_back({what, worker, key, arrival_on_[stream]});
    receive_on(stream);
    start_job();
  }

  void start_job() {
    if (busy_ || jobs_.empty()) return;
    busy_ = true;
    const Job& job = jobs_.front();
    const std::size_t k = keys_.number(job.key);
    Op op;
    op.stream = compute;
    op.group = words_.compute;
    op.name = words_.add;
    op.effect = ServerPush{k, static_cast<int>(job.worker), job.buffer}.effect(job.what);
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
    for (const std::size_t w : keys_.done(job.what, job.worker, job.key, now_)) answer(w, job.key);
    if (keys_.sum_is_whole(job.key)) jobs_.push_front({ServerCall::update, 0, job.key, 0});
    if (job.what == ServerCall::update && backups()) {
      if (step_.marks_steps && keys_.step_is_over()) give(step_over());
      if (keys_.all_updated()) tell_chief();
    }
    start_job();
    send_ready();
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
      keys_.given(w, k);
      Op op;
      op.kind = Kind::send;
      op.stream = free_ways_.back();
      free_ways_.pop_back();
      sending_to_[op.stream] = w;
      op.message.slot = static_cast<std::uint16_t>(w);
      op.message.tag = answer_tag(keys_.number(k));
      op.message.mode = Mode::put;
      if (backups() || !keys_.has_ended(w, k)) op.message.bytes = servers_.pull_bytes(keys_.number(k));
      op.group = words_.parameters;
      op.name = words_.give;
      op.effect.read = whole(TrainingBuffer::Kind::parameters, keys_.number(k));
      give(op);
    }
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

std::vector<std::string> server_streams(const ServerPlan& plan) {
  const int most = std::max(server_streams_of(plan), worker_streams_of(plan));
  std::vector<std::string> names{"compute"};
  for (int i = 1; i < most; ++i) names.push_back(fmt::format("messages {}", i));
  return names;
}

std::unique_ptr<Program> server_program(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                        const CentralWords& words, ServerBoard& board) {
  if (actor < plan.workers()) return parameter_worker(actor, plan, tables, words);
  if (actor < plan.workers() + plan.servers) return parameter_server(actor, plan, tables, words, board);
  return chief(plan, words);
}

Programs server_programs(const ServerPlan& plan, const PassTables& tables, const CentralWords& words,
                         ServerBoard& board) {
  Programs programs;
  for (Actor actor = 0; actor < plan.actors(); ++actor)
    programs.push_back(server_program(actor, plan, tables, words, board));
  return programs;
}

}  // namespace trainyard
