# Programs over the emulated CUDA driver (tests/emu). Each is linked with a set of rows:
#   all     every row, as long as that takes to compile
#   quick   few that stand for all, and every step that other rows launch
#   dist    those of distributed attention in bf16
#   reduce  all-reduces between devices
#   stretch those of attention over stretches, and their plain ones
#   none

# The first row of each source stands for its family and architecture; of the ladder, whose rungs are slow, one of Hopper.
# Not here: probes and all-reduces, which are no rows of the table, and rows that launch rows of any other source.
set(GA_EMU_NOT_QUICK "^probe_|^all_reduce_|_prefill_f32_|^attn_ladder_.*_sm80_")
function(ga_emu_quick_ids out)
  set(ids)
  set(seen)
  foreach(row ${GA_CUDA_ROWS}) # "id arch source parameters"
    string(REPLACE " " ";" field "${row}")
    list(GET field 0 id)
    list(GET field 1 arch)
    list(GET field 2 source)
    string(REGEX REPLACE "/ladder/.*" "/ladder" source ${source})
    if(id MATCHES "_step_|^sample_.*_rows_") # sessions and engines draw by the latter
      list(APPEND ids ${id})
    elseif(NOT id MATCHES "${GA_EMU_NOT_QUICK}" AND NOT "${arch} ${source}" IN_LIST seen)
      list(APPEND seen "${arch} ${source}")
      list(APPEND ids ${id})
    endif()
  endforeach()
  set(${out} ${ids} PARENT_SCOPE)
endfunction()

# Objects that exist only when they are built.
function(ga_emu_objects)
  set_source_files_properties(${ARGN} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()

# ga_emu_program(NAME SET SOURCE...): ${emu_dir}/SET/emu/emu_rows.def lists the rows of the set, emu_objects_SET their objects.
function(ga_emu_program name set)
  add_executable(${name} ${ARGN} emu_backend.c emu_driver.c emu_queue.c emu_share.c $<TARGET_OBJECTS:ga_emu_machine> ${emu_objects_${set}})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR} ${emu_dir}/${set})
  target_link_libraries(${name} PRIVATE ga_static m)
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
endfunction()
