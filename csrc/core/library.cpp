#include "core/library.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace aule {

#ifdef _WIN32

namespace {

std::wstring wide(const std::string& text) {
  std::wstring out(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), int(text.size()), nullptr, 0)), 0);
  MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), out.data(), static_cast<int>(out.size()));
  return out;
}

std::string library_path() {
  HMODULE library = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                     reinterpret_cast<LPCWSTR>(&library_path), &library);
  std::wstring path(32768, 0);  // the longest path that Windows has
  const int length = static_cast<int>(GetModuleFileNameW(library, path.data(), static_cast<DWORD>(path.size())));
  std::string text(
      static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, path.data(), length, nullptr, 0, nullptr, nullptr)), 0);
  WideCharToMultiByte(CP_UTF8, 0, path.data(), length, text.data(), static_cast<int>(text.size()), nullptr, nullptr);
  return text;
}

}  // namespace

MappedFile map_file(const std::string& path) {
  const HANDLE file = CreateFileW(wide(path).c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return {};
  LARGE_INTEGER size{};
  MappedFile found;
  if (GetFileSizeEx(file, &size) && size.QuadPart > 0) {
    if (const HANDLE mapping = CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr)) {
      found.data = static_cast<const unsigned char*>(MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0));
      CloseHandle(mapping);  // the view holds it
    }
  }
  CloseHandle(file);
  found.bytes = found.data == nullptr ? 0 : static_cast<uint64_t>(size.QuadPart);
  return found;
}

#else

namespace {

std::string library_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_path), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

}  // namespace

MappedFile map_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat status{};
  MappedFile found;
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    void* data = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) found = {static_cast<const unsigned char*>(data), static_cast<uint64_t>(status.st_size)};
  }
  close(file);
  return found;
}

#endif

std::string library_folder() {
  const std::string path = library_path();
  return path.substr(0, path.find_last_of("/\\") + 1);  // npos + 1 is 0
}

}  // namespace aule
