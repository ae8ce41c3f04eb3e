#pragma once
#include <functional>
#include <string>

namespace trainyard {

/// A page to serve. Only `http_server.cpp` uses the library (cpp-httplib).
struct ServedPage {
  int port = 0;       ///< port on 127.0.0.1; 0: any free port
  std::string token;  ///< secret that each request must have
  std::string html;
  int seconds_for_answer = 120;  ///< longest time of an answer, s
};

/// Serves the page until `is_interrupted()`. `answer` answers its requests, at most one for each processor at a time. An
/// answer stops if its page is closed or if it takes too long. Calls `ready` with the port. Throws UserError if the port
/// is taken.
void serve_page(const ServedPage&, const std::function<std::string(const std::string& request)>& answer,
                const std::function<void(int port)>& ready);

}  // namespace trainyard
