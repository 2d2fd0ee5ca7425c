# Installation: libraries, headers, program and aliases, pkg-config file, CMake package.
install(TARGETS cairn_static EXPORT cairnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cairn_shared EXPORT cairnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(CAIRN_XGRAMMAR_FOUND)
  crn_install_xgrammar_licences(${CMAKE_INSTALL_DATADIR}/doc/cairn)
endif()
install(DIRECTORY include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET cairn)
  install(TARGETS cairn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(alias llm-runner llm-benchmark)
    add_custom_command(TARGET cairn POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink cairn ${CMAKE_BINARY_DIR}/${alias})
    install(FILES ${CMAKE_BINARY_DIR}/${alias} DESTINATION ${CMAKE_INSTALL_BINDIR})
  endforeach()
endif()

# The prefix is given relative to the file, so that an installation may be moved or staged.
file(RELATIVE_PATH CAIRN_PC_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file(cmake/cairn.pc.in ${CMAKE_BINARY_DIR}/cairn.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/cairn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/cairnConfig.cmake.in ${CMAKE_BINARY_DIR}/cairnConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cairnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cairnConfig.cmake ${CMAKE_BINARY_DIR}/cairnConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
install(EXPORT cairnTargets NAMESPACE cairn:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)
