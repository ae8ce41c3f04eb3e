#pragma once
#include <string>

#include "scenarios/src/lessons/teach_server.hpp"

namespace trainyard {

/// Three rows a worker (computing, pushes, pulls), one a server, time from left to right in 100 columns; below, sums.
std::string server_text(const ServerLesson&);
/// The same as a picture.
std::string server_svg(const ServerLesson&);
/// "asynchronous: 4 workers, 1 server, 4 steps".
std::string server_title(const ServerLesson&);
/// What it comes to, a sentence each.
std::vector<std::string> server_sums(const ServerLesson&);

}  // namespace trainyard
