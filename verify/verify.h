/* The subcommands of `ga` whose code is in the folder verify. argv[0] is the subcommand's name; each returns an exit
 * code. */
#ifndef GA_VERIFY_VERIFY_H
#define GA_VERIFY_VERIFY_H

int cmd_kernels(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_synth(int argc, char **argv);

#endif
