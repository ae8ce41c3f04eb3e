#pragma once
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard {

/// What was asked for was not done, since `interrupted()`. Exit code 3.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// The limits of the machine (`ulimit -n`, `ulimit -u`, memory) allow no other process. Says nothing of the scenario that it
/// was for. Exit code 2.
struct NoProcess : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs `work` in a forked child of this process and returns its text. A UserError, Deadlock or InternalError of the
/// child is thrown here again. A child that dies (an abort inside a library) becomes one InternalError with the last
/// text that it wrote to stderr. A child ends with its parent, by whatever that dies. Throws Interrupted and NoProcess.
std::string in_child(const std::function<std::string()>& work);
/// The same for work whose figures are JSON.
nlohmann::json json_in_child(const std::function<nlohmann::json()>& work);

/// `count` such runs, at most `jobs` at a time; texts in order of their number. `done` is called here as each ends.
/// The first failure in order of number is thrown, after all have ended. Once `interrupted()` they are killed: texts of
/// what is not done are empty.
std::vector<std::string> in_children(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                     const std::function<void(std::size_t index, const std::string& text)>& done = {});

/// The same by at most `jobs` children that stay, each of which takes one number after the other: what it has read for one
/// it has for the next. Work that simulates does so in a child of its own.
std::vector<std::string> in_workers(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                    const std::function<void(std::size_t index, const std::string& text)>& done = {});

/// Number of processors this process may use.
int processors();

/// From then on SIGINT and SIGTERM end a process in order: `interrupted()` says that one has come. A second of the processor
/// later, and with a second signal, the process dies of it. In a child this is its parent's business: nothing happens.
void watch_interrupts();
bool interrupted();

/// For the process that was just forked by `parent`: it is killed when the thread that forked it ends, and by nothing less,
/// since SIGINT and SIGTERM are the parent's to obey.
void end_with_parent(pid_t parent);

/// The terminal's own stderr, also inside a child (whose stderr is caught): for progress lines.
int progress_descriptor();

}  // namespace trainyard
