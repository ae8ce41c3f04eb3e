#pragma once
#include <memory>

#include "sim/names.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

// The first layer on a parameter server, all else all-reduced: what its ranks and its server have in common.

/// What a message between a rank and the server brings.
enum class RemoteContent : std::uint8_t { request = 1, rows, gradients };
constexpr Tag remote_tag(RemoteContent content, int step, std::size_t bucket) {
  return static_cast<Tag>(content) << 56 | static_cast<Tag>(step) << 16 | bucket;
}

struct RemoteWords {
  GroupId lookups = 0, work = 0;
  NameId request = 0, rows = 0, push = 0, gather = 0, add = 0, update = 0, hold = 0, call = 0;

  RemoteWords() = default;
  explicit RemoteWords(Names& names)
      : lookups(names.group("remote embedding", Role::point_to_point)),
        work(names.group("embedding server", Role::work)),
        request(names.intern("ask for rows")),
        rows(names.intern("rows")),
        push(names.intern("gradients of rows")),
        gather(names.intern("gather rows")),
        add(names.intern("add gradients of rows")),
        update(names.intern("update rows")),
        hold(names.intern("set-up")),
        call(names.intern("values")) {}
};

/// Buckets have tensors of the first layer alone, or none of them.
bool is_remote(const GradientBucket&);
/// Tokens of a rank in one step.
double tokens_of_step(const TrainingPlan&);
/// Elements that a rank looks up of a bucket in a step: a row a token at most, of tables; all of what is none.
double looked_up(const TrainingPlan&, const GradientBucket&);

/// The server, which serves all ranks in turn: their look-ups, then their gradients. Everything must outlive it.
std::unique_ptr<Program> embedding_server(const TrainingPlan&, const TrainingStates&, const RemoteWords&);

}  // namespace trainyard
