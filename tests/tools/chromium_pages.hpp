#pragma once
#include <catch2/catch.hpp>
#include <cstdlib>
#include <regex>
#include <string>

#include "tests/tools/html_pages.hpp"

namespace trainyard::test {

/// A page after its scripts: its elements, and what its scripts printed.
struct PageDump {
  std::string dom, console;
};
inline PageDump render_url(const PageFolder& folder, const std::string& url, const std::string& options = "") {
  const std::string line = "cd '" + folder.path().string() +
                           "' && chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
                           "--user-data-dir=.chromium --enable-logging=stderr " +
                           options + " --dump-dom \"" + url + "\" >.dom 2>.console </dev/null";
  REQUIRE(std::system(line.c_str()) == 0);
  return {folder.text(".dom"), folder.text(".console")};
}

inline PageDump render(const PageFolder& folder, const std::string& page, const std::string& options = "") {
  return render_url(folder, "file://$PWD/" + page, options);
}

/// Renders a page in a frame of this width, because the browser's window is at least 500 pixels wide. The outer page has the
/// attributes of the page, its heading, and by how much it is wider than the frame.
inline PageDump render_framed(const PageFolder& folder, const std::string& page, int width,
                              const std::string& options = "") {
  folder.write("frame.html",
               "<html><body><iframe src=\"" + page + "\" style=\"border: 0; width: " + std::to_string(width) +
                   "px; height: 900px\"></iframe><script>onload = () => { const page = frames[0].document, "
                   "root = page.documentElement; Object.assign(document.documentElement.dataset, root.dataset, "
                   "{width: frames[0].innerWidth, wider: Math.max(0, root.scrollWidth - frames[0].innerWidth)}); "
                   "document.body.append(...page.querySelectorAll('h1')); };</script></body></html>\n");
  return render(folder, "frame.html",
                "--allow-file-access-from-files --virtual-time-budget=5000 --window-size=1500,1000 " + options);
}

/// The number of sides of A4 on which the browser prints a page; 0: it takes another paper.
inline std::size_t printed_sides(const PageFolder& folder, const std::string& page) {
  render(folder, page, "--virtual-time-budget=5000 --no-pdf-header-footer --print-to-pdf=printed.pdf");
  const std::string pdf = folder.text("printed.pdf");
  const auto count = [&pdf](const std::string& words) {
    std::size_t number = 0;
    for (std::size_t at = 0; (at = pdf.find(words, at)) != std::string::npos; ++at) ++number;
    return number;
  };
  return count("MediaBox [0 0 594.9") == count("MediaBox") ? count("MediaBox") : 0;
}

inline std::string attribute(const std::string& dom, const std::string& name) {
  std::smatch found;
  const std::string head = dom.substr(0, 2000);
  return std::regex_search(head, found, std::regex(name + "=\"([^\"]*)\"")) ? found[1].str() : "missing";
}

}  // namespace trainyard::test
