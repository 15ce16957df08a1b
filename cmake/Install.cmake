install(TARGETS paradl_static paradl_shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(PDL_PLUGINS)
    install(TARGETS ${PDL_PLUGINS} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/paradl)
endif()
if(TARGET paradl_mpi)
    install(TARGETS paradl_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET paradl)
    install(TARGETS paradl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/paradl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR}/paradl)
install(FILES ${PROJECT_SOURCE_DIR}/build/core/core.wasm.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/paradl/report OPTIONAL)
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/paradl.1)
    install(FILES ${PROJECT_SOURCE_DIR}/docs/paradl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
# Documents and examples keep their places relative to each other, so that links hold.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGES.md ${PROJECT_SOURCE_DIR}/LICENSE
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        PATTERN CMakeLists.txt EXCLUDE
        PATTERN __pycache__ EXCLUDE)
# What the static library needs beside it. None of it is in our headers, so whoever links the shared one needs no
# package files of others.
set(PDL_PRIVATE_LIBS -lz)
if(OpenMP_C_FOUND)
    list(APPEND PDL_PRIVATE_LIBS -lgomp)
endif()
list(APPEND PDL_PRIVATE_LIBS ${CMAKE_DL_LIBS} -pthread -lm)
list(JOIN PDL_PRIVATE_LIBS " " PDL_PRIVATE_LIBS)
configure_file(${PROJECT_SOURCE_DIR}/cmake/paradl.pc.in ${PROJECT_BINARY_DIR}/paradl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/paradl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
