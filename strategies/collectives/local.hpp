#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "strategies/collectives/collective_settings.hpp"
#include "strategies/collectives/emitter.hpp"

namespace trainyard {

/// How a program runs one collective: on which streams, after what, with which buffers.
struct CollectiveCall {
  Stream send_stream = 1, recv_stream = 2;
  Stream more_streams = 3;       ///< pairs of further channels, from here on
  std::uint16_t group_flow = 0;  ///< of the program: the ways of a modelled collective
  std::uint16_t first_slot = 0;  ///< of the program: the collective's peers, in the order of Collective::peers
  GroupId group = 0;
  NameId name = 0;
  Tag tag = 0;
  Actor group_of = 0;  ///< the actor of the group's first rank: groups that meet at the same time are told apart by it
  std::uint16_t buffer = 0;  ///< of every rank: the data that the algorithm works on
  std::uint16_t input = 0;   ///< what an all-to-all sends; `buffer` is what it receives
  Dep start;                 ///< the data are there
  Picoseconds launch;        ///< from then to the first message
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
  /// Of sums of sparse numbers: the share of the data that one rank has, at places of its own, and the share of the bytes,
  /// below 1, that they take when they are sent whole (see Local::summed).
  double density = 1, whole = 1;
};

/// A whole collective as one flow over all edges of a group (Program::group_flows).
struct ModelledJoin {
  Bytes bytes;  ///< over an edge of weight 1
  Picoseconds latency;
  BytesPerSecond rate;
  PathClass path;  ///< whose links set that rate
  Work what;       ///< which collective it is: see of_collective
};

/// A part of the data of a collective.
struct Chunk {
  Bytes bytes;
  BufferRef ref;
  /// Part `i` of `of` near-equal ones. Shares of bytes are real numbers, so that all ranks do the same. Of more than
  /// kMostParts only the bytes are known (see kUncounted).
  Chunk part(int i, int of) const;
  /// Parts `i` … `i + count − 1`.
  Chunk parts(int i, int count, int of) const;
};

/// One rank's view of a collective, by which an algorithm says what the rank sends and receives. Ranks are numbers of the
/// view. On each channel the first operation waits for the data and for earlier messages; a send waits for everything
/// received before it.
class Local {
 public:
  Local(Emitter& out, GroupPlace place, const std::vector<int>& peers, const CollectiveCall& call, Bytes size)
      : out_(&out),
        peers_(&peers),
        settings_(place.settings),
        rank_(place.index),
        ranks_(place.size),
        number_(place.index),
        numbering_(place.size),
        call_(&call),
        number_of_call_(out.new_call()),
        send_stream_(call.send_stream),
        recv_stream_(call.recv_stream),
        tag_(call.tag),
        data_{size, {call.buffer, 0, 1}} {}

  int index() const { return number_; }
  int group_size() const { return numbering_.size(); }
  int next() const { return number_ + 1 < group_size() ? number_ + 1 : 0; }
  int previous() const { return number_ > 0 ? number_ - 1 : group_size() - 1; }
  const CollectiveSettings& settings() const { return *settings_; }
  int root() const { return settings_->root; }

  // Views:

  /// The same with other numbers; this rank must have one.
  Local numbered(const Numbering&) const;
  /// The same on part of the data.
  Local within(const Chunk&) const;
  /// The same on slice `i` of `of` of every block, or on `count` slices from there on.
  Local on_slice(int i, int of, int count = 1) const;
  /// The same on another pair of streams, so that it goes on beside what other channels do: see side_by_side.
  Local on_channel(int) const;

  // Data:

  const Chunk& whole() const { return data_; }
  /// Chunk `i` modulo the group size, of that many.
  Chunk chunk(int i) const {
    const int n = group_size();
    return part(((i % n) + n) % n, n);
  }
  Chunk part(int i, int of) const { return data_.part(i, of); }
  /// The block of the member with that number, modulo the group size, where each has its own: in a gather, a scatter, an
  /// all-gather, a reduce-scatter.
  Chunk block(int number) const {
    const int n = group_size();
    const Chunk all = data_.part(numbering_.member(((number % n) + n) % n), ranks_);
    return slices_ == 1 ? all : all.parts(slice_, slice_count_, slices_);
  }
  /// The blocks of `count` members from that number on, as one range: after the last block comes the first. Of views on
  /// all of a group whose numbers follow its members (as those from a root do), without slices.
  Chunk blocks(int number, int count) const;
  /// Into how many pieces of the settings' chunk size the data are cut where they are passed on piece by piece.
  int pieces(const Chunk&) const;
  int pieces() const { return pieces(data_); }
  /// What is sent to the member, and what comes from it, of an all-to-all.
  Chunk outgoing(int peer) const;
  Chunk incoming(int peer) const;
  /// The sum of what so many ranks have there: as dense as independent places make it, or whole where that is less.
  Chunk summed(Chunk chunk, int ranks) const {
    if (call_->whole < 1) chunk.bytes = chunk.bytes * std::min(call_->whole, 1 - std::pow(1 - call_->density, ranks));
    return chunk;
  }
  /// The same place in a copy beside the data, `which` of 1 to 3 (see kScratch).
  static Chunk scratch(Chunk chunk, int which = 1) {
    if (chunk.ref.buffer != kUncounted) chunk.ref.buffer = scratch_of(chunk.ref.buffer, which);
    return chunk;
  }

