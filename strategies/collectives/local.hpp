#pragma once
#include <algorithm>
#include <cmath>
#include <concepts>
#include <utility>
#include <vector>

#include "strategies/collectives/collective_settings.hpp"
#include "strategies/collectives/emitter.hpp"

namespace trainyard {

/// Parameters of one collective call of a program: streams, buffers, peers, and the operation to wait for.
struct CollectiveCall {
  Stream send_stream = 1, recv_stream = 2;
  Stream more_streams = 3;       ///< first stream of the further channels, which use a pair each
  std::uint16_t group_flow = 0;  ///< the program's group flow for a modelled collective
  /// The program's slot of the first peer; peers follow in the order of Collective::peers.
  std::uint16_t first_slot = 0;
  GroupId group = 0;
  NameId name = 0;
  Tag tag = 0;
  Actor group_of = 0;        ///< actor of the group's first rank; it tells apart groups that meet at the same time
  std::uint16_t buffer = 0;  ///< the buffer, on every rank, that the algorithm works on
  std::uint16_t input = 0;   ///< the buffer that an all-to-all sends; it receives into `buffer`
  Dep start = {};            ///< end of the operation that makes the data available
  Picoseconds launch = {};   ///< time from `start` to the first message
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
  /// Sums of sparse numbers (see Local::sum_chunk). density: fraction of the elements that one rank sends, at places of
  /// its own. whole: bytes of a dense message, divided by the bytes of all elements with their places; 1: not sparse.
  double density = 1, whole = 1;
};

/// A whole collective as one flow over all edges of a group (Program::group_flows).
struct ModelledJoin {
  Bytes bytes;  ///< bytes over an edge of weight 1
  Picoseconds latency;
  BytesPerSecond rate;
  PathClass path;  ///< kind of links that limits the rate
  Work what;       ///< the collective that it stands for (see collective_work)
};

/// A part of the data of a collective.
struct Chunk {
  Bytes bytes;
  BufferRef ref;
  /// Returns part `i` of `of` equal parts. Sizes are real numbers of bytes, so that all ranks do the same. If there
  /// would be more than kMostParts parts, only the bytes are known (see kUncounted).
  Chunk part(int i, int of) const;
  /// Returns parts `i` … `i + count − 1` as one chunk.
  Chunk parts(int i, int count, int of) const;
};

/// One rank's view of a collective. An algorithm uses it to say what the rank sends and receives. Ranks are given by
/// their numbers in the view. On each channel the first operation waits for the data and for earlier messages; a send
/// waits for everything received before it.
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
  GroupPlace place() const { return {number_, group_size(), settings_}; }

  // Views:

  /// Returns this view with other numbers; this rank must have one.
  Local renumber(const Numbering&) const;
  /// Returns this view restricted to a part of the data.
  Local restrict_to(const Chunk&) const;
  /// Returns this view on slice `i` of `of` of every block, or on `count` slices beginning with `i`.
  Local on_slice(int i, int of, int count = 1) const;
  /// Returns this view on the streams of another channel, which runs in parallel with the other channels (see
  /// side_by_side).
  Local on_channel(int) const;

  // Data:

  const Chunk& whole_chunk() const { return data_; }
  /// Returns chunk `i` modulo the group size; there are as many chunks as members.
  Chunk chunk(int i) const {
    const int n = group_size();
    return part(((i % n) + n) % n, n);
  }
  Chunk part(int i, int of) const { return data_.part(i, of); }
  /// Returns the block of the member with that number, modulo the group size. Each member has its own block in a
  /// gather, a scatter, an all-gather and a reduce-scatter.
  Chunk block(int number) const {
    const int n = group_size();
    const Chunk all = data_.part(numbering_.member(((number % n) + n) % n), ranks_);
    return slices_ == 1 ? all : all.parts(slice_, slice_count_, slices_);
  }
  /// Returns the blocks of `count` members beginning with that number, as one range; the first block follows the last.
  /// The view must include the whole group, number members in their order (as numbers from a root do), and have no
  /// slices.
  Chunk blocks(int number, int count) const;
  /// Returns the number of pieces of at most the settings' chunk size, in which chains and trees pass on the data.
  int pieces(const Chunk&) const;
  int pieces() const { return pieces(data_); }
  /// Return the data that an all-to-all sends to the peer, and those that it receives from it.
  Chunk outgoing(int peer) const;
  Chunk incoming(int peer) const;
  /// Returns the chunk with the size of a sum over `ranks` ranks. Independent places make the sum denser; it is sent
  /// densely if that takes fewer bytes.
  Chunk sum_chunk(Chunk chunk, int ranks) const {
    if (call_->whole < 1) chunk.bytes = chunk.bytes * std::min(call_->whole, 1 - std::pow(1 - call_->density, ranks));
    return chunk;
  }
  /// Returns the same place in a scratch copy of the data, `which` of 1 to 3 (see kScratch).
  static Chunk scratch(Chunk chunk, int which = 1) {
    if (chunk.ref.buffer != kUncounted) chunk.ref.buffer = scratch_buffer(chunk.ref.buffer, which);
    return chunk;
  }

