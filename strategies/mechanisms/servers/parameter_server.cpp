// A parameter server: a dynamic program. It processes pushes one at a time in the order of their arrival, and answers
// each with the weights of its key as soon as ServerKeys lets the worker continue.
#include <algorithm>
#include <deque>

#include "sim/index.hpp"
#include "strategies/mechanisms/servers/server_copies.hpp"
#include "strategies/mechanisms/servers/server_keys.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {
namespace {

/// The clients, the chief if there is one, and with replication all servers.
std::vector<Actor> peers_of_server(const ServerPlan& plan) {
  std::vector<Actor> peers = consecutive_numbers(plan.first_client(), plan.clients());
  if (plan.backup_workers > 0) peers.push_back(plan.workers() + plan.servers);
  for (int server = 0; plan.replication.is_used() && server < plan.servers; ++server)
    peers.push_back(plan.workers() + server);
  return peers;
}

int send_streams_of(const ServerPlan& plan) {
  return std::min(plan.clients(), kServerSends - ServerCopies::streams(plan));
}
int receive_streams_of(const ServerPlan& plan) { return std::min(plan.clients(), kServerReceives); }

class ParameterServer : public CentralStep {
 public:
  ParameterServer(int number, const ServerPlan& plan, const PassTables& tables, const CentralNames& words,
                  ServerBoard& board)
      : CentralStep(plan.base, tables, words, peers_of_server(plan), server_streams_of(plan), true),
        servers_(plan),
        keys_(number, plan, board),
        receive_streams_(receive_streams_of(plan)),
        send_streams_(send_streams_of(plan)),
        copies_(number, plan, words, board,
                {[this](const Op& op) { give(op); }, [this] { return next_arrival(); },
                 static_cast<Stream>(1 + receive_streams_ + send_streams_),
                 static_cast<std::uint16_t>(plan.clients() + (plan.backup_workers > 0 ? 1 : 0))}),
        workers_(static_cast<std::size_t>(plan.clients())),
        sending_to_(static_cast<std::size_t>(streams())),
        arrival_on_(static_cast<std::size_t>(streams())) {
    for (int i = send_streams_; i-- > 0;) free_streams_.push_back(static_cast<Stream>(1 + receive_streams_ + i));
    expected_ = workers_.size() * static_cast<std::uint64_t>(step_.steps) * keys_.count();
    first_answers_ = servers_.workers_update() ? 0 : workers_.size() * keys_.count();
  }
  /// The server cannot know which pushes will come. With backup workers the chief ends the run; an asynchronous run
  /// ends when the workers have ended.
  bool daemon() const override { return backups() || servers_.consistency == Consistency::asynchronous; }

 protected:
  Ops run() override {
    co_yield book_static_memory(own_memory());
    for (std::size_t k = keys_.count(); first_answers_ > 0 && k-- > 0;)
      for (std::size_t w = 0; w < workers_.size(); ++w) answer(w, k);
    send_ready();
    for (int i = 0; i < receive_streams_; ++i) receive_on(static_cast<Stream>(1 + i));
    if (servers_.replication.is_used()) copies_.begin();
    if (keys_.count() == 0) tell_chief_if_over();
    while (!is_over()) {
      for (std::size_t i = 0; i < pending_ops_.size(); ++i) co_yield pending_ops_[i];
      pending_ops_.clear();
      const Event event = co_await next_event;
      now_ = event.now;
      if (event.kind == Kind::recv && event.stream > receive_streams_)
        release(copies_.on_received(event.stream, event.peer));
      else if (event.kind == Kind::recv)
        on_arrival(event.stream, static_cast<std::size_t>(event.peer - servers_.first_client()));
      else if (event.kind == Kind::send)
        on_sent(event.stream);
      else if (is_busy_ && event.stream == compute)
        on_finished();
    }
  }

