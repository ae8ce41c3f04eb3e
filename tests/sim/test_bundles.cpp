// Compares the solver, in which flows of one route share an entry and events change only what they touch, with the
// plain definition, in which every flow is an entry and all rates are found anew at each event.
#include <limits>
#include <map>
#include <random>

#include "sim/transports/flow_net.hpp"
#include "tests/support.hpp"

namespace sim_test_bundles {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Events from outside: flows begin (some at one time, most on few routes) or are cancelled, links change.
struct Happening {
  enum class What { add, cancel, capacity } what = What::add;
  double at = 0;
  std::size_t route = 0;
  double bytes = 0, cap = 0;
  FlowToken token = 0;  // the flow that is added or cancelled
  LinkId link = 0;
  double capacity = 0;
};

struct NetCase {
  std::vector<Link> links;
  std::vector<std::vector<LinkUse>> routes;
  std::vector<Happening> happenings;

  /// scale: factor on the largest numbers of links, routes, workers and servers.
  explicit NetCase(unsigned seed, int scale = 1) : random_(seed), scale_(scale) {
    const int shape = pick(0, 2);  // 0: any routes; 1: workers and servers; 2: workers and servers with equal rates
    if (shape == 0)
      any_routes();
    else
      to_servers(shape == 2);
    double now = 0;
    const int flows = pick(20, 250);
    const bool changes = pick(0, 3) == 0, cancels = pick(0, 3) == 0;
    for (int f = 0; f < flows; ++f) {
      if (pick(0, 2) > 0) now += 1e-3 * pick(1, 9) * (pick(0, 9) == 0 ? 10 : 0.3);
      const double cap = pick(0, 7) == 0 ? 1e5 * pick(1, 9) : 0;
      happenings.push_back({Happening::What::add, now, random_() % routes.size(), 1e4 * pick(1, 7) / pick(1, 3), cap,
                            static_cast<FlowToken>(f), 0, 0});
      // A cancellation never falls on the end of a flow: the order of the two would be undefined.
      if (cancels && pick(0, 9) == 0)
        happenings.push_back(
            {Happening::What::cancel, now + 1.234567e-5, 0, 0, 0, static_cast<FlowToken>(pick(0, f)), 0, 0});
      if (changes && pick(0, 9) == 0)
        happenings.push_back({Happening::What::capacity, now, 0, 0, 0, 0, pick(0, static_cast<int>(links.size()) - 1),
                              pick(0, 5) == 0 ? 0 : 1e6 * pick(1, 5)});
    }

    std::stable_sort(happenings.begin(), happenings.end(),
                     [](const Happening& a, const Happening& b) { return a.at < b.at; });
    for (LinkId l = 0; l < static_cast<LinkId>(links.size());
         ++l)  // in the end every link has capacity, so that all flows end
      happenings.push_back({Happening::What::capacity, now + 1, 0, 0, 0, 0, l, 1e6});
  }

 private:
  std::mt19937 random_;
  int scale_;

