/* Models of Hugging Face's hub, by name: hf:ORGANISATION/REPOSITORY, with :Q4_K_M for one of its files, or /FILE. They
 * lie in the models' folder, in hf/ORGANISATION/REPOSITORY. */
#ifndef GA_NAMES_HUB_H
#define GA_NAMES_HUB_H

#include <stdint.h>

#include "ga/base.h"

typedef struct ga_hub_name {
  char org[128], repo[128];
  char tag[64];    /* "": none */
  char file[1024]; /* "": to be chosen */
} ga_hub_name;

typedef struct ga_hub_file {
  char path[1024]; /* in the repository */
  int64_t bytes;   /* -1: not told */
  char sha256[65]; /* "": not told */
  bool chosen;
  size_t stem; /* bytes before -00001-of-00003.gguf, or before .gguf */
  unsigned shard, count;
  bool in_part; /* of its shards some are missing */
} ga_hub_file;

typedef struct ga_hub_files {
  ga_hub_file *item;
  size_t n, room;
  char revision[65]; /* the commit that the list is of; "": not told */
} ga_hub_files;

bool ga_hub_is_name(const char *text); /* begins with hf: */
ga_status ga_hub_parse(const char *text, ga_hub_name *out);
ga_status ga_hub_folder(const ga_hub_name *name, char *path, size_t capacity);

enum { GA_HUB_MOST_FILES = 10000 }; /* in one repository */
/* path must lead nowhere else: no "..", no "/" at the beginning; one that does is left out. */
ga_status ga_hub_files_add(ga_hub_files *files, const char *path, int64_t bytes, const char *sha256);
void ga_hub_files_free(ga_hub_files *files);
/* Marks the files of one model: the GGUF file with the tag, all its shards; without a tag the first of a list of types,
 * Q4_K_M before all; the safetensors folder where there is no GGUF. The files come into the order in which they are to
 * be fetched: config.json, without which a folder is no model, is the last. */
ga_status ga_hub_choose(const ga_hub_name *name, ga_hub_files *files);
/* A file of a model that is a folder, by its path in the repository. */
bool ga_hub_is_of_folder(const char *path);
bool ga_hub_is_of_model(const char *path); /* that, or a GGUF file with a model */
/* The file, the first shard, or "" for the folder: what is to be opened. */
const char *ga_hub_chosen(const ga_hub_files *files);

/* The path of a model that is here. GA_ERR_STATE: it is not. */
ga_status ga_hub_find(const ga_hub_name *name, char *path, size_t capacity);

#endif
