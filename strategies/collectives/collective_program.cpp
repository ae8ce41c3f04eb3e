#include "strategies/collectives/collective_program.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"

namespace trainyard {
namespace {

std::vector<Actor> actors_of(const std::vector<int>& peers, const std::vector<Actor>& members) {
  std::vector<Actor> actors;
  for (const int peer : peers) actors.push_back(members.at(static_cast<std::size_t>(peer)));
  return actors;
}

/// Number of streams of the program.
int streams_of(const Collective& collective, GroupPlace place, bool one_stream) {
  return one_stream ? 1 : 2 * collective.channels_of(place);
}

class CollectiveProgram : public CoroutineProgram {
 public:
  CollectiveProgram(const Collective& collective, GroupPlace place, const CollectiveOptions& options,
                    std::vector<int> peers, Names& names, const std::vector<Actor>& members)
      : CoroutineProgram(actors_of(peers, members), streams_of(collective, place, options.one_stream)),
        collective_(collective),
        place_(place),
        options_(options),
        peers_(std::move(peers)),
        flows_{options.settings.flow.get()} {
    call_.send_stream = 0;
    call_.recv_stream = options.one_stream ? 0 : 1;
    call_.more_streams = 2;
    call_.group = names.group(name_of(collective.operation), Role::collective, collective.name);
    call_.name = names.intern(collective.name + " " + name_of(collective.operation));
    call_.mode = options.mode;
    call_.group_of = members.front();
    call_.buffer = kDataBuffer;
    call_.input = options.in_place ? scratch_buffer(kDataBuffer, 1) : kInputBuffer;
  }

  std::span<const GroupFlow* const> group_flows() const override { return flows_; }

 protected:
  Ops run() override {
    for (int time = 0; time < options_.times; ++time) {
      call_.tag = static_cast<Tag>(time) + 1;
      Local me(out_, place_, peers_, call_, options_.size);
      const bool is_rank = place_.index < place_.size;  // else a switch
      if (is_rank) co_yield begin(me);
      co_yield collective_ops(collective_, me, options_.size);
      if (is_rank) co_yield end(me);
    }
  }

 private:
  const Collective& collective_;
  GroupPlace place_;
  const CollectiveOptions& options_;
  std::vector<int> peers_;
  CollectiveCall call_;
  Emitter out_;
  const GroupFlow* flows_[1];

  /// Out of place, the algorithm works on a copy of the input. The copy costs nothing, because the kernels of
  /// libraries would read the input directly. An in-place all-to-all sends from a copy.
  Ops begin(Local me) {
    const Chunk data = me.whole_chunk();
    const bool exchange =
        collective_.operation == Operation::all_to_all || collective_.operation == Operation::all_to_all_v;
    if (collective_.operation == Operation::all_to_all && options_.in_place)
      co_yield me.copy(data, Local::scratch(data));
    if (exchange || options_.in_place) co_return;
    const Chunk input{data.bytes, {kInputBuffer, 0, 1}};
    switch (collective_.operation) {
      case Operation::all_gather:
      case Operation::gather:
        co_yield me.copy(input, me.block(me.index()));
        break;
      case Operation::broadcast:
      case Operation::scatter:
        if (me.index() == me.root()) co_yield me.copy(input, data);
        break;
      case Operation::barrier:
        break;
      default:
        co_yield me.copy(input, data);
    }
  }
  Ops end(Local me) {
    if (takes_block(collective_.operation) && !options_.in_place)
      co_yield me.copy(me.block(me.index()), {me.whole_chunk().bytes, {kOutputBuffer, 0, 1}});
  }
};

}  // namespace

std::unique_ptr<Program> collective_program(const Collective& collective, GroupPlace place,
                                            const CollectiveOptions& options, Names& names,
                                            const std::vector<Actor>& members) {
  place.settings = &options.settings;
  if (options.one_stream && collective.channels_of(place) > 1)
    throw UserError(fmt::format("{} by {} needs more than one stream", name_of(collective.operation), collective.name));
  return std::make_unique<CollectiveProgram>(collective, place, options, peers_of(collective, place), names, members);
}

}  // namespace trainyard