  int pick(int from, int to) { return static_cast<int>(random_() % static_cast<unsigned>(to - from + 1)) + from; }
  void link(double rate) { links.push_back({"link", "wire", BytesPerSecond{rate}}); }
  void any_routes() {
    for (int l = pick(1, 10 * scale_); l > 0; --l) link(1e6 * pick(1, 4) + 1e5 * pick(0, 9));
    for (int r = pick(1, 12 * scale_); r > 0; --r) {
      std::vector<LinkUse>& route = routes.emplace_back();
      for (int hop = pick(1, 4); hop > 0; --hop)
        route.push_back({pick(0, static_cast<int>(links.size()) - 1), pick(0, 4) == 0 ? 0.3 * pick(1, 9) : 1.0});
    }
  }
  void to_servers(bool even) {
    const int workers = pick(2, 12 * scale_), servers = pick(1, 3 * scale_);
    for (int l = 0; l < workers + servers; ++l) link(even ? 1e6 : 1e6 * pick(1, 3) + 1e5 * pick(0, 9));
    link(even ? 2e6 : 1e6 * pick(1, 20));  // a link that flows of all workers and servers may cross
    for (int w = 0; w < workers; ++w)
      for (int s = 0; s < servers; ++s) {
        routes.push_back({{w, 1}, {workers + s, 1}});
        if (pick(0, 2) == 0) routes.back().push_back({workers + servers, 1.0 / pick(1, 4)});
      }
  }
};

using EndTimes = std::map<FlowToken, double>;  // end times, in seconds, of the flows that were not cancelled

EndTimes ends_of_net(const NetCase& net_case) {
  FlowNet net(net_case.links);
  std::map<FlowToken, FlowId> running;
  EndTimes ends;
  double now = 0;
  std::vector<FlowToken> done;
  for (std::size_t next = 0; next < net_case.happenings.size() || !running.empty();) {
    const double end = net.next(now);
    const double at =
        next < net_case.happenings.size() ? net_case.happenings[next].at : std::numeric_limits<double>::max();
    if (end < 0 && next == net_case.happenings.size()) break;
    now = std::max(now, end >= 0 && end < at ? end : at);
    done.clear();
    net.collect(now + 1e-12, now, done);
    for (const FlowToken token : done) {
      ends[token] = now;
      running.erase(token);
    }
    for (; next < net_case.happenings.size() && net_case.happenings[next].at <= now + 1e-12; ++next) {
      const Happening& h = net_case.happenings[next];
      if (h.what == Happening::What::capacity) {
        net.set_capacity(h.link, BytesPerSecond{h.capacity});
      } else if (h.what == Happening::What::add) {
        running[h.token] = net.add(net_case.routes[h.route], Bytes{h.bytes}, BytesPerSecond{h.cap}, h.token, now);
      } else if (const auto flow = running.find(h.token); flow != running.end()) {
        net.remove(flow->second);
        running.erase(flow);
      }
    }
  }
  return ends;
}

struct PlainFlow {
  const std::vector<LinkUse>* route = nullptr;
  double left = 0, cap = 0, rate = 0;
};

/// All rates grow together. A flow stops at its cap, or when a link on its route is full.
void fill(std::map<FlowToken, PlainFlow>& flows, const std::vector<double>& capacity) {
  std::vector<double> left = capacity;
  std::map<FlowToken, PlainFlow*> growing;
  for (auto& [token, flow] : flows) growing[token] = &flow;
  double level = 0;
  while (!growing.empty()) {
    std::vector<double> weights(capacity.size(), 0);
    for (const auto& [token, flow] : growing)
      for (const LinkUse& use : *flow->route) weights[static_cast<std::size_t>(use.link)] += use.weight;
    double step = std::numeric_limits<double>::max();
    for (std::size_t l = 0; l < left.size(); ++l)
      if (weights[l] > 0) step = std::min(step, std::max(0.0, left[l]) / weights[l]);
    for (const auto& [token, flow] : growing)
      if (flow->cap > 0) step = std::min(step, flow->cap - level);
    level += step;
    for (std::size_t l = 0; l < left.size(); ++l) left[l] -= step * weights[l];
    std::erase_if(growing, [&](const auto& entry) {
      const PlainFlow& flow = *entry.second;
      const bool full = std::any_of(flow.route->begin(), flow.route->end(), [&](const LinkUse& use) {
        const auto l = static_cast<std::size_t>(use.link);
        return left[l] <= 1e-12 * capacity[l];
      });
      if (!full && !(flow.cap > 0 && level >= flow.cap * (1 - 1e-12))) return false;
      entry.second->rate = level;
      return true;
    });
  }
}

EndTimes ends_by_definition(const NetCase& net_case) {
  std::vector<double> capacity;
  for (const Link& link : net_case.links) capacity.push_back(link.capacity.value);
  std::map<FlowToken, PlainFlow> flows;
  EndTimes ends;
  double now = 0;
  for (std::size_t next = 0; next < net_case.happenings.size() || !flows.empty();) {
    fill(flows, capacity);
    double at = next < net_case.happenings.size() ? net_case.happenings[next].at : std::numeric_limits<double>::max();
    for (const auto& [token, flow] : flows)
      if (flow.rate > 0) at = std::min(at, now + flow.left / flow.rate);
    if (at == std::numeric_limits<double>::max()) break;
    for (auto& [token, flow] : flows) flow.left -= flow.rate * (at - now);
    now = at;
    std::erase_if(flows, [&](const auto& entry) {
      const bool ended = entry.second.rate > 0 && entry.second.left <= entry.second.rate * 1e-12;
      if (ended) ends[entry.first] = now;
      return ended;
    });
    for (; next < net_case.happenings.size() && net_case.happenings[next].at <= now + 1e-12; ++next) {
      const Happening& h = net_case.happenings[next];
      if (h.what == Happening::What::capacity)
        capacity[static_cast<std::size_t>(h.link)] = h.capacity;
      else if (h.what == Happening::What::add)
        flows[h.token] = {&net_case.routes[h.route], h.bytes, h.cap, 0};
      else
        flows.erase(h.token);
    }
  }
  return ends;
}

void compare(unsigned seed, int scale = 1) {
  CAPTURE(seed, scale);
  const NetCase net_case(seed, scale);
  const EndTimes ends = ends_of_net(net_case), defined = ends_by_definition(net_case);
  REQUIRE(ends.size() == defined.size());
  double worst = 0;
  for (const auto& [token, end] : defined) {
    REQUIRE(ends.contains(token));
    worst = std::max(worst, std::abs(ends.at(token) - end) / end);
  }
  CHECK(worst < 1e-9);
}

}  // namespace

