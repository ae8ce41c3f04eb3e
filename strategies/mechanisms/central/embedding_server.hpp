#pragma once
#include <memory>

#include "sim/names.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

// Declarations that the ranks and the server of a remote embedding share. The server holds the first layer; the
// gradients of all other layers are all-reduced.

/// The content of a message between a rank and the server.
enum class RemoteContent : std::uint8_t { request = 1, rows, gradients };
constexpr Tag remote_tag(RemoteContent content, int step, std::size_t bucket) {
  return static_cast<Tag>(content) << 56 | static_cast<Tag>(step) << 16 | bucket;
}

struct RemoteNames {
  GroupId lookups = 0, work = 0;
  NameId request = 0, rows = 0, push = 0, gather = 0, add = 0, update = 0, hold = 0, call = 0;

  RemoteNames() = default;
  explicit RemoteNames(Names& names)
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

/// True if the bucket holds tensors of the first layer. Such a bucket holds no others.
bool is_remote(const GradientBucket&);
/// Number of tokens of a rank in one step.
double tokens_of_step(const TrainingPlan&);
/// Number of elements of a bucket that a rank looks up in a step: at most one row for each token from a table, and all
/// elements of any other tensor.
double looked_up_elements(const TrainingPlan&, const GradientBucket&);

/// Program of the server, which serves all ranks in turn: first their look-ups, then their gradients. The arguments
/// must outlive it.
std::unique_ptr<Program> embedding_server(const TrainingPlan&, const TrainingStates&, const RemoteNames&);

}  // namespace trainyard
