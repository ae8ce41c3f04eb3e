#pragma once
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "sim/program.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// A server's part in replication: the copies that it sends and forwards, and the answers that wait for copies.
class ServerCopies {
 public:
  /// Functions and numbers that the server provides.
  struct Hooks {
    std::function<void(const Op&)> give;          ///< adds an operation to the server's program
    std::function<std::uint16_t()> next_arrival;  ///< returns the next buffer to receive into
    Stream first_stream = 0;                      ///< the first of the streams for replication
    std::uint16_t first_slot = 0;                 ///< peer slot of server 0
  };
  ServerCopies(int server, const ServerPlan&, const CentralNames&, ServerBoard&, Hooks);

  /// Number of streams that a server uses for replication.
  static int streams(const ServerPlan& plan) {
    return plan.replication.is_used() ? 2 * plan.replication.targets() + 2 : 0;
  }
  /// Share of all elements whose copies this server holds, without its own keys.
  double share() const;
  void begin();
  /// The server has updated its key `number` (of the plan). `answers`: workers that get the weights once the copies are
  /// confirmed.
  void on_updated(std::size_t number, std::vector<std::size_t> answers);
  /// A key (its number in the plan) and the clients that the server may answer now.
  struct Release {
    std::size_t number = 0;
    std::vector<std::size_t> clients;
  };
  /// A message of replication has arrived.
  Release on_received(Stream, Actor from);
  /// All copies have been received, and all copies of its own keys are confirmed.
  bool is_over() const { return copies_left_ == 0 && all_confirmed(); }
  /// All copies of its own keys are confirmed.
  bool all_confirmed() const { return confirmations_left_ == 0; }

 private:
  struct Waiting {
    int confirmations = 0;  // number that have not arrived yet
    std::vector<std::size_t> clients;
  };
  int server_;
  const ServerPlan& plan_;
  const CentralNames& words_;
  ServerBoard& board_;
  Hooks hooks_;
  std::vector<std::uint16_t> arrival_on_;                         // receive buffer by stream, from `first_stream`
  std::map<std::size_t, std::deque<Waiting>> waiting_;            // unanswered updates by key
  std::uint64_t copies_left_ = 0, confirmations_left_ = 0;        // messages that have not arrived yet
  std::uint64_t copies_to_post_ = 0, confirmations_to_post_ = 0;  // receives that have not been emitted yet

  int targets() const { return plan_.replication.targets(); }
  Stream confirmations() const { return static_cast<Stream>(hooks_.first_stream + targets()); }
  int copy_index(std::size_t key) const;
  void receive_on(Stream);
  void send(ServerBoard::MessageKind, int to, std::size_t key, int stream_offset, Message, BufferRef from);
  void send_copy(std::size_t key, int target, std::uint16_t buffer);
  void confirm(std::size_t key);
};

}  // namespace trainyard
