// The folder of this library, and files beside it.
#pragma once
#include <cstdint>
#include <string>

namespace aule {

// With a separator at its end; empty where the system does not tell.
std::string library_folder();

// Readable for the life of the process, and shared with others that map the file. No data: it cannot be read.
struct MappedFile {
  const unsigned char* data = nullptr;
  uint64_t bytes = 0;
};
MappedFile map_file(const std::string& path);

}  // namespace aule
