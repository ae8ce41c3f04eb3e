// Members of a group that have the same role emit the same operations.
#include <catch2/catch.hpp>
#include <map>
#include <tuple>
#include <vector>

#include "strategies/collectives/collective.hpp"

namespace strategies_test_collective_roles {

using namespace trainyard;

namespace {

/// Operations of a rank, each with the fields that decide its time. The chunk of the data is not among them.
using RankOperations = std::vector<std::tuple<Kind, Stream, std::uint16_t, Tag, double, Mode, std::uint32_t,
                                              std::uint32_t, std::uint32_t, std::uint32_t>>;

RankOperations operations(const Collective& collective, GroupPlace place) {
  RankOperations rank_operations;
  visit_ops(collective, place, Bytes{720720}, [&rank_operations](const Op& op) {
    rank_operations.emplace_back(op.kind, op.stream, op.message.slot, op.message.tag, op.message.bytes.value,
                                 op.message.mode, op.message.steps, op.deps[0].count, op.deps[1].count,
                                 static_cast<std::uint32_t>(op.deps[0].stream * 64 + op.deps[1].stream));
    return true;
  });
  return rank_operations;
}

}  // namespace

TEST_CASE("members with one role emit the same operations in every algorithm", "[strategies][collectives][folding]") {
  int groups = 0, groups_with_role = 0;
  for (int o = 0; o < kOperations; ++o) {
    const auto operation = static_cast<Operation>(o);
    for (const std::string& name : collectives(operation).names()) {
      const Collective& collective = collectives(operation).find(name, {});
      if (collective.switches != SwitchKind::none) continue;
      for (const int size : {2, 3, 4, 6, 8, 12, 16})
        for (const int channels : {1, 2, 4}) {
          CollectiveSettings settings;
          settings.channels = channels;
          std::vector<int> nodes;
          for (int rank = 0; rank < size; ++rank) nodes.push_back(rank * 2 / size);
          settings.place(nodes);
          if (collective.refuses && !collective.refuses({0, size, &settings}).empty()) continue;
          if (operation == Operation::all_to_all_v) continue;
          ++groups;
          groups_with_role += collective.role ? 1 : 0;
          std::map<std::uint64_t, RankOperations> operations_by_role;
          for (int rank = 0; rank < size; ++rank) {
            const GroupPlace place{rank, size, &settings};
            const RankOperations rank_operations = operations(collective, place);
            CAPTURE(name_of(operation), name, size, channels, rank);
            CHECK(operations_by_role.try_emplace(role_of(collective, place), rank_operations).first->second ==
                  rank_operations);
          }
        }
    }
  }
  CHECK(groups > 200);
  CHECK(groups_with_role > 100);
}

TEST_CASE("a ring has one role, and a tree one role for each kind of member", "[strategies][collectives][folding]") {
  const auto roles = [](const char* name, int size) {
    CollectiveSettings settings;
    std::map<std::uint64_t, int> members_by_role;
    for (int rank = 0; rank < size; ++rank)
      ++members_by_role[role_of(collectives(Operation::all_reduce).find(name, {}), {rank, size, &settings})];
    return members_by_role.size();
  };
  CHECK(roles("ring", 4096) == 1);
  CHECK(roles("halving-doubling", 4096) == 1);
  CHECK(roles("halving-doubling", 24) == 3);
  CHECK(roles("parameter-server", 64) > 1);
  CHECK(roles("binary-tree", 300) == 300);  // too many members to compare their operations
}

}  // namespace strategies_test_collective_roles
