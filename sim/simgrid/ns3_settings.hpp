#pragma once
#include <string>

namespace trainyard {

/// Sets the default of an attribute of ns-3, "ns3::TcpSocket::SegmentSize" to "1460", for what is made after it. SimGrid has
/// no key for most, and reads its library's environment variable as it is loaded, which is too early. ns-3's headers are
/// not needed: its function is looked up in the library that SimGrid has loaded. False where there is no such function or
/// attribute.
bool set_ns3_default(const std::string& attribute, const std::string& value);

}  // namespace trainyard