  /// The channel that a stream of this collective belongs to.
  int channel_of(Stream stream) const {
    if (stream == call_->send_stream || stream == call_->recv_stream) return 0;
    return stream >= call_->more_streams ? (stream - call_->more_streams) / 2 + 1 : 0;
  }

  // Operations:

  const Op& send(int peer, const Chunk&, Dep also = {});
  /// Does not wait for the receiver, so that all such sends go on at the same time.
  const Op& send_at_once(int peer, const Chunk&, Dep also = {});
  /// Piece number `piece` of a stream of them: moves at once, as soon as the one before has arrived, and follows it in
  /// the pipe, so that only the first pays the latency of the way.
  const Op& send_piece(int piece, int peer, const Chunk&);
  /// Passes on what another channel has received; waits for that alone, not for the receiver.
  const Op& pass_on(int peer, const Chunk&, Dep received);
  const Op& recv_copy(int peer, const Chunk&);
  const Op& recv_reduce(int peer, const Chunk&);
  /// Within this rank, after its receives so far and the sends of this channel; takes no time: kernels that move data do
  /// so while they send and receive.
  const Op& copy(const Chunk& from, const Chunk& into) { return here(Action::copy, from, into); }
  const Op& reduce(const Chunk& from, const Chunk& into) { return here(combine(), from, into); }
  /// The same without a wait for sends that are still going on (for the listing that races).
  const Op& reduce_at_once(const Chunk& from, const Chunk& into);
  const Op& divide(const Chunk&, int by);
  /// What follows is another phase: where messages are summed up, it waits for this one.
  const Op& phase();
  /// All members of the group of `members` meet.
  const Op& join(int members);
  /// All members of the group meet, and wait for its flow.
  const Op& join_modelled(const ModelledJoin&);
  /// One message that stands for `steps`, to (from) the peer in a slot of the program.
  const Op& send_flow(std::uint16_t slot, Bytes, std::uint32_t steps);
  const Op& recv_flow(std::uint16_t slot);
  /// The same rank and call, but what it gives goes to another emitter: to look at what an algorithm would do.
  Local emitting_to(Emitter&) const;

  /// Every send and receive of this channel has a stream for it: they may come as rounds that repeat (see ring_steps).
  bool two_streams() const { return send_stream_ != recv_stream_; }
  /// What has been given last, a send and a receive, goes on for so many rounds.
  void skip_rounds(std::uint32_t rounds) {
    out_->skip(send_stream_, rounds);
    out_->skip(recv_stream_, rounds);
  }
  /// Everything so far on this channel.
  Dep sent() const { return out_->after(send_stream_); }
  Dep received() const { return out_->after(recv_stream_); }
  /// The channel's streams begin after what channel 0 has done; channel 0 goes on after this channel.
  const Op& open_send();
  const Op& open_recv();
  const Op& close();

 private:
  Emitter* out_;
  const std::vector<int>* peers_;
  const CollectiveSettings* settings_;
  int rank_, ranks_, number_;
  int slice_ = 0, slice_count_ = 1, slices_ = 1;
  Numbering numbering_;
  const CollectiveCall* call_;
  std::uint32_t number_of_call_;
  Stream send_stream_, recv_stream_;
  Tag tag_;  // of this channel: messages of two channels between the same ranks must not be taken for each other
  Chunk data_;
  mutable std::size_t near_ = 0;  // the slot of the peer asked for last

  std::uint16_t slot(int peer) const;
  Op& message(Kind, int peer, const Chunk&);
  Op& begin(Kind, Stream);
  const Op& receive(int peer, const Chunk&, Action);
  const Op& here(Action, const Chunk& from, const Chunk& into);
  Action combine() const;
};

/// No operations: a part that some members have nothing to do in.
Ops nothing();
/// Parts of a collective that go on at the same time: part k was made on channel k. Their operations are yielded in turn,
/// or rounds of them.
Ops side_by_side(Local, std::vector<Ops> parts);
/// The same of so many parts, made by `part(k)`.
template <class Part>
Ops side_by_side(const Local& me, int parts, Part part) {
  std::vector<Ops> all;
  for (int k = 0; k < parts; ++k) all.push_back(part(k));
  return side_by_side(me, std::move(all));
}

}  // namespace trainyard
