#include "strategies/collective_program.hpp"

namespace trainyard {
namespace {

std::vector<Actor> actors_of(const std::vector<int>& peers, const std::vector<Actor>& members) {
  std::vector<Actor> actors;
  for (const int peer : peers) actors.push_back(members.at(static_cast<std::size_t>(peer)));
  return actors;
}

class CollectiveProgram : public CoroutineProgram {
 public:
  CollectiveProgram(const Collective& collective, GroupPlace place, const CollectiveOptions& options,
                    std::vector<int> peers, Names& names, const std::vector<Actor>& members)
      : CoroutineProgram(actors_of(peers, members), options.one_stream ? 1 : 2),
        collective_(collective),
        place_(place),
        options_(options),
        peers_(std::move(peers)) {
    call_.send_stream = 0;
    call_.recv_stream = options.one_stream ? 0 : 1;
    call_.group = names.group(name_of(Operation::all_reduce), Role::collective, collective.name);
    call_.name = names.intern(collective.name + " " + name_of(Operation::all_reduce));
    call_.mode = options.mode;
  }

 protected:
  Ops run() override {
    const Local me(out_, place_, peers_, call_, options_.size);
    co_yield collective_.run(me, options_.size);
  }

 private:
  const Collective& collective_;
  GroupPlace place_;
  CollectiveOptions options_;
  std::vector<int> peers_;
  CollectiveCall call_;
  Emitter out_;
};

}  // namespace

std::unique_ptr<Program> collective_program(const Collective& collective, GroupPlace place,
                                            const CollectiveOptions& options, Names& names,
                                            const std::vector<Actor>& members) {
  return std::make_unique<CollectiveProgram>(collective, place, options, collective.peers(place), names, members);
}

}  // namespace trainyard
