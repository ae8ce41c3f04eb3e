#pragma once
#include <functional>
#include <string>

namespace trainyard {

/// What the server of a page is made of. Only `http_server.cpp` knows the library (cpp-httplib).
struct ServedPage {
  int port = 0;  ///< of 127.0.0.1; 0: any that is free
  std::string token;
  std::string html;
  int seconds_for_answer = 120;
};

/// Serves the page, and `answer` answers its requests on as many threads as there are processors, until `interrupted()`.
/// One whose page has gone, or that takes longer, is stopped. `ready` is told the port. Throws UserError where the port is
/// taken.
void serve_page(const ServedPage&, const std::function<std::string(const std::string& request)>& answer,
                const std::function<void(int port)>& ready);

}  // namespace trainyard
