#pragma once
#include "strategies/mechanisms/central/central_step.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

// Streams. A worker has a pair of streams for each server, one to receive and one to send. If there are more than
// kWorkerStreamPairs servers, some of them share a pair. A server has up to kServerReceives streams to receive, each
// from whichever worker sends next, and up to kServerSends streams to send, each to whichever worker is next; it sends
// one message at a time to a worker.
//
// With at most kServerReceives workers a server processes pushes in the order of their arrival. With more workers (an
// actor has few streams), a stream that becomes free takes the earliest sent push without a stream. A push that has
// already arrived then waits behind older pushes that are still on their way. This matters only if as many slow pushes
// are on their way at once.
constexpr int kWorkerStreamPairs = 31, kServerReceives = 26, kServerSends = 36;
// An aggregator has two more streams, for messages from and to the first worker of its node.
constexpr int kAggregatorStreamPairs = 30;
int worker_streams_of(const ServerPlan&);
int server_streams_of(const ServerPlan&);
int aggregator_streams_of(const ServerPlan&);

/// Tags. All pushes of a worker to a server have the same tag, because they arrive in the order of their keys. The tag
/// of an answer contains its key.
constexpr Tag kPushTag = Tag{1} << 60;
constexpr Tag answer_tag(std::size_t key) { return Tag{2} << 60 | key; }
constexpr Tag kOverTag = Tag{3} << 60;
constexpr Tag kCopyTag = Tag{4} << 60, kConfirmTag = Tag{5} << 60;  ///< messages between servers
/// Messages within a node. Their tags contain the key.
enum class LocalTag : std::uint8_t { reduce = 6, up, down, broadcast };
constexpr Tag local_tag(LocalTag what, std::size_t key) { return static_cast<Tag>(what) << 60 | key; }

std::unique_ptr<Program> parameter_worker(Actor, const ServerPlan&, const PassTables&, const CentralNames&);
/// A worker whose gradients are summed in its node.
std::unique_ptr<Program> local_worker(Actor, const ServerPlan&, const PassTables&, const CentralNames&);
/// The aggregator of such workers.
std::unique_ptr<Program> aggregator(Actor, const ServerPlan&, const PassTables&, const CentralNames&);
std::unique_ptr<Program> parameter_server(Actor, const ServerPlan&, const PassTables&, const CentralNames&,
                                          ServerBoard&);

}  // namespace trainyard