TEST_CASE("in random nets, flows in bundles end when single flows do", "[sim][transport]") {
  for (unsigned seed = 1; seed <= 400; ++seed) compare(seed);
}
TEST_CASE("in 300 larger random nets, shares near a change are those of all flows filled anew", "[sim][transport]") {
  for (unsigned seed = 1; seed <= 300; ++seed) compare(seed, 4);
}
TEST_CASE("twenty thousand random nets of bundles", "[.deep][transport]") {
  for (unsigned seed = 10000; seed < 30000; ++seed) compare(seed);
}

// Regression: the group went on waiting for the end of the cancelled flow, and then ended another flow.
TEST_CASE("cancelling the last flow of a route does not change the end times of the others in its group",
          "[sim][transport]") {
  const std::vector<Link> links{{"a", "wire", BytesPerSecond{12}}, {"b", "wire", BytesPerSecond{100}}};
  const std::vector<LinkUse> one{{0, 1}}, both{{0, 1}, {1, 1}};
  FlowNet net(links);
  const FlowId first = net.add(one, Bytes{6}, {}, 1, 0);
  net.add(both, Bytes{30}, {}, 2, 0);
  CHECK(net.next(0) == near(1));
  net.remove(first);
  CHECK(net.next(0.5) == near(0.5 + 27.0 / 12));
  std::vector<FlowToken> done;
  net.collect(1, 1, done);
  CHECK(done.empty());
}

TEST_CASE("flows of one route are one bundle, whose members end in the order of their bytes", "[sim][transport]") {
  const std::vector<Link> links{{"a", "wire", BytesPerSecond{12}}, {"b", "wire", BytesPerSecond{100}}};
  const std::vector<LinkUse> one{{0, 1}}, both{{0, 1}, {1, 1}};
  FlowNet net(links);
  const FlowId late = net.add(one, Bytes{60}, {}, 1, 0);
  net.add(one, Bytes{12}, {}, 2, 0);
  net.add(both, Bytes{24}, {}, 3, 0);
  CHECK(net.next(0) == near(3));  // 4 a second each
  CHECK(net.used_share(0) == near(1));
  CHECK(net.used_share(1) == near(0.04));
  std::vector<FlowToken> done;
  net.collect(3, 3, done);
  CHECK(done == std::vector<FlowToken>{2});
  CHECK(net.next(3) == near(5));  // 12 bytes left of the third, 6 a second
  CHECK(net.remaining(late, 5).value == near(36));
  net.add(one, Bytes{12}, {}, 4, 4);  // the fourth flow takes the place of the second
  CHECK(net.next(4) == near(5.5));    // 6 bytes left of the third, 4 a second
  net.remove(late);
  done.clear();
  CHECK(net.next(4) == near(5));
  net.collect(6, 6, done);
  CHECK(done == std::vector<FlowToken>{3, 4});
}

}  // namespace sim_test_bundles
