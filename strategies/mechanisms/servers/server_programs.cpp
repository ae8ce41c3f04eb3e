// Chooses the program of each actor of a training with parameter servers.
#include <fmt/format.h>

#include <algorithm>

#include "sim/list_program.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {
namespace {

std::unique_ptr<Program> chief(const ServerPlan& plan, const CentralWords& words) {
  std::vector<Op> ops;
  std::vector<Actor> servers;
  for (int server = 0; server < plan.servers; ++server) {
    servers.push_back(plan.workers() + server);
    ops.push_back({.kind = Kind::recv, .group = words.gradients, .name = words.over});
    ops.back().address(server, kOverTag);
  }
  return std::make_unique<ListProgram>(std::move(ops), std::move(servers));
}

}  // namespace

std::vector<std::string> server_streams(const ServerPlan& plan) {
  const int most = std::max(
      {server_streams_of(plan), worker_streams_of(plan), plan.local.is_used() ? aggregator_streams_of(plan) : 0});
  std::vector<std::string> names{"compute"};
  for (int i = 1; i < most; ++i) names.push_back(fmt::format("messages {}", i));
  return names;
}

std::unique_ptr<Program> server_program(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                        const CentralWords& words, ServerBoard& board) {
  if (actor < plan.workers())
    return plan.local.is_used() ? local_worker(actor, plan, tables, words)
                                : parameter_worker(actor, plan, tables, words);
  if (actor < plan.workers() + plan.servers) return parameter_server(actor, plan, tables, words, board);
  return plan.local.is_used() ? aggregator(actor, plan, tables, words) : chief(plan, words);
}

Programs server_programs(const ServerPlan& plan, const PassTables& tables, const CentralWords& words,
                         ServerBoard& board) {
  Programs programs;
  for (Actor actor = 0; actor < plan.actors(); ++actor)
    programs.push_back(server_program(actor, plan, tables, words, board));
  return programs;
}

}  // namespace trainyard
