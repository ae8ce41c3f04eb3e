#include <bit>

#include "sim/hashing.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {

Ops collective_ops(const Collective& collective, Local me, Bytes size) {
  if (me.index() >= me.group_size()) {
    if (me.group_size() > 1) co_yield collective.on_switch(me, size);
    co_return;
  }
  // If the root is not rank 0, ranks are numbered from the root.
  if (has_root(collective.operation)) me = me.renumber(Numbering(me.group_size()).rotate(me.root()));
  const bool exchange =
      collective.operation == Operation::all_to_all || collective.operation == Operation::all_to_all_v;
  if (me.group_size() == 1) {
    if (exchange) co_yield me.copy(me.outgoing(0), me.incoming(0));
    co_return;
  }
  switch (me.settings().fidelity) {
    case Fidelity::messages:
      co_yield collective.run(me, size);
      break;
    case Fidelity::flows:
      co_yield flow_ops(collective, me, size);
      co_return;
    case Fidelity::modelled:
      co_yield modelled_ops(collective.operation, me, size);
      co_return;
  }
  if (!reduces(collective.operation) || me.settings().reduction != Reduction::average) co_return;
  const int n = me.group_size();
  if (collective.operation == Operation::reduce && me.index() != 0) co_return;
  co_yield me.divide(collective.operation == Operation::reduce_scatter ? me.block(me.index()) : me.whole_chunk(), n);
}

void visit_ops(const Collective& collective, GroupPlace place, Bytes size,
               const std::function<bool(const Op&)>& visit) {
  const std::vector<int> peers = peers_of(collective, place);
  Emitter out;
  const CollectiveCall call;
  Ops ops = collective_ops(collective, Local(out, place, peers, call, size), size);
  for (const Op* op = nullptr; ops.next(op) == Pull::op && visit(*op);) {
  }
}

std::uint64_t role_of(const Collective& collective, GroupPlace place) {
  std::uint64_t role = 0;
  if (collective.role) {
    for (const int number : collective.role(place)) role = hash_numbers({role, static_cast<std::uint64_t>(number)});
    return role;
  }
  constexpr int largest = 256;
  if (place.size > largest) return static_cast<std::uint64_t>(place.index) + 1;
  visit_ops(collective, place, Bytes{1 << 20}, [&role](const Op& op) {
    const Message& m = op.message;
    role = hash_numbers({role, static_cast<std::uint64_t>(op.kind), op.stream, m.slot, m.tag, m.steps,
                         std::bit_cast<std::uint64_t>(m.bytes.value), static_cast<std::uint64_t>(m.mode)});
    for (const Dep& dep : op.deps) role = hash_numbers({role, dep.stream, dep.count});
    return true;
  });
  return role;
}

}  // namespace trainyard
