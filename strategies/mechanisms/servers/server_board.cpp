#include "strategies/mechanisms/servers/server_board.hpp"

#include <algorithm>

namespace trainyard {

ServerBoard::ServerBoard(int workers, int takes, int steps, std::size_t keys, int warm)
    : workers_(static_cast<std::size_t>(workers)), takes_(takes), steps_(steps), warm_(warm), keys_(keys) {}

void ServerBoard::count_weights_sent(int worker, std::uint32_t version) {
  Worker& w = workers_[worker];
  if (w.keys_given == keys_) {
    w.keys_given = 0;
    w.lowest = kMixed;
    w.highest = 0;
  }
  ++w.keys_given;
  w.lowest = std::min(w.lowest, version);
  w.highest = std::max(w.highest, version);
}

bool ServerBoard::take_push(int worker, std::uint32_t step) {
  Worker& w = workers_[worker];
  if (w.step == step) return w.is_taken;
  w.step = step;  // its first push: it has been given everything
  w.version = w.lowest == w.highest ? w.lowest : kMixed;
  if (w.version != kMixed && w.version > step_) {
    step_ = w.version;
    taken_gradients_ = 0;
  }
  w.is_taken = w.version == step_ && taken_gradients_ < takes_;
  if (w.is_taken) ++taken_gradients_;
  return w.is_taken;
}

void ServerBoard::count_applied(int worker, std::uint32_t staleness, Seconds now) {
  if (!is_frozen_) ++staleness_[staleness];
  finish_push(workers_[worker], now);
}

void ServerBoard::count_dropped(int worker, Seconds now) {
  if (!is_frozen_) ++dropped_;
  finish_push(workers_[worker], now);
}

void ServerBoard::finish_push(Worker& w, Seconds now) {
  if (++w.pushes < keys_) return;
  w.pushes = 0;
  ++w.steps_done;
  if (is_frozen_) return;
  ++steps_done_;
  end_ = now;
  if (w.steps_done == warm_ && ++warm_workers_ == static_cast<int>(workers_.size()) && steps_ > warm_) {
    is_steady_ = true;
    begin_ = now;
    steps_done_ = dropped_ = 0;
    staleness_.clear();
  }
  if (is_steady_) {
    if (++w.steady_steps == 0) w.first = now;
    w.last = now;
  }
  is_frozen_ = w.steps_done == steps_;
}

std::size_t ServerBoard::take_in_flight(MessageKind kind, int from, int to) {
  std::deque<std::size_t>& keys = in_flight_.at({kind, from, to});
  const std::size_t key = keys.front();
  keys.pop_front();
  return key;
}

double ServerBoard::steps_per_s() const {
  const Seconds span = end_ - begin_;
  if (!(span.value > 0)) return 0;
  if (!is_steady_) return static_cast<double>(steps_done_) / span.value;
  double rate = 0;
  for (const Worker& w : workers_)  // one that ended a step once only has no time of its own
    rate += w.steady_steps > 0 ? w.steady_steps / (w.last - w.first).value : (w.steady_steps + 1) / span.value;
  return rate;
}

}  // namespace trainyard
