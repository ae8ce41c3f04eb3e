#include "strategies/mechanisms/servers/server_board.hpp"

#include <algorithm>

namespace trainyard {

ServerBoard::ServerBoard(int workers, int takes, int steps, std::size_t keys, int warm)
    : workers_(static_cast<std::size_t>(workers)), takes_(takes), steps_(steps), warm_(warm), keys_(keys) {}

void ServerBoard::given(int worker, std::uint32_t version) {
  Worker& w = workers_[worker];
  if (w.given == keys_) {
    w.given = 0;
    w.lowest = kMixed;
    w.highest = 0;
  }
  ++w.given;
  w.lowest = std::min(w.lowest, version);
  w.highest = std::max(w.highest, version);
}

bool ServerBoard::takes(int worker, std::uint32_t step) {
  Worker& w = workers_[worker];
  if (w.step == step) return w.taken;
  w.step = step;  // its first push: it has been given everything
  w.version = w.lowest == w.highest ? w.lowest : kMixed;
  if (w.version != kMixed && w.version > step_) {
    step_ = w.version;
    taken_ = 0;
  }
  w.taken = w.version == step_ && taken_ < takes_;
  if (w.taken) ++taken_;
  return w.taken;
}

void ServerBoard::applied(int worker, std::uint32_t staleness, Seconds now) {
  if (!frozen_) ++staleness_[staleness];
  dealt_with(workers_[worker], now);
}

void ServerBoard::dropped(int worker, Seconds now) {
  if (!frozen_) ++dropped_;
  dealt_with(workers_[worker], now);
}

void ServerBoard::dealt_with(Worker& w, Seconds now) {
  if (++w.pushes < keys_) return;
  w.pushes = 0;
  ++w.done;
  if (frozen_) return;
  ++steps_done_;
  to_ = now;
  if (w.done == warm_ && ++begun_ == static_cast<int>(workers_.size()) && steps_ > warm_) {
    steady_ = true;
    from_ = now;
    steps_done_ = dropped_ = 0;
    staleness_.clear();
  }
  if (steady_) {
    if (++w.counted == 0) w.first = now;
    w.last = now;
  }
  frozen_ = w.done == steps_;
}

std::size_t ServerBoard::taken(What what, int from, int to) {
  std::deque<std::size_t>& keys = on_the_way_.at({what, from, to});
  const std::size_t key = keys.front();
  keys.pop_front();
  return key;
}

double ServerBoard::steps_per_s() const {
  const Seconds span = to_ - from_;
  if (!(span.value > 0)) return 0;
  if (!steady_) return static_cast<double>(steps_done_) / span.value;
  double rate = 0;
  for (const Worker& w : workers_)  // one that ended a step once only has no time of its own
    rate += w.counted > 0 ? w.counted / (w.last - w.first).value : (w.counted + 1) / span.value;
  return rate;
}

}  // namespace trainyard
