# Writes the commit of the working directory into OUTPUT.
execute_process(COMMAND git rev-parse --short=10 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(commit "no commit")
endif()
file(WRITE ${OUTPUT} "#define TRAINYARD_COMMIT \"${commit}\"\n")
