#pragma once
#include <array>
#include <vector>

#include "sim/ops.hpp"

namespace trainyard {

/// What a program has yielded so far, stream by stream, and the one operation it is yielding: coroutines give a
/// reference to it, so their frames stay small and hold nothing to destroy.
class Emitter {
 public:
  const Op& give(const Op& op) {
    scratch_ = op;
    ++emitted_[op.stream];
    return scratch_;
  }
  /// A dependency on everything yielded so far on `stream`.
  Dep after(Stream stream) const { return {emitted_[stream], stream}; }

 private:
  Op scratch_;
  std::array<std::uint32_t, kMaxStreams> emitted_{};
};

/// Where a rank stands in its group.
struct GroupPlace {
  int index = 0;
  int size = 1;
};

/// How a program runs one collective: on which streams, after what, with which buffer.
struct CollectiveCall {
  Stream send_stream = 1, recv_stream = 2;
  std::uint16_t first_slot = 0;  ///< of the program: the collective's peers, in the order of Collective::peers
  GroupId group = 0;
  NameId name = 0;
  Tag tag = 0;
  std::uint16_t buffer = 0;  ///< of every rank: the data to be combined
  Dep start;                 ///< the data are there
  Picoseconds launch;        ///< from then to the first message
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
};

/// A part of the data of a collective: chunk `chunk` of `of`.
struct Chunk {
  Bytes bytes;
  BufferRef ref;
};

/// One rank's view of a collective, by which an algorithm says what the rank sends and receives. Peers are indices in
/// the group. The first operation of each stream waits for the data and for earlier messages of the other stream; a
/// send waits for everything received before it.
class Local {
 public:
  Local(Emitter& out, GroupPlace place, const std::vector<int>& peers, const CollectiveCall& call, Bytes size)
      : out_(&out), peers_(&peers), place_(place), call_(call), size_(size) {}

  int index() const { return place_.index; }
  int group_size() const { return place_.size; }
  int next() const { return (place_.index + 1) % place_.size; }
  int previous() const { return (place_.index + place_.size - 1) % place_.size; }

  Chunk whole() const { return {size_, {call_.buffer, 0, 1}}; }
  /// Chunk `i` modulo the group size: a share of the bytes as a real number, so that all ranks do the same.
  Chunk chunk(int i) const {
    const int n = place_.size;
    const int at = ((i % n) + n) % n;
    return {size_ / n, {call_.buffer, static_cast<std::uint16_t>(at), static_cast<std::uint16_t>(n)}};
  }

  /// Part `i` of `of` equal ones, whatever the group's size; part 2i and 2i + 1 of 2·`of` make it up.
  Chunk part(int i, int of) const {
    return {size_ / of, {call_.buffer, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(of)}};
  }

  const Op& send(int peer, const Chunk&);
  const Op& recv_copy(int peer, const Chunk&);
  const Op& recv_reduce(int peer, const Chunk&);
  /// Adds one chunk to another on this rank, in the order of the receives; takes no time.
  const Op& reduce(const Chunk& from, const Chunk& into);

 private:
  Emitter* out_;
  const std::vector<int>* peers_;
  GroupPlace place_;
  CollectiveCall call_;
  Bytes size_;
  bool sent_ = false, received_ = false;

  std::uint16_t slot(int peer) const;
  Op message(Kind, int peer, const Chunk&) const;
  const Op& receive(int peer, const Chunk&, Action);
};

}  // namespace trainyard
