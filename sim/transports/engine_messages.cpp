#include "sim/transports/engine_messages.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace trainyard {
namespace {

bool write_whole(int socket, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(socket, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_whole(int socket, char* into, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::recv(socket, into, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    into += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

bool EngineMessage::write(int socket) {
  std::uint64_t size = bytes_.size();
  bytes_.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
  const bool done = write_whole(socket, bytes_.data(), bytes_.size());
  clear();
  return done;
}

bool EngineMessage::read(int socket) {
  clear();
  std::uint64_t size = 0;
  if (!read_whole(socket, reinterpret_cast<char*>(&size), sizeof size)) return false;
  bytes_.resize(size);
  return read_whole(socket, bytes_.data(), size);
}

void add_setup(EngineMessage& message, bool packets, std::span<const Link> links, const PacketNetwork& network) {
  message.add(packets, links.size());
  for (const Link& link : links) {
    message.add_text(link.name.text());
    message.add(link.capacity);
  }
  message.add(network.hosts, network.routers);
  message.add_list(std::span<const PacketNetwork::Cable>(network.cables));
  message.add(network.port_buffer);
  message.add_list(std::span<const PacketNetwork::Direction>(network.directions));
}

EngineSetup take_setup(EngineMessage& message) {
  EngineSetup setup;
  setup.packets = message.take<bool>();
  setup.links.resize(message.take<std::size_t>());
  for (Link& link : setup.links) {
    link.name = message.take_text();
    link.capacity = message.take<BytesPerSecond>();
  }
  setup.network.hosts = message.take<int>();
  setup.network.routers = message.take<int>();
  setup.network.cables = message.take_list<PacketNetwork::Cable>();
  setup.network.port_buffer = message.take<Bytes>();
  setup.network.directions = message.take_list<PacketNetwork::Direction>();
  return setup;
}

}  // namespace trainyard