  /// Returns the channel that uses the stream.
  int channel_of(Stream stream) const {
    if (stream == call_->send_stream || stream == call_->recv_stream) return 0;
    return stream >= call_->more_streams ? (stream - call_->more_streams) / 2 + 1 : 0;
  }

  // Operations:

  const Op& send(int peer, const Chunk&, Dep also = {});
  /// Sends without waiting for the receiver, so that all such sends run at the same time.
  const Op& send_at_once(int peer, const Chunk&, Dep also = {});
  /// Sends piece number `piece` of a sequence of pieces. It leaves as soon as the piece before it has arrived, and
  /// follows it in the pipe, so that only the first piece pays the latency of the path.
  const Op& send_piece(int piece, int peer, const Chunk&);
  /// Passes on data that another channel has received. It waits for `received` alone, not for the receiver.
  const Op& pass_on(int peer, const Chunk&, Dep received);
  const Op& recv_copy(int peer, const Chunk&);
  const Op& recv_reduce(int peer, const Chunk&);
  /// Copies or reduces within this rank, after its receives so far and the sends of this channel. It takes no time,
  /// because kernels that move data do it while they send and receive.
  const Op& copy(const Chunk& from, const Chunk& into) { return local_op(Action::copy, from, into); }
  const Op& reduce(const Chunk& from, const Chunk& into) { return local_op(combine(), from, into); }
  /// Reduces without waiting for sends that are still under way (for the published listing that has a data race).
  const Op& reduce_at_once(const Chunk& from, const Chunk& into);
  const Op& divide(const Chunk&, int by);
  /// Begins another phase. If messages are summed up into flows, the next phase waits for this one.
  const Op& phase();
  /// Waits until all of the group's `members` members have arrived.
  const Op& join(int members);
  /// Waits until all members of the group have arrived, and then for the flow of the group.
  const Op& join_modelled(const ModelledJoin&);
  /// Sends (receives) one message that stands for `steps` messages to (from) the peer in a slot of the program.
  const Op& send_flow(std::uint16_t slot, Bytes, std::uint32_t steps);
  const Op& recv_flow(std::uint16_t slot);
  /// Returns this view with another emitter, to inspect the operations of an algorithm without yielding them.
  Local emitting_to(Emitter&) const;

  /// True if sends and receives of this channel have a stream each. They may then be yielded as repeated rounds (see
  /// ring_steps).
  bool two_streams() const { return send_stream_ != recv_stream_; }
  /// Counts `rounds` more rounds of the send and the receive yielded last.
  void skip_rounds(std::uint32_t rounds) {
    out_->skip(send_stream_, rounds);
    out_->skip(recv_stream_, rounds);
  }
  /// Dependency on all receives so far on this channel.
  Dep last_receive() const { return out_->last_operation(recv_stream_); }
  /// The open_ operations make the channel's streams wait for what channel 0 has done; close makes channel 0 wait for
  /// this channel.
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
  Tag tag_;  // differs by channel: messages of two channels between the same ranks must not be mixed up
  Chunk data_;
  mutable std::size_t last_slot_ = 0;  // slot of the peer that was looked up last

  std::uint16_t slot(int peer) const;
  Op& message(Kind, int peer, const Chunk&);
  Op& begin(Kind, Stream);
  const Op& receive(int peer, const Chunk&, Action);
  const Op& local_op(Action, const Chunk& from, const Chunk& into);
  Action combine() const;
  const Op& wait_on(Stream waiting, Stream first, Stream second);
};

/// Let channels 1 … channels − 1 wait for what channel 0 has done, and channel 0 for all of them.
Ops open_channels(Local, int channels);
Ops close_channels(Local, int channels);

/// Yields no operations: a part in which this member has nothing to do.
Ops nothing();
/// Runs parts of a collective in parallel; part k must have been made on channel k. Operations of the parts, or
/// repeated rounds of them, are yielded in turn.
Ops side_by_side(Local, std::vector<Ops> parts);
template <std::same_as<Ops>... Parts>
Ops side_by_side(const Local& me, Parts... parts) {
  std::vector<Ops> all;
  (all.push_back(std::move(parts)), ...);
  return side_by_side(me, std::move(all));
}
/// Makes `parts` parts by `part(k)`, and runs them in parallel.
template <class Part>
Ops side_by_side(const Local& me, int parts, Part part) {
  if (parts == 1) return part(0);
  std::vector<Ops> all;
  for (int k = 0; k < parts; ++k) all.push_back(part(k));
  return side_by_side(me, std::move(all));
}

}  // namespace trainyard
