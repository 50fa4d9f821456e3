/* Models of Hugging Face's hub by name: hf:ORGANISATION/REPOSITORY, followed by :Q4_K_M to choose a file by type, or by
 * /FILE. They lie in hf/ORGANISATION/REPOSITORY of the models' folder. */
#ifndef GA_NAMES_HUB_H
#define GA_NAMES_HUB_H

#include <stdint.h>

#include "ga/base.h"

typedef struct ga_hub_name {
  char org[128], repo[128];
  char tag[64];    /* "": none */
  char file[1024]; /* "": ga_hub_choose chooses */
} ga_hub_name;

typedef struct ga_hub_file {
  char path[1024]; /* in the repository */
  int64_t bytes;   /* -1: not known */
  char sha256[65]; /* "": not known */
  bool chosen;
  size_t stem; /* bytes before -00001-of-00003.gguf, or before .gguf */
  unsigned shard, count;
  bool in_part; /* some of its shards are missing */
} ga_hub_file;

typedef struct ga_hub_files {
  ga_hub_file *item;
  size_t n, room;
  char revision[65]; /* the commit of this list; "": not known */
} ga_hub_files;

bool ga_hub_is_name(const char *text); /* begins with hf: */
ga_status ga_hub_parse(const char *text, ga_hub_name *out);
ga_status ga_hub_folder(const ga_hub_name *name, char *path, size_t capacity);

enum { GA_HUB_MOST_FILES = 10000 }; /* in one repository */
/* Adds a file. A path that leaves the repository ("..", or "/" at the beginning) is ignored. */
ga_status ga_hub_files_add(ga_hub_files *files, const char *path, int64_t bytes, const char *sha256);
void ga_hub_files_free(ga_hub_files *files);
/* Marks the files of one model: the GGUF file with the tag and all its shards. Without a tag it takes the first type of
 * a list that begins with Q4_K_M; where there is no GGUF, the safetensors folder. Puts the files into the order to
 * fetch them in. config.json is the last, since a folder without it is no model. */
ga_status ga_hub_choose(const ga_hub_name *name, ga_hub_files *files);
/* True for a file of a safetensors folder, by its path in the repository. */
bool ga_hub_is_of_folder(const char *path);
bool ga_hub_is_of_model(const char *path); /* a file of a folder, or a GGUF file with a model */
/* The path to open: the file, the first shard, or "" for the folder. */
const char *ga_hub_chosen(const ga_hub_files *files);

/* Finds the path of a model on this machine. GA_ERR_STATE: it is not here. */
ga_status ga_hub_find(const ga_hub_name *name, char *path, size_t capacity);

#endif
