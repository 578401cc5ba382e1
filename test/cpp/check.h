// A test is a function; a failed check prints where and ends the program.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
      std::_Exit(1);                                                                  \
    }                                                                                 \
  } while (0)

// The call must throw `Type`; answers the text.
#define THROWN(Type, call)                                                            \
  [&]() -> std::string {                                                              \
    try {                                                                             \
      call;                                                                           \
    } catch (const Type& error) {                                                     \
      return error.what();                                                            \
    } catch (const std::exception& error) {                                           \
      std::fprintf(stderr, "%s:%d: wrong error: %s\n", __FILE__, __LINE__, error.what()); \
      std::_Exit(1);                                                                  \
    }                                                                                 \
    std::fprintf(stderr, "%s:%d: no error from %s\n", __FILE__, __LINE__, #call);     \
    std::_Exit(1);                                                                    \
  }()
