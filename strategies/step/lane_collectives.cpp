#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

Ops LaneCollectives::run(Call what) {
  const RankPeers::LanePeers& lane = step_.peers.lane(what.lane);
  if (!lane.group) co_return;
  const RankPeers::CollectivePeers& collective = lane.collectives[static_cast<std::size_t>(what.operation)];
  const LaneGroup& group = *lane.group;
  CollectiveCall call;
  call.send_stream = sends(what.lane);
  call.recv_stream = receives(what.lane);
  call.more_streams = what.lane == Lane::gradients ? more_channels_ : step_.streams.more(what.lane);
  call.group_flow = static_cast<std::uint16_t>(what.lane);
  call.first_slot = collective.first_slot;
  call.group = step_.words.lane[static_cast<std::size_t>(what.lane)];
  call.name = what.name;
  call.tag = next_tag(what.lane);
  call.group_of = group.members.front();
  call.buffer = what.buffer;
  call.input = what.input;
  call.start = what.start;
  call.density = what.density;
  call.whole = what.whole;
  call.launch = to_picoseconds(step_.plan.collective_launch);
  Local me(step_.out, {lane.index, static_cast<int>(group.members.size()), &group.settings}, collective.peers, call,
           what.bytes);
  if (what.parts > 1) {
    const auto part = static_cast<std::uint16_t>(what.part), parts = static_cast<std::uint16_t>(what.parts);
    me = me.restrict_to({what.bytes, {what.buffer, part, parts}});
  }
  Ops all =
      collective_ops(*step_.plan.lane(what.lane).algorithm[static_cast<std::size_t>(what.operation)], me, what.bytes);
  co_yield all;
  if (group.settings.fidelity == Fidelity::modelled) co_return;
  // Callers wait for the receiving stream alone.
  step_.out.begin(Kind::mark, call.recv_stream, step_.words.wait_for_messages, 0,
                  step_.out.last_operation(call.send_stream));
  co_yield step_.out.emit();
}

}  // namespace trainyard
