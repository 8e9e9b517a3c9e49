/* The caller's name goes into the environment of what a program starts, but is no
   variable of the session: it must not come back, with an environment that a program
   wrote down, in another call. Bash passes such entries on from a table that it keeps
   for names which it cannot make variables of. */

#include <stdio.h>

#include "bash.h"
#include "caller.h"

#define NAME "__locus_caller"

void name_caller(const char *name)
{
	static char entry[sizeof NAME + 1 + CALLER];
	static SHELL_VAR variable = {
		.name = NAME, .value = entry + sizeof NAME, .exportstr = entry, .attributes = ATT_EXPORTED,
	};
	if (!variable.value[0]) {
		if (!invalid_env)
			invalid_env = hash_create(8);
		struct bucket_contents *place = hash_insert(variable.name, invalid_env, 0);
		place->data = &variable;
	}
	snprintf(entry, sizeof entry, NAME "=%s", name);
	array_needs_making = 1;
}
