# Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
#
# aarch64-linux-gnu with glibc 2.28, by `zig cc`. Needs -DZIG=/path/to/zig (0.14.x).

set(ZIG "zig" CACHE FILEPATH "The zig program")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG)

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

# The list form makes these arguments part of the compiler: CMAKE_<LANG>_FLAGS stays free for the caller.
# minirt uses no C++ library; without -nostdlib++ zig would compile one, already to find out which compiler this is.
set(CMAKE_C_COMPILER "${ZIG}" cc -target aarch64-linux-gnu.2.28)
set(CMAKE_CXX_COMPILER "${ZIG}" c++ -target aarch64-linux-gnu.2.28 -nostdlib++)

# `zig ar` and `zig ranlib` are two words, CMAKE_AR and CMAKE_RANLIB are one.
set(CMAKE_AR "${ZIG}" CACHE FILEPATH "" FORCE)
set(CMAKE_RANLIB "${ZIG}" CACHE FILEPATH "" FORCE)
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> ar qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> ar qD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib -D <TARGET>")
endforeach()

# A probe of the compiler need not link.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# Not through CMAKE_*_LINKER_FLAGS_INIT, which a caller's own CMAKE_*_LINKER_FLAGS would replace.
add_link_options(-Wl,-z,max-page-size=16384 -Wl,--build-id=sha1)

# The start files that zig compiles for programs hold the path of its cache; stripped programs get them without.
add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-s>)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
