/* Named models: Modelfiles NAME.modelfile in the models' folder. Options that take a model take their names. */
#ifndef GA_CLI_NAMED_H
#define GA_CLI_NAMED_H

#include "cli/modelfile.h"

/* Returns whether a text can be the name of a named model: letters, digits and . _ - +, not at the beginning. */
bool named_is_name(const char *name);
/* Reads the Modelfile of the named model `name`, with what it inherits; out->from is then no named model. A path that
 * ends with .modelfile is that of a Modelfile. *found is false, and *out empty, if there is none, or a file or a known
 * model has the name. The caller releases *out with modelfile_free, also after a failure. */
ga_status named_find(const char *name, modelfile *out, bool *found);
/* Writes the path of the Modelfile of the named model `name`. Returns false if there is none. */
bool named_path(const char *name, char *path, size_t capacity);

/* Makes a path in FROM absolute: it is one from the folder of the Modelfile `file`. Names stay. */
ga_status named_settle_from(modelfile *m, const char *file);

/* Returns whether the model `from` is the named model `name`, or is made of it. */
bool named_reaches(const char *from, const char *name);

/* Calls `each` for every named model in the models' folder `dir`. */
typedef ga_status (*named_fn)(void *user, const char *name, const char *path);
ga_status named_each(const char *dir, named_fn each, void *user);

#endif