 private:
  struct Job {
    ServerCall what;
    std::size_t worker, key;  // key: its index among the keys of this server
    std::uint16_t buffer;
  };
  struct Worker {
    std::deque<std::size_t> answers;  // keys to send, in order
    bool sending = false;
  };
  const ServerPlan& servers_;
  ServerKeys keys_;
  int receive_streams_, send_streams_;
  ServerCopies copies_;
  std::vector<Worker> workers_;
  std::vector<std::size_t> sending_to_;    // worker by stream
  std::vector<std::uint16_t> arrival_on_;  // receive buffer by stream
  std::vector<Op> pending_ops_;            // operations to yield
  std::deque<Job> jobs_;                   // if busy, the first of them is under way
  bool is_busy_ = false;
  std::vector<Stream> free_streams_;  // free streams to send on
  std::deque<std::size_t> ready_;     // workers that have answers and are not being sent one
  std::uint64_t expected_ = 0, first_answers_ = 0, posted_ = 0, arrivals_ = 0, sent_ = 0;
  Seconds now_;

  bool backups() const { return servers_.backup_workers > 0; }
  /// Every push has been answered, and all answers and copies have arrived.
  bool is_over() const {
    return !backups() && sent_ == expected_ + first_answers_ && copies_.is_over() && pending_ops_.empty();
  }

  /// The server's share of the memory of all servers, with the copies that it holds. If servers update, a copy has
  /// weights and optimizer states but no sum of gradients.
  StaticMemory own_memory() const {
    StaticMemory memory = plan_.memory;
    const double copies = servers_.replication.is_used() ? copies_.share() : 0;
    for (MemoryPart& part : memory.parts) {
      const bool sum = part.memory_class == MemoryClass::gradients && !servers_.workers_update();
      part.bytes = part.bytes * (keys_.share() + (sum ? 0 : copies));
    }
    return memory;
  }

  void give(const Op& op) { pending_ops_.push_back(out_.emit(op)); }
  std::uint16_t next_arrival() {
    return number_of({TrainingBuffer::Kind::arrivals, arrivals_++ % count_of(TrainingBuffer::Kind::arrivals)});
  }

  void receive_on(Stream stream) {
    if (!backups() && posted_ == expected_) return;
    ++posted_;
    arrival_on_[stream] = next_arrival();
    Op op{.stream = stream, .kind = Kind::recv, .group = words_.gradients, .name = words_.collect};
    op.address(kAnyPeer, kPushTag);
    if (step_.values) op.write_to({arrival_on_[stream], 0, 1});
    give(op);
  }

  void on_arrival(Stream stream, std::size_t worker) {
    const auto [key, what] = keys_.on_push(worker);
    jobs_.push_back({what, worker, key, arrival_on_[stream]});
    receive_on(stream);
    start_job();
  }

  void start_job() {
    if (is_busy_ || jobs_.empty()) return;
    is_busy_ = true;
    const Job& job = jobs_.front();
    const std::size_t k = keys_.number(job.key);
    Op op{.stream = compute,
          .group = words_.compute,
          .effect = ServerPush{k, static_cast<int>(job.worker), job.buffer}.effect(job.what),
          .name = words_.add};
    const bool updates = job.what == ServerCall::update || job.what == ServerCall::apply;
    if (updates && !servers_.workers_update()) {
      op.group = words_.optimizer;
      op.name = words_.update;
    }
    if (updates ? servers_.rule.updates || servers_.rule.averages : job.what == ServerCall::add) {
      op.kind = Kind::local;
      op.work = updates ? update_work(k) : of_key(plan_.addition, k);
    }
    const bool uses_push = job.what != ServerCall::update && job.what != ServerCall::drop;
    if (uses_push && step_.compression) {
      op.kind = Kind::local;
      if (op.work.bytes.value == 0) op.work = of_key(plan_.addition, k);  // the first push: nothing is added
      op.work.bytes = (job.what == ServerCall::first ? Bytes{} : op.work.bytes) + servers_.payload(k).decode;
    }
    give(op);
  }

