# Guided generation: xgrammar, a C++ library without a C interface. Its sources come from its package on PyPI at configure time (or
# from CAIRN_XGRAMMAR_SOURCE) and are built into cairn behind src/text/grammar/xgrammar.h. Without them the build goes on and guided
# generation is UNSUPPORTED by name.
set(CAIRN_XGRAMMAR AUTO CACHE STRING "Guided generation through xgrammar (fetched from PyPI by name): AUTO, ON, OFF")
set(CAIRN_XGRAMMAR_SOURCE "" CACHE PATH "Folder with the sources of xgrammar 0.2.2; empty = scripts/fetch_xgrammar finds them")

# Sets CAIRN_XGRAMMAR_FOUND and CAIRN_XGRAMMAR_DIR; a reason why not is told.
function(crn_find_xgrammar)
  set(CAIRN_XGRAMMAR_FOUND FALSE PARENT_SCOPE)
  set(why "")
  set(dir "${CAIRN_XGRAMMAR_SOURCE}")
  include(CheckLanguage)
  if(CAIRN_XGRAMMAR)
    check_language(CXX)
  endif()
  if(NOT CAIRN_XGRAMMAR)
    set(why "CAIRN_XGRAMMAR is OFF")
  elseif(NOT CMAKE_CXX_COMPILER)
    set(why "there is no C++ compiler")
  elseif(NOT dir)
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch_xgrammar OUTPUT_VARIABLE dir ERROR_VARIABLE why RESULT_VARIABLE result
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE TIMEOUT 120)
    if(result EQUAL 0)
      set(why "")
    else()
      string(REGEX REPLACE ".*\n" "" why "${why}")
      set(dir "")
    endif()
  endif()
  if(NOT why AND NOT EXISTS "${dir}/cpp/grammar_matcher.cc")
    set(why "${dir} holds no sources of xgrammar")
  endif()
  if(why)
    if(CAIRN_XGRAMMAR AND NOT CAIRN_XGRAMMAR STREQUAL "AUTO")
      message(FATAL_ERROR "CAIRN_XGRAMMAR is ${CAIRN_XGRAMMAR}, but: ${why}")
    endif()
    # A build that nobody watches should say it, too: notices go to stderr.
    message(NOTICE "-- guided generation: left out (${why})")
    return()
  endif()
  message(STATUS "guided generation: xgrammar from ${dir}")
  set(CAIRN_XGRAMMAR_FOUND TRUE PARENT_SCOPE)
  set(CAIRN_XGRAMMAR_DIR "${dir}" PARENT_SCOPE)
endfunction()

# An object library that becomes part of both libraries. Its own optimization level: the library is the same whatever is built
# around it, so that ccache finds it again.
function(crn_add_xgrammar)
  file(GLOB sources ${CAIRN_XGRAMMAR_DIR}/cpp/*.cc ${CAIRN_XGRAMMAR_DIR}/cpp/support/*.cc)
  # The first two are part of xgrammar.cc; converters of schemas and the like are cairn's own.
  list(FILTER sources EXCLUDE REGEX "/grammar_(compiler|matcher)\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/(json_schema_converter|json_schema_converter_ext|regex_converter|structural_tag)\\.cc$")
  add_library(cairn_xgrammar OBJECT ${sources} ${CMAKE_SOURCE_DIR}/src/text/grammar/xgrammar.cc)
  target_include_directories(cairn_xgrammar PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(cairn_xgrammar SYSTEM PRIVATE ${CAIRN_XGRAMMAR_DIR}/include ${CAIRN_XGRAMMAR_DIR}/cpp
                             ${CAIRN_XGRAMMAR_DIR}/3rdparty/picojson ${CAIRN_XGRAMMAR_DIR}/3rdparty/dlpack/include)
  target_compile_definitions(cairn_xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
  # Warnings in somebody else's code help nobody here; undefined behaviour is looked for in ours.
  target_compile_options(cairn_xgrammar PRIVATE -w -O2 -g0)
  if(CAIRN_SANITIZE MATCHES "undefined")
    target_compile_options(cairn_xgrammar PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(cairn_xgrammar PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
                        POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(CCACHE_PROGRAM)
    set_target_properties(cairn_xgrammar PROPERTIES CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  endif()
endfunction()

# Its code is part of the libraries and of the Python module, so whoever gets these gets its licence, and that of the JSON parser it
# has within, which stands at the head of a header. Further arguments are those of install().
function(crn_install_xgrammar_licences destination)
  file(READ ${CAIRN_XGRAMMAR_DIR}/3rdparty/picojson/picojson.h text)
  string(FIND "${text}" "*/" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  string(REGEX REPLACE "(^|\n)/?[ ]?[*][ ]?" "\\1" text "${text}")
  string(STRIP "${text}" text)
  if(NOT text MATCHES "Copyright.*Redistributions in binary form")
    message(FATAL_ERROR "${CAIRN_XGRAMMAR_DIR}/3rdparty/picojson/picojson.h does not begin with its licence")
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/licences/picojson/LICENSE CONTENT "${text}\n" @ONLY)
  install(FILES ${CAIRN_XGRAMMAR_DIR}/LICENSE ${CAIRN_XGRAMMAR_DIR}/NOTICE DESTINATION ${destination}/xgrammar ${ARGN})
  install(FILES ${CMAKE_BINARY_DIR}/licences/picojson/LICENSE DESTINATION ${destination}/picojson ${ARGN})
endfunction()
