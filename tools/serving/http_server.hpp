#pragma once
#include <functional>
#include <string>

#include "sim/process/fork_server.hpp"

namespace trainyard {

/// What the server of a page is made of. Only `http_server.cpp` knows the library (cpp-httplib).
struct ServedPage {
  int port = 0;  ///< of 127.0.0.1; 0: any that is free
  std::string token;
  std::string html;
  int seconds_for_answer = 120;
};

/// Serves the page and hands its requests to the workers, until `interrupted()`. A worker whose page has gone, or that takes
/// longer, is killed. `ready` is told the port. Throws UserError where the port is taken.
void serve_page(const ServedPage&, ForkServer& workers, const std::function<void(int port)>& ready);

}  // namespace trainyard
