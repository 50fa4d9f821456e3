/* Models of the Hugging Face hub by name: hf:ORGANISATION/REPOSITORY. A suffix :Q4_K_M selects a file by type, and
 * /FILE selects a file by name. The files are stored in hf/ORGANISATION/REPOSITORY of the models' folder. */
#ifndef GA_NAMES_HUB_H
#define GA_NAMES_HUB_H

#include <stdint.h>

#include "ga/base.h"

typedef struct ga_hub_name {
  char org[128], repo[128];
  /* Type of the file, such as "Q4_K_M". "": none is given. */
  char tag[64];
  /* Path of the file in the repository. "": ga_hub_choose selects a file. */
  char file[1024];
} ga_hub_name;

typedef struct ga_hub_file {
  /* Path of the file in the repository. */
  char path[1024];
  /* Size of the file in bytes. -1: not known. */
  int64_t bytes;
  /* SHA-256 as hex digits. "": not known. */
  char sha256[65];
  bool chosen;
  size_t stem; /* Number of bytes of `path` before "-00001-of-00003.gguf", or before ".gguf". */
  unsigned shard, count;
  bool in_part; /* True: some shards of the file's model are missing. */
} ga_hub_file;

typedef struct ga_hub_files {
  ga_hub_file *item;
  size_t n, room;
  char revision[65]; /* Commit of the repository that was listed. "": not known. */
} ga_hub_files;

bool ga_hub_is_name(const char *text); /* returns whether the text begins with "hf:" */
ga_status ga_hub_parse(const char *text, ga_hub_name *out);
ga_status ga_hub_folder(const ga_hub_name *name, char *path, size_t capacity);

enum { GA_HUB_MOST_FILES = 10000 }; /* largest number of files of a repository */
/* Adds a file to the list. A path that leaves the repository ("..", or "/" at the beginning) is ignored. */
ga_status ga_hub_files_add(ga_hub_files *files, const char *path, int64_t bytes, const char *sha256);
void ga_hub_files_free(ga_hub_files *files);
/* Marks the files of one model as chosen: the GGUF file with the tag and all its shards. Without a tag, the file's type
 * is the first of a list of types, from Q4_K_M on, that the repository has. If it has no GGUF file, its safetensors
 * files are chosen. Sorts the files into the order of downloads: config.json is last, because a folder without it is no
 * model. */
ga_status ga_hub_choose(const ga_hub_name *name, ga_hub_files *files);
/* Returns whether a file, given by its path in the repository, belongs to a safetensors folder. */
bool ga_hub_is_of_folder(const char *path);
/* Returns whether the path is a file of a safetensors folder, or a GGUF file with a model. */
bool ga_hub_is_of_model(const char *path);
/* Returns the path, in the repository, of the chosen model: of its file or first shard, or "" for a safetensors
 * folder. */
const char *ga_hub_chosen(const ga_hub_files *files);

/* Finds the path of a model on this machine. GA_ERR_STATE: the model is not on this machine. */
ga_status ga_hub_find(const ga_hub_name *name, char *path, size_t capacity);

#endif
