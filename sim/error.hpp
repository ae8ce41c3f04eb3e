#pragma once
#include <stdexcept>
#include <string>

namespace trainyard {

/// The text of an error in one line: what it echoes in quotes, and the whole, are shortened in their middle where they
/// are longer than anyone reads.
std::string readable_error(const std::string& text);

/// Bad input: one line, `file:line:column: what, what was expected, nearest name`. Exit code 2.
struct UserError : std::runtime_error {
  explicit UserError(const std::string& text) : std::runtime_error(readable_error(text)) {}
};

/// The programs wait for each other forever; the text names the cycle of operations. Exit code 2.
struct Deadlock : UserError {
  using UserError::UserError;
};

/// The limits of the machine (`ulimit -n`, `ulimit -u`, memory) allow no other process, thread or open file. Says nothing of
/// the scenario that it was for. Exit code 2.
struct MachineLimit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An invariant of our own code is broken: a bug, never the user's fault. Exit code 70.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

}  // namespace trainyard
