/* The subcommands of `ga` whose code is in this folder. main.c has the table of all subcommands. argv[0] is the
 * subcommand's name; each returns an exit code. */
#ifndef GA_CLI_COMMANDS_H
#define GA_CLI_COMMANDS_H

#include "cmdline/cmd.h"

int cmd_info(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_batch(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_search(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_dist(int argc, char **argv);
int cmd_imatrix(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_show(int argc, char **argv);

#endif
