#include "strategies/mechanisms/servers/server_copies.hpp"

#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {

ServerCopies::ServerCopies(int server, const ServerPlan& plan, const CentralNames& words, ServerBoard& board,
                           Hooks hooks)
    : server_(server),
      plan_(plan),
      words_(words),
      board_(board),
      hooks_(std::move(hooks)),
      arrival_on_(static_cast<std::size_t>(targets())) {
  const int copies = plan.replication.copies;
  const std::uint64_t updates = static_cast<std::uint64_t>(plan.base.step.steps) *
                                (plan.consistency == Consistency::synchronous ? 1 : plan.clients());
  for (std::size_t k = 0; plan.replication.is_used() && k < plan.keys(); ++k) {
    const int copy = copy_index(k);
    if (copy == 0)
      confirmations_left_ += updates * (plan.replication.forward == Replication::Forward::chain ? 1 : copies - 1);
    if (copy > 0 && copy < copies) copies_left_ += updates;
  }
  copies_to_post_ = copies_left_;
  confirmations_to_post_ = confirmations_left_;
}

/// Distance in the ring from the server of the key to this one: 0 is the server itself, 1 holds the first copy.
int ServerCopies::copy_index(std::size_t key) const {
  return (server_ - plan_.server_of[key] + plan_.servers) % plan_.servers;
}

double ServerCopies::share() const {
  double share = 0;
  for (std::size_t k = 0; k < plan_.keys(); ++k)
    if (copy_index(k) > 0 && copy_index(k) < plan_.replication.copies) share += plan_.share_of(k);
  return share;
}

void ServerCopies::begin() {
  for (int i = 0; i <= targets(); ++i) receive_on(static_cast<Stream>(hooks_.first_stream + i));
}

void ServerCopies::receive_on(Stream stream) {
  const bool confirmation = stream == confirmations();
  std::uint64_t& left = confirmation ? confirmations_to_post_ : copies_to_post_;
  if (left == 0) return;
  --left;
  Op op{.stream = stream, .kind = Kind::recv, .group = words_.parameters, .name = words_.copy};
  op.address(kAnyPeer, confirmation ? kConfirmTag : kCopyTag);
  if (!confirmation && plan_.base.step.values) {
    std::uint16_t& arrival = arrival_on_[static_cast<std::size_t>(stream - hooks_.first_stream)];
    arrival = hooks_.next_arrival();
    op.write_to({arrival, 0, 1});
  }
  hooks_.give(op);
}

void ServerCopies::on_updated(std::size_t number, std::vector<std::size_t> answers) {
  waiting_[number].push_back(
      {plan_.replication.forward == Replication::Forward::chain ? 1 : targets(), std::move(answers)});
  for (int target = 1; target <= targets(); ++target)
    send_copy(number, target, unchecked_number_of({TrainingBuffer::Kind::parameters, number}));
}

/// A message to another server about a key.
void ServerCopies::send(ServerBoard::MessageKind what, int to, std::size_t key, int stream_offset, Message message,
                        BufferRef from) {
  Op op{.stream = static_cast<Stream>(confirmations() + stream_offset),
        .kind = Kind::send,
        .group = words_.parameters,
        .message = message,
        .name = words_.copy};
  op.message.slot = static_cast<std::uint16_t>(hooks_.first_slot + to);
  op.effect.read = from;
  board_.add_in_flight(what, server_, to, key);
  hooks_.give(op);
}

/// Sends a copy of a key to the server `target` places further in the ring.
void ServerCopies::send_copy(std::size_t key, int target, std::uint16_t buffer) {
  const BufferRef from = plan_.base.step.values ? BufferRef{buffer, 0, 1} : BufferRef{};
  send(ServerBoard::MessageKind::copy, plan_.holder(server_, target), key, target,
       {.bytes = plan_.copy_bytes(key), .tag = kCopyTag, .mode = Mode::put}, from);
}

/// Tells the server of the key that this server's copy, in a chain the last one, has arrived.
void ServerCopies::confirm(std::size_t key) {
  send(ServerBoard::MessageKind::confirmation, plan_.server_of[key], key, targets() + 1,
       {.tag = kConfirmTag, .mode = Mode::eager}, {});
}

ServerCopies::Release ServerCopies::on_received(Stream stream, Actor from) {
  const int server = from - plan_.workers();
  if (stream == confirmations()) {
    const std::size_t key = board_.take_in_flight(ServerBoard::MessageKind::confirmation, server, server_);
    --confirmations_left_;
    receive_on(stream);
    std::deque<Waiting>& waiting = waiting_[key];
    // Copies of one key are sent in the order of its updates, and so are their confirmations.
    if (--waiting.front().confirmations > 0) return {};
    Release release{key, std::move(waiting.front().clients)};
    waiting.pop_front();
    return release;
  }
  const std::size_t key = board_.take_in_flight(ServerBoard::MessageKind::copy, server, server_);
  const std::uint16_t arrival = arrival_on_[static_cast<std::size_t>(stream - hooks_.first_stream)];
  if (plan_.base.step.values) {
    hooks_.give(
        {.stream = stream, .effect = ServerPush{key, 0, arrival}.effect(ServerCall::copied), .name = words_.copy});
  }
  --copies_left_;
  receive_on(stream);
  const bool chain = plan_.replication.forward == Replication::Forward::chain;
  if (chain && copy_index(key) + 1 < plan_.replication.copies)
    send_copy(key, 1, arrival);
  else
    confirm(key);
  return {};
}

}  // namespace trainyard
