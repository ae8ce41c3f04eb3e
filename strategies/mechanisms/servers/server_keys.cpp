// Rules of consistency: how a server processes a push, and when it answers.
#include "strategies/mechanisms/servers/server_keys.hpp"

#include <algorithm>

namespace trainyard {

ServerKeys::ServerKeys(int server, const ServerPlan& plan, ServerBoard& board)
    : plan_(plan),
      board_(board),
      pushes_(static_cast<std::size_t>(plan.clients())),
      takes_(plan.clients() - plan.backup_workers) {
  for (std::size_t k = 0; k < plan.keys(); ++k) {
    if (plan.server_of[k] != server) continue;
    Key& key = keys_.emplace_back();
    key.number = k;
    key.pulled.resize(pushes_.size());
    key.pushes.resize(pushes_.size());
    key.slowest_workers = pushes_.size();
    share_ += plan.share_of(k);
  }
}

std::size_t ServerKeys::index_of_number(std::size_t number) const {
  return static_cast<std::size_t>(
      std::lower_bound(keys_.begin(), keys_.end(), number,
                       [](const Key& key, std::size_t wanted) { return key.number < wanted; }) -
      keys_.begin());
}

ServerKeys::Arrival ServerKeys::on_push(std::size_t worker) {
  const std::uint64_t push = pushes_[worker]++;
  const std::size_t k = push % keys_.size();
  const auto step = static_cast<std::uint32_t>(push / keys_.size());
  if (plan_.backup_workers > 0 && !board_.take_push(static_cast<int>(worker), step)) return {k, ServerCall::drop};
  if (!synchronous()) return {k, ServerCall::apply};
  return {k, keys_[k].taken++ == 0 ? ServerCall::first : ServerCall::add};
}

const std::vector<std::size_t>& ServerKeys::on_done(ServerCall what, std::size_t worker, std::size_t k, Seconds now) {
  answers_.clear();
  Key& key = keys_[k];
  switch (what) {
    case ServerCall::update:
      update(key);
      break;
    case ServerCall::apply:
      apply(key, worker, now);
      break;
    case ServerCall::drop:
      board_.count_dropped(static_cast<int>(worker), now);
      (key.version > key.pulled[worker] ? answers_ : key.waiting).push_back(worker);
      break;
    default:
      board_.count_applied(static_cast<int>(worker), 0, now);
      key.waiting.push_back(worker);
      ++key.added;
  }
  return answers_;
}

void ServerKeys::update(Key& key) {
  ++key.version;
  key.taken = key.added = 0;
  answers_.swap(key.waiting);
}

void ServerKeys::apply(Key& key, std::size_t worker, Seconds now) {
  board_.count_applied(static_cast<int>(worker), key.version - key.pulled[worker], now);
  ++key.version;
  if (key.pushes[worker]++ == key.slowest && --key.slowest_workers == 0) {
    key.slowest = *std::ranges::min_element(key.pushes);
    key.slowest_workers = static_cast<std::size_t>(std::ranges::count(key.pushes, key.slowest));
  }
  key.waiting.push_back(worker);
  std::erase_if(key.waiting, [&](std::size_t w) {
    const bool may_continue = may_go_on(key, w);
    if (may_continue) answers_.push_back(w);
    return may_continue;
  });
}

bool ServerKeys::may_go_on(const Key& key, std::size_t worker) const {
  const std::uint32_t pushes = key.pushes[worker];
  return plan_.consistency == Consistency::asynchronous || pushes == steps() ||
         pushes - key.slowest <= static_cast<std::uint32_t>(plan_.staleness);
}

void ServerKeys::on_weights_sent(std::size_t worker, std::size_t k) {
  Key& key = keys_[k];
  key.pulled[worker] = key.version;
  board_.count_weights_sent(static_cast<int>(worker), key.version);
}

bool ServerKeys::has_ended(std::size_t worker, std::size_t k) const {
  const Key& key = keys_[k];
  return (synchronous() ? key.version : key.pushes[worker]) == steps();
}

bool ServerKeys::step_is_over() const {
  return std::ranges::all_of(keys_, [this](const Key& key) { return key.version == keys_.front().version; });
}

bool ServerKeys::all_updated() const {
  return std::ranges::all_of(keys_, [this](const Key& key) { return key.version == steps(); });
}

}  // namespace trainyard
