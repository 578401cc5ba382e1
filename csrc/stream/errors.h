// Names for the tags in the device's error record. The op layer installs its lookup. Without one the name is "kernel".
#pragma once
#include <cstdint>
#include <string>

namespace aule::stream {

void set_error_tag_names(const char* (*name_of)(uint32_t tag));
// Installed by the runtime: throws Torch's exception of the same kind. Python then gets an IndexError or a
// torch.OutOfMemoryError.
enum class Raised : uint8_t { index, out_of_memory };
void set_raiser(void (*raise)(Raised kind, const std::string& text));
[[noreturn]] void raise(Raised kind, const std::string& text);
// Throws IndexError (other than for indices: Error) once if the record of this (created) device holds one.
void raise_recorded_error(int device);

}  // namespace aule::stream
