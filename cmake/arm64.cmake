# Builds for 64-bit Arm Linux on another machine: Debian's cross compiler, the folder of arm64 packages scripts/check_arm64 makes, and
# qemu-user for what is run during the build and by ctest. The processor it plays is QEMU_CPU of the environment.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CAIRN_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot" CACHE PATH "Folder with the arm64 packages the build needs")
get_filename_component(CMAKE_SYSROOT "${CAIRN_SYSROOT}" ABSOLUTE)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CAIRN_SYSROOT)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
# Without a compiler for C++ guided generation is left out; the one of this machine must not take its place.
find_program(CAIRN_CROSS_CXX aarch64-linux-gnu-g++)
set(CMAKE_CXX_COMPILER "")
if(CAIRN_CROSS_CXX)
  set(CMAKE_CXX_COMPILER "${CAIRN_CROSS_CXX}")
endif()
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${CMAKE_SYSROOT}")

# What is found must be of the other architecture; programs run here.
set(CMAKE_FIND_ROOT_PATH "${CMAKE_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${CMAKE_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig")
