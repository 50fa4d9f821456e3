include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# ga.pc finds its prefix from where it lies, so that the tree may be moved.
file(RELATIVE_PATH GA_PC_UP ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/ga.pc.in ga.pc @ONLY)
configure_package_config_file(cmake/ga-config.cmake.in ga-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ga)
write_basic_package_version_file(ga-config-version.cmake COMPATIBILITY SameMinorVersion)

set_target_properties(ga_static PROPERTIES EXPORT_NAME static)
set_target_properties(ga_shared PROPERTIES EXPORT_NAME ga)
install(TARGETS ga_static ga_shared EXPORT ga-targets)
if(TARGET ga)
  install(TARGETS ga RUNTIME)
endif()
install(DIRECTORY include/ga ${GA_TILE_INCLUDE}/ga TYPE INCLUDE)
install(EXPORT ga-targets NAMESPACE ga:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ga)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ga-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/ga-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ga)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ga.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
