#pragma once
#include "strategies/mechanisms/central/central_step.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

// Streams. A worker receives from each server on a stream of its own, and sends to it on another; beyond so many
// servers, some share. A server receives on so many streams, each from whoever sends next, and sends on the others,
// each to whoever is next; to one worker one message at a time.
//
// Up to so many workers a server deals with pushes in the order in which they have come. With more of them (streams of an
// actor are few), a stream that gets free takes the push that was sent first of those that no stream has: one that is
// there already waits behind older ones still on their way. That shows where so many slow pushes are on their way at once.
constexpr int kWorkerWays = 31, kServerReceives = 26, kServerSends = 36;
// An aggregator has two streams besides, of which the workers of its node know.
constexpr int kAggregatorWays = 30;
int worker_streams_of(const ServerPlan&);
int server_streams_of(const ServerPlan&);
int aggregator_streams_of(const ServerPlan&);

/// Tags: all pushes of a worker to a server come in the order of their keys, answers are told apart by key.
constexpr Tag kPushTag = Tag{1} << 60;
constexpr Tag answer_tag(std::size_t key) { return Tag{2} << 60 | key; }
constexpr Tag kOverTag = Tag{3} << 60;
constexpr Tag kCopyTag = Tag{4} << 60, kConfirmTag = Tag{5} << 60;  ///< between servers
/// Within a node, by key.
enum class LocalTag : std::uint8_t { reduce = 6, up, down, broadcast };
constexpr Tag local_tag(LocalTag what, std::size_t key) { return static_cast<Tag>(what) << 60 | key; }

std::unique_ptr<Program> parameter_worker(Actor, const ServerPlan&, const PassTables&, const CentralWords&);
/// A worker whose gradients meet those of its node, and the aggregator of such workers.
std::unique_ptr<Program> local_worker(Actor, const ServerPlan&, const PassTables&, const CentralWords&);
std::unique_ptr<Program> aggregator(Actor, const ServerPlan&, const PassTables&, const CentralWords&);
std::unique_ptr<Program> parameter_server(Actor, const ServerPlan&, const PassTables&, const CentralWords&,
                                          ServerBoard&);

}  // namespace trainyard