  /// Work for all elements of a key.
  Work of_key(Work work, std::size_t k) const {
    work.bytes = work.bytes * servers_.key(k).elements;
    return work;
  }
  /// Work to apply a sum, or the push of one worker.
  Work update_work(std::size_t k) const {
    if (servers_.mixes()) return of_key(servers_.mixing, k);
    if (servers_.workers_update()) {  // a mean: the sum is read and written
      Work mean = plan_.addition;
      mean.bytes = step_.gradient_element * 2.0;
      return of_key(mean, k);
    }
    return servers_.work_of_key(stage_.optimizer, k);
  }

  void on_finished() {
    const Job job = jobs_.front();
    jobs_.pop_front();
    is_busy_ = false;
    const std::vector<std::size_t>& answers = keys_.on_done(job.what, job.worker, job.key, now_);
    if (servers_.replication.is_used() && (job.what == ServerCall::update || job.what == ServerCall::apply))
      copies_.on_updated(keys_.number(job.key), answers);
    else
      for (const std::size_t w : answers) answer(w, job.key);
    if (keys_.sum_is_whole(job.key)) jobs_.push_front({ServerCall::update, 0, job.key, 0});
    if (job.what == ServerCall::update && backups() && step_.marks_steps && keys_.step_is_over()) give(step_over());
    if (job.what == ServerCall::update) tell_chief_if_over();
    start_job();
    send_ready();
  }

  void release(const ServerCopies::Release& all) {
    for (const std::size_t w : all.clients) answer(w, keys_.index_of_number(all.number));
    if (!all.clients.empty()) tell_chief_if_over();
    send_ready();
  }

  void answer(std::size_t w, std::size_t k) {
    workers_[w].answers.push_back(k);
    if (workers_[w].answers.size() == 1 && !workers_[w].sending) ready_.push_back(w);
  }

  /// Sends answers on the free streams. They carry the weights of the moment at which they are sent.
  void send_ready() {
    while (!ready_.empty() && !free_streams_.empty()) {
      const std::size_t w = ready_.front(), k = workers_[w].answers.front();
      ready_.pop_front();
      workers_[w].answers.pop_front();
      workers_[w].sending = true;
      keys_.on_weights_sent(w, k);
      Op op{.stream = free_streams_.back(), .kind = Kind::send, .group = words_.parameters, .name = words_.give};
      free_streams_.pop_back();
      sending_to_[op.stream] = w;
      op.address(w, answer_tag(keys_.number(k)), Mode::put);
      if (backups() || servers_.workers_update() || !keys_.has_ended(w, k))
        op.message.bytes = servers_.pull_bytes(keys_.number(k));
      op.effect.read = whole_buffer(TrainingBuffer::Kind::parameters, keys_.number(k));
      give(op);
    }
  }

  void on_sent(Stream stream) {
    if (stream <= receive_streams_ || stream > receive_streams_ + send_streams_)
      return;  // sent to the chief or to a server
    Worker& worker = workers_[sending_to_[stream]];
    free_streams_.push_back(stream);
    worker.sending = false;
    ++sent_;
    if (!worker.answers.empty()) ready_.push_back(sending_to_[stream]);
    send_ready();
  }

  Stream chief_stream() const { return static_cast<Stream>(streams() - (backups() ? 1 : 0)); }

  /// Tells the chief if all steps are done and all copies are confirmed.
  void tell_chief_if_over() {
    if (!backups() || !keys_.all_updated() || !copies_.all_confirmed()) return;
    Op op{.stream = chief_stream(), .kind = Kind::send, .group = words_.gradients, .name = words_.over};
    op.address(servers_.clients(), kOverTag, Mode::eager);
    give(op);
  }
};

}  // namespace

int server_streams_of(const ServerPlan& plan) {
  return 1 + receive_streams_of(plan) + send_streams_of(plan) + ServerCopies::streams(plan) +
         (plan.backup_workers > 0 ? 1 : 0);
}

std::unique_ptr<Program> parameter_server(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                          const CentralNames& words, ServerBoard& board) {
  return std::make_unique<ParameterServer>(actor - plan.workers(), plan, tables, words, board);
}

}  // namespace trainyard
