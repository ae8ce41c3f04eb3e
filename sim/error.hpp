#pragma once
#include <stdexcept>
#include <string>

namespace trainyard {

/// Makes an error text one line. Shortens overlong quoted parts in their middle, and then the whole line.
std::string readable_error(const std::string& text);

/// Bad input: one line, `file:line:column: problem, what was expected, nearest name`. Exit code 2.
struct UserError : std::runtime_error {
  explicit UserError(const std::string& text) : std::runtime_error(readable_error(text)) {}
};

/// The programs wait for each other forever. The text names the cycle of operations. Exit code 2.
struct Deadlock : UserError {
  using UserError::UserError;
};

/// The operating system's limits (`ulimit -n`, `ulimit -u`, memory) allow no further process, thread or open file. It
/// says nothing about the scenario that was running. Exit code 2.
struct MachineLimit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A broken invariant of our own code: a bug, never the user's fault. Exit code 70.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

}  // namespace trainyard
