#pragma once
#include <sys/types.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace trainyard {

/// What was asked for was not done, since `interrupted()`. Exit code 3.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// The limits of the machine (`ulimit -n`, `ulimit -u`, memory) allow no other process, thread or open file. Says nothing of
/// the scenario that it was for. Exit code 2.
struct MachineLimit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs `work` in a forked child of this process and returns its text. A UserError, Deadlock or InternalError of the
/// child is thrown here again. A child that dies (an abort inside a library) becomes one InternalError with the last
/// text that it wrote to stderr. A child ends with its parent, by whatever that dies. Throws Interrupted and MachineLimit.
std::string in_child(const std::function<std::string()>& work);

/// Number of processors this process may use.
int processors();

/// From then on SIGINT and SIGTERM end a process in order: `interrupted()` says that one has come. The process dies of
/// the signal when a second has passed and the process has used a second of the processor, and at once with a second
/// signal. In a child this is its parent's business: nothing happens.
void watch_interrupts();
bool interrupted();

/// For the process that was just forked by `parent`: it is killed when the thread that forked it ends, and by nothing less,
/// since SIGINT and SIGTERM are the parent's to obey.
void end_with_parent(pid_t parent);

/// The terminal's own stderr, also inside a child (whose stderr is caught): for progress lines.
int progress_descriptor();

}  // namespace trainyard
