#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Neighbouring chunks of one buffer of a rank. data: the data that the operation works on, and its result; input: the
/// data that an all-to-all sends, or a copy of the ranks' initial data; scratch, aside: intermediate copies.
struct StatedChunks {
  enum class Buffer : std::uint8_t { data, input, scratch, aside };
  Buffer buffer = Buffer::data;
  int first = 0, count = 1;
  bool operator==(const StatedChunks&) const = default;
};

/// A collective that a file states as single operations. The reader adds them in an order in which they can run. Each
/// operation is tried at once on sets of contributions. The use of an empty chunk, or a wrong result, is therefore an
/// error at the line of the file.
class StatedCollective {
 public:
  static constexpr int kMostRanks = 128, kMostChunks = 1024;

  /// `input_apart`: the ranks begin with `input`, and `data` is empty (always so in an all-to-all).
  StatedCollective(Operation, int ranks, int chunks, bool input_apart);

  /// `at_once`: the message does not wait for the receiver.
  void send(int from, int to, StatedChunks, bool at_once, const Place&);
  /// Receives the oldest message between the two that has not been received. It must have been sent.
  void receive(int from, int to, StatedChunks into, bool adds, const Place&);
  void copy(int rank, StatedChunks from, StatedChunks into, bool adds, const Place&);
  /// Throws UserError if a rank does not end with the result of the operation. `file`: the place of the file.
  Collective make_collective(const std::string& name, const Place& file) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { send, receive, copy } kind = Kind::send;
    bool adds = false, at_once = false;
    int peer = -1;
    StatedChunks from, into;
  };
  struct Program {
    int ranks, chunks;
    bool copies_input;
    std::vector<std::vector<Step>> steps;
    std::vector<std::vector<int>> peers;
  };
  /// The contributions (rank × chunks + chunk, in order) whose sum a chunk holds, and where it was written.
  struct Content {
    std::vector<int> parts;
    Place place;
  };
  struct Message {
    std::vector<std::vector<int>> parts;
    std::vector<int> receipts;  ///< indexed by rank: number of its receives that ended before the message left
    std::size_t number = 0;     ///< its number among the messages of the sender
  };
  /// A send whose data must not be overwritten before it has arrived. received: number of the receive at the peer; 0:
  /// not yet.
  struct UnderWay {
    StatedChunks chunks;
    int to, received;
    std::size_t number;
  };

  Operation operation_;
  int ranks_, chunks_;
  bool input_apart_;
  std::vector<std::vector<Step>> steps_;
  std::vector<std::vector<Content>> contents_;  ///< indexed by rank, then buffer × chunks + chunk
  std::map<std::pair<int, int>, std::deque<Message>> messages_;
  std::vector<std::vector<int>> receipts_;
  std::vector<std::vector<UnderWay>> under_way_;
  std::vector<std::size_t> sent_;

  Content& content(int rank, StatedChunks::Buffer, int chunk);
  std::vector<std::vector<int>> read(int rank, StatedChunks, const char* does, const Place&);
  void write(int rank, StatedChunks, const std::vector<std::vector<int>>&, bool adds, const Place&);
  bool under_way(int rank, StatedChunks, const std::vector<int>& receipts) const;
  std::string in_words(const std::vector<int>& parts) const;
  void require_result(const Place& file) const;
  static Ops run(Local me, std::shared_ptr<const Program> program);
};

/// Reads a collective from a file: MSCCL's XML if its name ends in .xml, else a YAML list of steps. Throws UserError
/// "file:line:column: …" also if the file states another operation, a deadlock or a wrong result.
Collective read_collective(Operation, const std::filesystem::path&);
/// Reads MSCCL's XML.
StatedCollective read_msccl(Operation, const std::string& text, const std::string& file);

}  // namespace trainyard
