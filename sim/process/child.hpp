#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard {

/// Runs `work` in a forked child of this process and returns its text. A UserError, Deadlock or InternalError of the
/// child is thrown here again. A child that dies (an abort inside a library) becomes one InternalError with the last
/// text that it wrote to stderr.
std::string in_child(const std::function<std::string()>& work);
/// The same for work whose figures are JSON.
nlohmann::json json_in_child(const std::function<nlohmann::json()>& work);

/// `count` such runs, at most `jobs` at a time; texts in order of their number. `done` is called here as each ends.
/// The first failure in order of number is thrown, after all have ended.
std::vector<std::string> in_children(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                     const std::function<void(std::size_t index, const std::string& text)>& done = {});

/// The same by at most `jobs` children that stay, each of which takes one number after the other: what it has read for one
/// it has for the next. Work that simulates does so in a child of its own.
std::vector<std::string> in_workers(std::size_t count, int jobs, const std::function<std::string(std::size_t)>& work,
                                    const std::function<void(std::size_t index, const std::string& text)>& done = {});

/// Number of processors this process may use.
int processors();

/// Was SIGINT received since `watch_interrupts`? Long jobs then end in a state that can be resumed. Always false in a
/// child: it finishes its work, and its parent starts no other.
void watch_interrupts();
bool interrupted();

/// The terminal's own stderr, also inside a child (whose stderr is caught): for progress lines.
int progress_descriptor();

}  // namespace trainyard
