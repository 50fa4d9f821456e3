/* The front door of verify: subcommands of `ga`. argv[0] is the subcommand; they return exit codes. */
#ifndef GA_VERIFY_VERIFY_H
#define GA_VERIFY_VERIFY_H

int cmd_kernels(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_synth(int argc, char **argv);

#endif
