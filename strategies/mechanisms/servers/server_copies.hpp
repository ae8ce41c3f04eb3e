#pragma once
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "sim/program.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// A server's part in replication: the copies that it sends and passes on, and the answers that wait for copies.
class ServerCopies {
 public:
  /// What the server does for it.
  struct Ways {
    std::function<void(const Op&)> give;          ///< one more operation
    std::function<std::uint16_t()> next_arrival;  ///< a buffer for what is received
    Stream first_stream = 0;
    std::uint16_t first_slot = 0;  ///< of server 0
  };
  ServerCopies(int server, const ServerPlan&, const CentralWords&, ServerBoard&, Ways);

  /// Streams that a server has for this.
  static int streams(const ServerPlan& plan) {
    return plan.replication.used() ? 2 * plan.replication.targets() + 2 : 0;
  }
  /// Of all elements, those of which it has copies beside its own keys.
  double share() const;
  void begin();
  /// A key of its own (`number` in the plan) was updated; these workers get its weights once the copies are there.
  void updated(std::size_t number, std::vector<std::size_t> answers);
  /// Something has arrived for it. Whom to answer now, with what key (by its number in the plan).
  struct Release {
    std::size_t number = 0;
    std::vector<std::size_t> clients;
  };
  Release received(Stream, Actor from);
  /// Everything that it will ever get or send has come and gone.
  bool over() const { return copies_left_ == 0 && all_confirmed(); }
  /// All copies of its own keys are there.
  bool all_confirmed() const { return confirmations_left_ == 0; }

 private:
  struct Waiting {
    int confirmations = 0;  // to come
    std::vector<std::size_t> clients;
  };
  int server_;
  const ServerPlan& plan_;
  const CentralWords& words_;
  ServerBoard& board_;
  Ways ways_;
  std::vector<std::uint16_t> arrival_on_;                   // by stream, from the first
  std::map<std::size_t, std::deque<Waiting>> waiting_;      // by key
  std::uint64_t copies_left_ = 0, confirmations_left_ = 0;  // to be received
  std::uint64_t copies_to_post_ = 0, confirmations_to_post_ = 0;

  int targets() const { return plan_.replication.targets(); }
  Stream confirmations() const { return static_cast<Stream>(ways_.first_stream + targets()); }
  int copy_of(std::size_t key) const;
  void receive_on(Stream);
  void send(ServerBoard::What, int to, std::size_t key, int way, Message, BufferRef from);
  void send_copy(std::size_t key, int target, std::uint16_t buffer);
  void confirm(std::size_t key);
};

}  // namespace trainyard
